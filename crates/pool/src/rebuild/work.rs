//! The thread of a rebuild: what is in use is copied, piece by piece.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Guid, VdevId};
use format::config::keys;
use format::rebuild::{Rebuild, RebuildState};
use vdev::{Copied, Leaf, Top, WriteGroup};

use super::control::{Rebuilds, Running};
use crate::error::Result;
use crate::pool::{Pool, Writer};
use crate::tunables::{
    REBUILD_GAP_BYTES, REBUILD_SCRUB, REBUILD_SEGMENT_BYTES, REBUILD_STEP_BYTES,
};

/// How long to wait for those who write through a vdev whose place another one took, …
const SOON: Duration = Duration::from_millis(5);
/// … and for devices.
const LATER: Duration = Duration::from_secs(1);

/// What comes of a step.
enum Step {
    Done,
    /// Nothing can be done for so long, unless something changes.
    Wait(Duration),
    /// All is copied, and durable.
    Copied,
    /// There is no device any more that it is for.
    NoTargets,
}

/// What is in use of a part of a vdev, and where that part ends.
struct Used {
    end: u64,
    ranges: Vec<Range<u64>>,
    /// How much of them is in use: between are gaps.
    bytes: u64,
}

/// Copies that are on their way.
struct OnTheWay {
    writes: Arc<WriteGroup>,
    /// Where to go on when they are done.
    end: u64,
}

struct Walk {
    vdev: VdevId,
    number: u64,
    /// Where it goes on.
    at: u64,
    before: Option<OnTheWay>,
    /// How often leaves of the vdev had lost copies when it began.
    lost: Option<u64>,
}

pub(super) fn run(
    pool: &Weak<Pool>,
    rebuilds: &Arc<Rebuilds>,
    (vdev, number): (VdevId, u64),
    at: u64,
) {
    let mut walk = Walk {
        vdev,
        number,
        at,
        before: None,
        lost: None,
    };
    while rebuilds.goes_on(vdev, number) {
        // The pool is not kept open between steps.
        let Some(pool) = pool.upgrade() else { return };
        let Some(writer) = &pool.writer else { return };
        match walk.step(&pool, writer, rebuilds) {
            Ok(Step::Done) => {}
            Ok(Step::Wait(pause)) => {
                drop(pool);
                rebuilds.pause(vdev, number, pause);
            }
            Ok(Step::Copied) => {
                end(&pool, writer, rebuilds, &walk, RebuildState::Complete);
                return;
            }
            Ok(Step::NoTargets) => {
                end(&pool, writer, rebuilds, &walk, RebuildState::Cancelled);
                return;
            }
            // Maps that cannot be read: everything else will say so.
            Err(_) => {
                drop(pool);
                rebuilds.pause(vdev, number, LATER);
            }
        }
    }
}

impl Walk {
    fn step(&mut self, pool: &Pool, writer: &Writer, rebuilds: &Rebuilds) -> Result<Step> {
        if pool.suspended().is_some() {
            return Ok(Step::Wait(LATER));
        }
        let Ok(top) = pool.vdevs.top(self.vdev) else {
            return Ok(Step::NoTargets);
        };
        let Some(targets) = self.targets(&top, rebuilds) else {
            return Ok(Step::NoTargets);
        };
        let whole = pool.services.config.with(|config| {
            let top = config.top(self.vdev);
            top.map_or(0, |top| top.metaslab_bytes())
        });
        let lost = *self.lost.get_or_insert_with(|| lost_copies(&top));
        if lost_copies(&top) != lost {
            self.leave_behind(rebuilds, &targets);
            self.lost = Some(lost_copies(&top));
        }
        if self.at >= whole {
            return Ok(self.settle(&top, rebuilds, &targets));
        }
        // Who writes with a vdev that does not have the devices yet may be given room until he lets go of it: that is
        // seen after that.
        if !top.can_begin_copies() {
            return Ok(Step::Wait(SOON));
        }
        let used = used(pool, writer, &top, &(self.at..whole))?;
        let Some(copies) = top.begin_copies(used.ranges.iter().cloned(), &targets) else {
            return Ok(Step::Wait(SOON));
        };
        let writes = WriteGroup::of_copies(&writer.syncer.findings);
        let (mut copied, mut errors) = (Copied::default(), 0);
        for copy in copies {
            if !rebuilds.goes_on(self.vdev, self.number) {
                break;
            }
            match copy.run(&writes) {
                Ok(some) => copied += some,
                Err(_) => errors += 1,
            }
        }
        // With the devices of a suspended pool back, the same is tried again.
        if errors > 0 && pool.suspended().is_some() {
            let _failed = writes.wait();
            return Ok(Step::Wait(LATER));
        }
        if errors > 0 {
            self.leave_behind(rebuilds, &targets);
        }
        rebuilds.update(self.vdev, self.number, |running| {
            let rebuild = &mut running.rebuild;
            rebuild.scanned = rebuild.scanned.saturating_add(used.bytes);
            rebuild.issued = rebuild.issued.saturating_add(copied.read);
            rebuild.rebuilt = rebuild.rebuilt.saturating_add(copied.written);
            rebuild.errors = rebuild.errors.saturating_add(errors);
        });
        self.at = used.end;
        let now = OnTheWay {
            writes,
            end: used.end,
        };
        if let Some(before) = self.before.replace(now) {
            self.written(&before, rebuilds, &targets);
        }
        Ok(Step::Done)
    }

    /// The devices that are there of those that it is for; none if none is. One that went away keeps lacking what it
    /// lacks.
    fn targets(&self, top: &Top, rebuilds: &Rebuilds) -> Option<Arc<[Arc<Leaf>]>> {
        let wanted = rebuilds.targets(self.vdev)?;
        let leaves = top.leaves().iter();
        let known = leaves.filter(|leaf| wanted.contains(&leaf.guid()));
        let (there, away): (Vec<_>, Vec<_>) = known.cloned().partition(|leaf| leaf.is_writable());
        if there.len() < wanted.len() {
            away.iter().for_each(|leaf| leaf.leave_rebuild());
            let is_there = |guid: &Guid| there.iter().any(|leaf| leaf.guid() == *guid);
            rebuilds.update(self.vdev, self.number, |running| {
                running.targets.retain(is_there);
            });
        }
        (!there.is_empty()).then(|| there.into())
    }

    /// Something could not be copied, or was lost: nobody knows of which txgs it is.
    fn leave_behind(&self, rebuilds: &Rebuilds, targets: &[Arc<Leaf>]) {
        for leaf in targets {
            leaf.note_left_through(base::Txg(u64::MAX));
        }
        rebuilds.update(self.vdev, self.number, |running| running.is_lacking = true);
    }

    /// Waits for copies; from where they end an import goes on.
    fn written(&self, copies: &OnTheWay, rebuilds: &Rebuilds, targets: &[Arc<Leaf>]) {
        if copies.writes.wait().is_err() {
            let failed = copies.writes.take_failed().len() as u64;
            self.leave_behind(rebuilds, targets);
            rebuilds.update(self.vdev, self.number, |running| {
                running.rebuild.errors = running.rebuild.errors.saturating_add(failed);
            });
        }
        rebuilds.update(self.vdev, self.number, |running| {
            running.rebuild.offset = copies.end;
        });
    }

    /// All is on its way: makes it durable.
    fn settle(&mut self, top: &Top, rebuilds: &Rebuilds, targets: &[Arc<Leaf>]) -> Step {
        if let Some(before) = self.before.take() {
            self.written(&before, rebuilds, targets);
        }
        if top.flush().is_err() {
            // The pool is suspended by that, or will be.
            return Step::Wait(LATER);
        }
        if self.lost != Some(lost_copies(top)) {
            self.leave_behind(rebuilds, targets);
            self.lost = Some(lost_copies(top));
        }
        Step::Copied
    }
}

fn lost_copies(top: &Top) -> u64 {
    top.leaves().iter().map(|leaf| leaf.lost_copies()).sum()
}

/// What is in use of a part of a vdev, from its beginning up to about as much as is copied with a step: in segments of
/// whole stripes, none of which has a stripe of another.
fn used(pool: &Pool, writer: &Writer, top: &Top, whole: &Range<u64>) -> Result<Used> {
    let mut used = Used {
        end: whole.end,
        ranges: Vec::new(),
        bytes: 0,
    };
    let Some(space) = &pool.space else {
        return Ok(used);
    };
    let unit = top.layout().unit().max(1);
    let (gap, step) = (REBUILD_GAP_BYTES.get(), REBUILD_STEP_BYTES.get());
    let mut rest = whole.clone();
    let mut joined: Vec<Range<u64>> = Vec::new();
    while used.bytes < step {
        let Some(found) = space.next_used(top.id(), &rest, &*writer.syncer.maps)? else {
            break;
        };
        let start = found.start / unit * unit;
        let end = found.end.min(found.start.saturating_add(step - used.bytes));
        let end = end.div_ceil(unit).saturating_mul(unit);
        used.bytes = used.bytes.saturating_add(end.min(found.end) - found.start);
        match joined.last_mut() {
            Some(last) if start <= last.end.saturating_add(gap) => last.end = last.end.max(end),
            Some(_) | None => joined.push(start..end),
        }
        rest.start = end.min(whole.end);
        if used.bytes >= step {
            used.end = end.min(whole.end);
        }
    }
    let segment = (REBUILD_SEGMENT_BYTES.get() / unit * unit).max(unit);
    for range in joined {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start.saturating_add(segment));
            used.ranges.push(start..end);
            start = end;
        }
    }
    Ok(used)
}

/// Ends a rebuild: its devices have what they missed, but for what was left behind.
fn end(pool: &Arc<Pool>, writer: &Writer, rebuilds: &Rebuilds, walk: &Walk, state: RebuildState) {
    let _ending = {
        // Nobody begins another one for its devices before it has noted what they have.
        let Some(_starting) = rebuilds.starting_of(walk.vdev, walk.number) else {
            return;
        };
        let Some((running, ending)) = rebuilds.take(walk.vdev, walk.number) else {
            return;
        };
        if state == RebuildState::Complete {
            note_rebuilt(pool, &running);
            // In the txg that says that it has ended.
            writer.vdev_changes.end_replacements_next();
        }
        let ended = Rebuild {
            state,
            ended_s: pool.clock().now_s(),
            ..running.stored()
        };
        rebuilds.end_next(walk.vdev, ended);
        ending
    };
    // An engine that ended has not stored the end: the next import goes on with the last part.
    if writer.engine.wait_synced(None).is_err() {
        return;
    }
    pool.let_go(writer);
    // What it left behind is looked for block by block; and who brought its devices back just now saw that it was under
    // way.
    let is_resilvering = pool.resilver_if_needed();
    if state == RebuildState::Complete
        && is_resilvering.is_ok_and(|is| !is)
        && REBUILD_SCRUB.get() != 0
        && !rebuilds.is_any()
    {
        // It verifies what was copied. One that runs may have begun before; a pool that closes has none.
        let _ = pool.start_scrub();
    }
}

fn note_rebuilt(pool: &Pool, running: &Running) {
    for guid in &running.targets {
        let leaf = pool.leaf_of(*guid);
        if !leaf.is_some_and(|(_, leaf)| leaf.end_rebuild()) {
            continue;
        }
        pool.services.config.change(|config| {
            if let Some(leaf) = config.root.find_mut(*guid) {
                leaf.list.remove(keys::REBUILD_TXG);
            }
        });
    }
}
