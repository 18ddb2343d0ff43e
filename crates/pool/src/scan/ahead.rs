//! Reading ahead of the walk: blocks of pointers and of dnodes, level by level, in the order of their places.
//!
//! The walk goes through the files one after the other, and so all over the disks. Where it comes to a block that was
//! not read ahead it stops, outside of its hold the next such blocks are read for as much memory as there is, and it
//! goes on. What was read is kept as it is stored, and is verified when it is used: whatever was freed or written
//! meanwhile, and whoever had a copy, it is the block, or it is read again by the walk itself.
//!
//! Metadata has several copies, each kind of which the allocator puts into a metaslab of its own; but other builds and
//! other implementations put the first ones among the data. Those are read that lie closest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::thread::{self, Role};
use base::{Bookmark, Txg, VdevId};
use format::BlockPointer;
use format::block_pointer::DVA_COUNT;
use pipeline::{Pipeline, ReadRequest};
use sys::Buffer;
use vdev::{IoClass, Leaf, Top, VdevTree};

use super::pending::Limits;
use super::walk::{Births, Node, Place, read_below_root};
use crate::tunables::{SCAN_AHEAD_BYTES, SCAN_READERS};

static GOT: LockClass = LockClass::new("pool.scan_got", rank::LAST - 52);

/// What a block takes in memory besides its bytes.
const ENTRY_BYTES: u64 = 256;

/// Which block it is: no two have the same.
type Key = (VdevId, u64, Txg);

fn key(block: &BlockPointer) -> Option<Key> {
    let dva = block.dva(0)?;
    Some((dva.vdev, dva.offset, block.physical_birth()))
}

/// A block that was read.
struct Held {
    /// As it is stored; nothing if no copy could be read.
    stored: Option<Buffer>,
    /// Where it is in the walk, and where all that is below it ends.
    place: Place,
    end: Place,
}

impl Held {
    fn bytes(&self) -> u64 {
        let stored = self.stored.as_ref().map_or(0, |stored| stored.len());
        stored as u64 + ENTRY_BYTES
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ahead {
    held: HashMap<Key, Held>,
    bytes: u64,
    /// Which object set it is about.
    epoch: Option<u64>,
    /// Where the walk was when it was filled.
    filled_at: Option<Place>,
    /// Where the walk has stopped for more.
    pub(super) wanted_at: Option<Place>,
}

/// A block to be read.
#[derive(Clone, Copy)]
struct Wanted {
    block: BlockPointer,
    place: Place,
    end: Place,
}

/// What it reads from.
pub(super) struct Source<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) vdevs: &'a VdevTree,
    pub(super) births: Births,
    /// Whether the scan is to go on.
    pub(super) goes_on: &'a (dyn Fn() -> bool + Sync),
}

impl Ahead {
    /// What is held is about the object set of `epoch`, or is let go.
    pub(super) fn about(&mut self, epoch: u64) {
        if self.epoch != Some(epoch) {
            *self = Self {
                epoch: Some(epoch),
                ..Self::default()
            };
        }
    }

    /// The content of a block that was read ahead.
    pub(super) fn get(&self, pipeline: &Pipeline, block: &BlockPointer) -> Option<Buffer> {
        let held = self.held.get(&key(block)?)?;
        pipeline.content(block, held.stored.clone()?)
    }

    /// Whether the walk, which is to read `block` at `at`, is to stop for more to be read ahead.
    pub(super) fn is_worth_filling(
        &self,
        pipeline: &Pipeline,
        block: &BlockPointer,
        at: Place,
    ) -> bool {
        SCAN_AHEAD_BYTES.get() > 0 && self.filled_at != Some(at) && self.lacks(pipeline, block)
    }

    /// Whether a block can be read ahead and is not here, nor in the cache.
    fn lacks(&self, pipeline: &Pipeline, block: &BlockPointer) -> bool {
        let can_be = !block.is_hole() && !block.is_embedded() && !block.is_gang();
        let key = key(block).filter(|_| can_be);
        key.is_some_and(|key| !self.held.contains_key(&key)) && !pipeline.is_cached(block)
    }

    /// Reads what the walk reads from `from` on, under the root of an object set.
    pub(super) fn fill(&mut self, source: &Source<'_>, root: &BlockPointer, from: Place) {
        self.filled_at = Some(from);
        self.let_go_before(from);
        if source.births.is_old(root) {
            return;
        }
        let whole = Wanted {
            block: *root,
            place: Place::default(),
            end: Place::LAST,
        };
        if self.lacks(source.pipeline, root) {
            self.bring(source, &[whole]);
        }
        let Some(data) = self.content(source, root) else {
            return;
        };
        let mut level = Level::new(self, source, from);
        level.extend(read_below_root(&data));
        let mut nodes = level.end();
        while !nodes.is_empty() && (source.goes_on)() {
            let lacking = nodes
                .iter()
                .filter(|node| self.lacks(source.pipeline, &node.pointer));
            let wanted: Vec<Wanted> = lacking.map(Wanted::of).collect();
            self.bring(source, &wanted);
            let mut level = Level::new(self, source, from);
            for node in nodes.iter().filter(|node| node.has_read_below()) {
                let data = self.content(source, &node.pointer);
                let below = data.map(|data| node.read_below(&data));
                if !level.extend(below.unwrap_or_default()) {
                    break;
                }
            }
            nodes = level.end();
        }
    }

    fn let_go_before(&mut self, from: Place) {
        /// If less than such a part is free, what comes later goes as well.
        const FREE_SHARE: u64 = 4;
        self.held.retain(|_, held| held.end > from);
        let limit = SCAN_AHEAD_BYTES.get();
        let bytes = |ahead: &Self| ahead.held.values().map(Held::bytes).sum();
        self.bytes = bytes(self);
        if self.bytes > limit - limit / FREE_SHARE {
            self.held.retain(|_, held| held.place <= from);
            self.bytes = bytes(self);
        }
    }

    /// A block that was read ahead, or is in the cache.
    fn content(&self, source: &Source<'_>, block: &BlockPointer) -> Option<Buffer> {
        let pipeline = source.pipeline;
        if let Some(data) = self.get(pipeline, block) {
            return Some(data);
        }
        let is_elsewhere = block.is_gang() || block.is_embedded() || pipeline.is_cached(block);
        let request = ReadRequest::new(Bookmark::default())
            .in_class(IoClass::Scan)
            .for_structure()
            .speculative();
        is_elsewhere.then(|| pipeline.read(block, &request).ok())?
    }

    /// Reads blocks, from the copies that lie closest; what these do not have from the others.
    fn bring(&mut self, source: &Source<'_>, wanted: &[Wanted]) {
        let mut left: Vec<usize> = (0..wanted.len()).collect();
        for copy in copies_by_cost(wanted) {
            if left.is_empty() || !(source.goes_on)() {
                break;
            }
            for (index, stored) in read(source, wanted, plan(wanted, &left, copy)) {
                self.hold(&wanted[index], Some(stored));
            }
            left.retain(|index| self.lacks(source.pipeline, &wanted[*index].block));
        }
        if (source.goes_on)() {
            // The walk reads them itself.
            left.iter()
                .for_each(|index| self.hold(&wanted[*index], None));
        }
    }

    fn hold(&mut self, wanted: &Wanted, stored: Option<Buffer>) {
        let Some(key) = key(&wanted.block) else {
            return;
        };
        let held = Held {
            stored,
            place: wanted.place,
            end: wanted.end,
        };
        self.bytes += held.bytes();
        if let Some(before) = self.held.insert(key, held) {
            self.bytes -= before.bytes();
        }
    }
}

/// What is read next, in the order of the walk: as much as there is room for, but for that of the levels below it.
struct Level<'a> {
    ahead: &'a Ahead,
    source: &'a Source<'a>,
    from: Place,
    nodes: Vec<Node>,
    /// What those take that are not here.
    bytes: u64,
}

impl<'a> Level<'a> {
    const fn new(ahead: &'a Ahead, source: &'a Source<'a>, from: Place) -> Self {
        Self {
            ahead,
            source,
            from,
            nodes: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds what is below one block; whether there is room for more. The first one always has.
    fn extend(&mut self, below: Vec<Node>) -> bool {
        let max = SCAN_AHEAD_BYTES.get().saturating_sub(self.ahead.bytes);
        for node in below {
            if self.source.births.is_old(&node.pointer) || node.end() <= self.from {
                continue;
            }
            if self.ahead.lacks(self.source.pipeline, &node.pointer) {
                self.bytes += node.pointer.psize() + ENTRY_BYTES;
            }
            let share = if node.has_read_below() { 2 } else { 1 };
            if self.bytes > max / share && !self.nodes.is_empty() {
                return false;
            }
            self.nodes.push(node);
        }
        true
    }

    fn end(self) -> Vec<Node> {
        self.nodes
    }
}

impl Wanted {
    fn of(node: &Node) -> Self {
        Self {
            block: node.pointer,
            place: node.place(),
            end: node.end(),
        }
    }
}

/// Blocks that are read with one operation.
struct Run {
    vdev: VdevId,
    start: u64,
    end: u64,
    useful: u64,
    /// Which, and where they begin.
    blocks: Vec<(usize, u64)>,
}

/// The copies from those that take the fewest operations to those that take the most.
fn copies_by_cost(wanted: &[Wanted]) -> Vec<usize> {
    let copies = wanted.iter().map(|wanted| wanted.block.dvas().count());
    let copies = copies.max().unwrap_or(0).min(DVA_COUNT);
    let all: Vec<usize> = (0..wanted.len()).collect();
    let mut order: Vec<usize> = (0..copies).collect();
    order.sort_by_cached_key(|copy| plan(wanted, &all, *copy).len());
    order
}

/// How some of the blocks are read from one of their copies, in the order of places.
fn plan(wanted: &[Wanted], which: &[usize], copy: usize) -> Vec<Run> {
    let places = which.iter().filter_map(|index| {
        let block = &wanted[*index].block;
        let dva = block.dvas().take(copy + 1).last()?;
        Some((dva.vdev, dva.offset, block.psize(), *index))
    });
    let mut places: Vec<_> = places.collect();
    places.sort_unstable_by_key(|(vdev, offset, ..)| (*vdev, *offset));
    let limits = Limits::now();
    let mut runs: Vec<Run> = Vec::new();
    for (vdev, offset, bytes, index) in places {
        let end = offset.saturating_add(bytes);
        if let Some(run) = runs.last_mut().filter(|run| run.vdev == vdev) {
            let gap = offset.saturating_sub(run.end);
            if limits.fit(gap, end.saturating_sub(run.start), run.useful + bytes) {
                run.end = run.end.max(end);
                run.useful += bytes;
                run.blocks.push((index, offset));
                continue;
            }
        }
        // What is between, if little, is read along: a disk would have to seek.
        let before = runs.last().filter(|run| run.vdev == vdev);
        let before = before.map_or(0, |run| run.end);
        let gap = offset.saturating_sub(before);
        let start = if limits.fit(gap, end.saturating_sub(before), bytes) {
            before.min(offset)
        } else {
            offset
        };
        runs.push(Run {
            vdev,
            start,
            end,
            useful: bytes,
            blocks: vec![(index, offset)],
        });
    }
    runs
}

/// Reads runs, all devices at once, each in the order of places; the sides of a mirror have a part each.
fn read(source: &Source<'_>, wanted: &[Wanted], runs: Vec<Run>) -> Vec<(usize, Buffer)> {
    let got = Mutex::new(&GOT, Vec::new());
    let mut by_vdev: HashMap<VdevId, Vec<Run>> = HashMap::new();
    for run in runs {
        by_vdev.entry(run.vdev).or_default().push(run);
    }
    let mut parts: Vec<Part> = Vec::new();
    for (vdev, runs) in by_vdev {
        let Ok(top) = source.vdevs.top(vdev) else {
            continue;
        };
        let leaves = top.leaves().iter().filter(|leaf| leaf.is_readable());
        let sides: Vec<Arc<Leaf>> = leaves.cloned().collect();
        let each = runs.len().div_ceil(sides.len().max(1));
        let mut runs = runs.into_iter();
        for side in 0..sides.len() {
            let mut sides = sides.clone();
            sides.rotate_left(side);
            parts.push(Part {
                top: Arc::clone(&top),
                sides,
                runs: runs.by_ref().take(each).collect(),
                next: AtomicUsize::new(0),
            });
        }
    }
    thread::scope(|scope| {
        for part in &parts {
            let got = &got;
            for _ in 0..SCAN_READERS.count().min(part.runs.len()) {
                // Without any thread nothing is read ahead.
                let _ = thread::named("pool-scan-ahead", Role::PART)
                    .spawn_scoped(scope, move || part.serve(source, wanted, got));
            }
        }
    });
    got.into_inner()
}

/// What one side of a vdev reads.
struct Part {
    top: Arc<Top>,
    /// This one, and those that are asked when it has not what is wanted.
    sides: Vec<Arc<Leaf>>,
    runs: Vec<Run>,
    next: AtomicUsize,
}

impl Part {
    fn serve(&self, source: &Source<'_>, wanted: &[Wanted], got: &Mutex<Vec<(usize, Buffer)>>) {
        while (source.goes_on)() {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = self.runs.get(next) else {
                return;
            };
            let found = self.read(source.pipeline, wanted, run);
            got.lock().extend(found);
        }
    }

    /// The blocks of a run, as far as some side has them.
    fn read(&self, pipeline: &Pipeline, wanted: &[Wanted], run: &Run) -> Vec<(usize, Buffer)> {
        let mut found: Vec<(usize, Buffer)> = Vec::new();
        let length = usize::try_from(run.end - run.start).unwrap_or(usize::MAX);
        for side in &self.sides {
            let is_there = |index: usize| {
                let block = &wanted[index].block;
                !side.misses(block.physical_birth())
            };
            let lacking = |found: &[(usize, Buffer)], index: usize| {
                !found.iter().any(|(found, _)| *found == index) && is_there(index)
            };
            if !run.blocks.iter().any(|(index, _)| lacking(&found, *index)) {
                continue;
            }
            let Ok(data) = self.top.read_side(side, run.start, length) else {
                continue;
            };
            for (index, offset) in &run.blocks {
                let block = &wanted[*index].block;
                let at = usize::try_from(offset - run.start).unwrap_or(usize::MAX);
                let bytes = usize::try_from(block.psize()).unwrap_or(usize::MAX);
                let piece = at.checked_add(bytes).and_then(|end| data.get(at..end));
                let right = piece.filter(|piece| pipeline.verify(block, piece));
                if let Some(piece) = right.filter(|_| lacking(&found, *index)) {
                    // A copy: the rest of what was read is let go.
                    found.push((*index, Buffer::from_slice(piece)));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
