//! A scan's part in intent logs: what was acknowledged and not replayed yet, or not yet part of a txg, is on its
//! devices only in the log. It is looked at before the tree of its object set, whatever the scan's range of txgs:
//! log blocks are written in other txgs than they are born in.
//!
//! Only the log of a head counts: a snapshot has a copy of the header that it was taken with.

use base::{Bookmark, Txg};
use format::intent_log::LogHeader;
use intent::{LogPart, Resume};
use pipeline::{ReadRequest, Scrubbed};
use vdev::IoClass;

use super::control::{LogPlace, Scrub};
use super::course::{Leg, Target};
use super::walk::may_be_rewritten;
use super::work::{count, root_of};
use crate::pool::Pool;

/// Blocks of a chain that are looked at under one hold.
const CHAIN_BLOCKS: usize = 64;

/// Looks at a part of the log of the object set under way; false when there is nothing left of it.
pub(super) fn step(pool: &Pool, scrub: &Scrub, epoch: u64, leg: Leg) -> bool {
    let mut at = scrub.control.lock().log;
    if at.epoch != Some(epoch) {
        at = LogPlace {
            epoch: Some(epoch),
            ..LogPlace::default()
        };
    }
    if at.done {
        return false;
    }
    let Some(scan) = scrub.current() else {
        return false;
    };
    let (result, next) = match look(pool, leg, at.next, Txg(scan.txg_max)) {
        Some(Ok(looked)) => looked,
        None => Looked::default(),
        Some(Err(Rewritten)) => return true,
    };
    (at.next, at.done) = (next, next.is_none());
    let mut control = scrub.control.lock();
    control.log = at;
    if let Some(scan) = &mut control.scan {
        count(scan, &result);
    }
    true
}

/// The root that leads to a log is being rewritten: to be looked at again.
struct Rewritten;

/// What came of looking at a part of a log, and where to go on; nowhere when it ends there.
type Looked = (Scrubbed, Option<Resume>);

/// Looks at the next blocks of a log. Nothing when there is no log, or none that can be found.
fn look(
    pool: &Pool,
    leg: Leg,
    from: Option<Resume>,
    until: Txg,
) -> Option<Result<Looked, Rewritten>> {
    let Target::Dataset(id) = leg.target else {
        return None;
    };
    let writer = pool.writer.as_ref()?;
    let hold = writer.syncer.gate.hold(|| writer.syncer.last.get().txg);
    if pool.dsl.dataset_by_id(id).ok()?.is_snapshot() {
        return None;
    }
    let (set, root) = root_of(pool, leg.target)?;
    if root.is_hole() {
        return None;
    }
    let mut request = ReadRequest::new(Bookmark::root(set))
        .in_class(IoClass::Scan)
        .speculative();
    let may_be_rewritten = may_be_rewritten(&root, hold.txg());
    if may_be_rewritten {
        request = request.unpromised();
    }
    let root = match pool.pipeline.read(&root, &request) {
        Ok(root) => root,
        // A root that cannot be read is the walk's to tell.
        Err(_) if !may_be_rewritten => return None,
        Err(_) => return Some(Err(Rewritten)),
    };
    let header = dmu::raw::root(&root).ok()?.log_header;
    let part = intent::part(&pool.pipeline, (set, &header), from, (until, CHAIN_BLOCKS));
    let result = scrub_part(pool, &header, &part);
    Some(Ok((result, part.next)))
}

fn scrub_part(pool: &Pool, header: &LogHeader, part: &LogPart) -> Scrubbed {
    let pipeline = &pool.pipeline;
    let mut sum = Scrubbed::default();
    // A log that is in use is being written.
    let is_claimed = header.claim_txg != Txg(0);
    for found in &part.blocks {
        sum += if is_claimed {
            pipeline.scrub(&found.block, found.bookmark)
        } else {
            pipeline.scrub_unpromised(&found.block, found.bookmark)
        };
    }
    if let Some(lost) = &part.lost {
        // What follows is not known: nor which devices have missed it.
        pipeline.note_unreadable(&lost.block, lost.bookmark);
        pool.leave_behind_through(Txg(u64::MAX));
        sum.unreadable += 1;
    }
    sum
}
