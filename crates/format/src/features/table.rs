//! The table of features: what each is called, and what we can do with it.

use super::{Feature, Flags, Support};

/// Feature `async_destroy`.
pub const ASYNC_DESTROY: Feature = Feature {
    name: "async_destroy",
    guid: "com.delphix:async_destroy",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Destroy filesystems asynchronously.",
};

/// Feature `empty_bpobj`.
pub const EMPTY_BPOBJ: Feature = Feature {
    name: "empty_bpobj",
    guid: "com.delphix:empty_bpobj",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Snapshots use less space.",
};

/// Feature `lz4_compress`.
pub const LZ4_COMPRESS: Feature = Feature {
    name: "lz4_compress",
    guid: "org.illumos:lz4_compress",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: true,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "LZ4 compression algorithm support.",
};

/// Feature `multi_vdev_crash_dump`.
pub const MULTI_VDEV_CRASH_DUMP: Feature = Feature {
    name: "multi_vdev_crash_dump",
    guid: "com.joyent:multi_vdev_crash_dump",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Crash dumps to multiple vdev pools.",
};

/// Feature `spacemap_histogram`.
pub const SPACEMAP_HISTOGRAM: Feature = Feature {
    name: "spacemap_histogram",
    guid: "com.delphix:spacemap_histogram",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Spacemaps maintain space histograms.",
};

/// Feature `enabled_txg`.
pub const ENABLED_TXG: Feature = Feature {
    name: "enabled_txg",
    guid: "com.delphix:enabled_txg",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Record txg at which a feature is enabled",
};

/// Feature `hole_birth`.
pub const HOLE_BIRTH: Feature = Feature {
    name: "hole_birth",
    guid: "com.delphix:hole_birth",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: true,
        per_dataset: false,
    },
    depends_on: &[&ENABLED_TXG],
    support: Support::Write,
    description: "Retain hole birth txg for more precise zfs send",
};

/// Feature `zpool_checkpoint`.
pub const ZPOOL_CHECKPOINT: Feature = Feature {
    name: "zpool_checkpoint",
    guid: "com.delphix:zpool_checkpoint",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::ReadOnly,
    description: "Pool state can be checkpointed, allowing rewind later.",
};

/// Feature `spacemap_v2`.
pub const SPACEMAP_V2: Feature = Feature {
    name: "spacemap_v2",
    guid: "com.delphix:spacemap_v2",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: true,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Space maps representing large segments are more efficient.",
};

/// Feature `extensible_dataset`.
pub const EXTENSIBLE_DATASET: Feature = Feature {
    name: "extensible_dataset",
    guid: "com.delphix:extensible_dataset",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Enhanced dataset functionality, used by other features.",
};

/// Feature `bookmarks`.
pub const BOOKMARKS: Feature = Feature {
    name: "bookmarks",
    guid: "com.delphix:bookmarks",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "\"zfs bookmark\" command",
};

/// Feature `filesystem_limits`.
pub const FILESYSTEM_LIMITS: Feature = Feature {
    name: "filesystem_limits",
    guid: "com.joyent:filesystem_limits",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Filesystem and snapshot limits.",
};

/// Feature `embedded_data`.
pub const EMBEDDED_DATA: Feature = Feature {
    name: "embedded_data",
    guid: "com.delphix:embedded_data",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: true,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Blocks which compress very well use even less space.",
};

/// Feature `livelist`.
pub const LIVELIST: Feature = Feature {
    name: "livelist",
    guid: "com.delphix:livelist",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Improved clone deletion performance.",
};

/// Feature `log_spacemap`.
pub const LOG_SPACEMAP: Feature = Feature {
    name: "log_spacemap",
    guid: "com.delphix:log_spacemap",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&SPACEMAP_V2],
    support: Support::Write,
    description: "Log metaslab changes on a single spacemap and flush them periodically.",
};

/// Feature `large_blocks`.
pub const LARGE_BLOCKS: Feature = Feature {
    name: "large_blocks",
    guid: "org.open-zfs:large_blocks",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Support for blocks larger than 128KB.",
};

/// Feature `large_dnode`.
pub const LARGE_DNODE: Feature = Feature {
    name: "large_dnode",
    guid: "org.zfsonlinux:large_dnode",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Variable on-disk size of dnodes.",
};

/// Feature `sha512`.
pub const SHA512: Feature = Feature {
    name: "sha512",
    guid: "org.illumos:sha512",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "SHA-512/256 hash algorithm.",
};

/// Feature `skein`.
pub const SKEIN: Feature = Feature {
    name: "skein",
    guid: "org.illumos:skein",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Skein hash algorithm.",
};

/// Feature `edonr`.
pub const EDONR: Feature = Feature {
    name: "edonr",
    guid: "org.illumos:edonr",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Edon-R hash algorithm.",
};

/// Feature `blake3`.
pub const BLAKE3: Feature = Feature {
    name: "blake3",
    guid: "org.openzfs:blake3",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "BLAKE3 hash algorithm.",
};

/// Feature `zstd_compress`.
pub const ZSTD_COMPRESS: Feature = Feature {
    name: "zstd_compress",
    guid: "org.freebsd:zstd_compress",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "zstd compression algorithm support.",
};

/// Feature `encryption`.
pub const ENCRYPTION: Feature = Feature {
    name: "encryption",
    guid: "com.datto:encryption",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET, &BOOKMARK_V2],
    support: Support::ReadOnly,
    description: "Support for dataset level encryption",
};

/// Feature `redacted_datasets`.
pub const REDACTED_DATASETS: Feature = Feature {
    name: "redacted_datasets",
    guid: "com.delphix:redacted_datasets",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::ReadOnly,
    description: "Support for redacted datasets, produced by receiving a redacted zfs send stream.",
};

/// Feature `longname`.
pub const LONGNAME: Feature = Feature {
    name: "longname",
    guid: "org.zfsonlinux:longname",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "support filename up to 1024 bytes",
};

/// Feature `redaction_bookmarks`.
pub const REDACTION_BOOKMARKS: Feature = Feature {
    name: "redaction_bookmarks",
    guid: "com.delphix:redaction_bookmarks",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&BOOKMARK_V2, &EXTENSIBLE_DATASET, &BOOKMARKS],
    support: Support::ReadOnly,
    description: "Support for bookmarks which store redaction lists for zfs redacted send/recv.",
};

/// Feature `bookmark_written`.
pub const BOOKMARK_WRITTEN: Feature = Feature {
    name: "bookmark_written",
    guid: "com.delphix:bookmark_written",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&BOOKMARK_V2, &EXTENSIBLE_DATASET, &BOOKMARKS],
    support: Support::Write,
    description: "Additional accounting, enabling the written#<bookmark> property (space written since a bookmark), and estimates of send stream sizes for incrementals from bookmarks.",
};

/// Feature `redaction_list_spill`.
pub const REDACTION_LIST_SPILL: Feature = Feature {
    name: "redaction_list_spill",
    guid: "com.delphix:redaction_list_spill",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&REDACTION_BOOKMARKS],
    support: Support::ReadOnly,
    description: "Support for increased number of redaction_snapshot arguments in zfs redact.",
};

/// Feature `bookmark_v2`.
pub const BOOKMARK_V2: Feature = Feature {
    name: "bookmark_v2",
    guid: "com.datto:bookmark_v2",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&EXTENSIBLE_DATASET, &BOOKMARKS],
    support: Support::Write,
    description: "Support for larger bookmarks",
};

/// Feature `device_removal`.
pub const DEVICE_REMOVAL: Feature = Feature {
    name: "device_removal",
    guid: "com.delphix:device_removal",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::None,
    description: "Top-level vdevs can be removed, reducing logical pool size.",
};

/// Feature `obsolete_counts`.
pub const OBSOLETE_COUNTS: Feature = Feature {
    name: "obsolete_counts",
    guid: "com.delphix:obsolete_counts",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[&EXTENSIBLE_DATASET, &DEVICE_REMOVAL],
    support: Support::ReadOnly,
    description: "Reduce memory used by removed devices when their blocks are freed or remapped.",
};

/// Feature `userobj_accounting`.
pub const USEROBJ_ACCOUNTING: Feature = Feature {
    name: "userobj_accounting",
    guid: "org.zfsonlinux:userobj_accounting",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "User/Group object accounting.",
};

/// Feature `project_quota`.
pub const PROJECT_QUOTA: Feature = Feature {
    name: "project_quota",
    guid: "org.zfsonlinux:project_quota",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "space/object accounting based on project ID.",
};

/// Feature `zilsaxattr`.
pub const ZILSAXATTR: Feature = Feature {
    name: "zilsaxattr",
    guid: "org.openzfs:zilsaxattr",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::Write,
    description: "Support for xattr=sa extended attribute logging in ZIL.",
};

/// Feature `large_microzap`.
pub const LARGE_MICROZAP: Feature = Feature {
    name: "large_microzap",
    guid: "com.klarasystems:large_microzap",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET, &LARGE_BLOCKS],
    support: Support::Write,
    description: "Support for microzaps larger than 128KB.",
};

/// Feature `allocation_classes`.
pub const ALLOCATION_CLASSES: Feature = Feature {
    name: "allocation_classes",
    guid: "org.zfsonlinux:allocation_classes",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Support for separate allocation classes.",
};

/// Feature `resilver_defer`.
pub const RESILVER_DEFER: Feature = Feature {
    name: "resilver_defer",
    guid: "com.datto:resilver_defer",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::ReadOnly,
    description: "Support for deferring new resilvers when one is already running.",
};

/// Feature `device_rebuild`.
pub const DEVICE_REBUILD: Feature = Feature {
    name: "device_rebuild",
    guid: "org.openzfs:device_rebuild",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::ReadOnly,
    description: "Support for sequential mirror/dRAID device rebuilds",
};

/// Feature `draid`.
pub const DRAID: Feature = Feature {
    name: "draid",
    guid: "org.openzfs:draid",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::None,
    description: "Support for distributed spare RAID",
};

/// Feature `head_errlog`.
pub const HEAD_ERRLOG: Feature = Feature {
    name: "head_errlog",
    guid: "com.delphix:head_errlog",
    read_only_compatible: false,
    flags: Flags {
        in_label: false,
        active_when_enabled: true,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Support for per-dataset on-disk error logs.",
};

/// Feature `block_cloning`.
pub const BLOCK_CLONING: Feature = Feature {
    name: "block_cloning",
    guid: "com.fudosecurity:block_cloning",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Support for block cloning via Block Reference Table.",
};

/// Feature `vdev_zaps_v2`.
pub const VDEV_ZAPS_V2: Feature = Feature {
    name: "vdev_zaps_v2",
    guid: "com.klarasystems:vdev_zaps_v2",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::Write,
    description: "Support for root vdev ZAP.",
};

/// Feature `raidz_expansion`.
pub const RAIDZ_EXPANSION: Feature = Feature {
    name: "raidz_expansion",
    guid: "org.openzfs:raidz_expansion",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::None,
    description: "Support for raidz expansion",
};

/// Feature `fast_dedup`.
pub const FAST_DEDUP: Feature = Feature {
    name: "fast_dedup",
    guid: "com.klarasystems:fast_dedup",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::ReadOnly,
    description: "Support for advanced deduplication",
};

/// Feature `block_cloning_endian`.
pub const BLOCK_CLONING_ENDIAN: Feature = Feature {
    name: "block_cloning_endian",
    guid: "com.truenas:block_cloning_endian",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::ReadOnly,
    description: "Fixes BRT ZAP endianness on new pools.",
};

/// Feature `physical_rewrite`.
pub const PHYSICAL_REWRITE: Feature = Feature {
    name: "physical_rewrite",
    guid: "com.truenas:physical_rewrite",
    read_only_compatible: true,
    flags: Flags {
        in_label: false,
        active_when_enabled: false,
        per_dataset: true,
    },
    depends_on: &[&EXTENSIBLE_DATASET],
    support: Support::ReadOnly,
    description: "Support for preserving logical birth time during rewrite.",
};

/// Feature `dynamic_gang_header`.
pub const DYNAMIC_GANG_HEADER: Feature = Feature {
    name: "dynamic_gang_header",
    guid: "com.klarasystems:dynamic_gang_header",
    read_only_compatible: false,
    flags: Flags {
        in_label: true,
        active_when_enabled: false,
        per_dataset: false,
    },
    depends_on: &[],
    support: Support::None,
    description: "Support for dynamically sized gang headers",
};

/// Every known feature, in the order in which OpenZFS lists them.
pub const ALL: &[&Feature] = &[
    &ASYNC_DESTROY,
    &EMPTY_BPOBJ,
    &LZ4_COMPRESS,
    &MULTI_VDEV_CRASH_DUMP,
    &SPACEMAP_HISTOGRAM,
    &ENABLED_TXG,
    &HOLE_BIRTH,
    &EXTENSIBLE_DATASET,
    &EMBEDDED_DATA,
    &BOOKMARKS,
    &FILESYSTEM_LIMITS,
    &LARGE_BLOCKS,
    &LARGE_DNODE,
    &SHA512,
    &SKEIN,
    &EDONR,
    &USEROBJ_ACCOUNTING,
    &ENCRYPTION,
    &PROJECT_QUOTA,
    &DEVICE_REMOVAL,
    &OBSOLETE_COUNTS,
    &ZPOOL_CHECKPOINT,
    &SPACEMAP_V2,
    &ALLOCATION_CLASSES,
    &RESILVER_DEFER,
    &BOOKMARK_V2,
    &REDACTION_BOOKMARKS,
    &REDACTED_DATASETS,
    &BOOKMARK_WRITTEN,
    &LOG_SPACEMAP,
    &LIVELIST,
    &DEVICE_REBUILD,
    &ZSTD_COMPRESS,
    &DRAID,
    &ZILSAXATTR,
    &HEAD_ERRLOG,
    &BLAKE3,
    &BLOCK_CLONING,
    &VDEV_ZAPS_V2,
    &REDACTION_LIST_SPILL,
    &RAIDZ_EXPANSION,
    &FAST_DEDUP,
    &LONGNAME,
    &LARGE_MICROZAP,
    &BLOCK_CLONING_ENDIAN,
    &PHYSICAL_REWRITE,
    &DYNAMIC_GANG_HEADER,
];
