//! The thread that trims.

use crate::tunables::TRIM_BATCH_TXGS;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use base::clock::monotonic_ns;
use base::{Guid, Txg, VdevId};
use device::DeviceError;
use space::{Extent, TrimSizes, TrimStep, Trimming};
use vdev::{Leaf, Top, VdevError};

use super::control::{Control, Trim, TrimState};
use super::kind::Kind;
use crate::pool::{Pool, Writer};

/// Ranges of fewer bytes are not worth a discard, …
///
/// Source: the documentation of OpenZFS's module parameters, `zfs_trim_extent_bytes_min`.
const RANGE_MIN: u64 = 32 << 10;
/// … and longer ones are cut into pieces (`zfs_trim_extent_bytes_max`).
const RANGE_MAX: u64 = 128 << 20;
/// With a rate, a piece is that of a second, but at least so many bytes.
const RATED_RANGE_MIN: u64 = 1 << 20;
/// So many bytes are overwritten at a time: an allocation may have to wait for that.
///
/// Source: the documentation of OpenZFS's module parameters, `zfs_initialize_chunk_size`.
const FILLED_MAX: u64 = 1 << 20;
/// What free space is overwritten with (`zfs_initialize_value`).
const FILLER_WORD: u64 = 0xdead_beef_dead_beee;
/// The same, as it is written.
static FILLER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let word = FILLER_WORD.to_ne_bytes();
    word.repeat((FILLED_MAX / 8) as usize)
});
/// How long to wait for those who hold discards off, …
const SOON: Duration = Duration::from_millis(10);
/// … and for devices or work.
const LATER: Duration = Duration::from_secs(1);

/// What comes of a step.
enum Step {
    Done,
    /// Nothing can be done for so long, unless something changes.
    Wait(Duration),
}

/// What a step is to trim.
struct Job {
    top: VdevId,
    from: u64,
    used_only: bool,
    rate: u64,
    leaves: Vec<Guid>,
}

pub(super) fn run(pool: &Weak<Pool>, trim: &Arc<Trim>) {
    let mut batch = Batch::default();
    loop {
        {
            let mut control = trim.control.lock();
            while !control.leaves_pool && !control.is_wanted() {
                trim.changed.wait(&mut control);
            }
            if control.leaves_pool {
                return;
            }
        }
        // The pool is not kept open between steps.
        let Some(pool) = pool.upgrade() else { return };
        let step = step(&pool, trim, &mut batch);
        {
            let mut control = trim.control.lock();
            control.busy = None;
        }
        trim.changed.notify_all();
        drop(pool);
        if let Step::Wait(pause) = step {
            let mut control = trim.control.lock();
            if !control.leaves_pool {
                trim.changed.wait_for(&mut control, pause);
            }
        }
    }
}

impl Control {
    fn is_wanted(&self) -> bool {
        let mut leaves = self.leaves.values();
        self.auto || leaves.any(|known| known.trim.state == TrimState::Active)
    }
}

fn step(pool: &Arc<Pool>, trim: &Trim, batch: &mut Batch) -> Step {
    let Some(writer) = &pool.writer else {
        return Step::Wait(LATER);
    };
    if pool.suspended().is_some() {
        return Step::Wait(LATER);
    }
    let asked = match next_job(pool, trim) {
        Ok(job) => return do_job(pool, trim, writer, &job),
        Err(pause) => pause,
    };
    let auto = trim.control.lock().auto;
    if !auto {
        *batch = Batch::default();
        return Step::Wait(asked);
    }
    match batch.step(pool, trim, writer) {
        Step::Wait(pause) => Step::Wait(pause.min(asked)),
        Step::Done => Step::Done,
    }
}

/// The leaves that are least far, if any may go on now; else how long that takes.
fn next_job(pool: &Pool, trim: &Trim) -> Result<Job, Duration> {
    let away: Vec<Guid> = crate::vdevs::dtl::leaves(&pool.vdevs)
        .into_iter()
        .filter(|leaf| !leaf.is_writable())
        .map(|leaf| leaf.guid())
        .collect();
    let now_ns = monotonic_ns();
    let mut control = trim.control.lock();
    let control = &mut *control;
    let mut soonest = LATER;
    let mut job: Option<Job> = None;
    for (leaf, known) in &mut control.leaves {
        known.is_away = away.contains(leaf);
        let idle = known.trim.state != TrimState::Active || known.is_away;
        if idle || control.barred.contains(&known.top) {
            continue;
        }
        if known.due_ns > now_ns {
            soonest = soonest.min(Duration::from_nanos(known.due_ns - now_ns));
            continue;
        }
        let own = Job {
            top: known.top,
            from: known.trim.offset,
            used_only: known.trim.used_only,
            rate: known.trim.rate,
            leaves: vec![*leaf],
        };
        match &mut job {
            Some(job) if (job.top, job.from) == (own.top, own.from) => {
                job.leaves.push(*leaf);
                job.used_only &= own.used_only;
                job.rate = match (job.rate, own.rate) {
                    (0, rate) | (rate, 0) => rate,
                    (one, other) => one.min(other),
                };
            }
            Some(job) if job.from <= own.from => {}
            _ => job = Some(own),
        }
    }
    control.busy = job.as_ref().map(|job| job.top);
    job.ok_or(soonest)
}

fn do_job(pool: &Arc<Pool>, trim: &Trim, writer: &Writer, job: &Job) -> Step {
    let sizes = match (trim.kind, job.rate) {
        (Kind::Initialize, _) => TrimSizes {
            min: 1,
            max: FILLED_MAX,
        },
        (Kind::Trim, 0) => TrimSizes {
            min: RANGE_MIN,
            max: RANGE_MAX,
        },
        (Kind::Trim, rate) => TrimSizes {
            min: RANGE_MIN,
            max: rate.clamp(RATED_RANGE_MIN, RANGE_MAX),
        },
    };
    let syncer = &writer.syncer;
    let step = syncer
        .space
        .trim_step(job.top, job.from, (sizes, job.used_only), &*syncer.maps);
    match step {
        Ok(TrimStep::Range(range)) => match allowed(writer, range) {
            Ok(range) => work_for(pool, trim, job, range),
            Err(step) => step,
        },
        Ok(TrimStep::Later) => Step::Wait(SOON),
        Ok(TrimStep::End) => {
            end(pool, trim, job, TrimState::Complete);
            Step::Done
        }
        // Maps that cannot be read: everything else will say so.
        Err(_) => {
            end(pool, trim, job, TrimState::Suspended);
            Step::Done
        }
    }
}

/// The range, if nobody can need what is there any more. Else it is returned, and what is missing is seen to.
fn allowed(writer: &Writer, range: Trimming) -> Result<Trimming, Step> {
    let syncer = &writer.syncer;
    let ageing = &syncer.services.ageing;
    if !ageing.is_past_opening() {
        drop(range);
        ageing.want();
        let written = writer.engine.wait_synced(None);
        return Err(written.map_or(Step::Wait(LATER), |()| Step::Done));
    }
    if !syncer.gate.is_open(syncer.gate.now()) {
        return Err(Step::Wait(SOON));
    }
    Ok(range)
}

fn work_for(pool: &Pool, trim: &Trim, job: &Job, range: Trimming) -> Step {
    let extent = range.extent().range.clone();
    let len = extent.end - extent.start;
    let (mut unable, mut away) = (Vec::new(), Vec::new());
    for leaf in &job.leaves {
        if let Some((id, leaf)) = pool.leaf_of(*leaf)
            && let Ok(top) = pool.vdevs.top(id)
        {
            match trim.kind {
                Kind::Trim if discard(&top, &leaf, &extent) => {}
                Kind::Trim => unable.push(leaf.guid()),
                Kind::Initialize => {
                    // A device that is gone goes on here when it is back; of one that stays, a place is passed over.
                    let failed = top.overwrite(&leaf, extent.clone(), &FILLER).is_err();
                    if failed && !leaf.is_writable() {
                        away.push(leaf.guid());
                    }
                }
            }
        }
    }
    drop(range);
    let now_ns = monotonic_ns();
    let mut control = trim.control.lock();
    for guid in &job.leaves {
        let Some(known) = control.leaves.get_mut(guid) else {
            continue;
        };
        // Another trim may have begun meanwhile.
        let is_same = known.trim.state == TrimState::Active && known.trim.offset == job.from;
        if !is_same || away.contains(guid) {
            continue;
        }
        known.trim.offset = extent.end;
        if known.trim.rate > 0 {
            let pause_ns = u128::from(len) * 1_000_000_000 / u128::from(known.trim.rate);
            known.due_ns = now_ns.saturating_add(u64::try_from(pause_ns).unwrap_or(u64::MAX));
        }
        control.unstored.entry(*guid).or_default();
    }
    drop(control);
    if !unable.is_empty() {
        let job = Job {
            leaves: unable,
            ..*job
        };
        end(pool, trim, &job, TrimState::Cancelled);
    }
    Step::Done
}

/// Discards on one leaf; false if it cannot. A discard that fails is counted, and lost space is all that it costs.
fn discard(top: &Top, leaf: &Leaf, range: &std::ops::Range<u64>) -> bool {
    let result = top.discard(leaf, range.clone());
    !matches!(
        result,
        Err(VdevError::Device(DeviceError::Unsupported { .. }))
    )
}

/// Ends the trims of a job's leaves.
fn end(pool: &Pool, trim: &Trim, job: &Job, state: TrimState) {
    let time_s = pool.clock().now_s();
    let size = |guid: Guid| pool.leaf_of(guid).map_or(0, |(_, leaf)| leaf.asize());
    let [_, _, suspended, cancelled, finished] = trim.kind.events();
    let event = match state {
        TrimState::Complete => finished,
        TrimState::Cancelled => cancelled,
        TrimState::Suspended | TrimState::Active | TrimState::None => suspended,
    };
    for guid in &job.leaves {
        let size = size(*guid);
        {
            let mut control = trim.control.lock();
            let Some(known) = control.leaves.get(guid) else {
                continue;
            };
            let mut now = known.trim;
            let top = known.top;
            let is_same = state != TrimState::Complete || now.offset == job.from;
            if now.state != TrimState::Active || !is_same {
                continue;
            }
            now.offset = match state {
                TrimState::Complete => size,
                TrimState::Cancelled => 0,
                TrimState::Suspended | TrimState::Active | TrimState::None => now.offset,
            };
            (now.state, now.time_s) = (state, time_s);
            Trim::change(&mut control, *guid, now, top);
        }
        pool.services.events.vdev(event, *guid);
    }
}

/// What became free, with `autotrim=on`: ranges that are still to be trimmed, the shortest first.
#[derive(Default)]
struct Batch {
    left: Vec<Extent>,
    /// The txg of the last batch.
    txg: Txg,
}

impl Batch {
    fn step(&mut self, pool: &Pool, trim: &Trim, writer: &Writer) -> Step {
        let syncer = &writer.syncer;
        let Some(extent) = self.left.pop() else {
            return self.fill(writer);
        };
        {
            let mut control = trim.control.lock();
            if control.barred.contains(&extent.vdev) {
                return Step::Done;
            }
            control.busy = Some(extent.vdev);
        }
        let sizes = TrimSizes {
            min: RANGE_MIN,
            max: RANGE_MAX,
        };
        match syncer.space.trim_recent(&extent, sizes, &*syncer.maps) {
            Ok(TrimStep::Range(range)) => {
                let range = match allowed(writer, range) {
                    Ok(range) => range,
                    Err(step) => {
                        self.left.push(extent);
                        return step;
                    }
                };
                let done = range.extent().range.clone();
                if let Ok(top) = pool.vdevs.top(extent.vdev) {
                    for leaf in top.leaves().iter().filter(|leaf| leaf.can_discard()) {
                        discard(&top, leaf, &done);
                    }
                }
                drop(range);
                let rest = done.end..extent.range.end;
                if rest.end.saturating_sub(rest.start) >= RANGE_MIN {
                    self.left.push(Extent {
                        vdev: extent.vdev,
                        range: rest,
                    });
                }
                Step::Done
            }
            Ok(TrimStep::Later) => {
                self.left.push(extent);
                Step::Wait(SOON)
            }
            // A vdev that is gone needs no trim.
            Ok(TrimStep::End) | Err(_) => Step::Done,
        }
    }

    /// Collects what became free, if it is time.
    fn fill(&mut self, writer: &Writer) -> Step {
        let now = writer.syncer.gate.now();
        if now.0 < self.txg.0 + TRIM_BATCH_TXGS.get() {
            return Step::Wait(LATER);
        }
        self.txg = now;
        for (vdev, ranges) in writer.syncer.space.take_recent() {
            let long = ranges
                .iter()
                .filter(|range| range.end - range.start >= RANGE_MIN);
            self.left.extend(long.map(|range| Extent { vdev, range }));
        }
        let length = |extent: &Extent| extent.range.end - extent.range.start;
        self.left.sort_by_key(length);
        Step::Done
    }
}
