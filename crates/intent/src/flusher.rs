//! Device flushes that serve everyone whose writes were done before they began.

use crate::tunables;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::VdevId;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::queue::Bounded;
use base::thread_pool::ThreadPool;
use vdev::{VdevError, VdevTree};

static FLUSHES: LockClass = LockClass::new("intent.flushes", rank::INTENT + 40);

#[derive(Default)]
struct Line {
    running: usize,
    /// The number of the flush that begins next.
    next: u64,
    /// The highest number of those that ended well, plus one.
    good: u64,
    /// The last that failed, and why.
    failed: Option<(u64, VdevError)>,
}

/// The flushes of a pool's vdevs, shared by all its logs.
pub struct Flusher {
    vdevs: Arc<VdevTree>,
    lines: Mutex<BTreeMap<VdevId, Line>>,
    ended: Condvar,
    thread_pool: Arc<ThreadPool>,
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.thread_pool.close();
    }
}

impl Flusher {
    /// Flushes of these vdevs.
    #[must_use]
    pub fn new(vdevs: Arc<VdevTree>) -> Arc<Self> {
        Arc::new(Self {
            vdevs,
            lines: Mutex::new(&FLUSHES, BTreeMap::new()),
            ended: Condvar::new(),
            thread_pool: ThreadPool::new(
                ("intent-leader", sys::thread::ANSWERS),
                tunables::LEADERS_MAX.count(),
                Bounded::new("intent.leads", tunables::LEADS_MAX.count()),
            ),
        })
    }

    /// Who leads batches for callers without a thread.
    pub(crate) const fn thread_pool(&self) -> &Arc<ThreadPool> {
        &self.thread_pool
    }

    /// Returns when a flush of the vdev that began after this call has ended; whether the caller
    /// did it itself.
    ///
    /// # Errors
    /// The flush failed.
    pub fn flush(&self, vdev: VdevId) -> Result<bool, VdevError> {
        let mut lines = self.lines.lock();
        let mine = lines.entry(vdev).or_default().next;
        loop {
            let line = lines.entry(vdev).or_default();
            // A good flush after a failed one proves nothing: the kernel may have dropped pages.
            if let Some((number, error)) = &line.failed
                && *number >= mine
            {
                return Err(error.clone());
            }
            if line.good > mine {
                return Ok(false);
            }
            if line.running < tunables::FLUSHES_MAX.count() && line.next == mine {
                break;
            }
            self.ended.wait(&mut lines);
        }
        let line = lines.entry(vdev).or_default();
        line.running += 1;
        line.next += 1;
        drop(lines);
        let result = self.vdevs.top(vdev).and_then(|top| top.flush());
        let mut lines = self.lines.lock();
        let line = lines.entry(vdev).or_default();
        line.running -= 1;
        match &result {
            Ok(()) => line.good = line.good.max(mine + 1),
            Err(error) => line.failed = Some((mine, error.clone())),
        }
        drop(lines);
        self.ended.notify_all();
        result.map(|()| true)
    }
}
