//! The walk over every block of an object set, in an order in which it can be left and resumed.
//!
//! A place is a key; keys grow along the walk. A subtree that lies wholly before the place to
//! resume at is not read again; a block before it is not looked at again.

use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use dmu::raw;
use format::block_pointer::{self, BlockPointer};
use format::dnode::{SLOTS_PER_BLOCK, Slot, slots};
use format::{DnodePhys, ObjectSetPhys, ObjectType};
use pipeline::{Pipeline, ReadRequest};
use txg::TXGS_UNDER_WAY;
use vdev::IoClass;

use super::ahead::Ahead;

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
    /// After everything.
    pub(super) const LAST: Self = Self {
        dnodes: u64::MAX,
        inside: u8::MAX,
        object: u64::MAX,
        start: u64::MAX,
        depth: u8::MAX,
    };

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

impl Births {
    /// Whether nothing below a block counts.
    pub(super) fn is_old(&self, block: &BlockPointer) -> bool {
        block.is_hole() || block.space_birth() <= self.tree_after
    }

    /// Whether a block counts.
    fn count(&self, block: &BlockPointer) -> bool {
        let birth = block.physical_birth();
        birth > self.after && birth <= self.until
    }
}

/// Collects blocks until there are enough.
pub(crate) struct Walk<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) set: ObjectSetId,
    pub(crate) births: Births,
    /// Up to here all is on disk, and stays as it is while the walk lasts. Younger blocks a sync may be rewriting.
    pub(crate) settled: Txg,
    /// Where to begin, and after the walk where to go on.
    pub(crate) place: Place,
    pub(crate) found: Vec<Found>,
    pub(crate) found_max: usize,
    /// Indirect and dnode blocks that could not be read: what is below them was not seen.
    pub(crate) unreadable: u64,
    /// The youngest of these: what is below is not younger.
    pub(crate) unseen_through: Txg,
    /// A younger block could not be read: the walk is to be done again.
    pub(crate) met_rewriting: bool,
    /// Blocks that were read ahead. Where the next one is not among them, the walk stops, for more to be read ahead.
    pub(crate) ahead: Option<&'a Ahead>,
    /// Whether it has stopped for that.
    pub(crate) wants_more: bool,
}

/// Whether the walk goes on or has collected enough.
#[derive(PartialEq, Eq)]
enum Step {
    On,
    Enough,
}

/// Whether a sync may be writing a block again where it is, and who cannot read it is to try once more: it came after
/// the state that is held, with a txg that can be under way. A pointer with a txg that is still to come is wrong, and
/// stays so.
pub(super) fn may_be_rewritten(block: &BlockPointer, held: Txg) -> bool {
    let birth = block.physical_birth();
    birth > held && birth.0 <= held.0.saturating_add(TXGS_UNDER_WAY)
}

/// The tree of one dnode.
#[derive(Clone, Copy)]
struct Tree {
    dnodes: u64,
    object: u64,
    /// Whether it is the tree of the blocks of dnodes themselves.
    is_meta: bool,
    /// Levels of data blocks per pointer, as a shift.
    shift: u32,
}

impl Tree {
    fn meta(dnode: &DnodePhys) -> Self {
        Self {
            dnodes: 0,
            object: 0,
            is_meta: true,
            shift: shift_of(dnode),
        }
    }

    fn of(dnode: &DnodePhys, dnodes: u64, object: u64) -> Self {
        Self {
            dnodes,
            object,
            is_meta: false,
            shift: shift_of(dnode),
        }
    }

    fn place(&self, start: u64, depth: u8) -> Place {
        if self.is_meta {
            return Place {
                dnodes: start,
                depth,
                ..Place::default()
            };
        }
        Place {
            dnodes: self.dnodes,
            inside: 1,
            object: self.object,
            start,
            depth,
        }
    }
}

/// A pointer at some level of a dnode's tree.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) pointer: BlockPointer,
    tree: Tree,
    level: u8,
    block: u64,
}

impl Node {
    /// The first data block below the pointer number `block` of its level.
    fn first_below(&self, block: u64) -> u64 {
        let span = u32::from(self.level) * self.tree.shift;
        block.checked_shl(span).unwrap_or(u64::MAX)
    }

    /// Its own place.
    pub(super) fn place(&self) -> Place {
        let depth = LEVEL_MAX.saturating_sub(self.level).max(1);
        self.tree.place(self.first_below(self.block), depth)
    }

    /// The place after all that is below it.
    pub(super) fn end(&self) -> Place {
        let next = self.block.saturating_add(1);
        self.tree.place(self.first_below(next), 0)
    }

    /// Whether the walk reads it: pointers or dnodes are in it.
    pub(super) const fn is_read(&self) -> bool {
        self.level > 0 || self.tree.is_meta
    }

    /// Whether the walk reads what is below it.
    pub(super) const fn has_read_below(&self) -> bool {
        self.level > 1 || self.tree.is_meta
    }

    /// What the pointers in it point to; nothing for one that makes no sense.
    fn children(self, data: &[u8]) -> impl Iterator<Item = Option<Self>> {
        let below = raw::pointers(data).enumerate();
        below.map(move |(index, pointer)| {
            Some(Self {
                pointer: pointer?,
                level: self.level - 1,
                block: (self.block << self.tree.shift) + index as u64,
                ..self
            })
        })
    }

    /// What the walk reads below it, in the order of the walk.
    pub(super) fn read_below(&self, data: &[u8]) -> Vec<Self> {
        if self.level > 0 {
            return self.children(data).flatten().collect();
        }
        let dnodes = dnodes(data, self.block).flatten();
        let below = dnodes.flat_map(|(object, dnode)| {
            let tree = Tree::of(&dnode, self.block, object);
            tops(tree, &dnode).filter(Self::is_read).collect::<Vec<_>>()
        });
        below.collect()
    }
}

/// The pointers of a dnode.
fn tops(tree: Tree, dnode: &DnodePhys) -> impl Iterator<Item = Node> {
    let level = dnode.levels.saturating_sub(1);
    let pointers = used(dnode).iter().enumerate();
    pointers.map(move |(index, pointer)| Node {
        pointer: *pointer,
        tree,
        level,
        block: index as u64,
    })
}

/// What the walk reads below the root of an object set, in the order of the walk.
pub(super) fn read_below_root(data: &[u8]) -> Vec<Node> {
    let Ok(phys) = raw::root(data) else {
        return Vec::new();
    };
    let mut below: Vec<Node> = tops(Tree::meta(&phys.meta_dnode), &phys.meta_dnode).collect();
    for (object, dnode) in accounting(&phys) {
        let tree = Tree::of(dnode, ACCOUNTING, object);
        below.extend(tops(tree, dnode).filter(Node::is_read));
    }
    below
}

/// The accounting objects, with their numbers in places.
fn accounting(phys: &ObjectSetPhys) -> impl Iterator<Item = (u64, &DnodePhys)> {
    let all = [&phys.user_used, &phys.group_used, &phys.project_used];
    let numbered = all.into_iter().enumerate();
    numbered.filter_map(|(index, dnode)| Some((FIRST_ACCOUNTING + index as u64, dnode.as_ref()?)))
}

/// The dnodes in a block of them, with their objects; nothing for one that makes no sense.
fn dnodes(data: &[u8], block: u64) -> impl Iterator<Item = Option<(u64, DnodePhys)>> {
    let taken = slots(data).filter(|(_, slot)| *slot != Slot::Free);
    let decoded = taken.map(move |(index, _)| {
        let dnode = raw::dnode(data, index).ok()?;
        Some((block * SLOTS_PER_BLOCK as u64 + index as u64, dnode))
    });
    decoded.filter(|found| {
        found
            .as_ref()
            .is_none_or(|(_, dnode)| dnode.object_type != ObjectType::NONE)
    })
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

    /// Whether the walk stops at a block that it is to read, because that was not read ahead. It goes on at blocks that
    /// it was at before.
    fn stops_at(&mut self, block: &BlockPointer, at: Place) -> bool {
        let is_missing = |ahead: &&Ahead| ahead.is_worth_filling(self.pipeline, block, at);
        let stops = at >= self.place && self.ahead.filter(is_missing).is_some();
        if stops {
            self.place = at;
            self.wants_more = true;
        }
        stops
    }

    fn read(&mut self, block: &BlockPointer, bookmark: Bookmark) -> Option<sys::Buffer> {
        let ahead = self.ahead.and_then(|ahead| ahead.get(self.pipeline, block));
        if ahead.is_some() {
            return ahead;
        }
        let mut request = ReadRequest::new(bookmark)
            .in_class(IoClass::Scan)
            .for_structure()
            .speculative();
        let may_be_rewritten = may_be_rewritten(block, self.settled);
        if may_be_rewritten {
            request = request.unpromised();
        }
        let data = self.pipeline.read(block, &request);
        if data.is_err() && !may_be_rewritten {
            self.not_seen(block);
        }
        self.met_rewriting |= data.is_err() && may_be_rewritten;
        data.ok()
    }

    /// Notes that what is below `block` is not seen.
    fn not_seen(&mut self, block: &BlockPointer) {
        self.unreadable += 1;
        self.unseen_through = self.unseen_through.max(block.space_birth());
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
        if self.births.count(block) {
            self.found.push(Found {
                block: *block,
                bookmark,
            });
        }
        Step::On
    }

    fn walk_root(&mut self, root: &BlockPointer) -> Step {
        if self.births.is_old(root) {
            return Step::On;
        }
        let bookmark = Bookmark::root(self.set);
        if self.stops_at(root, Place::default()) {
            return Step::Enough;
        }
        if self.submit(root, Place::default(), bookmark) == Step::Enough {
            return Step::Enough;
        }
        let Some(data) = self.read(root, bookmark) else {
            return Step::On;
        };
        let Ok(phys) = raw::root(&data) else {
            self.not_seen(root);
            return Step::On;
        };
        if self.walk_meta(&phys.meta_dnode) == Step::Enough {
            return Step::Enough;
        }
        for (object, dnode) in accounting(&phys) {
            if self.walk_object(dnode, ACCOUNTING, object) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_meta(&mut self, dnode: &DnodePhys) -> Step {
        for top in tops(Tree::meta(dnode), dnode) {
            if self.walk_tree(top) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_object(&mut self, dnode: &DnodePhys, dnodes: u64, object: u64) -> Step {
        for top in tops(Tree::of(dnode, dnodes, object), dnode) {
            if self.walk_tree(top) == Step::Enough {
                return Step::Enough;
            }
        }
        let Some(spill) = dnode
            .spill
            .as_ref()
            .filter(|spill| !self.births.is_old(spill))
        else {
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
    fn walk_tree(&mut self, node: Node) -> Step {
        let pointer = &node.pointer;
        if self.births.is_old(pointer) || node.end() <= self.place {
            return Step::On;
        }
        let (at, level) = (node.place(), node.level);
        if node.is_read() && self.stops_at(pointer, at) {
            return Step::Enough;
        }
        let bookmark = self.bookmark(node.tree.object, level.cast_signed(), node.block);
        if self.submit(pointer, at, bookmark) == Step::Enough {
            return Step::Enough;
        }
        if !node.is_read() {
            return Step::On;
        }
        let Some(data) = self.read(pointer, bookmark) else {
            return Step::On;
        };
        if level == 0 {
            return self.walk_dnodes(&data, node.block, pointer);
        }
        for child in node.children(&data) {
            let Some(child) = child else {
                self.not_seen(pointer);
                continue;
            };
            if self.walk_tree(child) == Step::Enough {
                return Step::Enough;
            }
        }
        Step::On
    }

    fn walk_dnodes(&mut self, data: &[u8], block: u64, pointer: &BlockPointer) -> Step {
        for found in dnodes(data, block) {
            let Some((object, dnode)) = found else {
                self.not_seen(pointer);
                continue;
            };
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

#[cfg(test)]
mod tests;
