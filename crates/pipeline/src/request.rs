//! What callers ask for.

use base::{Bookmark, Txg};
use codec::{Checksum, Compression};
use format::block_pointer::{BlockPointer, SealedForm};
use format::object_type::ObjectType;
use sys::Buffer;
use vdev::IoClass;

use crate::{AllocationClass, DedupMode};

/// How to read a block.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The device queue's class.
    pub class: IoClass,
    /// Which block it is.
    pub bookmark: Bookmark,
    /// Whether to look in and fill the cache.
    pub cached: bool,
    /// Whether to look for a copy on cache devices, and offer them what was read.
    pub second_level: bool,
    /// Whether a failure is expected (log blocks, prefetch) and so not logged.
    pub speculative: bool,
    /// Whether the devices have it for sure, unless it was freed or rewritten since `seen`. Where that is not sure (a
    /// write that was cut off, a request that has waited), a device with other bytes is to blame only if another has
    /// the right ones.
    pub promised: bool,
    /// When the pointer was seen to be in use, as [`crate::Repairs`] counts; 0: not known. Only then bad copies can be
    /// repaired.
    pub seen: Txg,
    /// Whether only what the block leads to is wanted: without a key, bonuses in a block of dnodes are ciphertext then.
    pub structure: bool,
}

impl ReadRequest {
    /// A read that somebody waits for.
    #[must_use]
    pub const fn new(bookmark: Bookmark) -> Self {
        Self {
            class: IoClass::SyncRead,
            bookmark,
            cached: true,
            second_level: true,
            speculative: false,
            promised: true,
            seen: Txg(0),
            structure: false,
        }
    }

    /// The same, for nothing but what the block leads to: that needs no key.
    #[must_use]
    pub const fn for_structure(mut self) -> Self {
        self.structure = true;
        self
    }

    /// The same, of a block that was seen to be in use at `seen`.
    #[must_use]
    pub const fn seen(mut self, seen: Txg) -> Self {
        self.seen = seen;
        self
    }

    /// The same, in another class.
    #[must_use]
    pub const fn in_class(mut self, class: IoClass) -> Self {
        self.class = class;
        self
    }

    /// The same, past the cache: for walks over everything.
    #[must_use]
    pub const fn uncached(mut self) -> Self {
        self.cached = false;
        self.second_level = false;
        self
    }

    /// The same, of a block that may not be there: its write may have been cut off before anybody relied on it, or it
    /// may have been freed while the request waited. Failure is expected, and no device is to blame for it.
    #[must_use]
    pub const fn unpromised(mut self) -> Self {
        self.promised = false;
        self.speculative()
    }

    /// The same, where failure is expected.
    #[must_use]
    pub const fn speculative(mut self) -> Self {
        self.speculative = true;
        self
    }
}

/// How a block is to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritePolicy {
    /// The compression.
    pub compression: Compression,
    /// The checksum.
    pub checksum: Checksum,
    /// How many copies, 1 to 3.
    pub copies: u8,
    /// How many copies of a gang header, at least `copies`.
    pub gang_copies: u8,
    /// Whether a block that compresses to 112 bytes may live in its pointer.
    pub embed: bool,
    /// Whether a block of zeros becomes a hole.
    pub zero_detect: bool,
    /// Whether an unchanged block (by a strong checksum) keeps its old pointer.
    pub nopwrite: bool,
    /// Whether it is looked for in the dedup table of its checksum.
    pub dedup: DedupMode,
    /// Where to allocate.
    pub class: AllocationClass,
    /// A block that takes at most so many bytes as stored goes to [`AllocationClass::SmallData`]; 0: none
    /// does.
    pub small_max: u64,
    /// Whether it is a block of an encrypted dataset: without the key it is not written.
    pub encrypt: bool,
}

impl WritePolicy {
    /// What the MOS and every other metadata without a property of its own use.
    pub const METADATA: Self = Self {
        compression: Compression::Lz4,
        checksum: Checksum::Fletcher4,
        copies: 3,
        gang_copies: 3,
        embed: true,
        zero_detect: true,
        nopwrite: false,
        dedup: DedupMode::Off,
        class: AllocationClass::Normal,
        small_max: 0,
        encrypt: false,
    };
}

/// A block to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// The content, in host order. A whole number of 512-byte sectors.
    pub data: &'a Buffer,
    /// Of a block that was sealed elsewhere: `data` are the bytes to be stored, and this is what the pointer says.
    pub form: Option<SealedForm>,
    /// The type of the object that it belongs to.
    pub object_type: ObjectType,
    /// Its level.
    pub level: u8,
    /// Its fill count.
    pub fill: u64,
    /// How to store it.
    pub policy: WritePolicy,
    /// The txg that is syncing.
    pub txg: Txg,
    /// The pass of that sync, from 1.
    pub pass: u32,
    /// What the pointer was before.
    pub previous: BlockPointer,
    /// Whether the cache keeps it: not where nobody is expected to read it.
    pub cached: bool,
    /// Which block it is.
    pub bookmark: Bookmark,
}

impl WriteRequest<'_> {
    /// With the class of a block that takes `psize` bytes as stored.
    pub(crate) fn for_size(&self, psize: u64) -> Self {
        let mut request = *self;
        if psize <= self.policy.small_max {
            request.policy.class = AllocationClass::SmallData;
        }
        request
    }
}
