//! Requests about devices: drawn, made, and judged by the rules.

use crate::history::History;
use crate::rules::Request;
use crate::view::{NO_DISK, Side, View, Whole, disk_of};
use base::Guid;
use millpond_torture::test_pool::TestPool;
use pool::{AttachOptions, Fill, OutOfUse, Pool, PoolError, TrimRefusal, VdevRole};
use std::path::PathBuf;
use std::sync::Arc;
use vdev::VdevState;

/// So many disks a history has at most.
const DISKS_MAX: usize = 40;

impl History {
    /// Makes a request, and looks whether what came of it is right.
    pub(crate) fn request(&mut self, test_pool: &TestPool) {
        let pool = &test_pool.pool;
        let before = View::of(pool);
        let Some(request) = self.draw(pool, &before) else {
            return;
        };
        let first = self.disks.len();
        let result = self.make(pool, &request);
        let after = View::of(pool);
        self.counts.requests += 1;
        let text = result
            .as_ref()
            .map_or_else(ToString::to_string, |()| "done".to_owned());
        println!("{request:?}: {text}");
        let reasons = before.reasons(&request);
        match &result {
            Err(_) => {
                self.counts.refused += 1;
                let later = after.reasons(&request);
                let mut all = reasons.sure.iter().chain(&reasons.possible);
                let mut late = later.sure.iter().chain(&later.possible);
                let is_one = |reason: &str| text.contains(reason);
                assert!(
                    all.any(|reason| is_one(reason)) || late.any(|reason| is_one(reason)),
                    "{request:?}: {text}, and not for one of {reasons:?}; the pool: {before:#?}"
                );
                let new = first..self.disks.len();
                assert!(
                    new.clone().all(|disk| !after.is_part(disk)),
                    "{request:?} was refused, and its device is part of the pool: {after:#?}"
                );
            }
            Ok(()) => {
                let later = after.reasons(&request);
                // What was under way may have ended before the request was looked at, and a device gone with it.
                let mut sure = reasons.sure.iter();
                let still_holds =
                    sure.any(|reason| later.sure.contains(reason) && !request.brings(reason));
                let mut sides = before.sides();
                let are_there = sides.all(|(_, side)| after.side(side.guid).is_some());
                let is_as_before = before.shape() == after.shape() || (still_holds && are_there);
                assert!(
                    reasons.sure.is_empty() || !is_as_before,
                    "{request:?} was done, although {:?}; the pool: {before:#?}",
                    reasons.sure
                );
                self.follow(&request, first, &before, &after);
            }
        }
        assert_eq!(pool.suspended(), None, "{request:?}");
    }

    /// What must be so after a request.
    fn follow(&mut self, request: &Request, new: usize, before: &View, after: &View) {
        match request {
            Request::Attach(..) | Request::Replace(..) | Request::Expand(_) => {
                assert!(after.is_part(new), "{request:?}: {after:#?}");
            }
            Request::Add(_, _, width) => {
                let new = new..new + width;
                assert!(
                    new.clone().all(|disk| after.is_part(disk)),
                    "{request:?}: {after:#?}"
                );
            }
            Request::Detach(leaf) => {
                assert_eq!(after.side(*leaf), None, "{request:?}: {after:#?}");
            }
            Request::Offline(leaf, how) if !how.faulted => {
                // A spare may be in its place by now; one that is faulted stays so.
                let state = after.side(*leaf).map(|side| side.state);
                let is_out = state
                    .is_none_or(|state| matches!(state, VdevState::Offline | VdevState::Faulted));
                assert!(is_out, "{request:?}: {after:#?}");
            }
            Request::Remove(top) => {
                // It has the guid of what is left of it if a replacement ended meanwhile.
                let place = before.tops.iter().position(|one| one.guid == *top);
                let found = place.and_then(|place| after.tops.get(place));
                let is_it = |one: &Whole| one.guid == *top || one.is_removing || one.is_gone;
                assert!(found.is_some_and(is_it), "{request:?}: {after:#?}");
            }
            Request::RemoveLog(top) => {
                let is_there = after.there().any(|one| one.guid == *top);
                assert!(!is_there, "{request:?}: {after:#?}");
            }
            Request::TakeCheckpoint => {
                // What only the checkpoint has no resilver gives to a device (docs/internals/checkpoints.md).
                let mut sides = after.sides();
                let is_whole = sides.all(|(_, side)| side.is_writable && side.missing.is_empty());
                let is_kept = is_whole && self.troubled().is_empty();
                self.checkpoint = is_kept.then(|| (self.model.clone(), self.timeline.now()));
            }
            Request::DiscardCheckpoint => self.checkpoint = None,
            Request::Reguid => {
                // One that went while nobody could reach it has the labels of what is another pool by now.
                self.left_by_reguid = (0..self.disks.len()).collect();
                self.wipe_left(after);
            }
            _ => {}
        }
    }

    /// Wipes what the last change of the guid left behind, as far as the pool does not use it.
    pub(crate) fn wipe_left(&mut self, view: &View) {
        let is_used = |disk: &usize| view.uses(*disk, &self.disks[*disk].path());
        self.left_by_reguid.retain(|disk| !is_used(disk));
        let left = self.left_by_reguid.iter();
        left.for_each(|disk| self.disks[*disk].wipe());
    }

    fn draw(&mut self, pool: &Pool, view: &View) -> Option<Request> {
        let sides: Vec<(Whole, Side)> = view
            .sides()
            .map(|(top, side)| (top.clone(), side.clone()))
            .collect();
        let (top, side) = self.random.pick(&sides).clone();
        let leaf = side.guid;
        let is_few = self.disks.len() < DISKS_MAX;
        let some: Vec<Guid> = sides
            .iter()
            .filter(|_| self.random.one_in(2))
            .map(|(_, side)| side.guid)
            .collect();
        let request = match self.random.below(30) {
            0 | 1 if is_few => Request::Attach(leaf, self.draw_fill(&top)),
            2 | 3 if is_few => Request::Replace(leaf, self.draw_fill(&top)),
            4..8 => self.draw_loss(pool, &side)?,
            8 | 9 => {
                let away = sides.iter().find(|(_, side)| !side.is_writable);
                Request::Online(away.map_or(leaf, |(_, side)| side.guid))
            }
            10 if is_few => self.draw_addition(),
            11 if is_few => Request::AddSpare,
            12..15 => Request::Remove(top.guid),
            15 => Request::CancelRemoval,
            16 => {
                let mut logs = view.there().filter(|top| top.role == VdevRole::Log);
                Request::RemoveLog(logs.next()?.guid)
            }
            17 => {
                if view.spares.is_empty() {
                    return None;
                }
                Request::RemoveSpare(self.random.pick(&view.spares).guid)
            }
            18 | 19 if is_few => {
                // What is wrong on one device would be on several then: no other one may be lost.
                let raidz = view.there().filter(|top| top.kind == "raidz");
                let raidz: Vec<_> = raidz.filter(|top| !self.is_unreliable(top)).collect();
                if raidz.is_empty() {
                    return None;
                }
                Request::Expand(self.random.pick(&raidz).guid)
            }
            20..29 => self.draw_work(leaf, some),
            _ => {
                let mut spares = view.spares.iter();
                let spare = spares.find(|spare| !spare.is_used && spare.is_there);
                match spare.map(|spare| (disk_of(&spare.path), &spare.path)) {
                    Some((NO_DISK, name)) => Request::Spare(leaf, PathBuf::from(name)),
                    Some((disk, _)) => Request::Spare(leaf, self.disks[disk].path()),
                    None => Request::Reopen,
                }
            }
        };
        Some(request)
    }

    /// Nothing verifies what is copied in sequence: only from devices that are right.
    fn draw_fill(&mut self, top: &Whole) -> Fill {
        match self.random.one_in(2) && !self.is_unreliable(top) {
            true => Fill::Sequential,
            false => Fill::Healing,
        }
    }

    /// A device goes, as far as the pool can do without it.
    fn draw_loss(&mut self, pool: &Pool, side: &Side) -> Option<Request> {
        self.faulty.clear();
        self.disks.iter().for_each(|disk| disk.heal());
        if !self.may_lose(pool, side.disk) {
            return None;
        }
        if self.random.one_in(2) {
            return Some(Request::Detach(side.guid));
        }
        let faulted = self.random.one_in(4);
        let temporary = self.random.one_in(2);
        let how = OutOfUse { faulted, temporary };
        Some(Request::Offline(side.guid, how))
    }

    /// What goes on beside everything else, and what concerns the pool as a whole.
    fn draw_work(&mut self, leaf: Guid, some: Vec<Guid>) -> Request {
        match self.random.below(12) {
            0 | 1 => Request::Scrub,
            2 => Request::PauseScrub,
            3 => Request::StopScrub,
            4 => Request::Resilver,
            5 => Request::Trim(some),
            6 => Request::CancelTrim(some),
            // It writes all that is free.
            7 if self.random.one_in(2) => Request::Initialize(vec![leaf]),
            7 => Request::CancelInitializing(some),
            8 => Request::TakeCheckpoint,
            9 => Request::DiscardCheckpoint,
            // The labels of one that is away would be those of another pool.
            10 if self.troubled().is_empty() => Request::Reguid,
            _ => Request::Clear,
        }
    }

    fn draw_addition(&mut self) -> Request {
        let role = *self.random.pick(&[
            VdevRole::Data,
            VdevRole::Data,
            VdevRole::Special,
            VdevRole::Log,
        ]);
        let parity =
            (role == VdevRole::Data && self.random.one_in(3)).then(|| 1 + self.random.below(2));
        let width = match parity {
            Some(parity) => parity + 1 + self.random.below(2),
            None => 1 + self.random.below(2),
        };
        Request::Add(role, parity, width)
    }

    fn make(&mut self, pool: &Arc<Pool>, request: &Request) -> Result<(), PoolError> {
        let options = |replace, fill| AttachOptions {
            replace,
            fill,
            ..AttachOptions::default()
        };
        match request {
            Request::Attach(leaf, fill) => {
                let device = self.new_device().1;
                pool.attach_device(*leaf, &device, &options(false, *fill))
            }
            Request::Replace(leaf, fill) => {
                let device = self.new_device().1;
                pool.attach_device(*leaf, &device, &options(true, *fill))
            }
            Request::Spare(leaf, path) => {
                let device = pool::NewDevice::Path(path.clone());
                pool.attach_device(*leaf, &device, &options(true, Fill::Healing))
            }
            Request::Detach(leaf) => pool.detach_device(*leaf),
            Request::Offline(leaf, how) => pool.take_out(*leaf, *how),
            Request::Online(leaf) => pool.bring_online(*leaf).map(drop),
            Request::Add(role, parity, width) => {
                let vdev = self.new_vdev(*parity, *width);
                pool.add_vdevs(&[(*role, vdev)], Some(self.ashift), false)
            }
            Request::AddSpare => {
                let device = self.new_device().1;
                pool.add_spares(&[device], false)
            }
            Request::Remove(top) => pool.remove_vdev(*top),
            Request::CancelRemoval => pool.cancel_removal(),
            Request::RemoveLog(top) => pool.remove_log(*top),
            Request::RemoveSpare(guid) => pool.remove_spare(*guid),
            Request::Expand(top) => {
                let device = self.new_device().1;
                pool.expand_raidz(*top, &device, &options(false, Fill::Healing))
            }
            Request::Scrub => pool.start_scrub(),
            Request::PauseScrub => pool.pause_scrub(),
            Request::StopScrub => pool.stop_scrub(),
            Request::Resilver => pool.restart_resilver(),
            Request::Trim(leaves) => pool.start_trims(leaves, 0, false).map(tell),
            Request::CancelTrim(leaves) => pool.cancel_trims(leaves).map(tell),
            Request::Initialize(leaves) => pool.start_initializing(leaves).map(tell),
            Request::CancelInitializing(leaves) => pool.cancel_initializing(leaves).map(tell),
            Request::TakeCheckpoint => pool.take_checkpoint(),
            Request::DiscardCheckpoint => pool.discard_checkpoint(),
            Request::Reguid => pool.reguid(None).map(drop),
            Request::Clear => pool.clear(&|_| true).map(drop),
            Request::Reopen => pool.reopen_devices(false),
        }
    }
}

fn tell(refused: Vec<TrimRefusal>) {
    for (_, reason) in refused {
        println!("    {reason}");
    }
}
