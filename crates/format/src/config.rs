//! The names in pool configurations (labels and the MOS config object) and in the MOS directory.

use std::fmt;

use crate::NvList;
use crate::features::{self, Feature};

/// Pairs of a configuration and of its vdev nodes.
pub mod keys {
    #![allow(missing_docs)] // each constant is the name that it holds

    pub const VERSION: &str = "version";
    pub const NAME: &str = "name";
    pub const STATE: &str = "state";
    pub const TXG: &str = "txg";
    pub const POOL_GUID: &str = "pool_guid";
    pub const ERRATA: &str = "errata";
    pub const MIN_ALLOC: &str = "min_alloc";
    pub const MAX_ALLOC: &str = "max_alloc";
    pub const COMMENT: &str = "comment";
    pub const COMPATIBILITY: &str = "compatibility";
    pub const HOST_ID: &str = "hostid";
    pub const HOST_NAME: &str = "hostname";
    pub const TOP_GUID: &str = "top_guid";
    pub const GUID: &str = "guid";
    pub const IS_SPARE: &str = "is_spare";
    /// Of a distributed spare: its number in its dRAID.
    pub const SPARE_ID: &str = "spareid";
    pub const IS_LOG: &str = "is_log";
    pub const IS_HOLE: &str = "is_hole";
    pub const HAS_PER_VDEV_ZAPS: &str = "com.delphix:has_per_vdev_zaps";
    pub const HOLE_ARRAY: &str = "hole_array";
    pub const VDEV_CHILDREN: &str = "vdev_children";
    pub const SPLIT: &str = "splitcfg";
    pub const SPLIT_GUID: &str = "split_guid";
    pub const VDEV_TREE: &str = "vdev_tree";
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    pub const CREATE_TXG: &str = "create_txg";
    pub const TYPE: &str = "type";
    pub const ID: &str = "id";
    pub const PATH: &str = "path";
    pub const DEVICE_ID: &str = "devid";
    pub const PHYSICAL_PATH: &str = "phys_path";
    pub const PARITY_COUNT: &str = "nparity";
    pub const RAIDZ_EXPAND_TXGS: &str = "raidz_expand_txgs";
    pub const RAIDZ_EXPANDING: &str = "raidz_expanding";
    pub const DRAID_DATA_COUNT: &str = "draid_ndata";
    pub const DRAID_SPARE_COUNT: &str = "draid_nspares";
    pub const DRAID_GROUP_COUNT: &str = "draid_ngroups";
    pub const DRAID_CHILD_COUNT: &str = "draid_nchildren";
    pub const WHOLE_DISK: &str = "whole_disk";
    pub const NOT_PRESENT: &str = "not_present";
    pub const METASLAB_ARRAY: &str = "metaslab_array";
    pub const METASLAB_SHIFT: &str = "metaslab_shift";
    pub const ASHIFT: &str = "ashift";
    pub const ASIZE: &str = "asize";
    pub const NON_ALLOCATING: &str = "non_allocating";
    pub const REMOVING: &str = "removing";
    pub const DTL: &str = "DTL";
    pub const ALLOCATION_BIAS: &str = "alloc_bias";
    pub const INDIRECT_OBJECT: &str = "com.delphix:indirect_object";
    pub const INDIRECT_BIRTHS: &str = "com.delphix:indirect_births";
    pub const PREVIOUS_INDIRECT: &str = "com.delphix:prev_indirect_vdev";
    pub const VDEV_ZAP_LEAF: &str = "com.delphix:vdev_zap_leaf";
    pub const VDEV_ZAP_TOP: &str = "com.delphix:vdev_zap_top";
    pub const VDEV_ZAP_ROOT: &str = "com.klarasystems:vdev_zap_root";
    pub const CHILDREN: &str = "children";
    pub const SPARES: &str = "spares";
    pub const L2CACHE: &str = "l2cache";
    pub const OFFLINE: &str = "offline";
    pub const FAULTED: &str = "faulted";
    pub const DEGRADED: &str = "degraded";
    pub const AUX_STATE: &str = "aux_state";
    pub const REMOVED: &str = "removed";
    pub const UNSPARE: &str = "unspare";
    pub const RESILVER_TXG: &str = "resilver_txg";
    pub const RESILVER_DEFER: &str = "com.datto:resilver_defer";
    pub const REBUILD_TXG: &str = "rebuild_txg";
    pub const ORIGINAL_GUID: &str = "orig_guid";
}

/// Declares the types of vdev nodes, each with its name: the list of all, and both ways between type and name have
/// each.
macro_rules! vdev_types {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// The type of a vdev node. Matches over it have no fallback arm: who adds one is asked what it means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum VdevType {
            $($(#[$doc])* $name,)*
        }

        impl VdevType {
            /// All of them.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// As configurations say it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// The type of this name; none if nobody here knows it.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

/// What a dRAID is called: `draid1:4d:8c:1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraidName {
    /// Columns of parity in a stripe.
    pub parity: u64,
    /// Columns of data in a stripe.
    pub data: u64,
    /// Devices.
    pub children: usize,
    /// Distributed spares.
    pub spares: u64,
}

impl fmt::Display for DraidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            parity,
            data,
            children,
            spares,
        } = self;
        let name = VdevType::Draid.name();
        write!(f, "{name}{parity}:{data}d:{children}c:{spares}s")
    }
}

vdev_types! {
    /// What all top-level vdevs are below.
    Root = "root",
    /// Children with the same bytes, for redundancy.
    Mirror = "mirror",
    /// Children with the same bytes, while one takes another's place.
    Replacing = "replacing",
    /// Children with the same bytes, while a hot spare stands in.
    Spare = "spare",
    /// Children that share blocks, with parity.
    RaidZ = "raidz",
    /// Children over which stripes with parity are spread, and the room of spares.
    Draid = "draid",
    /// That room, as a leaf.
    DistributedSpare = "dspare",
    /// A disk or a partition.
    Disk = "disk",
    /// A file.
    File = "file",
    /// Nothing is known of it.
    Missing = "missing",
    /// It takes up a number: what was there is gone.
    Hole = "hole",
    /// It was removed: what it held lies on others.
    Indirect = "indirect",
}

impl VdevType {
    /// The type of a node; none if nobody here knows it.
    #[must_use]
    pub fn of(node: &NvList) -> Option<Self> {
        node.str(keys::TYPE).and_then(Self::named)
    }

    /// Whether it holds bytes itself: a device, or what stands for one.
    #[must_use]
    pub const fn is_leaf(self) -> bool {
        match self {
            Self::Disk | Self::File | Self::DistributedSpare => true,
            Self::Root
            | Self::Mirror
            | Self::Replacing
            | Self::Spare
            | Self::RaidZ
            | Self::Draid
            | Self::Missing
            | Self::Hole
            | Self::Indirect => false,
        }
    }

    /// Whether each child has all that the vdev holds, so that one may go as long as another stays.
    #[must_use]
    pub const fn holds_copies(self) -> bool {
        match self {
            Self::Mirror | Self::Replacing | Self::Spare => true,
            Self::Root
            | Self::RaidZ
            | Self::Draid
            | Self::DistributedSpare
            | Self::Disk
            | Self::File
            | Self::Missing
            | Self::Hole
            | Self::Indirect => false,
        }
    }

    /// Whether it can get children that it spreads blocks over as over those that it has.
    #[must_use]
    pub const fn gets_children(self) -> bool {
        match self {
            Self::RaidZ => true,
            Self::Root
            | Self::Mirror
            | Self::Replacing
            | Self::Spare
            | Self::Draid
            | Self::DistributedSpare
            | Self::Disk
            | Self::File
            | Self::Missing
            | Self::Hole
            | Self::Indirect => false,
        }
    }

    /// The feature that counts the top-level vdevs of this type, without which there is none.
    #[must_use]
    pub const fn feature(self) -> Option<&'static Feature> {
        match self {
            Self::Draid => Some(&features::DRAID),
            Self::Root
            | Self::Mirror
            | Self::Replacing
            | Self::Spare
            | Self::RaidZ
            | Self::DistributedSpare
            | Self::Disk
            | Self::File
            | Self::Missing
            | Self::Hole
            | Self::Indirect => None,
        }
    }

    /// Whether it is there: not only a number that is taken, or what tells where something went.
    #[must_use]
    pub const fn is_there(self) -> bool {
        match self {
            Self::Hole | Self::Indirect => false,
            Self::Root
            | Self::Mirror
            | Self::Replacing
            | Self::Spare
            | Self::RaidZ
            | Self::Draid
            | Self::DistributedSpare
            | Self::Disk
            | Self::File
            | Self::Missing => true,
        }
    }

    /// Whether a place among the top-level vdevs is taken by something that has, or had, a size: sectors, metaslabs, or
    /// where they went.
    #[must_use]
    pub const fn has_sectors(self) -> bool {
        match self {
            Self::Missing | Self::Hole => false,
            Self::Root
            | Self::Mirror
            | Self::Replacing
            | Self::Spare
            | Self::RaidZ
            | Self::Draid
            | Self::DistributedSpare
            | Self::Disk
            | Self::File
            | Self::Indirect => true,
        }
    }
}

/// Entries of the MOS directory (object 1).
pub mod directory {
    #![allow(missing_docs)]

    use base::ObjectId;

    /// The MOS directory itself.
    pub const OBJECT: ObjectId = ObjectId(1);
    pub const CONFIG: &str = "config";
    pub const ROOT_DATASET: &str = "root_dataset";
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    pub const FEATURES_FOR_WRITE: &str = "features_for_write";
    pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
    pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
    pub const SYNC_BPLIST: &str = "sync_bplist";
    pub const FREE_BPOBJ: &str = "free_bpobj";
    pub const BPTREE: &str = "bptree_obj";
    pub const EMPTY_BPOBJ: &str = "empty_bpobj";
    pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
    pub const HISTORY: &str = "history";
    pub const POOL_PROPERTIES: &str = "pool_props";
    pub const SPARES: &str = "spares";
    pub const L2CACHE: &str = "l2cache";
    pub const DEFLATE: &str = "deflate";
    pub const CREATION_VERSION: &str = "creation_version";
    pub const ERROR_LOG_SCRUB: &str = "errlog_scrub";
    pub const ERROR_LOG_LAST: &str = "errlog_last";
    pub const TEMPORARY_HOLDS: &str = "tmp_userrefs";
    pub const SCAN: &str = "scan";
    pub const ERROR_SCRUB: &str = "error_scrub";
    pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
    pub const DEDUP_STATISTICS: &str = "DDT-statistics";
    /// What every dedup table's entry starts with.
    pub const DEDUP_PREFIX: &str = "DDT-";
    pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
    pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
    pub const REMOVING: &str = "com.delphix:removing";
    pub const CONDENSING_INDIRECT: &str = "com.delphix:condensing_indirect";
    pub const CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
    pub const LOG_SPACE_MAPS: &str = "com.delphix:log_spacemap_zap";
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
    /// What every block clone table's entry starts with.
    pub const BLOCK_REFERENCE_PREFIX: &str = "com.fudosecurity:brt:vdev:";
}

/// Entries of the ZAPs of vdevs.
pub mod vdev_zap {
    #![allow(missing_docs)]

    pub const OBSOLETE_SPACE_MAP: &str = "com.delphix:indirect_obsolete_sm";
    pub const PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    pub const CHECKPOINT_SPACE_MAP: &str = "com.delphix:pool_checkpoint_sm";
    pub const UNFLUSHED_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    pub const REBUILD: &str = "org.openzfs:vdev_rebuild";
    pub const RAIDZ_EXPAND_STATE: &str = "org.openzfs:raidz_expand_state";
    pub const RAIDZ_EXPAND_START_TIME: &str = "org.openzfs:raidz_expand_start_time";
    pub const RAIDZ_EXPAND_END_TIME: &str = "org.openzfs:raidz_expand_end_time";
    pub const RAIDZ_EXPAND_BYTES_COPIED: &str = "org.openzfs:raidz_expand_bytes_copied";
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    pub const INITIALIZE_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    pub const INITIALIZE_TIME: &str = "com.delphix:vdev_initialize_action_time";
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    pub const TRIM_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    pub const TRIM_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    pub const TRIM_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    pub const TRIM_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}

#[cfg(test)]
mod tests;
