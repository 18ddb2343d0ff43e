//! Reading ahead: a bounded queue and a few threads that fill the cache.

mod places;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, Gauge, Source, Value, registry};
use base::queue::Bounded;
use base::thread::{self, JoinHandle};
use base::{Bookmark, Txg};
use format::block_pointer::BlockPointer;

use sys::Buffer;

use crate::{Pipeline, tunables};

#[cfg(test)]
pub(crate) use places::stretches;
pub(crate) use places::{Places, Stretch};

static PLACES: LockClass = LockClass::new("pipeline.prefetch_places", rank::PIPELINE + 44);
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
    /// What is done with the block when it is there, besides.
    pub follow: Option<Follow>,
}

/// What a block leads to: it is shown each block that was requested, and says what else to read.
pub type Follow = fn(&[u8], &PrefetchRequest) -> Vec<PrefetchRequest>;

/// What a thread takes on at once.
enum Run {
    /// Requests in the order of those who have them.
    Neighbours(Vec<PrefetchRequest>),
    /// The next piece of a device with blocks that wait in the order of their places.
    Next,
    /// What is in the cache already, for what it leads to.
    Known(Vec<PrefetchRequest>),
}

/// Blocks under way that lead to others, and these: requested together when the last of them is there, or when there
/// are many.
#[derive(Default)]
struct Following {
    under_way: usize,
    found: Vec<PrefetchRequest>,
}

/// Blocks that wait in the order of their places, and how often [`Run::Next`] is queued for them.
#[derive(Default)]
struct Waiting {
    places: Places,
    calls: usize,
}

fn bytes_of(requests: &[PrefetchRequest]) -> u64 {
    requests.iter().map(|request| request.block.lsize()).sum()
}

struct Shared {
    pipeline: Arc<Pipeline>,
    queue: Bounded<Run>,
    threads: usize,
    closing: AtomicBool,
    waiting: Mutex<Waiting>,
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
            threads: threads.max(1),
            closing: AtomicBool::new(false),
            waiting: Mutex::new(&PLACES, Waiting::default()),
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
            let serve = move || shared.serve_all(number == 0);
            start.spawn(serve).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self { shared, threads }
    }

    /// Requests that blocks be in the cache soon; neighbours are best requested together. Costs a look into
    /// the cache for each, and a queue's lock.
    pub fn prefetch(&self, requests: &[PrefetchRequest]) {
        let run = self.shared.admit(requests.iter().copied());
        let bytes = bytes_of(&run);
        if let Some(Err(Run::Neighbours(run))) =
            (!run.is_empty()).then(|| self.shared.queue.push(Run::Neighbours(run)))
        {
            self.shared.failed.add(run.len() as u64);
            self.shared.release(bytes);
        }
    }

    /// The same of blocks that may lie anywhere: all that wait are read in the order of their places, whoever asked
    /// first, together with what is between them where that is little.
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

    fn scatter(&self, mut requests: Vec<PrefetchRequest>, follow: Option<Follow>) {
        for request in &mut requests {
            request.follow = follow;
        }
        let cache = &self.pipeline.cache;
        let is_known = |request: &mut PrefetchRequest| {
            let name = self.pipeline.name_of(request);
            request.follow.is_some() && name.is_some_and(|key| cache.contains(&key))
        };
        let known: Vec<PrefetchRequest> = requests.extract_if(.., is_known).collect();
        let admitted = self.admit(requests.into_iter());
        if follow.is_some() {
            self.following.lock().under_way += known.len() + admitted.len();
        }
        if !known.is_empty()
            && let Err(Run::Known(known)) = self.queue.push(Run::Known(known))
        {
            self.followed(&known, Vec::new());
        }
        if !admitted.is_empty() {
            self.line_up(admitted);
        }
    }

    /// Lets blocks wait for their turn by place.
    fn line_up(&self, requests: Vec<PrefetchRequest>) {
        let mut waiting = self.waiting.lock();
        let mut dropped = Vec::new();
        for request in requests {
            dropped.extend(waiting.places.add(request));
        }
        let given_up = if self.call(&mut waiting) {
            Vec::new()
        } else {
            std::mem::take(&mut waiting.places).into_requests()
        };
        drop(waiting);
        self.failed.add(given_up.len() as u64);
        dropped.extend(given_up);
        self.release(bytes_of(&dropped));
        self.followed(&dropped, Vec::new());
    }

    /// Sees to it that threads come for what waits, behind those who read something else; whether any will.
    fn call(&self, waiting: &mut Waiting) -> bool {
        let wanted = self.threads.min(waiting.places.len());
        while waiting.calls < wanted && self.queue.push(Run::Next).is_ok() {
            waiting.calls += 1;
        }
        waiting.calls > 0 || wanted == 0
    }

    /// A thread's part. One of them looks now and then whether what was read over gaps is of any use.
    fn serve_all(&self, also_ages: bool) {
        while !self.closing.load(Ordering::Relaxed) {
            let run = if also_ages {
                let idle = Duration::from_millis(tunables::KEPT_IDLE_MS.get());
                let run = self.queue.pop_for(idle);
                if run.is_none() {
                    self.pipeline.kept.age();
                }
                run
            } else {
                self.queue.pop()
            };
            if let Some(run) = run {
                self.serve(run);
            }
        }
    }

    /// Reads what is next by place, and what is after that if nobody is called for it.
    fn serve_next(&self) {
        let mut is_called = true;
        loop {
            let mut waiting = self.waiting.lock();
            waiting.calls -= usize::from(is_called);
            let stretch = waiting.places.take();
            let others_come = self.call(&mut waiting);
            drop(waiting);
            if let Some(stretch) = &stretch {
                self.read(stretch);
            }
            if others_come || stretch.is_none() || self.closing.load(Ordering::Relaxed) {
                return;
            }
            is_called = false;
        }
    }

    /// These were served, and lead to those.
    fn followed(&self, served: &[PrefetchRequest], found: Vec<PrefetchRequest>) {
        let Some(follow) = served.iter().find_map(|request| request.follow) else {
            return;
        };
        let count = served.iter().filter(|request| request.follow.is_some());
        let count = count.count();
        let mut following = self.following.lock();
        following.found.extend(found);
        following.under_way = following.under_way.saturating_sub(count);
        let due =
            following.under_way == 0 || following.found.len() >= tunables::FOLLOWED_MAX.count();
        if !due || following.found.is_empty() {
            return;
        }
        let found = std::mem::take(&mut following.found);
        drop(following);
        self.scatter(found, Some(follow));
    }

    fn serve(&self, run: Run) {
        let pipeline = &self.pipeline;
        match run {
            Run::Neighbours(requests) => {
                self.failed.add(pipeline.read_ahead(&requests));
                self.release(bytes_of(&requests));
            }
            Run::Known(requests) => {
                let mut found = Vec::new();
                for request in &requests {
                    let key = pipeline.name_of(request);
                    let data = key.and_then(|key| pipeline.cache.get(&key));
                    let follow = data.iter().zip(request.follow);
                    found.extend(follow.flat_map(|(data, follow)| follow(data, request)));
                }
                self.followed(&requests, found);
            }
            Run::Next => self.serve_next(),
        }
    }

    fn read(&self, stretch: &Stretch) {
        let mut found = Vec::new();
        let mut see = |request: &PrefetchRequest, data: &Buffer| {
            let follow = request.follow.iter();
            found.extend(follow.flat_map(|follow| follow(data, request)));
        };
        self.failed
            .add(self.pipeline.read_stretch(stretch, &mut see));
        self.release(bytes_of(&stretch.requests));
        self.followed(&stretch.requests, found);
    }

    /// Blocks of so many bytes are on their way no more.
    fn release(&self, bytes: u64) {
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
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.queue.close();
        while self.shared.queue.try_pop().is_some() {}
        for thread in self.threads.drain(..) {
            let _died_of_a_bug = thread.join();
        }
    }
}
