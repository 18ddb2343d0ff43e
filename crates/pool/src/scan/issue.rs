//! Looking at what a scan has found: each device is read from its beginning to its end, every side of a mirror at once,
//! several operations ahead of the one whose bytes are verified.
//!
//! Where a block lies on several devices, blocks are looked at one by one, several at once.
//!
//! The sides of a mirror take the same runs of blocks, each at its own pace, the fastest a few runs ahead. The last
//! side that is done with a run gives the blocks to the sides that lack them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::VdevId;
use base::clock::real_now;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::{self, Role};
use pipeline::Scrubbed;
use sys::Buffer;
use vdev::{BlockRange, Lacking, Leaf, Top, Verdict};

use super::pending::{PendingBlocks, PendingCopy};
use crate::pool::Pool;
use crate::tunables::{SCAN_READERS, SCAN_RUNS_AHEAD, SCAN_SLICE_MS, SCAN_STRIPE_READERS};

static SWEEP: LockClass = LockClass::new("pool.scan_sweep", rank::POOL + 25);
static RUN: LockClass = LockClass::new("pool.scan_run", rank::LAST - 51);
static SUM: LockClass = LockClass::new("pool.scan_sum", rank::LAST - 50);

/// Looks at pending blocks for a while.
pub(super) fn slice(pool: &Pool, pending: &PendingBlocks) -> Scrubbed {
    let sum = Mutex::new(&SUM, Scrubbed::default());
    let Some(writer) = &pool.writer else {
        return Scrubbed::default();
    };
    let _hold = writer.syncer.gate.hold(|| writer.syncer.last.get().txg);
    let deadline = real_now() + Duration::from_millis(SCAN_SLICE_MS.get());
    let vdevs = pending.vdevs().into_iter();
    let sweeps: Vec<Sweep<'_>> = vdevs
        .map(|vdev| Sweep::new(pool, pending, vdev, deadline))
        .collect();
    thread::scope(|scope| {
        for sweep in &sweeps {
            let sum = &sum;
            let mut served = vec![false; sweep.sides.len()];
            for (side, served) in served.iter_mut().enumerate() {
                for _ in 0..SCAN_READERS.get() {
                    let thread = thread::named("pool-scan-read", Role::PART)
                        .spawn_scoped(scope, move || sweep.serve(side, sum));
                    *served |= thread.is_ok();
                }
            }
            for _ in 0..sweep.stripe_readers() {
                // Without any the blocks are looked at below.
                let _ = thread::named("pool-scan-read", Role::PART)
                    .spawn_scoped(scope, move || sweep.one_by_one(sum));
            }
            sweep.start(served);
        }
        for sweep in &sweeps {
            sweep.alone(&sum);
        }
    });
    sum.into_inner()
}

/// Copies that are read together, and what each side gave.
struct Run {
    /// Where to begin to read.
    start: u64,
    copies: Vec<PendingCopy>,
    state: Mutex<RunState>,
}

struct RunState {
    /// Sides that are not done.
    remaining: usize,
    results: Vec<SideResult>,
}

struct SideResult {
    side: usize,
    /// The device could not be read.
    failed: bool,
    /// Of each copy the bytes, if the side has the right ones.
    right: Vec<Option<Buffer>>,
    /// Of each copy whether the side should have had it.
    expected: Vec<bool>,
}

/// One vdev's blocks.
struct Sweep<'a> {
    pool: &'a Pool,
    pending: &'a PendingBlocks,
    vdev: VdevId,
    top: Option<Arc<Top>>,
    sides: Vec<Arc<Leaf>>,
    deadline: Instant,
    state: Mutex<SweepState>,
    changed: Condvar,
}

#[derive(Default)]
struct SweepState {
    started: bool,
    /// No more runs are taken.
    ended: bool,
    /// Which sides have readers.
    served: Vec<bool>,
    /// The runs that some side is not done with.
    window: VecDeque<Arc<Run>>,
    /// How many runs were before these.
    before: usize,
    /// Each side's next run.
    next: Vec<usize>,
}

impl<'a> Sweep<'a> {
    fn new(pool: &'a Pool, pending: &'a PendingBlocks, vdev: VdevId, deadline: Instant) -> Self {
        let top = pool.vdevs.top(vdev).ok();
        let copies = top.iter().filter(|top| top.layout().is_copies());
        let leaves = copies.flat_map(|top| top.leaves());
        let sides: Vec<_> = leaves.filter(|leaf| leaf.is_readable()).cloned().collect();
        let state = SweepState {
            next: vec![0; sides.len()],
            ..SweepState::default()
        };
        Self {
            pool,
            pending,
            vdev,
            top,
            sides,
            deadline,
            state: Mutex::new(&SWEEP, state),
            changed: Condvar::new(),
        }
    }

    /// All readers are there.
    fn start(&self, served: Vec<bool>) {
        let mut state = self.state.lock();
        state.served = served;
        state.started = true;
        self.changed.notify_all();
    }

    /// The work of a vdev without any reader.
    fn alone(&self, sum: &Mutex<Scrubbed>) {
        if !self.state.lock().served.contains(&true) {
            self.one_by_one(sum);
        }
    }

    /// How many threads look at blocks one by one: where a block lies on several devices, as many as keep all busy.
    fn stripe_readers(&self) -> usize {
        if self.top.as_ref().is_some_and(|top| top.is_indirect()) {
            return SCAN_READERS.count();
        }
        let stripes = self.top.iter().filter(|top| !top.layout().is_copies());
        let leaves: usize = stripes.map(|top| top.leaves().len()).sum();
        (leaves * SCAN_READERS.count()).min(SCAN_STRIPE_READERS.count())
    }

    /// Looks at blocks in the order of their places, each by itself.
    fn one_by_one(&self, sum: &Mutex<Scrubbed>) {
        loop {
            let (_, copies) = self.pending.take_run(self.vdev);
            if copies.is_empty() {
                return;
            }
            for copy in &copies {
                let found = self.look_again(copy);
                *sum.lock() += found;
            }
            if real_now() >= self.deadline {
                return;
            }
        }
    }

    /// A reader's part.
    fn serve(&self, side: usize, sum: &Mutex<Scrubbed>) {
        while let Some(run) = self.next(side) {
            let result = self.read(side, (run.start, &run.copies));
            let results = {
                let mut state = run.state.lock();
                state.results.push(result);
                state.remaining -= 1;
                (state.remaining == 0).then(|| std::mem::take(&mut state.results))
            };
            let Some(results) = results else { continue };
            let found = self.settle(&run.copies, &results);
            *sum.lock() += found;
            let mut state = self.state.lock();
            let is_done = |run: &Arc<Run>| run.state.lock().remaining == 0;
            while state.window.front().is_some_and(is_done) {
                state.window.pop_front();
                state.before += 1;
            }
            self.changed.notify_all();
        }
    }

    /// The next run that a side has not read.
    fn next(&self, side: usize) -> Option<Arc<Run>> {
        let mut state = self.state.lock();
        loop {
            let at = state.next[side].saturating_sub(state.before);
            if let Some(run) = state.window.get(at).cloned() {
                state.next[side] += 1;
                return Some(run);
            }
            if state.ended {
                return None;
            }
            let ahead = SCAN_RUNS_AHEAD.count() + SCAN_READERS.count();
            if !state.started || state.window.len() >= ahead {
                self.changed.wait(&mut state);
                continue;
            }
            // However late it is, a slice does something.
            let is_first = state.before == 0 && state.window.is_empty();
            let (start, copies) = if is_first || real_now() < self.deadline {
                self.pending.take_run(self.vdev)
            } else {
                (0, Vec::new())
            };
            if copies.is_empty() {
                state.ended = true;
                self.changed.notify_all();
                return None;
            }
            let remaining = state.served.iter().filter(|served| **served).count();
            let results = Vec::with_capacity(remaining);
            let run = RunState { remaining, results };
            state.window.push_back(Arc::new(Run {
                start,
                copies,
                state: Mutex::new(&RUN, run),
            }));
            self.changed.notify_all();
        }
    }

    /// Reads a run from one side and judges what it has. What it missed is not asked for: it is written anyway.
    fn read(&self, side: usize, (start, copies): (u64, &[PendingCopy])) -> SideResult {
        let leaf = &self.sides[side];
        let expected: Vec<bool> = copies
            .iter()
            .map(|copy| !leaf.misses(copy.block.physical_birth()))
            .collect();
        let mut result = SideResult {
            side,
            failed: false,
            right: vec![None; copies.len()],
            expected,
        };
        let ends = copies.iter().map(PendingCopy::end);
        let length = ends.max().unwrap_or(start).saturating_sub(start);
        let is_wanted =
            result.expected.contains(&true) && !copies.iter().any(|copy| copy.block.is_gang());
        let Some(top) = self.top.as_ref().filter(|_| is_wanted) else {
            return result;
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Ok(data) = top.read_side(leaf, start, length) else {
            result.failed = true;
            return result;
        };
        for (index, copy) in copies
            .iter()
            .enumerate()
            .filter(|(index, _)| result.expected[*index])
        {
            let at = usize::try_from(copy.dva.offset - start).unwrap_or(usize::MAX);
            let length = usize::try_from(copy.stored_bytes()).unwrap_or(usize::MAX);
            let piece = data.slice(at..at + length);
            if self.pool.pipeline.verdict(&copy.block, &piece) != Verdict::Wrong {
                result.right[index] = Some(piece);
            }
        }
        result
    }

    /// All sides have read a run: those that lack a copy get it from one that has it.
    fn settle(&self, copies: &[PendingCopy], results: &[SideResult]) -> Scrubbed {
        let mut sum = Scrubbed::default();
        for (index, copy) in copies.iter().enumerate() {
            let right = results
                .iter()
                .find_map(|result| result.right[index].as_ref());
            // What a device could not read together it may read one by one.
            let failed = |result: &SideResult| result.failed && result.expected[index];
            let is_odd = results.len() < self.sides.len() || results.iter().any(failed);
            let (Some(data), Some(top), false) = (right, &self.top, is_odd) else {
                sum += self.look_again(copy);
                continue;
            };
            sum.examined_bytes +=
                top.allocated_size(copy.stored_bytes(), copy.block.physical_birth());
            let lacking: Vec<Lacking> = results
                .iter()
                .filter(|result| result.right[index].is_none())
                .map(|result| Lacking {
                    leaf: Arc::clone(&self.sides[result.side]),
                    is_wrong: result.expected[index],
                })
                .collect();
            if lacking.is_empty() && top.leaves().len() == self.sides.len() {
                continue;
            }
            let range = BlockRange {
                offset: copy.dva.offset,
                len: data.len(),
                birth: copy.block.physical_birth(),
            };
            let repaired = top.repair_sides(&self.sides, &lacking, range, data);
            sum.repaired_bytes += (repaired.healed * data.len()) as u64;
            sum.unrepaired += repaired.unrepaired as u64;
        }
        sum
    }

    /// One copy by itself: a gang, or one that no side has.
    fn look_again(&self, copy: &PendingCopy) -> Scrubbed {
        let PendingCopy {
            block,
            bookmark,
            index,
            ..
        } = copy;
        self.pool.pipeline.scrub_copy(block, *bookmark, *index)
    }
}
