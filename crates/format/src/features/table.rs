//! The table of features: what each is called, and what we can do with it.

use super::{Feature, feature};

/// Declares the features: each one's constant and row.
macro_rules! table {
    ($($constant:ident: $row:expr;)*) => {
        $(
            #[doc = concat!("The feature of the row `", stringify!($constant), "`.")]
            pub const $constant: Feature = $row;
        )*

        /// Every known feature, in the order in which OpenZFS lists them.
        pub const ALL: &[&Feature] = &[$(&$constant),*];
    };
}

table! {
    ASYNC_DESTROY: feature("com.delphix:async_destroy", "Destroy filesystems asynchronously.")
        .read_only_compatible();
    EMPTY_BPOBJ: feature("com.delphix:empty_bpobj", "Snapshots use less space.")
        .read_only_compatible();
    LZ4_COMPRESS: feature("org.illumos:lz4_compress", "LZ4 compression algorithm support.")
        .active_when_enabled();
    MULTI_VDEV_CRASH_DUMP: feature(
        "com.joyent:multi_vdev_crash_dump",
        "Crash dumps to multiple vdev pools.",
    );
    SPACEMAP_HISTOGRAM: feature(
        "com.delphix:spacemap_histogram",
        "Spacemaps maintain space histograms.",
    )
        .read_only_compatible();
    ENABLED_TXG: feature("com.delphix:enabled_txg", "Record txg at which a feature is enabled")
        .read_only_compatible();
    HOLE_BIRTH: feature(
        "com.delphix:hole_birth",
        "Retain hole birth txg for more precise zfs send",
    )
        .in_label().active_when_enabled().depends_on(&[&ENABLED_TXG]);
    EXTENSIBLE_DATASET: feature(
        "com.delphix:extensible_dataset",
        "Enhanced dataset functionality, used by other features.",
    );
    EMBEDDED_DATA: feature(
        "com.delphix:embedded_data",
        "Blocks which compress very well use even less space.",
    )
        .in_label().active_when_enabled();
    BOOKMARKS: feature("com.delphix:bookmarks", "\"zfs bookmark\" command")
        .read_only_compatible().depends_on(&[&EXTENSIBLE_DATASET]);
    FILESYSTEM_LIMITS: feature("com.joyent:filesystem_limits", "Filesystem and snapshot limits.")
        .read_only_compatible().depends_on(&[&EXTENSIBLE_DATASET]);
    LARGE_BLOCKS: feature("org.open-zfs:large_blocks", "Support for blocks larger than 128KB.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    LARGE_DNODE: feature("org.zfsonlinux:large_dnode", "Variable on-disk size of dnodes.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    SHA512: feature("org.illumos:sha512", "SHA-512/256 hash algorithm.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    SKEIN: feature("org.illumos:skein", "Skein hash algorithm.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    EDONR: feature("org.illumos:edonr", "Edon-R hash algorithm.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    USEROBJ_ACCOUNTING: feature(
        "org.zfsonlinux:userobj_accounting",
        "User/Group object accounting.",
    )
        .read_only_compatible().per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    ENCRYPTION: feature("com.datto:encryption", "Support for dataset level encryption")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET, &BOOKMARK_V2]);
    PROJECT_QUOTA: feature(
        "org.zfsonlinux:project_quota",
        "space/object accounting based on project ID.",
    )
        .read_only_compatible().per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    DEVICE_REMOVAL: feature(
        "com.delphix:device_removal",
        "Top-level vdevs can be removed, reducing logical pool size.",
    )
        .in_label();
    OBSOLETE_COUNTS: feature(
        "com.delphix:obsolete_counts",
        "Reduce memory used by removed devices when their blocks are freed or remapped.",
    )
        .read_only_compatible().depends_on(&[&EXTENSIBLE_DATASET, &DEVICE_REMOVAL]);
    ZPOOL_CHECKPOINT: feature(
        "com.delphix:zpool_checkpoint",
        "Pool state can be checkpointed, allowing rewind later.",
    )
        .read_only_compatible();
    SPACEMAP_V2: feature(
        "com.delphix:spacemap_v2",
        "Space maps representing large segments are more efficient.",
    )
        .read_only_compatible().active_when_enabled();
    ALLOCATION_CLASSES: feature(
        "org.zfsonlinux:allocation_classes",
        "Support for separate allocation classes.",
    )
        .read_only_compatible();
    RESILVER_DEFER: feature(
        "com.datto:resilver_defer",
        "Support for deferring new resilvers when one is already running.",
    )
        .read_only_compatible();
    BOOKMARK_V2: feature("com.datto:bookmark_v2", "Support for larger bookmarks")
        .depends_on(&[&EXTENSIBLE_DATASET, &BOOKMARKS]);
    REDACTION_BOOKMARKS: feature(
        "com.delphix:redaction_bookmarks",
        "Support for bookmarks which store redaction lists for zfs redacted send/recv.",
    )
        .depends_on(&[&BOOKMARK_V2, &EXTENSIBLE_DATASET, &BOOKMARKS]);
    REDACTED_DATASETS: feature(
        "com.delphix:redacted_datasets",
        "Support for redacted datasets, produced by receiving a redacted zfs send stream.",
    )
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    BOOKMARK_WRITTEN: feature(
        "com.delphix:bookmark_written",
        "Additional accounting, enabling the written#<bookmark> property (space written since \
            a bookmark), and estimates of send stream sizes for incrementals from bookmarks.",
    )
        .depends_on(&[&BOOKMARK_V2, &EXTENSIBLE_DATASET, &BOOKMARKS]);
    LOG_SPACEMAP: feature(
        "com.delphix:log_spacemap",
        "Log metaslab changes on a single spacemap and flush them periodically.",
    )
        .read_only_compatible().depends_on(&[&SPACEMAP_V2]);
    LIVELIST: feature("com.delphix:livelist", "Improved clone deletion performance.")
        .read_only_compatible().depends_on(&[&EXTENSIBLE_DATASET]);
    DEVICE_REBUILD: feature(
        "org.openzfs:device_rebuild",
        "Support for sequential mirror/dRAID device rebuilds",
    )
        .read_only_compatible();
    ZSTD_COMPRESS: feature("org.freebsd:zstd_compress", "zstd compression algorithm support.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    DRAID: feature("org.openzfs:draid", "Support for distributed spare RAID").in_label();
    ZILSAXATTR: feature(
        "org.openzfs:zilsaxattr",
        "Support for xattr=sa extended attribute logging in ZIL.",
    )
        .read_only_compatible().per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    HEAD_ERRLOG: feature("com.delphix:head_errlog", "Support for per-dataset on-disk error logs.")
        .active_when_enabled();
    BLAKE3: feature("org.openzfs:blake3", "BLAKE3 hash algorithm.")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    BLOCK_CLONING: feature(
        "com.fudosecurity:block_cloning",
        "Support for block cloning via Block Reference Table.",
    )
        .read_only_compatible();
    VDEV_ZAPS_V2: feature("com.klarasystems:vdev_zaps_v2", "Support for root vdev ZAP.").in_label();
    REDACTION_LIST_SPILL: feature(
        "com.delphix:redaction_list_spill",
        "Support for increased number of redaction_snapshot arguments in zfs redact.",
    )
        .depends_on(&[&REDACTION_BOOKMARKS]);
    RAIDZ_EXPANSION: feature("org.openzfs:raidz_expansion", "Support for raidz expansion")
        .in_label();
    FAST_DEDUP: feature("com.klarasystems:fast_dedup", "Support for advanced deduplication")
        .read_only_compatible();
    LONGNAME: feature("org.zfsonlinux:longname", "support filename up to 1024 bytes")
        .per_dataset().depends_on(&[&EXTENSIBLE_DATASET]);
    LARGE_MICROZAP: feature(
        "com.klarasystems:large_microzap",
        "Support for microzaps larger than 128KB.",
    )
        .read_only_compatible().per_dataset().depends_on(&[&EXTENSIBLE_DATASET, &LARGE_BLOCKS]);
    BLOCK_CLONING_ENDIAN: feature(
        "com.truenas:block_cloning_endian",
        "Fixes BRT ZAP endianness on new pools.",
    )
        .read_only_compatible().later();
    PHYSICAL_REWRITE: feature(
        "com.truenas:physical_rewrite",
        "Support for preserving logical birth time during rewrite.",
    )
        .read_only_compatible().per_dataset().later().depends_on(&[&EXTENSIBLE_DATASET]);
    DYNAMIC_GANG_HEADER: feature(
        "com.klarasystems:dynamic_gang_header",
        "Support for dynamically sized gang headers",
    )
        .in_label().later();
}
