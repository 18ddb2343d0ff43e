//! Blocks as a walk meets them, and what each leads to.

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use format::block_pointer::{self, BlockPointer};
use format::bptree::{self, FreedTo, TreePlace};
use format::dnode::{self, DnodePhys, SLOT_SIZE, Slot};
use format::object_set::ObjectSetPhys;
use format::record::get_at;
use pipeline::{Pipeline, ReadError, ReadRequest};
use sys::Buffer;
use vdev::IoClass;

use crate::error::Result;
use crate::raw::read_sealed;

/// What the bottom of a tree of blocks holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// An object set.
    ObjectSet,
    /// Dnodes.
    Dnodes,
    /// Anything else.
    Data,
}

/// What a reference means for the space that it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strength {
    /// The space must be allocated, and nobody else may refer to it.
    Firm,
    /// The space counts as long as the maps say so: blocks being freed, log blocks not claimed.
    Pending,
}

/// A block to visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) block: BlockPointer,
    pub(crate) bookmark: Bookmark,
    pub(crate) younger_than: Txg,
    pub(crate) holds: Holds,
    pub(crate) strength: Strength,
    /// How far its tree was freed: the block that comes next, or zeros.
    freed_to: [u64; 4],
    /// Log2 of the pointers in an indirect block of its object.
    entries_shift: u32,
}

impl Item {
    /// The root of an object set, of which only blocks born after `younger_than` count.
    pub(crate) fn root(set: ObjectSetId, block: BlockPointer, younger_than: Txg) -> Self {
        Self {
            block,
            bookmark: Bookmark::root(set),
            younger_than,
            holds: Holds::ObjectSet,
            strength: Strength::Firm,
            freed_to: [0; 4],
            entries_shift: 0,
        }
    }

    /// A block that belongs to no tree.
    pub(crate) fn alone(block: BlockPointer, strength: Strength) -> Self {
        Self {
            bookmark: Bookmark::default(),
            holds: Holds::Data,
            strength,
            ..Self::root(ObjectSetId::MOS, block, Txg(0))
        }
    }

    /// The same, of a dataset that is being destroyed, and was freed up to a bookmark.
    pub(crate) fn pending(mut self, freed_to: [u64; 4]) -> Self {
        self.strength = Strength::Pending;
        self.freed_to = freed_to;
        self
    }

    /// Whether it leads further, or may.
    pub(crate) fn is_read(&self) -> bool {
        let leads = self.bookmark.level != 0 || self.holds != Holds::Data;
        leads && self.freed() == FreedTo::Nothing
    }

    /// What of it and below was freed in the background.
    pub(crate) fn freed(&self) -> FreedTo {
        match u8::try_from(self.bookmark.level) {
            Ok(level) => TreePlace {
                object: self.bookmark.object.0,
                level,
                block: self.bookmark.block,
                entries_shift: self.entries_shift,
            }
            .freed_to(&self.freed_to),
            Err(_) if bptree::is_root(&self.freed_to) => FreedTo::Children,
            Err(_) => FreedTo::Nothing,
        }
    }

    fn request(&self) -> ReadRequest {
        ReadRequest::new(self.bookmark)
            .in_class(IoClass::Scan)
            .uncached()
    }

    /// Its content; what only a key opens is an error.
    pub(crate) fn read_open(&self, pipeline: &Pipeline) -> Result<Buffer> {
        Ok(pipeline.read(&self.block, &self.request())?)
    }

    /// What can be had of its content without keys, for what it leads to: of blocks of dnodes all but the bonuses.
    pub(crate) fn read(&self, pipeline: &Pipeline) -> Result<Buffer> {
        let request = self.request();
        match pipeline.read(&self.block, &request) {
            Err(ReadError::Encrypted { .. }) => read_sealed(pipeline, &self.block, &request),
            other => Ok(other?),
        }
    }

    /// Hands over what the block leads to, holes included, and what of it does not decode.
    pub(crate) fn for_each_child(
        &self,
        content: &[u8],
        visit: &mut impl FnMut(std::result::Result<Self, String>),
    ) {
        match (self.bookmark.level, self.holds) {
            (1.., _) => self.indirect(content, visit),
            (_, Holds::ObjectSet) => self.object_set(content, visit),
            (_, Holds::Dnodes) => self.dnodes(content, visit),
            (_, Holds::Data) => {}
        }
    }

    fn indirect(&self, content: &[u8], visit: &mut impl FnMut(std::result::Result<Self, String>)) {
        let per_block = (content.len() / block_pointer::SIZE) as u64;
        for (index, entry) in content.chunks_exact(block_pointer::SIZE).enumerate() {
            let block = self
                .bookmark
                .block
                .wrapping_mul(per_block)
                .wrapping_add(index as u64);
            let level = self.bookmark.level - 1;
            visit(Ok(Self {
                block: get_at(entry, 0, ByteOrder::NATIVE),
                bookmark: Bookmark {
                    level,
                    block,
                    ..self.bookmark
                },
                ..*self
            }));
        }
    }

    fn object_set(
        &self,
        content: &[u8],
        visit: &mut impl FnMut(std::result::Result<Self, String>),
    ) {
        let phys = match ObjectSetPhys::decode(content) {
            Ok(phys) => phys,
            Err(error) => return visit(Err(format!("{}: {error}", self.bookmark))),
        };
        self.tree(ObjectId(0), &phys.meta_dnode, Holds::Dnodes, visit);
        let accounting = [&phys.user_used, &phys.group_used, &phys.project_used];
        for (number, dnode) in accounting.into_iter().enumerate() {
            if let Some(dnode) = dnode {
                let id = ObjectId(u64::MAX - number as u64);
                self.tree(id, dnode, Holds::Data, visit);
            }
        }
    }

    fn dnodes(&self, content: &[u8], visit: &mut impl FnMut(std::result::Result<Self, String>)) {
        let first = self.bookmark.block * (content.len() / SLOT_SIZE) as u64;
        for (index, slot) in dnode::slots(content) {
            let Slot::Allocated { .. } = slot else {
                continue;
            };
            let id = ObjectId(first + index as u64);
            match DnodePhys::decode(&content[index * SLOT_SIZE..]) {
                Ok(dnode) => self.tree(id, &dnode, Holds::Data, visit),
                Err(error) => {
                    let place = Bookmark {
                        object: id,
                        ..self.bookmark
                    };
                    visit(Err(format!("{place}: {error}")));
                }
            }
        }
    }

    /// The blocks that hang off a dnode.
    fn tree(
        &self,
        object: ObjectId,
        dnode: &DnodePhys,
        holds: Holds,
        visit: &mut impl FnMut(std::result::Result<Self, String>),
    ) {
        let level = dnode.levels as i8 - 1;
        let entries_shift = dnode.entries_shift();
        let pointers = dnode.pointers.iter().take(dnode.pointer_count.into());
        for (index, pointer) in pointers.enumerate() {
            let bookmark = Bookmark {
                object_set: self.bookmark.object_set,
                object,
                level,
                block: index as u64,
            };
            visit(Ok(Self {
                block: *pointer,
                bookmark,
                holds,
                entries_shift,
                ..*self
            }));
        }
        if let Some(spill) = dnode.spill {
            let bookmark = Bookmark {
                object_set: self.bookmark.object_set,
                object,
                level: 0,
                block: bptree::SPILL_BLOCK,
            };
            visit(Ok(Self {
                block: spill,
                bookmark,
                holds: Holds::Data,
                entries_shift,
                ..*self
            }));
        }
    }
}
