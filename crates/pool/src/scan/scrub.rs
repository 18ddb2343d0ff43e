//! What users ask of scrubs, and when resilvers begin.

use std::sync::Arc;
use std::time::Duration;

use base::thread;
use base::{Guid, ObjectId, Txg};
use format::config::keys;
use format::features::RESILVER_DEFER;
use vdev::Leaf;

use super::ahead::Ahead;
use super::control::{Control, LogPlace, ScanChange, ScanRequest};
use super::course::Course;
use super::work;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::scan::phys::{
    self, FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_SCANNING, ScanPhys,
};
use crate::vdevs::dtl;

/// What is said of a resilver that is in the way.
const RESILVERING: &str = "currently resilvering";

impl Pool {
    /// Starts a scrub, or goes on with one that is paused.
    ///
    /// # Errors
    /// One is running, or the pool is read-only or stopped.
    pub fn start_scrub(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        let scrub = &writer.scrub;
        let _starting = scrub.starting();
        if scrub.is_resilver() || writer.rebuilds.is_any() {
            return Err(PoolError::Scan(RESILVERING));
        }
        match scrub.current() {
            Some(scan) if !scan.is_paused() => {
                return Err(PoolError::Scan(
                    "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
                ));
            }
            Some(_) => {
                let mut control = scrub.control.lock();
                if let Some(scan) = &mut control.scan {
                    scan.flags &= !FLAG_PAUSED;
                    self.services.events.scan(scan, "resume");
                }
                control.request = ScanRequest::Run;
                drop(control);
                scrub.changed.notify_all();
                return self.store_scan(ScanChange::Update);
            }
            None => {}
        }
        scrub.leave();
        let scan = ScanPhys {
            function: FUNCTION_SCRUB,
            state: STATE_SCANNING,
            txg_max: writer.engine.open_txg().0,
            started: self.clock().now_s(),
            to_examine: self.space().allocated,
            ..ScanPhys::default()
        };
        self.store_scan(ScanChange::Start(scan))?;
        self.run_scrub(scan, Course::begin(scan))
    }

    /// Goes on with a scrub that was running when the pool was last open.
    pub(crate) fn resume_scrub(self: &Arc<Self>) -> Result<()> {
        let Some(mut scan) = phys::load(&self.services.directory)? else {
            return Ok(());
        };
        if !scan.is_running() || self.writer.is_none() {
            return Ok(());
        }
        if scan.function == FUNCTION_RESILVER {
            // The device that it was for is not here.
            let ended = self.clock().now_s();
            (scan.state, scan.ended) = (STATE_CANCELED, ended);
            return self.store_scan(ScanChange::End(scan));
        }
        if scan.bookmark == [0; 4] {
            (scan.examined, scan.processed, scan.errors, scan.skipped) = (0, 0, 0, 0);
        }
        let _starting = self.writer()?.scrub.starting();
        self.resume_at_place(scan)
    }

    /// Goes on with a scan from the place that is stored with it.
    fn resume_at_place(self: &Arc<Self>, scan: ScanPhys) -> Result<()> {
        let queue = self.services.stored_queue(&scan)?;
        let exists = |id: ObjectId| self.dsl.dataset_by_id(id).is_ok();
        self.run_scrub(scan, Course::resume(scan, queue, &exists))
    }

    /// Goes on with a resilver that was running when the pool was last open, if its place holds for every device that
    /// is behind; whether it does.
    pub(crate) fn resume_resilver(self: &Arc<Self>) -> Result<bool> {
        let Some(scan) = phys::load(&self.services.directory)? else {
            return Ok(false);
        };
        let goes_on = scan.is_running()
            && scan.function == FUNCTION_RESILVER
            && scan.bookmark != [0; 4]
            && scan.errors == 0;
        let writer = self.writer()?;
        let _starting = writer.scrub.starting();
        if !goes_on || !self.is_place_of_all(&scan) {
            return Ok(false);
        }
        let deferred = self.deferred();
        self.begin_resilver(&deferred);
        self.resume_at_place(scan)?;
        Ok(true)
    }

    /// Whether the devices that are behind, but for those that wait for its end, are those that had everything up to
    /// the place of a resilver. One that was away while it ran missed a txg that is younger than the range
    /// ([`crate::vdevs::dtl::MissedTxgs::note_away`]).
    fn is_place_of_all(&self, scan: &ScanPhys) -> bool {
        let deferred = self.deferred();
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let writable = leaves.filter(|leaf| leaf.is_writable() && !leaf.is_rebuilding());
        let writable = writable.filter(|leaf| !deferred.contains(&leaf.guid()));
        let bounds: Vec<_> = writable
            .filter_map(|leaf| leaf.missing().bounds())
            .collect();
        let in_range = |(first, last): &(Txg, Txg)| first.0 > scan.txg_min && last.0 < scan.txg_max;
        !bounds.is_empty() && bounds.iter().all(in_range)
    }

    /// Goes on with a scan that an export ended which then failed, from the last place that is stored.
    pub(crate) fn go_on_with_scan(self: &Arc<Self>) -> Result<()> {
        let scrub = &self.writer()?.scrub;
        let _starting = scrub.starting();
        if scrub.thread.lock().is_some() {
            return Ok(());
        }
        if self.go_on_with_left()? {
            return Ok(());
        }
        self.follow_resilver()
    }

    /// Starts the thread again of a scan that was left; whether there is one. While nobody else starts a scan.
    fn go_on_with_left(self: &Arc<Self>) -> Result<bool> {
        let left = {
            let control = self.writer()?.scrub.control.lock();
            control.scan.map(|scan| (scan, control.kept.clone()))
        };
        let Some((scan, kept)) = left else {
            return Ok(false);
        };
        self.run_scrub(scan, kept)?;
        Ok(true)
    }

    /// Has every device that is there and missed txgs get them: starts rebuilds of those that are to be rebuilt, and a
    /// resilver of others, unless the one that runs is for these, or they can wait for its end. Whether there is a
    /// resilver, now or then.
    pub(crate) fn resilver_if_needed(self: &Arc<Self>) -> Result<bool> {
        if !self.lacks_resilver()? {
            return Ok(false);
        }
        let scrub = &self.writer()?.scrub;
        let _starting = scrub.starting();
        if self.is_left_to_running()? {
            return Ok(true);
        }
        self.start_resilver()
    }

    /// The same, but that a resilver which runs begins anew.
    pub(crate) fn resilver_anew(self: &Arc<Self>) -> Result<bool> {
        if !self.lacks_resilver()? {
            return Ok(false);
        }
        let _starting = self.writer()?.scrub.starting();
        self.start_resilver()
    }

    /// Whether a device is there that is to be resilvered, and no rebuild, which begins, gives it what it lacks.
    fn lacks_resilver(self: &Arc<Self>) -> Result<bool> {
        self.rebuild_if_needed()?;
        if self.to_resilver().iter().all(|leaf| leaf.is_whole()) {
            self.end_replacements()?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Devices that are there and for no rebuild.
    pub(super) fn to_resilver(&self) -> Vec<Arc<Leaf>> {
        let mut leaves = dtl::leaves(&self.vdevs);
        leaves.retain(|leaf| leaf.is_writable() && !leaf.is_rebuilding());
        leaves
    }

    /// While nobody else starts a scan.
    pub(super) fn start_resilver(self: &Arc<Self>) -> Result<bool> {
        let writer = self.writer()?;
        writer.scrub.leave();
        // Of a txg that was under way as a device came back some writes missed it, and not all are noted before its
        // end: noted later, they would be what the resilver left behind.
        writer.engine.wait_synced(None)?;
        let Some((first, last)) = self.begin_resilver(&[]) else {
            // Another way gave them what they lacked, meanwhile: what was left for this goes on.
            self.go_on_with_left()?;
            return Ok(false);
        };
        let scan = ScanPhys {
            function: FUNCTION_RESILVER,
            state: STATE_SCANNING,
            txg_min: self.first_to_resilver(first).0.saturating_sub(1),
            txg_max: last.0 + 1,
            started: self.clock().now_s(),
            to_examine: self.space().allocated,
            ..ScanPhys::default()
        };
        self.store_scan(ScanChange::Start(scan))?;
        self.run_scrub(scan, Course::begin(scan))?;
        Ok(true)
    }

    /// Starts a resilver, if a device is there that missed txgs; one that runs begins anew, with the devices that were
    /// to wait for its end.
    ///
    /// # Errors
    /// The pool has not enabled `resilver_defer`, or is read-only or stopped.
    pub fn restart_resilver(self: &Arc<Self>) -> Result<()> {
        self.check_running()?;
        if !self.services.features.is_enabled(&RESILVER_DEFER) {
            let reason = "this action requires the resilver_defer feature";
            return Err(PoolError::refused(reason));
        }
        self.resilver_anew()?;
        Ok(())
    }

    /// From here until [`Pool::note_resilvered`] devices note what the resilver leaves behind. The first and the last
    /// txg that one of them missed; everything of these txgs is on disk before the walk begins, for its start is
    /// stored first. Without the devices that are left out, which wait for the end.
    fn begin_resilver(&self, left_out: &[Guid]) -> Option<(Txg, Txg)> {
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let bounds = leaves.filter_map(|leaf| {
            if !leaf.is_writable() || left_out.contains(&leaf.guid()) {
                // The range may not hold what it missed.
                leaf.leave_resilver();
                return None;
            }
            if leaf.is_rebuilding() {
                return None;
            }
            leaf.begin_resilver();
            leaf.missing().bounds()
        });
        bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// The birth of the oldest blocks that a resilver has to look at, if a device missed this txg and none before: what
    /// lies on a removed vdev is older than its copy on the device.
    fn first_to_resilver(&self, first: Txg) -> Txg {
        let removed = self.vdevs.removed();
        let mut mappings = removed.iter().filter_map(|top| top.mapping());
        let was_copied = mappings.any(|mapping| mapping.births().any(|birth| birth >= first));
        if was_copied { Txg(0) } else { first }
    }

    /// A resilver has seen everything that it could: the devices that it was for have what they missed, but for what
    /// it left behind.
    pub(super) fn note_resilvered(&self) {
        self.keep_what_is_being_copied();
        for leaf in dtl::leaves(&self.vdevs) {
            if !leaf.end_resilver() {
                continue;
            }
            self.services.config.change(|config| {
                if let Some(leaf) = config.root.find_mut(leaf.guid()) {
                    leaf.list.remove(keys::RESILVER_TXG);
                }
            });
        }
    }

    /// What a removal copies was not looked at in its new place: a device that missed that has it not. When the removal
    /// has ended, another resilver sees it.
    fn keep_what_is_being_copied(&self) {
        let Some(writer) = &self.writer else { return };
        match writer.removal.births() {
            Ok(births) => {
                for top in self.vdevs.tops() {
                    births.iter().for_each(|birth| top.leave_behind(*birth));
                }
            }
            // Then nothing was seen.
            Err(_) => self.leave_behind_through(Txg(u64::MAX)),
        }
    }

    /// Some blocks that are not younger than `birth` were not seen by the scan.
    pub(super) fn leave_behind_through(&self, birth: Txg) {
        for leaf in dtl::leaves(&self.vdevs) {
            leaf.note_left_through(birth);
        }
    }

    fn run_scrub(self: &Arc<Self>, scan: ScanPhys, course: Course) -> Result<()> {
        let writer = self.writer()?;
        let scrub = Arc::clone(&writer.scrub);
        let number = scrub.pending.begin();
        // One that begins has marked none yet.
        let is_followed = !self.deferred().is_empty();
        // What the txg under way has freed already is not known.
        if let Err(error) = writer.engine.wait_synced(None) {
            scrub.pending.end(number);
            return Err(error.into());
        }
        {
            let mut control = scrub.control.lock();
            if control.is_closed {
                drop(control);
                scrub.pending.end(number);
                return Err(PoolError::Scan("the pool is being closed"));
            }
            control.scan = Some(scan);
            control.is_followed = is_followed;
            control.number = number;
            control.kept = course.clone();
            control.course = course;
            control.is_issuing = false;
            control.trees = None;
            control.log = LogPlace::default();
            *scrub.ahead.lock() = Ahead::default();
            control.paused_at_s = self.clock().now_s();
            self.services.errors.set_scanning(true);
            control.request = if scan.is_paused() {
                ScanRequest::Pause
            } else {
                ScanRequest::Run
            };
        }
        let pool = Arc::downgrade(self);
        let own = Arc::clone(&scrub);
        let thread = thread::named("pool-scrub", sys::thread::BACKGROUND)
            .spawn(move || work::run(&pool, &own, number));
        match thread {
            Ok(thread) => {
                *scrub.thread.lock() = Some(thread);
                Ok(())
            }
            Err(_) => {
                scrub.control.lock().scan = None;
                scrub.pending.end(number);
                Err(PoolError::Scan("no thread can be started"))
            }
        }
    }

    /// Ends the scrub; what was repaired stays so.
    ///
    /// # Errors
    /// None is running, or the pool is read-only or stopped.
    pub fn stop_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        {
            let mut control = writer.scrub.control.lock();
            check_no_resilver(&control)?;
            // The scan's own thread may end it at this moment: one of both does.
            let scan = control.scan.take();
            let scan = scan.ok_or(PoolError::Scan("there is no active scrub"))?;
            control.request = ScanRequest::Stop;
            self.services.errors.set_scanning(false);
            // Before anything that is started from now on.
            writer.scrub.change_next(ScanChange::End(ScanPhys {
                state: STATE_CANCELED,
                ended: self.clock().now_s(),
                flags: 0,
                ..scan
            }));
        }
        writer.scrub.changed.notify_all();
        Ok(writer.engine.wait_synced(None)?)
    }

    /// Pauses the scrub.
    ///
    /// # Errors
    /// None is running, it is paused already, or the pool is read-only or stopped.
    pub fn pause_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        {
            let mut control = writer.scrub.control.lock();
            check_no_resilver(&control)?;
            let scan = control.scan.as_mut();
            let scan = scan.ok_or(PoolError::Scan("there is no active scrub"))?;
            if scan.is_paused() {
                return Err(PoolError::Scan(
                    "scrub is paused; use 'zpool scrub' to resume scrub",
                ));
            }
            scan.flags |= FLAG_PAUSED;
            self.services.events.scan(scan, "paused");
            control.request = ScanRequest::Pause;
            control.paused_at_s = self.clock().now_s();
        }
        self.store_scan(ScanChange::Update)
    }

    pub(super) fn store_scan(&self, change: ScanChange) -> Result<()> {
        let writer = self.writer()?;
        writer.scrub.change_next(change);
        Ok(writer.engine.wait_synced(None)?)
    }
}

/// A resilver is neither stopped nor paused.
fn check_no_resilver(control: &Control) -> Result<()> {
    match control.scan {
        Some(scan) if scan.function == FUNCTION_RESILVER => Err(PoolError::Scan(RESILVERING)),
        Some(_) | None => Ok(()),
    }
}

/// How long a waiting caller sleeps between looks.
pub(crate) const WAIT_PAUSE: Duration = Duration::from_millis(20);

/// How often a waiting caller looks whether the end of a scan is stored: 10 s, for one that has no
/// thread has no end.
const WAITS_FOR_END_MAX: u32 = 500;

impl Pool {
    /// Waits until no scan runs, nor one is about to follow.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_scrub(&self) -> Result<()> {
        while self.writer()?.scrub.is_busy() {
            base::thread::sleep(WAIT_PAUSE);
        }
        // The end is stored with the next txg, unless the pool is suspended.
        for _ in 0..WAITS_FOR_END_MAX {
            let stored = phys::load(&self.services.directory)?;
            let is_running = stored.is_some_and(|scan| scan.is_running() && !scan.is_paused());
            if !is_running || self.suspended().is_some() {
                break;
            }
            self.writer()?;
            base::thread::sleep(WAIT_PAUSE);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
