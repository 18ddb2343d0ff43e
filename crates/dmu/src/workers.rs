//! Spreads the work of a sync over threads that live as long as that work: nothing is queued.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::thread::{self, Role};
use txg::SyncContext;

static FAILURE: LockClass = LockClass::new("dmu.workers", rank::DMU + 49);

/// How many threads a sync may use.
#[derive(Clone, Copy, Debug)]
pub struct SyncWorkers {
    threads: usize,
}

impl SyncWorkers {
    /// At most `threads` threads, the caller's included.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
        }
    }

    /// One thread a core.
    #[must_use]
    pub fn per_core() -> Self {
        Self::new(base::thread::cpus())
    }

    /// Threads at most.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `job` for every number below `count`, on as many threads as pay (`heavy`: the work is
    /// worth starting threads for). The first error ends the run.
    ///
    /// # Errors
    /// The first that a job gave.
    pub fn run<E: Send>(
        &self,
        count: usize,
        heavy: bool,
        job: impl Fn(usize) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let threads = if heavy { self.threads.min(count) } else { 1 };
        if threads <= 1 {
            return (0..count).try_for_each(job);
        }
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let failure = Mutex::new(&FAILURE, None);
        let enter = SyncContext::for_helpers();
        let work = || {
            let _context = enter();
            while !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                if let Err(error) = job(index) {
                    stop.store(true, Ordering::Relaxed);
                    failure.lock().get_or_insert(error);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be started is work that the others do.
                let _ = thread::named("sync-worker", Role::PART).spawn_scoped(scope, work);
            }
            work();
        });
        failure.into_inner().map_or(Ok(()), Err)
    }
}
