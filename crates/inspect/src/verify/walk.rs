//! Visiting every block that anything refers to, with as many threads as there are CPUs.
//!
//! One stack of blocks still to be read, last in first out, so that it stays as short as the trees
//! are high. A block is visited from the oldest dataset that refers to it: younger ones skip what
//! was born before their previous snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::{self, Role};
use base::{Bookmark, VdevId};
use format::block_pointer::{BlockPointer, Dva};
use format::bptree::FreedTo;
use format::gang;
use pipeline::{Pipeline, ReadRequest};
use vdev::IoClass;

use super::bulk::{BadCopy, Bulk, Side};
pub(crate) use super::items::{Holds, Item, Strength};
use super::space_maps::TopSpace;
use super::statistics::Statistics;
use super::tables::{ReferenceTables, References};

static WORK_CLASS: LockClass = LockClass::new("inspect.walk", rank::FRONT_END + 40);
static RESULT_CLASS: LockClass = LockClass::new("inspect.result", rank::FRONT_END + 41);

/// Gang headers nested deeper are damage.
const GANG_DEPTH_MAX: u32 = 20;

/// What a walk is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkOptions {
    /// Check the checksums of metadata.
    pub(crate) check_metadata: bool,
    /// Check the checksums of data.
    pub(crate) check_data: bool,
    /// How many threads.
    pub(crate) threads: usize,
}

/// A segment that two blocks claim.
#[derive(Clone, Debug)]
pub(crate) struct Overlap {
    pub(crate) bookmark: Bookmark,
    pub(crate) vdev: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) problem: &'static str,
}

/// What a walk found.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) statistics: Statistics,
    pub(crate) bad_copies: Vec<BadCopy>,
    pub(crate) overlaps: Vec<Overlap>,
    /// Blocks that could not be read, below which nothing was seen.
    pub(crate) unreadable: Vec<String>,
    pub(crate) bytes_checked: u64,
    pub(crate) bytes_missed: u64,
}

impl Findings {
    fn merge(&mut self, other: Self) {
        self.statistics.merge(&other.statistics);
        self.bad_copies.extend(other.bad_copies);
        self.overlaps.extend(other.overlaps);
        self.unreadable.extend(other.unreadable);
        self.bytes_checked += other.bytes_checked;
        self.bytes_missed += other.bytes_missed;
    }
}

struct Work {
    stack: Vec<Item>,
    busy: usize,
}

/// A walk over a pool.
pub(crate) struct Walk<'a> {
    pipeline: &'a Arc<Pipeline>,
    tops: &'a [TopSpace],
    sides: &'a [Side],
    tables: &'a ReferenceTables,
    options: WalkOptions,
    work: Mutex<Work>,
    changed: Condvar,
    /// Bytes of copies that were checked so far.
    done: AtomicU64,
    findings: Mutex<Findings>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        pipeline: &'a Arc<Pipeline>,
        tops: &'a [TopSpace],
        sides: &'a [Side],
        tables: &'a ReferenceTables,
        options: WalkOptions,
    ) -> Self {
        Self {
            pipeline,
            tops,
            sides,
            tables,
            options,
            work: Mutex::new(
                &WORK_CLASS,
                Work {
                    stack: Vec::new(),
                    busy: 0,
                },
            ),
            changed: Condvar::new(),
            done: AtomicU64::new(0),
            findings: Mutex::new(&RESULT_CLASS, Findings::default()),
        }
    }

    /// How many bytes of copies were checked so far; what each thread has under way is not in it.
    pub(crate) const fn bytes_done(&self) -> &AtomicU64 {
        &self.done
    }

    /// Visits everything below `items`.
    pub(crate) fn run(&self, items: Vec<Item>) {
        self.work.lock().stack.extend(items);
        thread::scope(|scope| {
            for _ in 1..self.options.threads.max(1) {
                // A thread that cannot be started is work that the others do.
                let _ = thread::named("verify", Role::PART).spawn_scoped(scope, || self.serve());
            }
            self.serve();
        });
    }

    /// Visits single blocks that belong to no tree (lists of blocks to free, log blocks).
    pub(crate) fn visit_alone(&self, blocks: &[BlockPointer], strength: Strength) {
        let mut worker = Worker::new(self);
        for block in blocks {
            worker.count(&Item::alone(*block, strength));
        }
        self.findings.lock().merge(worker.finish());
    }

    pub(crate) fn into_findings(self) -> Findings {
        self.findings.into_inner()
    }

    /// Whether a block's space is allocated and nobody refers to it yet; of one on a removed vdev, where it is now.
    fn is_unclaimed(&self, block: &BlockPointer) -> bool {
        let Some((vdev, offset)) = block.dva(0).and_then(|dva| self.now_at(&dva)) else {
            return false;
        };
        let Some(top) = self.tops.iter().find(|top| top.id == vdev.0) else {
            return false;
        };
        let sector = 1 << top.ashift;
        top.allocated.count_in(offset, sector) == 1 && top.referenced.count_in(offset, sector) == 0
    }

    /// Where the first sector of a place lies; none if its vdev was removed and the mapping lacks it.
    fn now_at(&self, dva: &Dva) -> Option<(VdevId, u64)> {
        let vdevs = self.pipeline.vdevs();
        let sector = 1 << vdevs.top(dva.vdev).ok()?.ashift();
        let sector = dva.offset..dva.offset.saturating_add(sector);
        let moved = vdevs.moved(dva.vdev, sector).ok()?;
        let place = moved.places.first()?;
        Some((place.vdev, place.range.start))
    }

    fn serve(&self) {
        let mut worker = Worker::new(self);
        while let Some(item) = self.next() {
            worker.visit(&item);
            let mut work = self.work.lock();
            work.stack.append(&mut worker.children);
            work.busy -= 1;
            drop(work);
            self.changed.notify_all();
        }
        self.findings.lock().merge(worker.finish());
    }

    fn next(&self) -> Option<Item> {
        let mut work = self.work.lock();
        loop {
            if let Some(item) = work.stack.pop() {
                work.busy += 1;
                return Some(item);
            }
            if work.busy == 0 {
                return None;
            }
            self.changed.wait(&mut work);
        }
    }
}

struct Worker<'a> {
    walk: &'a Walk<'a>,
    children: Vec<Item>,
    bulk: Bulk<'a>,
    findings: Findings,
    /// Checked bytes that the walk was told of.
    told: u64,
}

impl<'a> Worker<'a> {
    fn new(walk: &'a Walk<'a>) -> Self {
        Self {
            walk,
            children: Vec::new(),
            bulk: Bulk::new(walk.pipeline, walk.sides),
            findings: Findings::default(),
            told: 0,
        }
    }

    fn finish(mut self) -> Findings {
        self.bulk.flush();
        self.findings.bad_copies.append(&mut self.bulk.bad);
        self.findings.bytes_checked += self.bulk.bytes_checked;
        self.findings.bytes_missed += self.bulk.bytes_missed;
        self.findings
    }

    /// Counts a block and, if it leads further, reads it and takes on what it leads to.
    fn visit(&mut self, item: &Item) {
        let counted = self.count(item);
        let checked = self.bulk.bytes_checked;
        if checked != self.told {
            self.walk
                .done
                .fetch_add(checked - self.told, Ordering::Relaxed);
            self.told = checked;
        }
        if !counted || !item.is_read() {
            return;
        }
        let content = match item.read(self.walk.pipeline) {
            Ok(content) => content,
            Err(error) => {
                // Space being freed may be gone already.
                if item.strength == Strength::Firm {
                    self.findings.unreadable.push(error.to_string());
                }
                return;
            }
        };
        item.for_each_child(&content, &mut |child| match child {
            Ok(child) => self.take_on(child),
            Err(error) => self.findings.unreadable.push(error),
        });
    }

    /// Takes on a child: counted here if it leads no further, else left for any thread.
    fn take_on(&mut self, child: Item) {
        let is_old = child.block.is_hole() || child.block.space_birth() <= child.younger_than;
        if is_old || child.freed() == FreedTo::All {
            return;
        }
        if child.is_read() {
            self.children.push(child);
        } else {
            self.count(&child);
        }
    }

    /// Counts a block, claims its space and has its checksum checked. False when it does not
    /// count: a hole, or too old.
    fn count(&mut self, item: &Item) -> bool {
        let block = &item.block;
        if block.is_hole() || block.space_birth() <= item.younger_than {
            return false;
        }
        let block = &match block.is_dedup() {
            true => self.whole(block),
            false => *block,
        };
        let statistics = &mut self.findings.statistics;
        if block.is_embedded() {
            statistics.count_embedded(block);
            return true;
        }
        if item.strength == Strength::Firm {
            statistics.count(block);
        } else if self.walk.is_unclaimed(block) {
            statistics.count_pending(block);
        } else {
            self.references_of(block)
                .inspect(|references| references.count_pending());
            return false;
        }
        let first = self.is_first_reference(block);
        if !first {
            self.findings.statistics.count_shared(block);
            return true;
        }
        let is_data = item.bookmark.level == 0
            && item.holds == Holds::Data
            && !block.object_type().is_metadata();
        let wanted = if is_data {
            self.walk.options.check_data
        } else {
            self.walk.options.check_metadata
        };
        // Lists of blocks to free keep no checksums.
        self.claim(block, item, wanted && item.strength == Strength::Firm, 0);
        true
    }

    fn is_first_reference(&self, block: &BlockPointer) -> bool {
        self.references_of(block).is_none_or(References::count)
    }

    fn whole(&self, block: &BlockPointer) -> BlockPointer {
        let known = self.references_of(block);
        known.map_or(*block, |references| references.whole(block))
    }

    /// What a table has of a block.
    fn references_of(&self, block: &BlockPointer) -> Option<&References> {
        let dva = block.dva(0)?;
        let tables = self.walk.tables;
        let table = if block.is_dedup() {
            &tables.dedup
        } else {
            &tables.clones
        };
        table.get(&(dva.vdev.0, dva.offset))
    }

    fn claim(&mut self, block: &BlockPointer, item: &Item, check: bool, depth: u32) {
        if !block.is_gang() {
            for dva in block.dvas() {
                self.claim_range(dva.vdev.0, dva.offset, dva.asize, item);
            }
            if check {
                self.bulk.add_block(block, item.bookmark);
            }
            return;
        }
        for dva in block.dvas() {
            let Ok(top) = self.walk.pipeline.vdevs().top(dva.vdev) else {
                continue;
            };
            // However long the header is: no longer than the smallest allocation.
            let asize = top.allocated_size(gang::SIZE as u64, block.physical_birth());
            self.claim_range(dva.vdev.0, dva.offset, asize, item);
        }
        let request = ReadRequest::new(item.bookmark)
            .in_class(IoClass::Scan)
            .speculative();
        match self.walk.pipeline.gang_header(block, &request) {
            Ok(header) if depth < GANG_DEPTH_MAX => {
                if check {
                    self.bulk.add_gang_header(block, item.bookmark);
                }
                for member in header.used() {
                    self.claim(member, item, check, depth + 1);
                }
            }
            Ok(_) => {
                let problem = format!("{}: gang headers nested too deeply", item.bookmark);
                self.findings.unreadable.push(problem);
            }
            Err(error) if item.strength == Strength::Firm => {
                self.findings.unreadable.push(error.to_string());
            }
            Err(_) => {}
        }
    }

    fn claim_range(&mut self, vdev: u64, offset: u64, length: u64, item: &Item) {
        let vdevs = self.walk.pipeline.vdevs();
        let moved = vdevs.top(VdevId(vdev)).ok().filter(|top| top.is_indirect());
        let moved = moved.map(|top| vdevs.moved(top.id(), offset..offset.saturating_add(length)));
        let is_lost = match moved {
            Some(Ok(moved)) => {
                for place in moved.places {
                    let length = place.range.end - place.range.start;
                    self.claim_range(place.vdev.0, place.range.start, length, item);
                }
                return;
            }
            Some(Err(_)) => true,
            None => false,
        };
        let mut overlap = |problem| {
            let bookmark = item.bookmark;
            let overlap = Overlap {
                bookmark,
                vdev,
                offset,
                length,
                problem,
            };
            self.findings.overlaps.push(overlap);
        };
        if is_lost {
            return overlap("not in the mapping of its vdev, which was removed");
        }
        let Some(top) = self.walk.tops.iter().find(|top| top.id == vdev) else {
            return overlap("on a vdev that does not exist");
        };
        if item.strength == Strength::Pending {
            let there = top.allocated.count_in(offset, length) << top.ashift;
            if there == length && top.referenced.count_in(offset, length) == 0 {
                let _in_place = top.referenced.insert(offset, length);
            }
            return;
        }
        match top.referenced.insert(offset, length) {
            Ok(0) => {}
            Ok(_) => overlap("referred to twice"),
            Err(_) => overlap("outside of its vdev or not in whole sectors"),
        }
    }
}
