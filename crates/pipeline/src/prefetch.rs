//! Reading ahead: a bounded queue and a few threads that fill the cache.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use base::metrics::{Counter, Gauge, Source, Value, registry};
use base::queue::Bounded;
use format::block_pointer::BlockPointer;

use crate::pipeline::cache_key;
use crate::{Bookmark, Pipeline};

const QUEUE_RUNS: usize = 1024;
/// The part of the cache that blocks on their way may fill: more would push each other out.
const CACHE_SHARE: u64 = 8;
/// How many blocks may wait to be asked for: 2 GiB of the largest usual ones.
const WISHES: usize = 16384;

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
    /// Wished blocks that a reader asked for later.
    pub hit: u64,
    /// Wished blocks that were forgotten before anyone asked for them.
    pub wasted: u64,
}

/// The blocks that were read ahead and not asked for yet, as far as a table of fixed size knows:
/// who wishes for a block that falls on the place of another counts that one as wasted.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Made with the first wish: before, a reader pays one load.
    places: OnceLock<Box<[AtomicU64]>>,
    hit: Counter,
    wasted: Counter,
}

impl Wishes {
    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        self.places.get()?.get(hash as usize % WISHES)
    }

    fn note(&self, hash: u64) {
        self.places
            .get_or_init(|| (0..WISHES).map(|_| AtomicU64::new(0)).collect());
        if let Some(place) = self.place(hash) {
            let before = place.swap(hash.max(1), Ordering::Relaxed);
            if before != 0 && before != hash {
                self.wasted.increment();
            }
        }
    }

    /// A reader asks for a block.
    pub(crate) fn asked(&self, hash: u64) {
        let Some(place) = self.place(hash) else {
            return;
        };
        let taken = place.load(Ordering::Relaxed) == hash.max(1)
            && place
                .compare_exchange(hash.max(1), 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if taken {
            self.hit.increment();
        }
    }
}

/// A block that should be in the cache soon.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Where it is.
    pub block: BlockPointer,
    /// Which it is.
    pub bookmark: Bookmark,
}

struct Shared {
    pipeline: Arc<Pipeline>,
    queue: Bounded<Vec<Wish>>,
    in_flight_bytes: AtomicU64,
    in_flight: Gauge,
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
            queue: Bounded::new("prefetch", QUEUE_RUNS),
            pipeline: Arc::clone(&pipeline),
            in_flight_bytes: AtomicU64::new(0),
            in_flight: Gauge::new(),
            budget_bytes,
            issued: Counter::new(),
            present: Counter::new(),
            refused: Counter::new(),
            failed: Counter::new(),
        });
        registry().add_source("prefetch", &shared);
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

    /// Wishes that blocks be in the cache soon; neighbours are best wished for together. Costs a look into
    /// the cache for each, and a queue's lock.
    pub fn prefetch(&self, wishes: &[Wish]) {
        let shared = &self.shared;
        let cache = &self.pipeline.cache;
        let budget = shared.budget_bytes.min(cache.limit_bytes() / CACHE_SHARE);
        let (mut run, mut run_bytes) = (Vec::with_capacity(wishes.len()), 0);
        for wish in wishes {
            let Some(key) = cache_key(&wish.block) else {
                continue;
            };
            if cache.contains(&key) {
                shared.present.increment();
                continue;
            }
            let bytes = wish.block.lsize();
            if shared.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > budget {
                shared.in_flight_bytes.fetch_sub(bytes, Ordering::Relaxed);
                shared.refused.increment();
                continue;
            }
            run.push(*wish);
            run_bytes += bytes;
        }
        if run.is_empty() {
            return;
        }
        shared.in_flight.add(run_bytes.cast_signed());
        shared.issued.add(run.len() as u64);
        for key in run.iter().filter_map(|wish| cache_key(&wish.block)) {
            self.pipeline.wishes.note(key.hash());
        }
        if let Err(run) = shared.queue.push(run) {
            shared.failed.add(run.len() as u64);
            shared.give_back(run_bytes);
        }
    }

    /// What reading ahead did so far.
    #[must_use]
    pub fn statistics(&self) -> PrefetchStatistics {
        self.shared.statistics()
    }
}

impl Shared {
    /// Blocks of so many bytes are on their way no more.
    fn give_back(&self, bytes: u64) {
        self.in_flight_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.in_flight.add(-bytes.cast_signed());
    }

    fn statistics(&self) -> PrefetchStatistics {
        let wishes = &self.pipeline.wishes;
        PrefetchStatistics {
            issued: self.issued.get(),
            present: self.present.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            in_flight_bytes: self.in_flight_bytes.load(Ordering::Relaxed),
            hit: wishes.hit.get(),
            wasted: wishes.wasted.get(),
        }
    }
}

impl Source for Shared {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let found = self.statistics();
        for (name, count) in [
            ("issued", found.issued),
            ("present", found.present),
            ("refused", found.refused),
            ("failed", found.failed),
            ("hit", found.hit),
            ("wasted", found.wasted),
            ("budget_bytes", self.budget_bytes),
        ] {
            sink(name, Value::Counter(count));
        }
        sink("in_flight_bytes", Value::from(&self.in_flight));
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
    while let Some(run) = shared.queue.pop() {
        shared.failed.add(pipeline.read_ahead(&run));
        shared.give_back(run.iter().map(|wish| wish.block.lsize()).sum());
    }
}
