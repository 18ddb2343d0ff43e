//! Threads for work that waits: as many as there is such work at once, up to a limit, and none when
//! there is none.

use crate::queue::Bounded;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::panicking;
use crate::thread::{self, Role};
use std::sync::Arc;
use std::time::Duration;

/// An idle thread ends after this long; in a model as soon as it can.
const IDLE: Duration = Duration::from_millis(if cfg!(shuttle) { 1 } else { 10_000 });

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// See the module. Threads are started when a job comes and nobody waits for one.
pub struct ThreadPool {
    name: &'static str,
    role: Role,
    threads_max: usize,
    queue: Bounded<Job>,
    threads: AtomicUsize,
}

impl ThreadPool {
    /// Nobody yet; threads will have this name and role.
    #[must_use]
    pub fn new(
        (name, role): (&'static str, Role),
        threads_max: usize,
        queue: Bounded<Job>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            role,
            threads_max,
            queue,
            threads: AtomicUsize::new(0),
        })
    }

    /// Has a job done soon.
    ///
    /// # Errors
    /// The job, for the caller to do: too many wait, or there is not one thread to be had, or the
    /// thread pool was closed.
    pub fn run(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        // Who waits is counted under the queue's lock, with what is queued: a thread that was woken for another job is
        // not counted on, nor is one that has given up waiting.
        let somebody_waits = self.queue.push_for(job)?;
        self.pushed(somebody_waits)
    }

    /// Has a job done that was taken in before, when whoever brings it must not be held up. There is room for it: those
    /// who take in such jobs bound them.
    ///
    /// # Errors
    /// The job, when there is not one thread to be had, or the thread pool was closed.
    pub fn run_owed(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        let somebody_waits = self.queue.push_owed(job)?;
        self.pushed(somebody_waits)
    }

    fn pushed(self: &Arc<Self>, somebody_waits: bool) -> Result<(), Job> {
        if !somebody_waits
            && self.may_start()
            && !self.start()
            && self.threads.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(job) = self.queue.try_pop()
        {
            return Err(job);
        }
        Ok(())
    }

    /// Starts a thread that was counted; false if the system gives none.
    fn start(self: &Arc<Self>) -> bool {
        let thread_pool = Arc::clone(self);
        let start = thread::named(self.name, self.role);
        start.spawn(move || thread_pool.work()).is_ok()
    }

    fn may_start(&self) -> bool {
        let more = |count| (count < self.threads_max).then_some(count + 1);
        self.threads
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    fn work(self: &Arc<Self>) {
        loop {
            let counted = Leaves(self);
            self.work_until_idle();
            drop(counted);
            if !self.is_wanted() {
                return;
            }
        }
    }

    /// Whether a job came when this thread no longer looked for one, and still counted: then nobody was started for
    /// it. If so, this thread counts again.
    fn is_wanted(&self) -> bool {
        self.queue.depth() > 0 && self.may_start()
    }

    fn work_until_idle(&self) {
        while let Some(job) = self.queue.pop_for(IDLE) {
            job();
        }
    }

    /// No further jobs; threads end when those that wait are done.
    pub fn close(&self) {
        self.queue.close();
    }
}

/// Counts a thread out, also one that a job made panic; another one takes what is queued then.
struct Leaves<'a>(&'a Arc<ThreadPool>);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::SeqCst);
        if panicking() && self.0.is_wanted() && !self.0.start() {
            self.0.threads.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
