//! The thread of a scan: slices of the walk, and what comes after each object set.

use std::sync::{Arc, Weak};

use base::{ObjectId, ObjectSetId, Txg};
use dsl::{Dataset, Dsl};
use format::BlockPointer;
use pipeline::Scrubbed;

use super::ahead::{Ahead, Source};
use super::control::{ScanChange, ScanRequest, Scrub};
use super::course::{Leg, Target};
use super::walk::{Births, Place, Walk};
use super::{deferral, issue, logs};
use crate::pool::Pool;
use crate::scan::phys::{FUNCTION_RESILVER, STATE_FINISHED, ScanPhys};
use crate::tunables::{SCRUB_SLICE_BLOCKS, SCRUB_STORE_NS};
use crate::vdevs::dtl;

pub(super) fn run(pool: &Weak<Pool>, scrub: &Arc<Scrub>, number: u64) {
    serve(pool, scrub);
    *scrub.ahead.lock() = Ahead::default();
    scrub.pending.end(number);
    deferral::follow(pool, scrub);
}

fn serve(pool: &Weak<Pool>, scrub: &Arc<Scrub>) {
    let mut stored_at = base::clock::monotonic_ns();
    loop {
        match scrub.wait() {
            ScanRequest::Run | ScanRequest::Pause => {}
            ScanRequest::Stop | ScanRequest::Leave => return,
        }
        // The pool is not kept open between slices.
        let Some(pool) = pool.upgrade() else { return };
        if !advance(&pool, scrub) && finish(&pool, scrub) {
            return;
        }
        let now = base::clock::monotonic_ns();
        if now.saturating_sub(stored_at) > SCRUB_STORE_NS.get() {
            stored_at = now;
            scrub.change_next(ScanChange::Update);
        }
    }
}

/// One slice of whatever is to be done next; false when everything was seen and looked at.
pub(super) fn advance(pool: &Pool, scrub: &Scrub) -> bool {
    let is_full = scrub.pending.is_full();
    let (leg, is_issuing) = {
        let mut control = scrub.control.lock();
        let leg = control.course.leg();
        control.is_issuing |= is_full || (leg.is_none() && !scrub.pending.is_empty());
        (leg, control.is_issuing)
    };
    if is_issuing {
        look_at_pending(pool, scrub);
        return true;
    }
    let Some((epoch, leg)) = leg else {
        return false;
    };
    if leg.until.is_none() {
        look_up(pool, scrub, epoch);
    } else {
        step(pool, scrub, epoch, leg);
    }
    true
}

/// Looks at some of what was collected. When nothing is left, the place of the walk is one to go on from.
fn look_at_pending(pool: &Pool, scrub: &Scrub) {
    let result = issue::slice(pool, &scrub.pending);
    // The place from which an import goes on is never behind a block that a device was not given.
    let leaves = || dtl::leaves(&pool.vdevs).into_iter();
    let is_left = leaves().any(|leaf| leaf.has_left());
    let mut control = scrub.control.lock();
    let control = &mut *control;
    let Some(scan) = &mut control.scan else {
        return;
    };
    count(scan, &result);
    if scrub.pending.is_empty() {
        control.is_issuing = false;
        if control.course.settle(scan) && !is_left {
            control.kept = control.course.clone();
        }
    }
}

pub(super) fn count(scan: &mut ScanPhys, result: &Scrubbed) {
    scan.examined += result.examined_bytes;
    scan.processed += result.repaired_bytes;
    scan.errors += result.unreadable;
    if scan.function == FUNCTION_RESILVER {
        scan.errors += result.unrepaired;
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
        Target::Dataset(_) | Target::Meta => last,
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
    if logs::step(pool, scrub, epoch, leg) {
        return;
    }
    let mut ahead = std::mem::take(&mut *scrub.ahead.lock());
    ahead.about(epoch);
    if let Some(place) = ahead.wanted_at.take() {
        read_ahead(pool, scrub, &mut ahead, (leg, &scan), place);
    }
    let place = slice(pool, scrub, &mut ahead, (leg, &scan));
    *scrub.ahead.lock() = ahead;
    let Some(place) = place else {
        return pass_over(pool, scrub, (epoch, leg.target));
    };
    if let Some(place) = place {
        let mut control = scrub.control.lock();
        let Some(counts) = control.scan else { return };
        return control.course.came_to(epoch, place, &counts);
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
        if successors.is_err() {
            scan.errors += 1;
            pool.leave_behind_through(Txg(u64::MAX));
        }
        let successors = successors.unwrap_or_default();
        control.course.finished(epoch, &successors, scan);
    }
}

/// An object set that cannot be found is not gone through, nor what comes after it: unless it was destroyed this very
/// moment, and another is under way or has taken its place.
fn pass_over(pool: &Pool, scrub: &Scrub, (epoch, target): (u64, Target)) {
    let _tree = pool.dsl.quiet();
    let mut control = scrub.control.lock();
    let control = &mut *control;
    let is_lost = control.course.is_at(epoch, target);
    if let Some(scan) = control.scan.as_mut().filter(|_| is_lost) {
        scan.errors += 1;
        pool.leave_behind_through(Txg(u64::MAX));
        control.course.finished(epoch, &[], scan);
    }
}

/// The object sets that come after one, each with the txg after which its blocks are its own.
fn successors(dsl: &Dsl, target: Target, after: Txg) -> dsl::Result<Vec<(ObjectId, Txg)>> {
    let Target::Dataset(id) = target else {
        let first = dsl.first_datasets()?;
        return Ok(first.into_iter().map(|id| (id, after)).collect());
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
    if awaits_trees(pool, scrub) {
        // Each txg frees some; meanwhile the scan can be stopped, and the pool be closed.
        return writer.engine.wait_synced(None).is_err();
    }
    let scan = {
        let mut control = scrub.control.lock();
        match control.request {
            ScanRequest::Run => control.scan.take(),
            ScanRequest::Pause => return false,
            ScanRequest::Stop | ScanRequest::Leave => None,
        }
    };
    let Some(scan) = scan else { return true };
    pool.services.errors.set_scanning(false);
    let ended = ScanPhys {
        state: STATE_FINISHED,
        ended: pool.clock().now_s(),
        ..scan
    };
    if scan.function == FUNCTION_RESILVER {
        pool.note_resilvered();
        // In the txg that says that it has ended.
        writer.vdev_changes.end_replacements_next();
    }
    scrub.change_next(ScanChange::End(ended));
    // An engine that ended has not stored the end: the next import goes on with the last part.
    let _ = writer.engine.wait_synced(None);
    pool.let_go(writer);
    true
}

/// Whether a resilver that has seen everything is not to end yet: what of a destroyed dataset is still to be freed it
/// has seen only in part, perhaps, and who frees it reads it. What is queued from now on it has seen.
fn awaits_trees(pool: &Pool, scrub: &Scrub) -> bool {
    let is_resilver = scrub
        .current()
        .is_some_and(|scan| scan.function == FUNCTION_RESILVER);
    if !is_resilver {
        return false;
    }
    let queued = pool.dsl.queued_trees();
    if queued.is_err() || pool.dsl.waits_for_devices() {
        // It is seen when another resilver comes.
        pool.leave_behind_through(Txg(u64::MAX));
        return false;
    }
    let Some(queued) = queued.ok().flatten() else {
        return false;
    };
    let mut control = scrub.control.lock();
    let first = *control.trees.get_or_insert(queued);
    first.queue == queued.queue && queued.begin < first.end
}

/// One slice: collects blocks; where to go on, none when the object set is done. Nothing when the object set cannot be
/// found.
fn slice(
    pool: &Pool,
    scrub: &Scrub,
    ahead: &mut Ahead,
    (leg, scan): (Leg, &ScanPhys),
) -> Option<Option<Place>> {
    let writer = pool.writer.as_ref()?;
    let last = || writer.syncer.last.get().txg;
    // Before the hold, so that no free since the state that is held is forgotten.
    let collecting = scrub.pending.collect();
    let hold = writer.syncer.gate.hold(last);
    collecting.over(hold.txg());
    let (set, root) = root_of(pool, leg.target)?;
    let mut walk = Walk {
        pipeline: &pool.pipeline,
        set,
        births: births(leg, scan),
        place: leg.place,
        found: Vec::new(),
        found_max: SCRUB_SLICE_BLOCKS.count().min(scrub.pending.room()),
        unreadable: 0,
        unseen_through: Txg(0),
        met_rewriting: false,
        settled: hold.txg(),
        ahead: Some(ahead),
        wants_more: false,
    };
    let done = walk.run(&root);
    if walk.met_rewriting {
        return Some(Some(leg.place));
    }
    if walk.unreadable > 0 {
        pool.leave_behind_through(walk.unseen_through);
    }
    // Blocks that the walk could not read are among those found, and are counted when they are looked at.
    collecting.add(&walk.found);
    let (wants_more, place) = (walk.wants_more, walk.place);
    ahead.wanted_at = wants_more.then_some(place);
    Some((!done).then_some(place))
}

/// Which blocks of an object set count.
fn births(leg: Leg, scan: &ScanPhys) -> Births {
    let until = Txg(scan.txg_max);
    Births {
        // What is older than the range has nothing younger below it.
        tree_after: leg.after.max(Txg(scan.txg_min)),
        after: Txg(scan.txg_min),
        until: leg.until.unwrap_or(until).min(until),
    }
}

/// Reads ahead what the walk needs from `place` on. Without a hold, for it may take long: what is read is verified when
/// it is used, and no device is to blame for what is not there any more.
fn read_ahead(
    pool: &Pool,
    scrub: &Scrub,
    ahead: &mut Ahead,
    (leg, scan): (Leg, &ScanPhys),
    place: Place,
) {
    let Some((_, root)) = root_of(pool, leg.target) else {
        return;
    };
    let goes_on = || match scrub.control.lock().request {
        ScanRequest::Run | ScanRequest::Pause => true,
        ScanRequest::Stop | ScanRequest::Leave => false,
    };
    let source = Source {
        pipeline: &pool.pipeline,
        vdevs: &pool.vdevs,
        births: births(leg, scan),
        goes_on: &goes_on,
    };
    ahead.fill(&source, &root, place);
}

/// The root of an object set as of now.
pub(super) fn root_of(pool: &Pool, target: Target) -> Option<(ObjectSetId, BlockPointer)> {
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
