//! The thread of a scan: slices of the walk, and what comes after each object set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, ObjectSetId, Txg};
use dsl::{Dataset, Dsl};
use format::BlockPointer;
use pipeline::{Pipeline, Scrubbed};

use super::course::{Leg, Target};
use super::walk::{Births, Found, Place, Walk};
use super::{SLICE_BLOCKS, STORE_EVERY_NS, Scrub, THREADS, Wish};
use crate::duties::ScanChange;
use crate::pool::Pool;
use crate::scan::{FUNCTION_RESILVER, STATE_FINISHED, ScanPhys};

pub(super) fn run(pool: &Weak<Pool>, scrub: &Arc<Scrub>) {
    let mut stored_at = base::clock::monotonic_ns();
    loop {
        match scrub.wait() {
            Wish::Run | Wish::Pause => {}
            Wish::Stop | Wish::Leave => return,
        }
        // The pool is not kept open between slices.
        let Some(pool) = pool.upgrade() else { return };
        let leg = scrub.control.lock().course.leg();
        let Some((epoch, leg)) = leg else {
            if finish(&pool, scrub) {
                return;
            }
            continue;
        };
        if leg.until.is_none() {
            look_up(&pool, scrub, epoch);
            continue;
        }
        step(&pool, scrub, epoch, leg);
        let now = base::clock::monotonic_ns();
        if now.saturating_sub(stored_at) > STORE_EVERY_NS
            && let Some(writer) = &pool.writer
        {
            stored_at = now;
            writer.syncer.duties.change_scan_next(ScanChange::Update);
        }
    }
}

/// Finds out up to when the dataset that comes next has its own blocks.
pub(super) fn look_up(pool: &Pool, scrub: &Scrub, epoch: u64) {
    let _tree = pool.dsl.quiet();
    let mut control = scrub.control.lock();
    let (Some(scan), Some((now, leg))) = (control.scan, control.course.leg()) else {
        return;
    };
    let last = Txg(scan.txg_max);
    let until = match leg.target {
        Target::Dataset(id) if now == epoch => {
            taken_in(&pool.dsl, id).map_or(last, |txg| txg.min(last))
        }
        _ => last,
    };
    control.course.set_until(epoch, until);
}

/// The txg in which a snapshot was taken; none for a head.
fn taken_in(dsl: &Dsl, id: ObjectId) -> Option<Txg> {
    let dataset = dsl.dataset_by_id(id).ok()?;
    let phys = dataset.phys().ok()?;
    dataset.is_snapshot().then_some(phys.creation_txg)
}

/// One slice, and what follows from it.
pub(super) fn step(pool: &Pool, scrub: &Scrub, epoch: u64, leg: Leg) {
    let Some(scan) = scrub.current() else { return };
    let (place, result) = slice(pool, leg, &scan);
    {
        let mut control = scrub.control.lock();
        let Some(scan) = &mut control.scan else {
            return;
        };
        scan.examined += result.examined_bytes;
        scan.processed += result.repaired_bytes;
        scan.errors += result.unreadable;
        if scan.function == FUNCTION_RESILVER {
            scan.errors += result.unrepaired;
        }
        let counts = *scan;
        if let Some(place) = place {
            return control.course.came_to(epoch, place, &counts);
        }
    }
    // The object set is done. What comes after it must be of the same moment as the queue.
    let _tree = pool.dsl.quiet();
    let leg = scrub.control.lock().course.leg();
    let Some((_, leg)) = leg.filter(|(now, _)| *now == epoch) else {
        return;
    };
    let successors = successors(&pool.dsl, leg.target, leg.after);
    let mut control = scrub.control.lock();
    let control = &mut *control;
    if let Some(scan) = &mut control.scan {
        // What cannot be found is not looked at.
        scan.errors += u64::from(successors.is_err());
        let successors = successors.unwrap_or_default();
        control.course.finished(epoch, &successors, scan);
    }
}

/// The object sets that come after one, each with the txg after which its blocks are its own.
fn successors(dsl: &Dsl, target: Target, after: Txg) -> dsl::Result<Vec<(ObjectId, Txg)>> {
    let Target::Dataset(id) = target else {
        let origin = dsl.origin_snapshot()?;
        return Ok(origin.into_iter().map(|id| (id, after)).collect());
    };
    let dataset = dsl.dataset_by_id(id)?;
    let taken = dataset.phys()?.creation_txg;
    let successors = dataset.successors()?.into_iter();
    Ok(successors.map(|id| (id, taken)).collect())
}

/// Everything was seen: false when it was paused in this very moment, and is to end later.
fn finish(pool: &Arc<Pool>, scrub: &Scrub) -> bool {
    let Some(writer) = &pool.writer else {
        return true;
    };
    let scan = {
        let mut control = scrub.control.lock();
        match control.wish {
            Wish::Run => control.scan.take(),
            Wish::Pause => return false,
            Wish::Stop | Wish::Leave => None,
        }
    };
    let Some(scan) = scan else { return true };
    pool.services.errors.set_scanning(false);
    let ended = ScanPhys {
        state: STATE_FINISHED,
        ended: pool.clock().now_s(),
        ..scan
    };
    if scan.function == FUNCTION_RESILVER && scan.errors == 0 {
        pool.note_resilvered(Txg(scan.txg_max));
    }
    writer
        .syncer
        .duties
        .change_scan_next(ScanChange::End(ended));
    // An engine that ended has not stored the end: the next import goes on with the last part.
    let _ = writer.engine.wait_synced(None);
    true
}

/// One slice: collects blocks and looks at them; where to go on, none when the object set is done.
fn slice(pool: &Pool, leg: Leg, scan: &ScanPhys) -> (Option<Place>, Scrubbed) {
    let mut result = Scrubbed::default();
    let Some(writer) = &pool.writer else {
        return (None, result);
    };
    let last = || writer.syncer.last.get().txg;
    let _hold = writer.syncer.gate.hold(last);
    let Some((set, root)) = root_of(pool, leg.target) else {
        return (None, result);
    };
    let until = Txg(scan.txg_max);
    let mut walk = Walk {
        pipeline: &pool.pipeline,
        set,
        births: Births {
            // What is older than the range has nothing younger below it.
            tree_after: leg.after.max(Txg(scan.txg_min)),
            after: Txg(scan.txg_min),
            until: leg.until.unwrap_or(until).min(until),
        },
        place: leg.place,
        found: Vec::with_capacity(SLICE_BLOCKS),
        found_max: SLICE_BLOCKS,
        unreadable: 0,
    };
    let done = walk.run(&root);
    // Blocks that the walk could not read are among those found, and are counted there.
    result += verify(&pool.pipeline, &walk.found);
    ((!done).then_some(walk.place), result)
}

/// The root of an object set as of now.
fn root_of(pool: &Pool, target: Target) -> Option<(ObjectSetId, BlockPointer)> {
    match target {
        Target::Meta => {
            let uberblock = pool.writer.as_ref()?.syncer.last.get();
            Some((ObjectSetId::MOS, uberblock.root))
        }
        Target::Dataset(id) => {
            let dataset: Arc<Dataset> = pool.dsl.dataset_by_id(id).ok()?;
            Some((ObjectSetId(id.0), dataset.phys().ok()?.block_pointer))
        }
    }
}

/// Looks at all copies of all blocks, on several threads.
fn verify(pipeline: &Arc<Pipeline>, found: &[Found]) -> Scrubbed {
    static SUM: LockClass = LockClass::new("pool.scrub_sum", rank::LAST - 50);
    let sum = Mutex::new(&SUM, Scrubbed::default());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut own = Scrubbed::default();
        while let Some(found) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            own += pipeline.scrub(&found.block, found.bookmark);
        }
        *sum.lock() += own;
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS.min(found.len()) {
            // A thread that cannot be started is work that the others do.
            let _ = std::thread::Builder::new()
                .name("pool-scrub-read".to_owned())
                .spawn_scoped(scope, work);
        }
        work();
    });
    sum.into_inner()
}
