//! Where space maps live. The pool supplies this over objects of its meta object set.

use base::{ObjectId, Txg, VdevId};

/// An error of a [`SpaceStore`].
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// The valid entries of a space map.
#[derive(Clone, Debug, Default)]
pub struct MapContents {
    /// The words of the map.
    pub bytes: Vec<u8>,
    /// Bytes allocated less bytes freed, as the map's header says.
    pub allocated: i64,
}

/// What is appended to a space map.
#[derive(Clone, Debug)]
pub struct MapAppend<'a> {
    /// Words of entries.
    pub bytes: &'a [u8],
    /// By how much the header's allocated bytes change.
    pub allocated_change: i64,
    /// The new histogram of free segments, where it is known.
    pub histogram: Option<[u64; 32]>,
}

/// Space map objects, the metaslab arrays, and the logs. Writing happens in syncing context only.
pub trait SpaceStore {
    /// Whether an error of this store says that something is damaged for good, as far as can be told.
    fn is_damage(&self, _error: &StoreError) -> bool {
        false
    }

    /// Reads a space map.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, object: ObjectId) -> Result<MapContents, StoreError>;

    /// The bytes of entries that a map holds now.
    ///
    /// # Errors
    /// It cannot be read.
    fn length(&self, object: ObjectId) -> Result<u64, StoreError>;

    /// Creates an empty space map for a metaslab and enters it in the vdev's metaslab array.
    ///
    /// # Errors
    /// The objects cannot be written.
    fn create(&self, vdev: VdevId, metaslab: usize) -> Result<ObjectId, StoreError>;

    /// The map of what a vdev keeps for a checkpoint alone, made when it is first needed.
    ///
    /// # Errors
    /// The objects cannot be written.
    fn kept_map(&self, vdev: VdevId) -> Result<ObjectId, StoreError>;

    /// Appends entries and updates the header.
    ///
    /// # Errors
    /// The object cannot be written.
    fn append(&self, object: ObjectId, append: &MapAppend<'_>) -> Result<(), StoreError>;

    /// Empties a map, before it is rewritten in shorter form.
    ///
    /// # Errors
    /// The object cannot be written.
    fn clear(&self, object: ObjectId) -> Result<(), StoreError>;

    /// Notes from which txg on a metaslab's changes are in the logs.
    ///
    /// # Errors
    /// The object cannot be written.
    fn set_unflushed(&self, vdev: VdevId, metaslab: usize, txg: Txg) -> Result<(), StoreError>;

    /// The log of this txg, made when it is first needed.
    ///
    /// # Errors
    /// The objects cannot be written.
    fn log(&self, txg: Txg) -> Result<ObjectId, StoreError>;

    /// Destroys logs of txgs before `txg`: every metaslab is flushed up to there.
    ///
    /// # Errors
    /// The objects cannot be written.
    fn trim_logs(&self, before: Txg) -> Result<(), StoreError>;

    /// The block size of a map or log, bytes: entries of two words may not straddle its blocks. Maps of one
    /// pool differ: they keep the size with which they were made.
    ///
    /// # Errors
    /// The object cannot be read.
    fn block_size(&self, object: ObjectId) -> Result<usize, StoreError>;
}
