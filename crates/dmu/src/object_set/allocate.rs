//! Object numbers. Every shard of threads owns a run of numbers, so that creating takes no lock
//! that another shard holds; a new run is looked for once in 128 creations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg};
use format::ObjectType;
use format::dnode::{DnodePhys, SLOTS_PER_BLOCK, Slot};

use super::ObjectSet;
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object::Object;
use crate::tx::Tx;

static RUN: LockClass = LockClass::new("dmu.number_run", rank::DMU + 15);
static SEARCH: LockClass = LockClass::new("dmu.number_search", rank::DMU + 16);

/// Numbers in a run.
const RUN_NUMBERS: u64 = 128;
const BLOCKS_PER_RUN: u64 = RUN_NUMBERS / SLOTS_PER_BLOCK as u64;
/// Where a new object set's numbers begin: block 0 of its dnodes is left to claimed ones.
const FIRST_OF_NEW: u64 = 32;
/// Freed objects after which the search may begin again at the start, and which part of the numbers passed
/// they must be: then the runs on the way have room enough to pay for the look, and an object set in which
/// objects come and go stays as large as what it holds at once.
const FREED_FOR_RESTART: u64 = 1024;
const FREED_SHARE: u64 = 4;
/// Object numbers end here.
const NUMBERS_END: u64 = 1 << 48;

/// The shape of a new object.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocateObject {
    /// What the object is.
    pub object_type: ObjectType,
    /// Data block size in bytes; 0 = 512.
    pub block_size: u32,
    /// Log2 of the indirect block size; 0 = 17.
    pub indirect_shift: u8,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Slots of the dnode; 0 = 1.
    pub slots: u8,
}

impl AllocateObject {
    fn phys(&self) -> DnodePhys {
        const INDIRECT_SHIFT: u8 = 17;
        let shift = if self.indirect_shift == 0 {
            INDIRECT_SHIFT
        } else {
            self.indirect_shift
        };
        DnodePhys::new(
            self.object_type,
            self.block_size,
            shift,
            self.bonus_type,
            self.bonus_len,
            self.slots.max(1),
        )
    }

    fn slot_count(&self) -> u32 {
        u32::from(self.slots.clamp(1, SLOTS_PER_BLOCK as u8))
    }
}

/// A run of numbers that one shard hands out.
#[derive(Default)]
struct Run {
    /// The run's first number is this times [`RUN_NUMBERS`].
    index: u64,
    /// Bit set: taken. All set: no run.
    taken: u128,
    epoch: u64,
}

/// Whether a run with numbers that are not on disk yet is still being handed out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Active,
    Until(Txg),
}

#[derive(Default)]
struct Search {
    /// The next run to look at.
    next: u64,
    recent: BTreeMap<u64, Use>,
}

/// The allocator of object numbers.
pub(crate) struct Numbers {
    runs: Box<[Mutex<Run>]>,
    search: Mutex<Search>,
    /// The txg that created this object set, until it has synced.
    created: AtomicU64,
    /// Runs of an older epoch are given up.
    epoch: AtomicU64,
    freed: AtomicU64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        const RUNS_MAX: usize = 64;
        let count = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(RUNS_MAX);
        let run = |_| {
            Mutex::new(
                &RUN,
                Run {
                    taken: u128::MAX,
                    ..Run::default()
                },
            )
        };
        Self {
            runs: (0..count).map(run).collect(),
            search: Mutex::new(&SEARCH, Search::default()),
            created: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    pub(crate) fn created_in(&self, txg: Txg) {
        self.created.store(txg.0, Ordering::Release);
    }

    /// After `txg`: a new object set's numbers now begin at 1.
    pub(crate) fn synced(&self, txg: Txg) {
        let created = self.created.load(Ordering::Acquire);
        let mut search = self.search.lock();
        search
            .recent
            .retain(|_, &mut used| used == Use::Active || used > Use::Until(txg));
        if created != 0 && created <= txg.0 {
            self.created.store(0, Ordering::Release);
            search.next = 0;
            for used in search.recent.values_mut() {
                *used = Use::Until(txg.next().next().next());
            }
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The first block of dnodes at or after `block` that may hold objects not on disk yet.
    pub(crate) fn next_recent_block(&self, block: u64) -> Option<u64> {
        let search = self.search.lock();
        let (&run, _) = search.recent.range(block / BLOCKS_PER_RUN..).next()?;
        Some(block.max(run * BLOCKS_PER_RUN))
    }

    fn note_claim(&self, txg: Txg, id: ObjectId) {
        let mut search = self.search.lock();
        let used = search
            .recent
            .entry(id.0 / RUN_NUMBERS)
            .or_insert(Use::Until(txg));
        if let Use::Until(until) = used {
            *until = txg.max(*until);
        }
    }
}

impl PartialOrd for Use {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Until(mine), Self::Until(theirs)) => mine.partial_cmp(theirs),
            _ => None,
        }
    }
}

/// The lowest `count` neighbouring free bits that lie in one block of dnodes.
fn find_free(taken: u128, count: u32) -> Option<u32> {
    if count == 1 {
        return (taken != u128::MAX).then(|| taken.trailing_ones());
    }
    let per_block = SLOTS_PER_BLOCK as u32;
    let mask = if count >= u128::BITS {
        u128::MAX
    } else {
        (1u128 << count) - 1
    };
    (0..u128::BITS)
        .filter(|at| at % per_block + count <= per_block)
        .find(|&at| taken & (mask << at) == 0)
}

fn slot_mask(at: u32, count: u32) -> u128 {
    let mask = if count >= u128::BITS {
        u128::MAX
    } else {
        (1u128 << count) - 1
    };
    mask.checked_shl(at).unwrap_or(0)
}

impl ObjectSet {
    /// Creates an object under a free number.
    ///
    /// # Errors
    /// Dnodes cannot be read, or no number is left.
    pub fn allocate(&self, tx: &Tx, shape: &AllocateObject) -> Result<Arc<Object>> {
        self.require_writable()?;
        let slots = shape.slot_count();
        let shard = txg::thread_index() % self.numbers.runs.len();
        let mut run = self.numbers.runs[shard].lock();
        let epoch = self.numbers.epoch.load(Ordering::Acquire);
        if run.epoch != epoch {
            *run = Run {
                taken: u128::MAX,
                epoch,
                index: 0,
            };
        }
        loop {
            let Some(at) = find_free(run.taken, slots) else {
                self.next_run(tx, &mut run, slots)?;
                continue;
            };
            run.taken |= slot_mask(at, slots);
            let id = ObjectId(run.index * RUN_NUMBERS + u64::from(at));
            let object = Object::create(&self.shared, id, &shape.phys());
            if self.table.insert_new(&object) {
                drop(run);
                METERS.objects_created.increment();
                object.enter_new(tx)?;
                return Ok(object);
            }
        }
    }

    /// Creates an object under a given number.
    ///
    /// # Errors
    /// The number is taken, or was freed in a txg that has not synced; dnodes cannot be read.
    pub fn claim(&self, tx: &Tx, id: ObjectId, shape: &AllocateObject) -> Result<Arc<Object>> {
        self.require_writable()?;
        let in_use = DmuError::ObjectInUse {
            object_set: self.shared.id,
            object: id,
        };
        let slots = shape.slot_count();
        let index = (id.0 % RUN_NUMBERS) as u32;
        let fits = index % SLOTS_PER_BLOCK as u32 + slots <= SLOTS_PER_BLOCK as u32;
        if id.0 == 0 || id.0 >= NUMBERS_END || !fits {
            return Err(in_use);
        }
        self.numbers.note_claim(tx.txg(), id);
        let taken = self.taken_in_block(id.0 / SLOTS_PER_BLOCK as u64)?;
        if u128::from(taken) & slot_mask(index % SLOTS_PER_BLOCK as u32, slots) != 0 {
            return Err(in_use);
        }
        let object = Object::create(&self.shared, id, &shape.phys());
        if !self.table.insert_new(&object) {
            return Err(in_use);
        }
        object.enter_new(tx)?;
        Ok(object)
    }

    /// Frees an object with all its blocks.
    ///
    /// # Errors
    /// There is no such object.
    pub fn free(&self, tx: &Tx, id: ObjectId) -> Result<()> {
        let object = self.object(id)?;
        object.free(tx)?;
        self.table.note_freed(tx.txg(), id);
        self.numbers.freed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn require_writable(&self) -> Result<()> {
        if self.shared.writable {
            Ok(())
        } else {
            Err(DmuError::ReadOnly {
                object_set: self.shared.id,
            })
        }
    }

    /// Gives `run` the next numbers that have room for `slots`.
    fn next_run(&self, tx: &Tx, run: &mut Run, slots: u32) -> Result<()> {
        let mut search = self.numbers.search.lock();
        if let Some(used) = search.recent.get_mut(&run.index) {
            *used = Use::Until(tx.txg());
        }
        loop {
            let index = self.next_index(&mut search)?;
            if matches!(search.recent.get(&index), Some(Use::Active)) {
                continue;
            }
            let mut taken = 0u128;
            for block in 0..BLOCKS_PER_RUN {
                let bits = self.taken_in_block(index * BLOCKS_PER_RUN + block)?;
                taken |= u128::from(bits) << (block * SLOTS_PER_BLOCK as u64);
            }
            if index == 0 {
                let created = self.numbers.created.load(Ordering::Acquire) != 0;
                taken |= if created { (1 << FIRST_OF_NEW) - 1 } else { 1 };
            }
            if find_free(taken, slots).is_some() {
                METERS.number_runs.increment();
                search.recent.insert(index, Use::Active);
                run.index = index;
                run.taken = taken;
                return Ok(());
            }
        }
    }

    /// The run to look at next. At the end of what one indirect block of dnodes addresses, those
    /// that are more than a quarter full are passed over.
    fn next_index(&self, search: &mut Search) -> Result<u64> {
        let shift = self.meta.entries_shift();
        let runs_per_indirect = (1u64 << shift) / BLOCKS_PER_RUN;
        let numbers = runs_per_indirect.max(1) * RUN_NUMBERS;
        let freed = self.numbers.freed.load(Ordering::Relaxed);
        if freed >= FREED_FOR_RESTART.max(search.next * RUN_NUMBERS / FREED_SHARE) {
            self.numbers.freed.store(0, Ordering::Relaxed);
            search.next = 0;
        }
        if search.next.is_multiple_of(runs_per_indirect.max(1)) {
            loop {
                let indirect = search.next / runs_per_indirect.max(1);
                let pointer = self.meta.pointer(&self.shared, 1, indirect)?;
                if pointer.is_hole() || pointer.fill() <= numbers / 4 {
                    break;
                }
                search.next += runs_per_indirect;
            }
        }
        if search.next >= NUMBERS_END / RUN_NUMBERS {
            search.next = 0;
            let what = "no object number is left";
            return Err(DmuError::Unsuitable {
                object_set: self.shared.id,
                object: ObjectId(0),
                what,
            });
        }
        search.next += 1;
        Ok(search.next - 1)
    }

    /// The slots of a block of dnodes that are taken: on disk or by objects in core, freed ones
    /// included until their txg has synced.
    fn taken_in_block(&self, block: u64) -> Result<u32> {
        let base = block * SLOTS_PER_BLOCK as u64;
        let mut taken = 0u32;
        let mut take = |index: usize, slots: usize| {
            for slot in index..(index + slots).min(SLOTS_PER_BLOCK) {
                taken |= 1 << slot;
            }
        };
        for index in 0..SLOTS_PER_BLOCK {
            if let Some(object) = self.table.peek(ObjectId(base + index as u64)) {
                take(index, usize::from(object.info().slots));
            }
        }
        let pointer = self.meta.pointer(&self.shared, 0, block)?;
        if pointer.is_hole() {
            return Ok(taken);
        }
        if pointer.fill() >= SLOTS_PER_BLOCK as u64 {
            return Ok(u32::MAX);
        }
        let data = self.meta.read_block(&self.shared, block)?;
        for (index, slot) in format::dnode::slots(&data) {
            if let Slot::Allocated { slots } = slot {
                take(index, slots);
            }
        }
        Ok(taken)
    }
}
