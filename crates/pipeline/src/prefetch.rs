//! Reading ahead: a bounded queue and a few threads that fill the cache.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use base::metrics::Counter;
use base::queue::Bounded;
use format::block_pointer::BlockPointer;
use vdev::IoClass;

use crate::pipeline::cache_key;
use crate::{Bookmark, Pipeline, ReadRequest};

const QUEUE_BLOCKS: usize = 1024;

/// What reading ahead did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrefetchStatistics {
    /// Blocks that were queued.
    pub issued: u64,
    /// Blocks that were in the cache already.
    pub present: u64,
    /// Blocks that were not queued because the budget was spent.
    pub refused: u64,
    /// Blocks that could not be read (a reader that needs them will say so).
    pub failed: u64,
    /// Logical bytes queued or being read now.
    pub in_flight_bytes: u64,
}

struct Shared {
    queue: Bounded<(BlockPointer, Bookmark)>,
    in_flight_bytes: AtomicU64,
    budget_bytes: u64,
    issued: Counter,
    present: Counter,
    refused: Counter,
    failed: Counter,
}

/// Reads blocks into the cache before someone asks. A demand read never waits for it, except for
/// the very block that is being read. When the budget is spent, wishes are dropped.
pub struct Prefetcher {
    pipeline: Arc<Pipeline>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Prefetcher {
    /// `threads` readers with at most `budget_bytes` of blocks queued or in flight.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, threads: usize, budget_bytes: u64) -> Self {
        let shared = Arc::new(Shared {
            queue: Bounded::new("prefetch", QUEUE_BLOCKS),
            in_flight_bytes: AtomicU64::new(0),
            budget_bytes,
            issued: Counter::new(),
            present: Counter::new(),
            refused: Counter::new(),
            failed: Counter::new(),
        });
        let start = |number| {
            let (pipeline, shared) = (Arc::clone(&pipeline), Arc::clone(&shared));
            let builder = std::thread::Builder::new().name(format!("prefetch-{number}"));
            // Fewer threads, or none, only mean less read-ahead.
            builder.spawn(move || serve(&pipeline, &shared)).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self {
            pipeline,
            shared,
            threads,
        }
    }

    /// Wishes that the block be in the cache soon. Costs a look into the cache and a queue's lock.
    pub fn prefetch(&self, block: &BlockPointer, bookmark: Bookmark) {
        let Some(key) = cache_key(block) else { return };
        if self.pipeline.cache.contains(&key) {
            self.shared.present.increment();
            return;
        }
        let bytes = block.lsize();
        let before = self
            .shared
            .in_flight_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= self.shared.budget_bytes;
        if fits && self.shared.queue.push((*block, bookmark)).is_ok() {
            self.shared.issued.increment();
        } else {
            self.shared
                .in_flight_bytes
                .fetch_sub(bytes, Ordering::Relaxed);
            self.shared.refused.increment();
        }
    }

    /// What reading ahead did so far.
    #[must_use]
    pub fn statistics(&self) -> PrefetchStatistics {
        PrefetchStatistics {
            issued: self.shared.issued.get(),
            present: self.shared.present.get(),
            refused: self.shared.refused.get(),
            failed: self.shared.failed.get(),
            in_flight_bytes: self.shared.in_flight_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.shared.queue.close();
        while self.shared.queue.try_pop().is_some() {}
        for thread in self.threads.drain(..) {
            let _died_of_a_bug = thread.join();
        }
    }
}

fn serve(pipeline: &Pipeline, shared: &Shared) {
    while let Some((block, bookmark)) = shared.queue.pop() {
        let request = ReadRequest::new(bookmark)
            .in_class(IoClass::AsyncRead)
            .speculative();
        if pipeline.read(&block, &request).is_err() {
            shared.failed.increment();
        }
        shared
            .in_flight_bytes
            .fetch_sub(block.lsize(), Ordering::Relaxed);
    }
}
