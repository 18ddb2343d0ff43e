//! Datasets on disk: directories, datasets, the keys of their ZAPs, and how properties are named.
//!
//! Directories and datasets are bonus buffers of objects in the meta object set; the type of the
//! *bonus* says which it is, for an object with per-dataset keys is a ZAP.

use base::{Guid, ObjectId, Txg};

use crate::block_pointer::BlockPointer;
use crate::record::record;

record! {
    /// A directory: a name in the tree, its space and its properties.
    #[doc(alias = "dsl_dir_phys_t")]
    pub struct DirectoryPhys [256] {
        #[doc(alias = "dd_creation_time")]
        /// Seconds since 1970.
        creation_time: u64 = 0,
        #[doc(alias = "dd_head_dataset_obj")]
        /// The head dataset; 0 for the hidden directories that have none.
        head_dataset: ObjectId = 8,
        #[doc(alias = "dd_parent_obj")]
        /// The parent directory; 0 for the root.
        parent: ObjectId = 16,
        #[doc(alias = "dd_origin_obj")]
        /// The snapshot that the head descends from.
        origin: ObjectId = 24,
        #[doc(alias = "dd_child_dir_zapobj")]
        /// Names of children to their directories.
        child_map: ObjectId = 32,
        #[doc(alias = "dd_used_bytes")]
        /// The sum of `used_breakdown`.
        used_bytes: u64 = 40,
        #[doc(alias = "dd_compressed_bytes")]
        /// Physical bytes, children included.
        compressed_bytes: u64 = 48,
        #[doc(alias = "dd_uncompressed_bytes")]
        /// Logical bytes, children included.
        uncompressed_bytes: u64 = 56,
        #[doc(alias = "dd_quota")]
        /// The quota; 0 = none.
        quota: u64 = 64,
        #[doc(alias = "dd_reserved")]
        /// The reservation; 0 = none.
        reserved: u64 = 72,
        #[doc(alias = "dd_props_zapobj")]
        /// The properties.
        properties: ObjectId = 80,
        #[doc(alias = "dd_deleg_zapobj")]
        /// Delegated permissions; 0 until used.
        delegation: ObjectId = 88,
        #[doc(alias = "dd_flags")]
        /// See [`DirectoryPhys::FLAG_USED_BREAKDOWN`].
        flags: u64 = 96,
        #[doc(alias = "dd_used_breakdown")]
        /// Where `used_bytes` comes from, by [`UsedBy`].
        used_breakdown: [u64; 5] = 104,
        #[doc(alias = "dd_clones")]
        /// Heads of the directories whose origin is a snapshot here; 0 until used.
        clones: ObjectId = 144,
    }
}

impl DirectoryPhys {
    /// `used_breakdown` is valid (pool version 13).
    pub const FLAG_USED_BREAKDOWN: u64 = 1;
}

/// What the space of a directory is used by; an index of `used_breakdown`.
#[doc(alias = "dd_used_t")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsedBy {
    /// The head dataset.
    Head,
    /// Snapshots alone.
    Snapshots,
    /// Children.
    Children,
    /// Reservations of children that they do not use.
    ChildReservations,
    /// The reservation for the head's unshared data that it does not use.
    RefReservation,
}

impl UsedBy {
    /// All, in the order of the array.
    pub const ALL: [Self; 5] = [
        Self::Head,
        Self::Snapshots,
        Self::Children,
        Self::ChildReservations,
        Self::RefReservation,
    ];

    /// The place in the array.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

record! {
    /// A dataset: a head or a snapshot.
    #[doc(alias = "dsl_dataset_phys_t")]
    pub struct DatasetPhys [320] {
        #[doc(alias = "ds_dir_obj")]
        /// The directory.
        directory: ObjectId = 0,
        #[doc(alias = "ds_prev_snap_obj")]
        /// The next older snapshot, or a clone's origin.
        previous_snapshot: ObjectId = 8,
        #[doc(alias = "ds_prev_snap_txg")]
        /// That snapshot's creation txg.
        previous_snapshot_txg: Txg = 16,
        #[doc(alias = "ds_next_snap_obj")]
        /// Of a snapshot: the next newer one of its chain, or the head.
        next_snapshot: ObjectId = 24,
        #[doc(alias = "ds_snapnames_zapobj")]
        /// Of a head: names of snapshots.
        snapshot_names: ObjectId = 32,
        #[doc(alias = "ds_num_children")]
        /// Of a snapshot: 1 + its clones; 0 for a head.
        child_count: u64 = 40,
        #[doc(alias = "ds_creation_time")]
        /// Seconds since 1970.
        creation_time: u64 = 48,
        #[doc(alias = "ds_creation_txg")]
        /// The txg of creation.
        creation_txg: Txg = 56,
        #[doc(alias = "ds_deadlist_obj")]
        /// Blocks that the previous snapshot has and this dataset has no more.
        deadlist: ObjectId = 64,
        #[doc(alias = "ds_referenced_bytes")]
        /// Allocated bytes of everything reachable.
        referenced_bytes: u64 = 72,
        #[doc(alias = "ds_compressed_bytes")]
        /// Physical bytes of everything reachable.
        compressed_bytes: u64 = 80,
        #[doc(alias = "ds_uncompressed_bytes")]
        /// Logical bytes of everything reachable.
        uncompressed_bytes: u64 = 88,
        #[doc(alias = "ds_unique_bytes")]
        /// Allocated bytes that no neighbour shares.
        unique_bytes: u64 = 96,
        #[doc(alias = "ds_fsid_guid")]
        /// Random 56-bit identity on this system.
        fsid_guid: u64 = 104,
        #[doc(alias = "ds_guid")]
        /// Random identity everywhere.
        guid: Guid = 112,
        #[doc(alias = "ds_flags")]
        /// See the `FLAG_` constants.
        flags: u64 = 120,
        #[doc(alias = "ds_bp")]
        /// The object set.
        block_pointer: BlockPointer = 128,
        #[doc(alias = "ds_next_clones_obj")]
        /// Of a snapshot: its immediate successors in clones; 0 until used.
        next_clones: ObjectId = 256,
        #[doc(alias = "ds_props_obj")]
        /// Of a snapshot: its properties; 0 when none.
        properties: ObjectId = 264,
        #[doc(alias = "ds_userrefs_obj")]
        /// Of a snapshot: its holds; 0 when none.
        user_references: ObjectId = 272,
    }
}

impl DatasetPhys {
    /// A receive or destroy is under way, or was when the pool stopped.
    pub const FLAG_INCONSISTENT: u64 = 0x1;
    /// May not be promoted (old).
    pub const FLAG_NO_PROMOTE: u64 = 0x2;
    /// `unique_bytes` is exact.
    pub const FLAG_UNIQUE_ACCURATE: u64 = 0x4;
    /// Goes away with its last clone and hold.
    pub const FLAG_DEFER_DESTROY: u64 = 0x8;
    /// Names of snapshots match without regard to case.
    pub const FLAG_CASE_INSENSITIVE: u64 = 0x1_0000;

    /// Whether this is a snapshot rather than a head.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.child_count != 0
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn has_flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// Names of hidden directories under the root.
pub mod hidden {
    /// The meta object set's space.
    pub const MOS: &str = "$MOS";
    /// Space that is still to be freed.
    pub const FREE: &str = "$FREE";
    /// Space that could not be freed.
    pub const LEAK: &str = "$LEAK";
    /// The origin of every file system and volume that is no clone.
    pub const ORIGIN: &str = "$ORIGIN";
}

/// Keys of the ZAPs that directories and datasets become.
pub mod key {
    /// Of a directory: file systems in the subtree.
    pub const FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
    /// Of a directory: snapshots in the subtree.
    pub const SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
    /// Of a directory: its encryption key.
    pub const CRYPTO_KEY: &str = "com.datto:crypto_key_obj";
    /// Of a clone's directory: its livelist.
    pub const LIVELIST: &str = "com.delphix:livelist";
    /// Of a directory: when its set of snapshots changed.
    pub const SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";
    /// Of a head: its bookmarks.
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    /// Of a dataset: its remap deadlist.
    pub const REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
    /// Of an encrypted snapshot: the identity of its IVs.
    pub const IVSET_GUID: &str = "com.datto:ivset_guid";
    /// Of a dataset received in part: the guid of the snapshot that is received.
    pub const RESUME_TO_GUID: &str = "com.delphix:resume_toguid";
    /// Of such a dataset: the guid of the snapshot that the stream begins at; missing of a full one.
    pub const RESUME_FROM_GUID: &str = "com.delphix:resume_fromguid";
    /// Of such a dataset: the snapshot's name on the sending side, as bytes.
    pub const RESUME_TO_NAME: &str = "com.delphix:resume_toname";
    /// Of such a dataset: the object up to which it has come.
    pub const RESUME_OBJECT: &str = "com.delphix:resume_object";
    /// Of such a dataset: the offset in that object.
    pub const RESUME_OFFSET: &str = "com.delphix:resume_offset";
    /// Of such a dataset: how many bytes of the stream were read.
    pub const RESUME_BYTES: &str = "com.delphix:resume_bytes";
    /// Of such a dataset: the stream has blocks above 128 KiB.
    pub const RESUME_LARGE_BLOCK: &str = "com.delphix:resume_largeblockok";
    /// Of such a dataset: the stream has embedded blocks.
    pub const RESUME_EMBEDDED: &str = "com.delphix:resume_embedok";
    /// Of such a dataset: the stream has compressed blocks.
    pub const RESUME_COMPRESSED: &str = "com.delphix:resume_compressok";
    /// Of such a dataset: the stream has encrypted blocks as they are stored.
    pub const RESUME_RAW: &str = "com.datto:resume_rawok";
    /// Of such a dataset: the guids of the snapshots by which the bookmark is redacted that the stream begins at.
    pub const RESUME_REDACT_BOOKMARK_SNAPS: &str = "com.delphix:resume_redact_book_snaps";
    /// Of the MOS directory: ZAP of livelists whose clones are destroyed.
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
}

/// Keys of the ZAP that an encryption key is stored in.
pub mod key_record {
    /// The cipher's number.
    pub const SUITE: &str = "DSL_CRYPTO_SUITE";
    /// The keys' own identity.
    pub const GUID: &str = "DSL_CRYPTO_GUID";
    /// The vector that they are wrapped with.
    pub const IV: &str = "DSL_CRYPTO_IV";
    /// What proves them.
    pub const MAC: &str = "DSL_CRYPTO_MAC";
    /// The master key, wrapped.
    pub const MASTER_KEY: &str = "DSL_CRYPTO_MASTER_KEY_1";
    /// The key of message authentication codes, wrapped.
    pub const HMAC_KEY: &str = "DSL_CRYPTO_HMAC_KEY_1";
    /// The directory of the root of encryption.
    pub const ROOT: &str = "DSL_CRYPTO_ROOT_DDOBJ";
    /// The record's version; 0 where it is missing.
    pub const VERSION: &str = "DSL_CRYPTO_VERSION";
    /// How many directories have it: clones share one.
    pub const REFERENCES: &str = "DSL_CRYPTO_REFCOUNT";
    /// What users have of the key.
    pub const FORMAT: &str = "keyformat";
    /// Of a passphrase: the salt.
    pub const PBKDF2_SALT: &str = "pbkdf2salt";
    /// Of a passphrase: how often it is hashed.
    pub const PBKDF2_ITERATIONS: &str = "pbkdf2iters";
}

/// Suffixes and special keys of a property ZAP.
pub mod property {
    /// A value received in a stream.
    pub const RECEIVED: &str = "$recvd";
    /// Inherited on purpose: hides a received value.
    pub const INHERIT: &str = "$inherit";
    /// An index value that old software does not know.
    pub const UNKNOWN_INDEX: &str = "$iuv";
    /// This dataset has received properties.
    pub const HAS_RECEIVED: &str = "$hasrecvd";
}

#[cfg(test)]
mod tests;
