//! Scrub: every copy of every block is read and verified, and mended where it is wrong.
//!
//! A thread walks the object sets, oldest snapshots first, so that each block is seen with the
//! first dataset that has it. It works in short slices, each under a hold of the reuse gate: what
//! a slice finds cannot be overwritten while it is looked at. After a restart, or when OpenZFS
//! goes on with it, a scrub begins anew.
//!
//! ```text
//! none/finished/cancelled --start--> running <--start/pause--> paused --stop--> cancelled
//!                                    running --all seen--> finished
//! ```

pub(crate) mod walk;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{ObjectId, ObjectSetId, Txg};
use dsl::Dsl;
use format::BlockPointer;
use format::config::keys;
use format::dsl::DatasetPhys;
use pipeline::{Pipeline, Scrubbed};

use crate::dtl;
use crate::duties::ScanChange;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::scan::{
    FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_FINISHED, STATE_SCANNING,
    ScanPhys,
};
use walk::{Births, Found, Place, Walk};

static CONTROL: LockClass = LockClass::new("pool.scrub", rank::POOL + 20);
static THREAD: LockClass = LockClass::new("pool.scrub_thread", rank::POOL + 15);

/// Blocks of a slice: few enough for a slice to be short.
const SLICE_BLOCKS: usize = 128;
/// Threads that verify.
const THREADS: usize = 4;
/// How often the state is stored.
const STORE_EVERY_NS: u64 = 10_000_000_000;

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Run,
    Pause,
    Stop,
    /// The pool closes: the scrub stays as stored.
    Leave,
}

struct Control {
    wish: Wish,
    /// The state of the scrub that runs or is paused.
    scan: Option<ScanPhys>,
}

/// The scrub of a pool that is open for writing.
pub(crate) struct Scrub {
    control: Mutex<Control>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrub {
    pub(crate) fn new() -> Arc<Self> {
        let control = Control {
            wish: Wish::Run,
            scan: None,
        };
        Arc::new(Self {
            control: Mutex::new(&CONTROL, control),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
        })
    }

    /// The state of the scrub that runs or is paused.
    pub(crate) fn current(&self) -> Option<ScanPhys> {
        self.control.lock().scan
    }

    /// Ends the thread; what is stored stays.
    pub(crate) fn leave(&self) {
        self.control.lock().wish = Wish::Leave;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    fn wait(&self) -> Wish {
        let mut control = self.control.lock();
        while control.wish == Wish::Pause {
            self.changed.wait(&mut control);
        }
        control.wish
    }

    fn note(&self, scan: ScanPhys) {
        self.control.lock().scan = Some(scan);
    }
}

impl Pool {
    /// Starts a scrub, or goes on with one that is paused.
    ///
    /// # Errors
    /// One is running, or the pool is read-only or stopped.
    pub fn start_scrub(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        let scrub = &writer.scrub;
        let running = scrub.current();
        if running.is_some_and(|scan| scan.function == FUNCTION_RESILVER) {
            return Err(PoolError::Scan("currently resilvering"));
        }
        match running {
            Some(scan) if !scan.is_paused() => {
                return Err(PoolError::Scan(
                    "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
                ));
            }
            Some(mut scan) => {
                scan.flags &= !FLAG_PAUSED;
                self.store_scan(ScanChange::Update(scan))?;
                let mut control = scrub.control.lock();
                control.wish = Wish::Run;
                control.scan = Some(scan);
                drop(control);
                scrub.changed.notify_all();
                return Ok(());
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
        self.run_scrub(scan)
    }

    /// Begins again with a scrub that was running when the pool was last open.
    pub(crate) fn resume_scrub(self: &Arc<Self>) -> Result<()> {
        let Some(mut scan) = ScanPhys::load(&self.services.directory)? else {
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
        (scan.examined, scan.processed, scan.errors, scan.skipped) = (0, 0, 0, 0);
        self.run_scrub(scan)
    }

    /// Starts a resilver if a device is there that missed txgs; whether one was.
    pub(crate) fn resilver_if_needed(self: &Arc<Self>) -> Result<bool> {
        let writer = self.writer()?;
        let behind = dtl::leaves(&self.vdevs)
            .into_iter()
            .filter(|leaf| leaf.is_writable())
            .filter_map(|leaf| leaf.missing().bounds());
        let bounds = behind.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        let Some((first, last)) = bounds else {
            return Ok(false);
        };
        writer.scrub.leave();
        let scan = ScanPhys {
            function: FUNCTION_RESILVER,
            state: STATE_SCANNING,
            txg_min: first.0.saturating_sub(1),
            txg_max: last.0 + 1,
            started: self.clock().now_s(),
            to_examine: self.space().allocated,
            ..ScanPhys::default()
        };
        self.store_scan(ScanChange::Start(scan))?;
        self.run_scrub(scan)?;
        Ok(true)
    }

    /// A resilver ended well: the devices that it was for have what they missed.
    fn note_resilvered(&self, through: Txg) {
        for leaf in dtl::leaves(&self.vdevs) {
            let mut missing = leaf.missing();
            if missing.is_empty() || !leaf.is_writable() {
                continue;
            }
            missing.remove_through(through);
            leaf.set_missing(missing);
            self.services.config.change(|config| {
                if let Some(leaf) = config.root.find_mut(leaf.guid()) {
                    leaf.list.remove(keys::RESILVER_TXG);
                }
            });
        }
    }

    fn run_scrub(self: &Arc<Self>, scan: ScanPhys) -> Result<()> {
        let writer = self.writer()?;
        let scrub = Arc::clone(&writer.scrub);
        {
            let mut control = scrub.control.lock();
            control.scan = Some(scan);
            control.wish = if scan.is_paused() {
                Wish::Pause
            } else {
                Wish::Run
            };
        }
        let pool = Arc::downgrade(self);
        let own = Arc::clone(&scrub);
        let thread = std::thread::Builder::new()
            .name("pool-scrub".to_owned())
            .spawn(move || run(&pool, &own, scan));
        match thread {
            Ok(thread) => {
                *scrub.thread.lock() = Some(thread);
                Ok(())
            }
            Err(_) => {
                scrub.control.lock().scan = None;
                Err(PoolError::Scan("no thread can be started"))
            }
        }
    }

    /// Ends the scrub; what was mended stays so.
    ///
    /// # Errors
    /// None is running, or the pool is read-only or stopped.
    pub fn stop_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        let scan = writer
            .scrub
            .current()
            .ok_or(PoolError::Scan("there is no active scrub"))?;
        {
            let mut control = writer.scrub.control.lock();
            control.wish = Wish::Stop;
            control.scan = None;
        }
        writer.scrub.changed.notify_all();
        let ended = ScanPhys {
            state: STATE_CANCELED,
            ended: self.clock().now_s(),
            flags: 0,
            ..scan
        };
        self.store_scan(ScanChange::End(ended))
    }

    /// Pauses the scrub.
    ///
    /// # Errors
    /// None is running, it is paused already, or the pool is read-only or stopped.
    pub fn pause_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        let scan = writer
            .scrub
            .current()
            .ok_or(PoolError::Scan("there is no active scrub"))?;
        if scan.is_paused() {
            return Err(PoolError::Scan(
                "scrub is paused; use 'zpool scrub' to resume scrub",
            ));
        }
        let paused = ScanPhys {
            flags: scan.flags | FLAG_PAUSED,
            ..scan
        };
        {
            let mut control = writer.scrub.control.lock();
            control.wish = Wish::Pause;
            control.scan = Some(paused);
        }
        self.store_scan(ScanChange::Update(paused))
    }

    fn store_scan(&self, change: ScanChange) -> Result<()> {
        let writer = self.writer()?;
        writer.syncer.duties.change_scan_next(change);
        Ok(writer.engine.wait_synced(None)?)
    }
}

/// An object set to be walked.
#[derive(Clone, Copy)]
enum Target {
    Meta,
    /// A dataset, and the snapshot before it when the scrub began: one taken since is not walked.
    Dataset(ObjectId, Txg),
}

fn run(pool: &Weak<Pool>, scrub: &Arc<Scrub>, mut scan: ScanPhys) {
    let Some(first) = pool.upgrade() else { return };
    let targets = targets(&first.dsl);
    drop(first);
    let mut stored_at = base::clock::monotonic_ns();
    for target in targets {
        let mut place = Place::default();
        loop {
            match scrub.wait() {
                Wish::Run | Wish::Pause => {}
                Wish::Stop | Wish::Leave => return,
            }
            // The pool is not kept open between slices.
            let Some(pool) = pool.upgrade() else { return };
            let (done, result) = slice(&pool, target, &mut place, &scan);
            scan.examined += result.examined_bytes;
            scan.processed += result.repaired_bytes;
            scan.errors += result.unreadable;
            if scan.function == FUNCTION_RESILVER {
                scan.errors += result.unrepaired;
            }
            if scrub.control.lock().wish == Wish::Run {
                scrub.note(scan);
            }
            let now = base::clock::monotonic_ns();
            if now.saturating_sub(stored_at) > STORE_EVERY_NS {
                stored_at = now;
                if let Some(writer) = &pool.writer {
                    writer
                        .syncer
                        .duties
                        .change_scan_next(ScanChange::Update(scan));
                }
            }
            if done {
                break;
            }
        }
    }
    finish(pool, scrub, scan);
}

fn finish(pool: &Weak<Pool>, scrub: &Scrub, scan: ScanPhys) {
    let Some(pool) = pool.upgrade() else { return };
    let Some(writer) = &pool.writer else { return };
    let ended = ScanPhys {
        state: STATE_FINISHED,
        ended: pool.clock().now_s(),
        ..scan
    };
    {
        let mut control = scrub.control.lock();
        if control.wish != Wish::Run {
            return;
        }
        control.scan = None;
    }
    if scan.function == FUNCTION_RESILVER && scan.errors == 0 {
        pool.note_resilvered(Txg(scan.txg_max));
    }
    writer
        .syncer
        .duties
        .change_scan_next(ScanChange::End(ended));
    // An engine that ended has not stored the end: the next import begins the scrub anew.
    let _ = writer.engine.wait_synced(None);
}

/// The object sets, each dataset after those that it shares older blocks with.
fn targets(dsl: &Arc<Dsl>) -> Vec<Target> {
    let mut targets = vec![Target::Meta];
    let Ok(root) = dsl.root_directory() else {
        return targets;
    };
    let mut datasets = Vec::new();
    for head in dsl.heads_under(&root).unwrap_or_default() {
        let after =
            |phys: dsl::Result<DatasetPhys>| phys.map_or(Txg(0), |phys| phys.previous_snapshot_txg);
        for snapshot in head.snapshots().unwrap_or_default() {
            let created = snapshot.phys().map_or(Txg(0), |phys| phys.creation_txg);
            datasets.push((created, snapshot.id(), after(snapshot.phys())));
        }
        datasets.push((Txg(u64::MAX), head.id(), after(head.phys())));
    }
    datasets.sort_unstable();
    let datasets = datasets.into_iter();
    targets.extend(datasets.map(|(_, id, after)| Target::Dataset(id, after)));
    targets
}

/// One slice: collects blocks and looks at them; true when the object set is done.
fn slice(pool: &Pool, target: Target, place: &mut Place, scan: &ScanPhys) -> (bool, Scrubbed) {
    let mut result = Scrubbed::default();
    let Some(writer) = &pool.writer else {
        return (true, result);
    };
    let last = || writer.syncer.last.get().txg;
    let _hold = writer.syncer.gate.hold(last);
    let Some((set, root, tree_after)) = root_of(pool, target) else {
        return (true, result);
    };
    let mut walk = Walk {
        pipeline: &pool.pipeline,
        set,
        births: Births {
            // What is older than the range has nothing younger below it.
            tree_after: tree_after.max(Txg(scan.txg_min)),
            after: Txg(scan.txg_min),
            until: Txg(scan.txg_max),
        },
        place: *place,
        found: Vec::with_capacity(SLICE_BLOCKS),
        found_max: SLICE_BLOCKS,
        unreadable: 0,
    };
    let done = walk.run(&root);
    *place = walk.place;
    // Blocks that the walk could not read are among those found, and are counted there.
    result += verify(&pool.pipeline, &walk.found);
    (done, result)
}

/// The root of an object set as of now, and the txg up to which its blocks were seen before.
fn root_of(pool: &Pool, target: Target) -> Option<(ObjectSetId, BlockPointer, Txg)> {
    match target {
        Target::Meta => {
            let uberblock = pool.writer.as_ref()?.syncer.last.get();
            Some((ObjectSetId::MOS, uberblock.root, Txg(0)))
        }
        Target::Dataset(id, after) => {
            // A dataset that was destroyed meanwhile has nothing left of its own.
            let dataset = pool.dsl.dataset_by_id(id).ok()?;
            let phys = dataset.phys().ok()?;
            // The snapshot before it may have been destroyed since: its blocks are this one's now.
            let after = after.min(phys.previous_snapshot_txg);
            Some((ObjectSetId(id.0), phys.block_pointer, after))
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

/// How long a waiting caller sleeps between looks.
pub(crate) const WAIT_PAUSE: Duration = Duration::from_millis(20);

impl Pool {
    /// Waits until no scrub runs.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_scrub(&self) -> Result<()> {
        while let Some(scan) = self.writer()?.scrub.current() {
            if scan.is_paused() {
                break;
            }
            std::thread::sleep(WAIT_PAUSE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
