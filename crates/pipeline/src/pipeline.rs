//! The pipeline itself: what it is made of and the few things that change under it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, RwLock, rank};
use base::metrics::{Counter, Source, Value, registry};
use base::{ObjectSetId, Txg};
use cache::{BlockKey, Cache};
use codec::{Checksum, ChecksumValue, Salt};
use crypto::DatasetKeys;
use format::block_pointer::BlockPointer;
use l2arc::SecondLevel;
use sys::Buffer;
use vdev::VdevTree;

use crate::kept::Kept;
use crate::prefetched::PrefetchedBlocks;
use crate::recent_gangs::RecentGangs;
use crate::{Allocator, DedupSource, KeepSource, Key, KeySource, ReadError};

static SALT_CLASS: LockClass = LockClass::new("pipeline.salt", rank::PIPELINE + 40);

/// Where unreadable blocks are noted (the pool's error log). Must not block on I/O.
pub trait ErrorLog: Send + Sync {
    /// Notes one; called once for every failed read that was not expected to fail.
    fn record(&self, error: &ReadError);
}

/// The units in which the pool's normal devices allocate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granularity {
    /// The smallest allocation of any device, in bytes.
    pub smallest: u64,
    /// The greatest common divisor of all devices' smallest allocations, in bytes.
    pub unit: u64,
}

impl Default for Granularity {
    fn default() -> Self {
        Self {
            smallest: 512,
            unit: 512,
        }
    }
}

/// What a pipeline is made of.
#[derive(Clone)]
pub struct PipelineConfig {
    /// The devices.
    pub vdevs: Arc<VdevTree>,
    /// The pool's checksum salt, if it is known already.
    pub salt: Salt,
    /// Where space comes from.
    pub allocator: Arc<dyn Allocator>,
    /// The most bytes that the cache may hold.
    pub cache_bytes: usize,
    /// Where unreadable blocks are noted.
    pub error_log: Option<Arc<dyn ErrorLog>>,
    /// Whether bad copies may be written again from good ones, with leave of [`Repairs`].
    pub heal: bool,
    /// The devices' allocation units.
    pub granularity: Granularity,
    /// Whether the feature `hole_birth` is active.
    pub hole_birth: bool,
}

impl PipelineConfig {
    /// The usual: default cache, no error log, healing off, hole births on, 512-byte units.
    #[must_use]
    pub fn new(vdevs: Arc<VdevTree>, allocator: Arc<dyn Allocator>) -> Self {
        Self {
            vdevs,
            salt: Salt::default(),
            allocator,
            cache_bytes: cache::default_limit_bytes(),
            error_log: None,
            heal: false,
            granularity: Granularity::default(),
            hole_birth: true,
        }
    }
}

/// What the pipeline did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PipelineStatistics {
    /// Blocks read from devices.
    pub blocks_read: u64,
    /// Blocks written to devices.
    pub blocks_written: u64,
    /// Blocks rewritten where they were, in a later sync pass.
    pub blocks_rewritten: u64,
    /// Blocks that became holes.
    pub holes_made: u64,
    /// Blocks put into their pointers.
    pub blocks_embedded: u64,
    /// Blocks split into gangs.
    pub gangs_written: u64,
    /// Blocks left where they were because nothing changed.
    pub writes_avoided: u64,
    /// Blocks that a dedup table had already.
    pub blocks_deduplicated: u64,
    /// Copies written again from good ones.
    pub copies_healed: u64,
    /// Reads that met bad copies and had no leave to repair them.
    pub repairs_refused: u64,
    /// Blocks of which no copy could be read.
    pub unreadable: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) blocks_read: Counter,
    pub(crate) blocks_written: Counter,
    pub(crate) blocks_rewritten: Counter,
    pub(crate) holes_made: Counter,
    pub(crate) blocks_embedded: Counter,
    pub(crate) gangs_written: Counter,
    pub(crate) writes_avoided: Counter,
    pub(crate) blocks_deduplicated: Counter,
    pub(crate) copies_healed: Counter,
    pub(crate) repairs_refused: Counter,
    pub(crate) unreadable: Counter,
}

impl Counters {
    fn statistics(&self) -> PipelineStatistics {
        PipelineStatistics {
            blocks_read: self.blocks_read.get(),
            blocks_written: self.blocks_written.get(),
            blocks_rewritten: self.blocks_rewritten.get(),
            holes_made: self.holes_made.get(),
            blocks_embedded: self.blocks_embedded.get(),
            gangs_written: self.gangs_written.get(),
            writes_avoided: self.writes_avoided.get(),
            blocks_deduplicated: self.blocks_deduplicated.get(),
            copies_healed: self.copies_healed.get(),
            repairs_refused: self.repairs_refused.get(),
            unreadable: self.unreadable.get(),
        }
    }
}

impl Source for Counters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let found = self.statistics();
        for (name, count) in [
            ("blocks_read", found.blocks_read),
            ("blocks_written", found.blocks_written),
            ("blocks_rewritten", found.blocks_rewritten),
            ("holes_made", found.holes_made),
            ("blocks_embedded", found.blocks_embedded),
            ("gangs_written", found.gangs_written),
            ("writes_avoided", found.writes_avoided),
            ("blocks_deduplicated", found.blocks_deduplicated),
            ("copies_healed", found.copies_healed),
            ("repairs_refused", found.repairs_refused),
            ("unreadable", found.unreadable),
        ] {
            sink(name, Value::Counter(count));
        }
    }
}

/// Who knows which places of the devices are still whose.
pub trait Repairs: Send + Sync {
    /// Leave to write over bad copies of a block born in `birth`, whose pointer was in use at `seen`: while the answer
    /// lives, its places are given to no other block, and nobody rewrites it. Nothing when that is not certain.
    fn permit(&self, seen: Txg, birth: Txg) -> Option<RepairPermit>;
}

/// Leave to repair, until it is dropped.
pub type RepairPermit = Box<dyn std::any::Any + Send>;

/// Reads, writes and frees blocks. Shared by every thread of a pool.
pub struct Pipeline {
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) allocator: Arc<dyn Allocator>,
    pub(crate) cache: Arc<Cache<Buffer>>,
    pub(crate) error_log: Option<Arc<dyn ErrorLog>>,
    /// Gangs that the present sync wrote, so that a later pass finds their pieces.
    pub(crate) gangs: RecentGangs,
    pub(crate) counters: Arc<Counters>,
    pub(crate) prefetched: PrefetchedBlocks,
    pub(crate) kept: Arc<Kept>,
    pub(crate) second_level: SecondLevel,
    salt: RwLock<Salt>,
    heal: AtomicBool,
    repairs: OnceLock<Arc<dyn Repairs>>,
    keys: OnceLock<Arc<dyn KeySource>>,
    pub(crate) keeping: OnceLock<Arc<dyn KeepSource>>,
    pub(crate) dedup: OnceLock<Arc<dyn DedupSource>>,
    hole_birth: AtomicBool,
    slim_logs: AtomicBool,
    long_gang_headers: AtomicBool,
    smallest_allocation: AtomicU64,
    allocation_unit: AtomicU64,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// A pipeline over a pool's devices.
    #[must_use]
    pub fn new(config: PipelineConfig) -> Self {
        let cache = Arc::new(Cache::new(config.cache_bytes));
        registry().add_source("cache", &cache);
        let counters = Arc::<Counters>::default();
        registry().add_source("pipeline", &counters);
        let kept = Arc::<Kept>::default();
        registry().add_source("prefetch.kept", &kept);
        Self {
            vdevs: config.vdevs,
            allocator: config.allocator,
            cache,
            error_log: config.error_log,
            gangs: RecentGangs::default(),
            counters,
            prefetched: PrefetchedBlocks::default(),
            kept,
            second_level: SecondLevel::new(config.cache_bytes as u64),
            salt: RwLock::new(&SALT_CLASS, config.salt),
            heal: AtomicBool::new(config.heal),
            repairs: OnceLock::new(),
            keys: OnceLock::new(),
            keeping: OnceLock::new(),
            dedup: OnceLock::new(),
            hole_birth: AtomicBool::new(config.hole_birth),
            slim_logs: AtomicBool::new(true),
            long_gang_headers: AtomicBool::new(false),
            smallest_allocation: AtomicU64::new(config.granularity.smallest),
            allocation_unit: AtomicU64::new(config.granularity.unit),
        }
    }

    /// The devices.
    #[must_use]
    pub fn vdevs(&self) -> &Arc<VdevTree> {
        &self.vdevs
    }

    /// Forgets what the cache has of a block that nobody is expected to read again.
    pub fn forget(&self, block: &BlockPointer) {
        if let Some(key) = cache_key(block) {
            self.cache.remove(&key);
        }
    }

    /// The cache, for its limit and statistics.
    #[must_use]
    pub fn cache(&self) -> &Cache<Buffer> {
        &self.cache
    }

    /// The cache devices.
    #[must_use]
    pub fn second_level(&self) -> &SecondLevel {
        &self.second_level
    }

    /// Sets the pool's checksum salt, once the MOS has told it.
    pub fn set_salt(&self, salt: Salt) {
        *self.salt.write() = salt;
    }

    /// Allows or forbids writing bad copies again from good ones.
    pub fn set_heal(&self, heal: bool) {
        self.heal.store(heal, Ordering::Relaxed);
    }

    /// Says who is asked before a read repairs anything; before that, and of nobody else, nothing is repaired by reads.
    pub fn set_repairs(&self, repairs: Arc<dyn Repairs>) {
        let _ = self.repairs.set(repairs);
    }

    /// Says who knows the keys of encrypted blocks; before that nobody does. A second call is ignored.
    pub fn set_keys(&self, keys: Arc<dyn KeySource>) {
        let _ = self.keys.set(keys);
    }

    /// Says who knows which blocks the cache is to keep; before that all are. A second call is ignored.
    pub fn set_keeping(&self, keeping: Arc<dyn KeepSource>) {
        let _ = self.keeping.set(keeping);
    }

    /// Says who counts references by content; before that nobody does. A second call is ignored.
    pub fn set_dedup(&self, tables: Arc<dyn DedupSource>) {
        let _ = self.dedup.set(tables);
    }

    /// The key of an object set's blocks.
    pub(crate) fn key(&self, set: ObjectSetId) -> Key {
        self.keys.get().map_or(Key::None, |keys| keys.key(set))
    }

    /// A block's name in the cache, as one of an object set.
    pub(crate) fn cache_key_in(&self, block: &BlockPointer, set: ObjectSetId) -> Option<BlockKey> {
        match self.key(set) {
            Key::Loaded(keys) if block.is_encrypted() => sealed_cache_key(block, Some(&keys)),
            Key::Loaded(_) => None,
            Key::None | Key::Locked => cache_key(block),
        }
    }

    /// Who knows which places of the devices are still whose; nobody where nothing is written.
    pub(crate) fn repairs(&self) -> Option<&Arc<dyn Repairs>> {
        self.repairs.get()
    }

    /// Says whether the feature `hole_birth` is active.
    pub fn set_hole_birth(&self, active: bool) {
        self.hole_birth.store(active, Ordering::Relaxed);
    }

    /// Says whether new blocks of intent logs have their chain structure at the head, as those of all but old pools.
    pub fn set_slim_logs(&self, slim: bool) {
        self.slim_logs.store(slim, Ordering::Relaxed);
    }

    /// Says whether the feature `dynamic_gang_header` is active: then gang headers are as long as their vdevs' smallest
    /// allocation. They are read in any pool.
    pub fn set_long_gang_headers(&self, active: bool) {
        self.long_gang_headers.store(active, Ordering::Relaxed);
    }

    pub(crate) fn long_gang_headers(&self) -> bool {
        self.long_gang_headers.load(Ordering::Relaxed)
    }

    pub(crate) fn log_checksum(&self) -> Checksum {
        match self.slim_logs.load(Ordering::Relaxed) {
            true => Checksum::Zilog2,
            false => Checksum::Zilog,
        }
    }

    /// Sets the devices' allocation units, when a device was added.
    pub fn set_granularity(&self, granularity: Granularity) {
        self.smallest_allocation
            .store(granularity.smallest, Ordering::Relaxed);
        self.allocation_unit
            .store(granularity.unit, Ordering::Relaxed);
    }

    /// The devices' allocation units.
    #[must_use]
    pub fn granularity(&self) -> Granularity {
        Granularity {
            smallest: self.smallest_allocation.load(Ordering::Relaxed).max(512),
            unit: self.allocation_unit.load(Ordering::Relaxed).max(512),
        }
    }

    /// What the pipeline did so far.
    #[must_use]
    pub fn statistics(&self) -> PipelineStatistics {
        self.counters.statistics()
    }

    pub(crate) fn heals(&self) -> bool {
        self.heal.load(Ordering::Relaxed)
    }

    pub(crate) fn hole_birth(&self) -> bool {
        self.hole_birth.load(Ordering::Relaxed)
    }

    /// The checksum of a block as this pool stores it.
    pub(crate) fn checksum(
        &self,
        kind: Checksum,
        data: &[u8],
        order: base::ByteOrder,
    ) -> ChecksumValue {
        // The lock is only for the salted kinds: the others never wait for anything.
        let salt = if kind.is_salted() {
            *self.salt.read()
        } else {
            Salt::default()
        };
        codec::checksum(kind, data, order, &salt)
    }
}

/// The memory that a block takes which was read. Each object set has six indirect blocks of 128 KiB above its dnodes,
/// of which all but the lowest hold one pointer unless there are millions of files: of zeros behind the last pointer no
/// memory is kept. (Of what was just written it is: that is soon written again.)
pub(crate) fn memory_of(block: &BlockPointer, data: &Buffer) -> usize {
    let given_back = match block.level() {
        0 => 0,
        _ => data.release_zeros(),
    };
    data.memory_size() - given_back
}

/// The block's name in the cache; `None` for blocks that have no address, and for those of encrypted datasets, of which
/// the cache has only what was opened or proven: see [`sealed_cache_key`].
pub(crate) fn cache_key(block: &BlockPointer) -> Option<BlockKey> {
    if block.is_encrypted() {
        return None;
    }
    address_key(block)
}

/// The same with the keys that open the block or prove it. They are part of the name: no other pointer to that address
/// leads to what they opened, nor do they themselves once they were unloaded.
pub(crate) fn sealed_cache_key(
    block: &BlockPointer,
    keys: Option<&DatasetKeys>,
) -> Option<BlockKey> {
    let Some(keys) = keys else {
        return cache_key(block);
    };
    let mut key = address_key(block)?;
    // Numbers of vdevs have 24 bits.
    key.vdev |= u64::from(keys.load_number()) << 32;
    Some(key)
}

fn address_key(block: &BlockPointer) -> Option<BlockKey> {
    let dva = block.dva(0)?;
    Some(BlockKey {
        vdev: dva.vdev.0,
        offset: dva.offset,
        birth: block.physical_birth().0,
    })
}
