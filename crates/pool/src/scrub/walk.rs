//! The walk over every block of an object set, in an order in which it can be left and resumed.
//!
//! A place is a key; keys grow along the walk. A subtree that lies wholly before the place to
//! resume at is not read again; a block before it is not looked at again.

use base::{ObjectId, ObjectSetId, Txg};
use format::block_pointer::{self, BlockPointer};
use format::dnode::{SLOT_SIZE, SLOTS_PER_BLOCK, Slot, slots};
use format::{DnodePhys, ObjectSetPhys, ObjectType};
use pipeline::{Bookmark, Pipeline, ReadRequest};
use vdev::IoClass;

/// Indirect levels, at most: the largest level number.
const LEVEL_MAX: u8 = 31;
/// The dnode blocks of the accounting objects come after all others.
const ACCOUNTING: u64 = u64::MAX;
/// The accounting objects' numbers in places, in the order of the walk.
const FIRST_ACCOUNTING: u64 = u64::MAX - 2;

/// A place in the walk of one object set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    /// The block of dnodes.
    dnodes: u64,
    /// 0: the block of dnodes itself; 1: what its dnodes point to.
    inside: u8,
    object: u64,
    /// The first data block below.
    start: u64,
    /// How far below the top: a block comes before those below it.
    depth: u8,
}

impl Place {
    /// Object, level and block, as the pool stores them; none where only a block above others or
    /// one of the accounting objects is next: such places are not stored.
    pub(crate) fn bookmark(&self) -> Option<[u64; 3]> {
        if *self == Self::default() {
            return Some([0; 3]);
        }
        match self.inside {
            _ if self.depth != LEVEL_MAX || self.dnodes == ACCOUNTING => None,
            // Told as the beginning.
            0 if self.dnodes == 0 => None,
            0 => Some([0, 0, self.dnodes]),
            _ if self.start == u64::MAX => None,
            _ => Some([self.object, 0, self.start]),
        }
    }

    /// The place of a stored bookmark. One that is no place of a block of data begins with the
    /// object it is in, or with the object set.
    pub(crate) fn of_bookmark(object: u64, level: i64, block: u64) -> Self {
        if level < 0 || object.cast_signed() < 0 || (object, level, block) == (0, 0, 0) {
            return Self::default();
        }
        if object == 0 {
            return match level {
                0 => Self {
                    dnodes: block,
                    depth: LEVEL_MAX,
                    ..Self::default()
                },
                _ => Self::default(),
            };
        }
        let (start, depth) = if level == 0 {
            (block, LEVEL_MAX)
        } else {
            (0, 0)
        };
        Self {
            dnodes: object / SLOTS_PER_BLOCK as u64,
            inside: 1,
            object,
            start,
            depth,
        }
    }
}

/// A block that is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) block: BlockPointer,
    pub(crate) bookmark: Bookmark,
}

/// Which blocks count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Births {
    /// Trees born up to here were seen with an older dataset.
    pub(crate) tree_after: Txg,
    /// Blocks born up to here do not count.
    pub(crate) after: Txg,
    /// Blocks born later do not count.
    pub(crate) until: Txg,
}

/// Collects blocks until there are enough.
pub(crate) struct Walk<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) set: ObjectSetId,
    pub(crate) births: Births,
    /// Where to begin, and after the walk where to go on.
    pub(crate) place: Place,
    pub(crate) found: Vec<Found>,
    pub(crate) found_max: usize,
    /// Indirect and dnode blocks that could not be read: what is below them was not seen.
    pub(crate) unreadable: u64,
}

/// Whether the walk goes on or has collected enough.
#[derive(PartialEq, Eq)]
enum Step {
    On,
    Enough,
}

/// The tree of one dnode.
#[derive(Clone, Copy)]
struct Tree {
    dnodes: u64,
    inside: u8,
    object: u64,
    /// Levels of data blocks per pointer, as a shift.
    shift: u32,
}

impl Walk<'_> {
    /// Walks on from [`Walk::place`]; true when the object set is done.
    pub(crate) fn run(&mut self, root: &BlockPointer) -> bool {
        self.walk_root(root) == Step::On
    }

    fn bookmark(&self, object: u64, level: i8, block: u64) -> Bookmark {
        // Users', groups' and projects' objects are -1, -2 and -3, and are met in this order.
        let number = match object.checked_sub(FIRST_ACCOUNTING) {
            Some(index) => u64::MAX - index,
            None => object,
        };
        Bookmark {
            object_set: self.set,
            object: ObjectId(number),
            level,
            block,
        }
    }

    fn read(&mut self, block: &BlockPointer, bookmark: Bookmark) -> Option<sys::Buffer> {
        let request = ReadRequest::new(bookmark)
            .in_class(IoClass::Scan)
            .speculative();
        let data = self.pipeline.read(block, &request);
        if data.is_err() {
            self.unreadable += 1;
        }
        data.ok()
    }

    /// Collects a block, unless it was before or does not count.
    fn submit(&mut self, block: &BlockPointer, at: Place, bookmark: Bookmark) -> Step {
        if at < self.place || block.is_embedded() {
            return Step::On;
        }
        if self.found.len() >= self.found_max {
            self.place = at;
            return Step::Enough;
        }
        let birth = block.physical_birth();
        if birth > self.births.after && birth <= self.births.until {
            self.found.push(Found {
                block: *block,
                bookmark,
            });
        }
        Step::On
    }

    fn is_old(&self, block: &BlockPointer) -> bool {
        block.is_hole() || block.birth() <= self.births.tree_after
    }

    fn walk_root(&mut self, root: &BlockPointer) -> Step {
        if self.is_old(root) {
            return Step::On;
        }
        let bookmark = Bookmark::root(self.set);
        if self.submit(root, Place::default(), bookmark) == Step::Enough {
            return Step::Enough;
        }
        let Some(data) = self.read(root, bookmark) else {
            return Step::On;
        };
        let Ok(phys) = ObjectSetPhys::decode(&data) else {
            self.unreadable += 1;
            return Step::On;
        };
        if self.walk_meta(&phys.meta_dnode) == Step::Enough {
            return Step::Enough;
        }
        let accounting = [&phys.user_used, &phys.group_used, &phys.project_used];
        for (index, dnode) in accounting.into_iter().enumerate() {
            let Some(dnode) = dnode else { continue };
            let object = FIRST_ACCOUNTING + index as u64;
            if self.walk_object(dnode, ACCOUNTING, object) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_meta(&mut self, dnode: &DnodePhys) -> Step {
        let tree = Tree {
            dnodes: 0,
            inside: 0,
            object: 0,
            shift: shift_of(dnode),
        };
        for (index, pointer) in used(dnode).iter().enumerate() {
            let level = dnode.levels - 1;
            if self.walk_tree(tree, pointer, level, index as u64, true) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_object(&mut self, dnode: &DnodePhys, dnodes: u64, object: u64) -> Step {
        let tree = Tree {
            dnodes,
            inside: 1,
            object,
            shift: shift_of(dnode),
        };
        for (index, pointer) in used(dnode).iter().enumerate() {
            let level = dnode.levels - 1;
            if self.walk_tree(tree, pointer, level, index as u64, false) == Step::Enough {
                return Step::Enough;
            }
        }
        let Some(spill) = dnode.spill.as_ref().filter(|spill| !self.is_old(spill)) else {
            return Step::On;
        };
        let at = Place {
            dnodes,
            inside: 1,
            object,
            start: u64::MAX,
            depth: LEVEL_MAX,
        };
        let bookmark = self.bookmark(object, 0, u64::MAX - 1);
        self.submit(spill, at, bookmark)
    }

    /// A pointer at some level of a dnode's tree, and all that is below it.
    fn walk_tree(
        &mut self,
        tree: Tree,
        pointer: &BlockPointer,
        level: u8,
        block: u64,
        is_meta: bool,
    ) -> Step {
        let span = u32::from(level) * tree.shift;
        let start = block.checked_shl(span).unwrap_or(u64::MAX);
        let end = block
            .saturating_add(1)
            .checked_shl(span)
            .unwrap_or(u64::MAX);
        let place = |start: u64, depth: u8| {
            if is_meta {
                Place {
                    dnodes: start,
                    depth,
                    ..Place::default()
                }
            } else {
                Place {
                    dnodes: tree.dnodes,
                    inside: tree.inside,
                    object: tree.object,
                    start,
                    depth,
                }
            }
        };
        if self.is_old(pointer) || place(end, 0) <= self.place {
            return Step::On;
        }
        let at = place(start, LEVEL_MAX.saturating_sub(level).max(1));
        let bookmark = self.bookmark(tree.object, level.cast_signed(), block);
        if self.submit(pointer, at, bookmark) == Step::Enough {
            return Step::Enough;
        }
        if level == 0 && !is_meta {
            return Step::On;
        }
        let Some(data) = self.read(pointer, bookmark) else {
            return Step::On;
        };
        if level == 0 {
            return self.walk_dnodes(&data, block);
        }
        let below = data.chunks_exact(block_pointer::SIZE);
        for (index, bytes) in below.enumerate() {
            let Ok(child) = BlockPointer::decode(bytes, base::ByteOrder::NATIVE) else {
                continue;
            };
            let number = (block << tree.shift) + index as u64;
            if self.walk_tree(tree, &child, level - 1, number, is_meta) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_dnodes(&mut self, data: &[u8], block: u64) -> Step {
        for (index, slot) in slots(data) {
            if slot == Slot::Free {
                continue;
            }
            let bytes = data.get(index * SLOT_SIZE..).unwrap_or_default();
            let Ok(dnode) = DnodePhys::decode(bytes) else {
                self.unreadable += 1;
                continue;
            };
            if dnode.object_type == ObjectType::NONE {
                continue;
            }
            let object = block * SLOTS_PER_BLOCK as u64 + index as u64;
            if self.walk_object(&dnode, block, object) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }
}

/// The pointers of a dnode that are valid.
fn used(dnode: &DnodePhys) -> &[BlockPointer] {
    let count = usize::from(dnode.pointer_count).min(dnode.pointers.len());
    dnode.pointers.get(..count).unwrap_or_default()
}

/// log2 of the pointers in an indirect block.
fn shift_of(dnode: &DnodePhys) -> u32 {
    const SHIFT_MAX: u32 = 20;
    let shift = u32::from(dnode.indirect_shift).saturating_sub(block_pointer::SIZE_SHIFT);
    shift.min(SHIFT_MAX)
}
