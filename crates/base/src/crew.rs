//! Threads for work that waits: as many as there is such work at once, up to a limit, and none when
//! there is none.

use crate::queue::Bounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// An idle thread ends after this long.
const IDLE: Duration = Duration::from_secs(10);

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// See the module. Threads are started when a job comes and nobody waits for one.
pub struct Crew {
    name: &'static str,
    threads_max: usize,
    queue: Bounded<Job>,
    threads: AtomicUsize,
    /// Threads that wait for a job.
    waiting: AtomicUsize,
}

impl Crew {
    /// Nobody yet; threads will have this name.
    #[must_use]
    pub fn new(name: &'static str, threads_max: usize, queue: Bounded<Job>) -> Arc<Self> {
        Arc::new(Self {
            name,
            threads_max,
            queue,
            threads: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Has a job done soon.
    ///
    /// # Errors
    /// The job, for the caller to do: too many wait, or there is not one thread to be had, or the
    /// crew was dismissed.
    pub fn run(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        self.queue.push(job)?;
        // The job is in the queue before `waiting` is read, and a thread that stops waiting looks
        // into the queue once more after it said so: one of the two sees the other.
        if self.waiting.load(Ordering::SeqCst) == 0 && self.may_start() {
            let crew = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name(self.name.into())
                .spawn(move || crew.work());
            if started.is_err()
                && self.threads.fetch_sub(1, Ordering::SeqCst) == 1
                && let Some(job) = self.queue.try_pop()
            {
                return Err(job);
            }
        }
        Ok(())
    }

    fn may_start(&self) -> bool {
        let more = |count| (count < self.threads_max).then_some(count + 1);
        self.threads
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    fn work(&self) {
        let _leaves = Leaves(&self.threads);
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let next = self.queue.pop_for(IDLE);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            match next.or_else(|| self.queue.try_pop()) {
                Some(job) => job(),
                None => break,
            }
        }
    }

    /// No further jobs; threads end when those that wait are done.
    pub fn dismiss(&self) {
        self.queue.close();
    }
}

/// Counts a thread out, also one that a job made panic.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
