//! The cache devices of a pool, and the thread that writes them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::clock::{monotonic_ns, real_now, since};
use base::lock::{LockClass, Mutex, RwLock, rank};
use base::metrics::registry;
use base::thread::{self, JoinHandle};
use base::{Guid, ObjectSetId};
use device::BlockDevice;
use sys::Buffer;

use crate::device::{CacheDevice, CacheDeviceStatistics};
use crate::error::L2ArcError;
use crate::index::{COPY_BYTES, CopyKey, Index};
use crate::meters::Meters;
use crate::offers::{Offer, Offers};
use crate::rebuild::rebuild;
use crate::sweep::Sweep;
use crate::tunables;

static DEVICES: LockClass = LockClass::new("l2arc.devices", rank::CACHE + 20);
static THREADS: LockClass = LockClass::new("l2arc.threads", rank::CACHE + 19);

/// Who knows of which object sets copies are wanted (the property `secondarycache`). Asked by the thread that writes.
pub trait Admission: Send + Sync {
    /// Whether data of an object set are wanted, or its metadata.
    fn admits(&self, set: ObjectSetId, is_metadata: bool) -> bool;
}

struct Shared {
    admission: OnceLock<Arc<dyn Admission>>,
    devices: RwLock<Vec<Arc<CacheDevice>>>,
    /// Whether there are any: what everybody asks who reads.
    is_used: AtomicBool,
    index: Index,
    offers: Offers,
    meters: Arc<Meters>,
    /// What the cache of the first level may take, in bytes.
    memory_bytes: u64,
    /// Counts the feeds: devices take turns.
    feeds: AtomicUsize,
    /// Threads that have not ended.
    running: AtomicUsize,
}

/// How long the end of use waits for threads, which may wait for a device.
const PATIENCE: Duration = Duration::from_secs(5);

/// The cache devices of a pool. Dropping it ends its threads.
pub struct SecondLevel {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for SecondLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecondLevel").finish_non_exhaustive()
    }
}

impl SecondLevel {
    /// No devices, beside a cache in memory of so many bytes.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                admission: OnceLock::new(),
                devices: RwLock::new(&DEVICES, Vec::new()),
                is_used: AtomicBool::new(false),
                index: Index::new(),
                offers: Offers::new(),
                meters: Arc::default(),
                memory_bytes,
                feeds: AtomicUsize::new(0),
                running: AtomicUsize::new(0),
            }),
            threads: Mutex::new(&THREADS, Vec::new()),
        }
    }

    /// Whether there are devices.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.shared.is_used.load(Ordering::Acquire)
    }

    /// Takes a device of a pool into use. What it holds since before is found in the background.
    ///
    /// # Errors
    /// It is too small, or no thread can be started.
    pub fn add(
        &self,
        pool: Guid,
        guid: Guid,
        ashift: u32,
        device: Arc<dyn BlockDevice>,
    ) -> Result<(), L2ArcError> {
        let sweep = Sweep::new(pool, guid, ashift, device.size());
        let sweep = sweep.ok_or(L2ArcError::TooSmall { guid })?;
        let device = CacheDevice::new(guid, device, sweep);
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            registry().add_source("l2arc", &self.shared.meters);
            let shared = Arc::clone(&self.shared);
            threads.push(Shared::start(shared, "l2arc-feed", |shared| {
                shared.feed_all()
            })?);
        }
        let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&device));
        self.shared.devices.write().push(device);
        match Shared::start(shared, "l2arc-rebuild", move |shared| shared.open(&own)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.shared.devices.write().pop();
                return Err(error);
            }
        }
        drop(threads);
        self.shared.is_used.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes a device out of use; answers it, if it was one.
    pub fn remove(&self, guid: Guid) -> Option<Arc<dyn BlockDevice>> {
        let mut devices = self.shared.devices.write();
        let at = devices.iter().position(|device| device.guid == guid)?;
        let device = devices.remove(at);
        self.shared
            .is_used
            .store(!devices.is_empty(), Ordering::Release);
        drop(devices);
        device.leave();
        // Whoever writes it, and may wait for it, removes what came after this.
        self.shared.index.remove_all(&device);
        Some(Arc::clone(&device.device))
    }

    /// Forgets the errors of a device, and uses it again.
    pub fn clear(&self, guid: Guid) {
        let devices = self.shared.devices.read();
        let own = devices.iter().filter(|device| device.guid == guid);
        own.for_each(|device| device.clear());
        drop(devices);
        self.shared.allow();
    }

    /// What a device did, if it is in use.
    #[must_use]
    pub fn statistics(&self, guid: Guid) -> Option<CacheDeviceStatistics> {
        let devices = self.shared.devices.read();
        let own = devices.iter().find(|device| device.guid == guid);
        own.map(|device| device.statistics())
    }

    /// The bytes of a block as stored in the pool, if a device has them: only what is right, says `is_right`.
    #[must_use]
    pub fn read(
        &self,
        key: &CopyKey,
        size: u64,
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Buffer> {
        if !self.is_used() {
            return None;
        }
        let shared = &self.shared;
        let place = shared.index.get(key).filter(|place| place.size == size);
        let found = place.filter(|place| place.device.is_usable());
        let found = found.and_then(|place| {
            let at = (place.offset, place.size);
            place.device.read(&shared.index, key, at, is_right)
        });
        match &found {
            Some(_) => shared.meters.hits.increment(),
            None => shared.meters.misses.increment(),
        }
        found
    }

    /// Whether so many bytes may be offered now.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.is_used() && self.shared.offers.has_room(bytes)
    }

    /// Whether a device has a copy of a block, as far as is known.
    #[must_use]
    pub fn contains(&self, key: &CopyKey) -> bool {
        self.shared.index.contains(key)
    }

    /// A block is written again where it is, with other bytes: there is no copy of it.
    pub fn forget(&self, key: &CopyKey) {
        if self.is_used() && self.contains(key) {
            self.shared.index.forget(key);
        }
    }

    /// Says who knows of which object sets copies are wanted; before that all are. A second call is ignored.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        let _ = self.shared.admission.set(admission);
    }

    /// Offers a block that was read from the pool. It may be dropped.
    pub fn offer(&self, offer: Offer) {
        if !self.is_used() || self.shared.index.contains(&offer.key()) {
            return;
        }
        let meters = &self.shared.meters;
        match self.shared.offers.put(offer) {
            true => meters.offered.increment(),
            false => meters.refused.increment(),
        }
    }

    /// Ends the use of all devices. What was offered and is not written is dropped.
    pub fn close(&self) {
        self.shared.is_used.store(false, Ordering::Release);
        self.shared.offers.close();
        let devices = std::mem::take(&mut *self.shared.devices.write());
        devices.iter().for_each(|device| device.leave());
        let threads = std::mem::take(&mut *self.threads.lock());
        // The last who lets go of the pool can be one of them.
        let own = threads.iter().filter(|thread| thread.is_current()).count();
        // One that a device does not answer is left to it.
        if self.shared.all_end(own) {
            for thread in threads.into_iter().filter(|thread| !thread.is_current()) {
                let _died_of_a_bug = thread.join();
            }
        }
        devices
            .iter()
            .for_each(|device| self.shared.index.remove_all(device));
    }
}

impl Drop for SecondLevel {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn start(
        shared: Arc<Self>,
        name: &'static str,
        body: impl FnOnce(&Self) + Send + 'static,
    ) -> Result<JoinHandle<()>, L2ArcError> {
        shared.running.fetch_add(1, Ordering::AcqRel);
        let own = Arc::clone(&shared);
        let thread = thread::named(name, sys::thread::BACKGROUND).spawn(move || {
            body(&own);
            own.running.fetch_sub(1, Ordering::AcqRel);
        });
        thread.map_err(|error| {
            shared.running.fetch_sub(1, Ordering::AcqRel);
            L2ArcError::NoThread {
                error: error.to_string(),
            }
        })
    }

    /// Whether all threads end in time but the one that asks, if it is one of them.
    fn all_end(&self, own: usize) -> bool {
        let begun = real_now();
        while self.running.load(Ordering::Acquire) > own {
            if since(begun) > PATIENCE {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Copies that all devices may have, for what their names take of memory.
    fn copies_max(&self) -> u64 {
        self.memory_bytes / tunables::INDEX_SHARE.get() / COPY_BYTES
    }

    fn open(&self, device: &Arc<CacheDevice>) {
        let rebuilt = rebuild(device, &self.index, self.copies_max());
        if device.is_leaving() {
            return self.index.remove_all(device);
        }
        match rebuilt {
            Ok(()) => {
                device.set_ready();
                self.allow();
            }
            Err(_) => {
                device.meters.read_errors.add(tunables::ERRORS_MAX.get());
                device.judge();
            }
        }
    }

    /// What can be offered until the next feed: nothing while there is no device to write it to.
    fn allow(&self) {
        let devices = self.devices.read();
        let mut fed = devices.iter().filter(|device| device.is_fed()).peekable();
        let is_fed = fed.peek().is_some();
        let is_filling = fed.any(|device| !device.was_filled());
        drop(devices);
        if !is_fed {
            return self.offers.allow(0);
        }
        let boost = u64::from(is_filling) * tunables::WRITE_BOOST_BYTES.get();
        let most = self.memory_bytes / tunables::OFFERED_SHARE.get();
        let bytes = tunables::WRITE_BYTES_MAX.get().saturating_add(boost);
        self.offers.allow(bytes.min(most));
    }

    /// The thread's part: what was offered is written, at most once in a while.
    fn feed_all(&self) {
        let mut last_ns = 0;
        while self.offers.wait() {
            let pause_ns = tunables::FEED_MS.get() * 1_000_000;
            let rest_ns = pause_ns.saturating_sub(monotonic_ns().saturating_sub(last_ns));
            if rest_ns > 0 && !self.offers.pause(Duration::from_nanos(rest_ns)) {
                return;
            }
            last_ns = monotonic_ns();
            self.feed(self.wanted(self.offers.take()));
            self.allow();
        }
    }

    /// Those of which copies are wanted. Of the others no more are taken until the next time.
    fn wanted(&self, mut offers: VecDeque<Offer>) -> VecDeque<Offer> {
        let Some(admission) = self.admission.get() else {
            return offers;
        };
        let mut known = HashMap::new();
        offers.retain(|offer| {
            let of = (offer.set, offer.is_metadata);
            *known
                .entry(of)
                .or_insert_with(|| admission.admits(of.0, of.1))
        });
        let unwanted = known.into_iter().filter(|(_, is_wanted)| !is_wanted);
        let unwanted: HashSet<_> = unwanted.map(|(of, _)| of).collect();
        self.offers.set_unwanted(unwanted);
        offers
    }

    fn feed(&self, mut offers: VecDeque<Offer>) {
        let turn = self.feeds.fetch_add(1, Ordering::Relaxed);
        let devices: Vec<_> = {
            let devices = self.devices.read();
            let fed = devices.iter().filter(|device| device.is_fed());
            fed.cloned().collect()
        };
        let Some(device) = devices.get(turn.checked_rem(devices.len()).unwrap_or(0)) else {
            return;
        };
        let mut sweep = device.sweep.lock();
        while !offers.is_empty() && device.is_fed() {
            if sweep.write_unit(device, &self.index, &mut offers).is_err() {
                device.meters.write_errors.increment();
                device.judge();
            }
            sweep.shrink_to(device, &self.index, self.copies_max());
        }
        device.note_filled(!sweep.is_first);
        drop(sweep);
        if device.is_leaving() {
            self.index.remove_all(device);
        }
        self.meters.copies.set(self.index.len().cast_signed());
    }
}
