//! Reading ahead: a bounded queue and a few threads that fill the cache.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, Gauge, Source, Value, registry};
use base::queue::Bounded;
use base::thread::{self, JoinHandle};
use base::{Bookmark, Txg};
use format::block_pointer::BlockPointer;

use sys::Buffer;

use crate::run::{Stretch, stretches};
use crate::{Pipeline, tunables};

static FOLLOWING: LockClass = LockClass::new("pipeline.prefetch_following", rank::PIPELINE + 45);

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
    /// Requested blocks that a reader asked for later.
    pub hit: u64,
    /// Requested blocks that were forgotten before anyone asked for them.
    pub wasted: u64,
}

/// A block that should be in the cache soon.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchRequest {
    /// Where it is.
    pub block: BlockPointer,
    /// Which it is.
    pub bookmark: Bookmark,
    /// As of [`crate::ReadRequest`].
    pub seen: Txg,
}

/// What a block leads to: it is shown each block that was requested, and says what else to read.
pub type Follow = fn(&[u8], &PrefetchRequest) -> Vec<PrefetchRequest>;

/// What a thread takes on at once.
enum Run {
    /// Requests in the order of those who have them.
    Neighbours(Vec<PrefetchRequest>),
    /// A piece of a device.
    Stretch(Stretch, Option<Follow>),
    /// What is in the cache already, for what it leads to.
    Known(Vec<PrefetchRequest>, Follow),
}

impl Run {
    /// What is to be read.
    fn requests(&self) -> &[PrefetchRequest] {
        match self {
            Self::Neighbours(requests) | Self::Stretch(Stretch { requests, .. }, _) => requests,
            Self::Known(..) => &[],
        }
    }

    fn bytes(&self) -> u64 {
        self.requests()
            .iter()
            .map(|request| request.block.lsize())
            .sum()
    }
}

/// Runs under way that lead to other blocks, and these: requested together when the last run has ended, or when there
/// are many.
#[derive(Default)]
struct Following {
    runs: usize,
    found: Vec<PrefetchRequest>,
}

struct Shared {
    pipeline: Arc<Pipeline>,
    queue: Bounded<Run>,
    following: Mutex<Following>,
    in_flight_bytes: AtomicU64,
    in_flight: Gauge,
    budget_bytes: u64,
    issued: Counter,
    present: Counter,
    refused: Counter,
    failed: Counter,
}

/// Reads blocks into the cache before someone asks. A demand read never waits for it, except for
/// the very block that is being read. When the budget is spent, requests are dropped.
pub struct Prefetcher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Prefetcher {
    /// `threads` readers with at most `budget_bytes` of blocks queued or in flight.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, threads: usize, budget_bytes: u64) -> Self {
        let shared = Arc::new(Shared {
            queue: Bounded::new("prefetch", tunables::PREFETCH_RUNS.count()),
            following: Mutex::new(&FOLLOWING, Following::default()),
            pipeline,
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
            let shared = Arc::clone(&shared);
            let start = thread::named(format!("prefetch-{number}"), sys::thread::ORDINARY);
            // Fewer threads, or none, only mean less read-ahead.
            let serve = move || {
                while let Some(run) = shared.queue.pop() {
                    shared.serve(&run);
                }
            };
            start.spawn(serve).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self { shared, threads }
    }

    /// Requests that blocks be in the cache soon; neighbours are best requested together. Costs a look into
    /// the cache for each, and a queue's lock.
    pub fn prefetch(&self, requests: &[PrefetchRequest]) {
        let run = self.shared.admit(requests.iter().copied());
        if !run.is_empty() {
            self.shared.push(Run::Neighbours(run));
        }
    }

    /// The same of blocks that may lie anywhere: they are read by their places, together with what is between them
    /// where that is little.
    pub fn prefetch_scattered(&self, requests: Vec<PrefetchRequest>, follow: Option<Follow>) {
        self.shared.scatter(requests, follow);
    }

    /// What reading ahead did so far.
    #[must_use]
    pub fn statistics(&self) -> PrefetchStatistics {
        self.shared.statistics()
    }
}

impl Shared {
    /// Those of the requested blocks that are not in the cache and for which there is room.
    fn admit(&self, requests: impl Iterator<Item = PrefetchRequest>) -> Vec<PrefetchRequest> {
        let cache = &self.pipeline.cache;
        let budget = self
            .budget_bytes
            .min(cache.limit_bytes() / tunables::PREFETCH_CACHE_SHARE.get());
        let (mut run, mut run_bytes) = (Vec::with_capacity(requests.size_hint().0), 0);
        for request in requests {
            let Some(key) = self.pipeline.name_of(&request) else {
                continue;
            };
            if cache.contains(&key) {
                self.present.increment();
                continue;
            }
            let bytes = request.block.lsize();
            if self.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > budget {
                self.in_flight_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.refused.increment();
                continue;
            }
            self.pipeline.prefetched.note(key.hash());
            run.push(request);
            run_bytes += bytes;
        }
        self.in_flight.add(run_bytes.cast_signed());
        self.issued.add(run.len() as u64);
        run
    }

    /// Gives a run to the threads, or gives it up.
    fn push(&self, run: Run) -> bool {
        let pushed = self.queue.push(run);
        if let Err(run) = &pushed {
            self.failed.add(run.requests().len() as u64);
            self.give_back(run.bytes());
        }
        pushed.is_ok()
    }

    fn scatter(&self, mut requests: Vec<PrefetchRequest>, follow: Option<Follow>) {
        let mut runs = Vec::new();
        if let Some(follow) = follow {
            let cache = &self.pipeline.cache;
            let is_known = |request: &mut PrefetchRequest| {
                self.pipeline
                    .name_of(request)
                    .is_some_and(|key| cache.contains(&key))
            };
            let known: Vec<PrefetchRequest> = requests.extract_if(.., is_known).collect();
            if !known.is_empty() {
                runs.push(Run::Known(known, follow));
            }
        }
        let stretches = stretches(self.admit(requests.into_iter()));
        runs.extend(
            stretches
                .into_iter()
                .map(|stretch| Run::Stretch(stretch, follow)),
        );
        if follow.is_some() {
            self.following.lock().runs += runs.len();
        }
        for run in runs {
            if !self.push(run)
                && let Some(follow) = follow
            {
                self.followed(Vec::new(), follow);
            }
        }
    }

    /// A run has ended, and led to these.
    fn followed(&self, found: Vec<PrefetchRequest>, follow: Follow) {
        let mut following = self.following.lock();
        following.found.extend(found);
        following.runs = following.runs.saturating_sub(1);
        let due = following.runs == 0 || following.found.len() >= tunables::FOLLOWED_MAX.count();
        if !due || following.found.is_empty() {
            return;
        }
        let found = std::mem::take(&mut following.found);
        drop(following);
        self.scatter(found, Some(follow));
    }

    fn serve(&self, run: &Run) {
        let pipeline = &self.pipeline;
        match run {
            Run::Neighbours(requests) => self.failed.add(pipeline.read_ahead(requests)),
            Run::Stretch(stretch, None) => {
                self.failed
                    .add(pipeline.read_stretch(stretch, &mut |_, _| {}));
            }
            Run::Known(requests, follow) => {
                let mut found = Vec::new();
                for request in requests {
                    let data = pipeline
                        .name_of(request)
                        .and_then(|key| pipeline.cache.get(&key));
                    found.extend(data.iter().flat_map(|data| follow(data, request)));
                }
                self.followed(found, *follow);
            }
            Run::Stretch(stretch, Some(follow)) => {
                let mut found = Vec::new();
                let mut see =
                    |request: &PrefetchRequest, data: &Buffer| found.extend(follow(data, request));
                self.failed.add(pipeline.read_stretch(stretch, &mut see));
                self.followed(found, *follow);
            }
        }
        self.give_back(run.bytes());
    }

    /// Blocks of so many bytes are on their way no more.
    fn give_back(&self, bytes: u64) {
        self.in_flight_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.in_flight.add(-bytes.cast_signed());
    }

    fn statistics(&self) -> PrefetchStatistics {
        let requests = &self.pipeline.prefetched;
        PrefetchStatistics {
            issued: self.issued.get(),
            present: self.present.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            in_flight_bytes: self.in_flight_bytes.load(Ordering::Relaxed),
            hit: requests.hit.get(),
            wasted: requests.wasted.get(),
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
