//! The traits through which this layer reaches blocks: the pool's pipeline in production, memory
//! in tests. And what syncing reports to the layers above.

use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use format::block_pointer::SealedForm;
use format::{BlockPointer, ObjectType};
use sys::Buffer;

use crate::error::BlockError;

/// Reads blocks.
pub trait BlockStore: Send + Sync {
    /// The block's bytes, verified, decompressed, in host order; zeros for a hole.
    ///
    /// # Errors
    /// No copy of the block could be read.
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError>;

    /// The same of a block that was in use at `seen`, see [`BlockStore::now`]: then copies of it that are bad may be
    /// repaired, if it is certain that they are still this block's.
    ///
    /// # Errors
    /// As [`BlockStore::read`].
    fn read_seen(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
        _seen: Txg,
    ) -> Result<Buffer, BlockError> {
        self.read(pointer, place)
    }

    /// The same, for what the block leads to: of a block of dnodes the bonuses may be ciphertext, which needs no key.
    ///
    /// # Errors
    /// As [`BlockStore::read`].
    fn read_structure(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
    ) -> Result<Buffer, BlockError> {
        self.read(pointer, place)
    }

    /// The present state of the pool, as who repairs blocks counts: asked before, or while nobody can replace, what a
    /// pointer is taken from. 0: nothing is repaired.
    fn now(&self) -> Txg {
        Txg(0)
    }

    /// As [`BlockStore::prefetch`], of blocks that were in use at `seen`.
    fn prefetch_seen(&self, blocks: &[(BlockPointer, Bookmark)], _seen: Txg) {
        self.prefetch(blocks);
    }

    /// Starts reading blocks into the cache, when that costs the caller nothing. Neighbours are read
    /// together.
    fn prefetch(&self, blocks: &[(BlockPointer, Bookmark)]);

    /// Says that nobody is expected to read a block again: the cache need not keep it. It may be in use all the same,
    /// by a snapshot.
    fn forget(&self, _pointer: &BlockPointer) {}

    /// Whether the cache keeps data of an object set, or its metadata.
    fn keeps(&self, _set: ObjectSetId, _is_metadata: bool) -> bool {
        true
    }

    /// Says that a block of an object set was read to its end: a cache that does not keep it need not have it any more.
    fn end_of_block(&self, _pointer: &BlockPointer, _set: ObjectSetId) {}

    /// Says that a block was written, which the next sync may need.
    fn keep(&self, _pointer: &BlockPointer, _place: Bookmark, _data: &Buffer) {}

    /// Whether a block is in the cache, or has no place of its own to be read from.
    fn is_cached(&self, _pointer: &BlockPointer) -> bool {
        true
    }

    /// Starts reading blocks that may lie anywhere, by their places, with what lies between them where that is little.
    /// `follow`: of what they lead to, what a walk through directories will want ([`crate::read_by_walks`]) as well.
    fn prefetch_scattered(&self, _blocks: &[(BlockPointer, Bookmark)], _seen: Txg, _follow: bool) {}

    /// Bytes that the block is charged with (deflated, all copies).
    fn charged_bytes(&self, pointer: &BlockPointer) -> u64;

    /// Which stored blocks new ones of an object set may be references to. None: none at all.
    fn reference_rules(&self, _set: ObjectSetId, _kind: &BlockKind) -> Option<ReferenceRules> {
        None
    }

    /// Says that the sync of `txg`, which the caller holds open, may refer to a stored block from one more place
    /// ([`BlockWrite::shared`]): it must not be freed for good before that is known. False: nothing is ever shared.
    fn will_share(&self, _txg: Txg, _pointer: &BlockPointer) -> bool {
        false
    }
}

/// How a block would be written now: a copy of another block is a reference only to one that was written so.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceRules {
    /// The checksum's number.
    pub checksum: u8,
    /// How many copies there are.
    pub copies: usize,
}

impl ReferenceRules {
    pub(crate) fn allow(&self, pointer: &BlockPointer) -> bool {
        pointer.checksum_id() == self.checksum && pointer.copies() == self.copies
    }
}

/// What a block is, as far as the choice of compression, checksum and copies goes.
#[derive(Clone, Copy, Debug)]
pub struct BlockKind {
    /// The type of the object (of the spill block's contents).
    pub object_type: ObjectType,
    /// Height above the data.
    pub level: u8,
    /// Whether it is a spill block.
    pub spill: bool,
    /// The dnode's checksum override; 0 = none.
    pub checksum: u8,
    /// The dnode's compression override; 0 = none.
    pub compress: u8,
}

/// A block of level 0 of an encrypted dataset as another pool stores it.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    /// The stored bytes.
    pub stored: Buffer,
    /// What the pointer says of them.
    pub form: SealedForm,
}

/// One block to be written.
#[derive(Clone, Copy)]
pub struct BlockWrite<'a> {
    /// The bytes, in host order.
    pub data: &'a Buffer,
    /// Of a block that was sealed elsewhere: `data` are the bytes to be stored, and this is what the pointer says.
    pub form: Option<SealedForm>,
    /// What the block is.
    pub kind: BlockKind,
    /// Its fill count, unless it turns out to be all zeros.
    pub fill: u64,
    /// What it replaces. A block of the same txg may be rewritten in place.
    pub previous: BlockPointer,
    /// A stored block with the same bytes, that the writer may refer to in place of writing another. The pointer is
    /// born in this txg then, and keeps the physical birth of the block.
    pub shared: Option<BlockPointer>,
    /// Whether the cache is to keep it: not where nobody is expected to read it.
    pub cached: bool,
    /// Where it lives.
    pub place: Bookmark,
}

/// A stored block that one more place is to refer to.
#[derive(Clone, Copy)]
pub struct BlockReference<'a> {
    /// The pointer that leads to it now.
    pub stored: &'a BlockPointer,
    /// What the block is at its new place.
    pub kind: BlockKind,
    /// Bytes of a block there.
    pub size: usize,
    /// What it replaces.
    pub previous: BlockPointer,
    /// The block cannot be read, so no other can be written in its place: only what a pointer cannot express may
    /// be refused.
    pub is_unreadable: bool,
    /// The new place.
    pub place: Bookmark,
}

/// Writes blocks of the txg that is being synced.
pub trait BlockWriter: Sync {
    /// Writes the block; the pointer to it (a hole for zeros, where policy says so). The device
    /// may be written later; whoever made the writer waits for that.
    ///
    /// # Errors
    /// No space, or no device left.
    fn write(&self, request: &BlockWrite<'_>) -> Result<BlockPointer, BlockError>;

    /// The pointer that leads to a stored block from one more place: born in this txg, with the physical birth of the
    /// block. None: the block's bytes are to be written.
    fn refer(&self, _reference: &BlockReference<'_>) -> Option<BlockPointer> {
        None
    }
}

/// Is told of every block that comes into being or dies, exactly once.
pub trait BlockAccounting: Sync {
    /// `pointer` was written in this txg and is referenced now. With an older physical birth it is one more pointer
    /// to a stored block.
    fn born(&self, pointer: &BlockPointer);
    /// `pointer` is not referenced any more. The listener frees it or puts it on a deadlist.
    fn killed(&self, pointer: &BlockPointer);
    /// A tree of blocks was freed of which `pointer` cannot be read ([`BlockAccounting::killed`] is told of it all the
    /// same): nothing refers any more to what is below it, and nobody can free that. `bytes` says how much that is, as
    /// far as it is known: of an object that was freed whole, once, with the last such block.
    fn leaked(&self, _pointer: &BlockPointer, _bytes: u64) {}
    /// A sync of an object set is done: by so many bytes its dnodes grew. The blocks born in it, less those killed,
    /// must come to the same.
    fn grew(&self, _bytes: i64) {}
}

/// What a sync of an object set needs.
#[derive(Clone, Copy)]
pub struct SyncContext<'a> {
    /// The txg that is being synced.
    pub txg: Txg,
    /// Writes blocks, with this object set's policy.
    pub writer: &'a dyn BlockWriter,
    /// Is told of blocks born and killed.
    pub accounting: &'a dyn BlockAccounting,
    /// How many threads may work at once.
    pub workers: &'a crate::workers::SyncWorkers,
    /// Whose dirty bytes are returned as they are written.
    pub engine: Option<&'a txg::Engine>,
    /// Whether holes record their birth (feature hole_birth is active).
    pub hole_birth: bool,
    /// Whether dnodes count the space of their blocks in bytes; else in sectors of 512, as in pools before version 3.
    pub counts_bytes: bool,
    /// Whether space is accounted to owners. For other than file systems it is not, whatever this
    /// says.
    pub account_owners: bool,
    /// Whether objects are counted by owner as well.
    pub account_objects: bool,
}

/// The numbers of the objects that hold the accounting by owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// By user.
    User,
    /// By group.
    Group,
    /// By project.
    Project,
}

impl Owner {
    /// All kinds, in the order of their object numbers.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// The special object number.
    #[must_use]
    pub const fn object(self) -> ObjectId {
        ObjectId(match self {
            Self::User => u64::MAX,
            Self::Group => u64::MAX - 1,
            Self::Project => u64::MAX - 2,
        })
    }

    /// The place in [`Owner::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The kind whose special object has this number.
    pub(crate) fn of_object(object: ObjectId) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.object() == object)
    }
}
