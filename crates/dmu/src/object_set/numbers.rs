//! Who hands out which object numbers.
//!
//! Numbers are handed out in runs. A run in use has exactly one owner, the shard that holds its [`OwnedRun`]: only
//! through that can a number be handed out, there is never a second one of the same run, and letting go of it hands
//! the run back. So threads of different shards create objects without a lock in common.
//!
//! What a run knows of its numbers is as old as its last look at the dnodes. So a number is handed out only if the
//! dnodes have not been replaced since that look, or after another; and it enters memory under the same condition.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use base::lock::{LockClass, Mutex, rank};
use base::sync::atomic::{AtomicU64, Ordering};
use base::{ObjectId, Txg};
use format::dnode::SLOTS_PER_BLOCK;

use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::tunables;

static SHARD: LockClass = LockClass::new("dmu.number_run", rank::DMU + 15);
static RUNS: LockClass = LockClass::new("dmu.number_search", rank::DMU + 16);

const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
/// Blocks of dnodes in the longest run, whose numbers a word of bits holds.
const BLOCKS_MAX: usize = u128::BITS as usize / SLOTS_PER_BLOCK;
/// Where a new object set's numbers begin: block 0 of its dnodes is left to claimed ones.
const FIRST_OF_NEW: u64 = 32;
/// Object numbers end here.
pub(crate) const NUMBERS_END: u64 = 1 << 48;
/// Places that cannot be read which one search passes over.
const UNREADABLE_MAX: u32 = 16;

/// What decides whether a number is free, apart from the owners of runs.
pub(crate) trait Dnodes {
    /// Rises after the dnodes on disk have been replaced, and before an object that they show for the first time may
    /// leave the core.
    fn generation(&self) -> u64;

    /// The slots of a block of dnodes that are taken: by objects in memory, freed ones included until their txg has
    /// synced, or on disk.
    fn taken(&self, block: u64) -> Result<u32>;

    /// How many numbers the dnodes under one indirect block have.
    fn numbers_per_indirect(&self) -> u64;

    /// How many objects are on disk under an indirect block of dnodes.
    fn objects_under(&self, indirect: u64) -> Result<u64>;

    /// The error of an object set whose numbers are used up.
    fn no_number_left(&self) -> DmuError;
}

/// What came of putting an object into the core under a number.
pub(crate) enum Entered<T> {
    /// It is there.
    In(T),
    /// Another one is there.
    Taken,
    /// The dnodes have been replaced meanwhile: the number must be looked at again.
    Outdated,
}

/// A run that is handed out, or that has numbers which are not on disk yet.
#[derive(Default)]
struct InUse {
    /// The shard that holds its [`OwnedRun`].
    owner: Option<usize>,
    /// The newest txg in which a number of it was handed out.
    until: Option<Txg>,
}

/// The runs in use, and where to look for the next.
#[derive(Default)]
struct Runs {
    next: u64,
    in_use: BTreeMap<u64, InUse>,
}

/// A run, in the hands of its owner.
struct OwnedRun {
    runs: Weak<Mutex<Runs>>,
    index: u64,
    /// The run's first number.
    first: u64,
    blocks: usize,
    /// Which numbers are taken, as of the last look, and since by the owner.
    taken: u128,
    /// The generation of the dnodes at the last look at each block.
    looked: [Option<u64>; BLOCKS_MAX],
    /// Runs of an older epoch are given up.
    epoch: u64,
    last: Option<Txg>,
}

#[derive(Default)]
struct Shard {
    run: Option<OwnedRun>,
    /// Whether a number was handed out here since the search last began again.
    used: bool,
}

/// The allocator of object numbers.
pub(crate) struct Numbers {
    /// The only strong reference, and dropped before the shards: runs of an object set that is gone are handed back to
    /// nobody, whatever locks are held then.
    runs: Arc<Mutex<Runs>>,
    /// The last one is for claims of numbers whose run nobody owns: one at a time, and it keeps none.
    shards: Box<[Mutex<Shard>]>,
    run_numbers: u64,
    /// The txg that created this object set, until it has synced.
    created: AtomicU64,
    epoch: AtomicU64,
    freed: AtomicU64,
}

impl Drop for OwnedRun {
    fn drop(&mut self) {
        let Some(runs) = self.runs.upgrade() else {
            return;
        };
        let mut runs = runs.lock();
        if let Some(run) = runs.in_use.get_mut(&self.index) {
            run.owner = None;
            run.until = run.until.max(self.last);
            if run.until.is_none() {
                runs.in_use.remove(&self.index);
            }
        }
    }
}

impl OwnedRun {
    fn mask_of_block(block: usize) -> u128 {
        u128::from(u32::MAX) << (block * SLOTS_PER_BLOCK)
    }

    /// Asks again which numbers of a block are taken. One that cannot be read has none to hand out.
    fn look(&mut self, dnodes: &impl Dnodes, block: usize) -> Result<()> {
        let generation = dnodes.generation();
        let taken = dnodes.taken(self.first / PER_BLOCK + block as u64);
        let bits = *taken.as_ref().unwrap_or(&u32::MAX);
        self.taken |= u128::from(bits) << (block * SLOTS_PER_BLOCK);
        self.looked[block] = Some(generation);
        taken.map(|_| ())
    }

    /// The lowest `slots` neighbouring numbers that are free by a look at the dnodes of the generation that is returned
    /// with them.
    fn find(&mut self, dnodes: &impl Dnodes, slots: u32) -> Option<(u32, u64)> {
        loop {
            let at = find_free(self.taken, slots)?;
            let block = at as usize / SLOTS_PER_BLOCK;
            let generation = dnodes.generation();
            if self.looked[block] == Some(generation) {
                return Some((at, generation));
            }
            if self.look(dnodes, block).is_err() {
                METERS.number_blocks_unreadable.increment();
            }
        }
    }

    /// Hands out the number `id` with the `slots` - 1 after it; nothing if one of them is taken.
    fn claim<T>(
        &mut self,
        dnodes: &impl Dnodes,
        txg: Txg,
        id: ObjectId,
        slots: u32,
        enter: &mut impl FnMut(u64) -> Entered<T>,
    ) -> Result<Option<T>> {
        let at = (id.0 - self.first) as u32;
        loop {
            let generation = dnodes.generation();
            // What this run has taken may be more than what is: numbers that it leaves to claims.
            let taken = u128::from(dnodes.taken(id.0 / PER_BLOCK)?);
            if taken & slot_mask(at % SLOTS_PER_BLOCK as u32, slots) != 0 {
                return Ok(None);
            }
            match enter(generation) {
                Entered::In(object) => {
                    self.note(at, slots, txg);
                    return Ok(Some(object));
                }
                Entered::Taken => return Ok(None),
                Entered::Outdated => {}
            }
        }
    }

    fn note(&mut self, at: u32, slots: u32, txg: Txg) {
        self.taken |= slot_mask(at, slots);
        self.last = self.last.max(Some(txg));
    }
}

impl Numbers {
    pub(crate) fn new() -> Self {
        const SHARDS_MAX: usize = 64;
        let shards = match tunables::NUMBER_SHARDS.count() {
            0 => base::thread::cpus().min(SHARDS_MAX),
            count => count,
        };
        Self {
            runs: Arc::new(Mutex::new(&RUNS, Runs::default())),
            shards: (0..=shards)
                .map(|_| Mutex::new(&SHARD, Shard::default()))
                .collect(),
            run_numbers: tunables::RUN_NUMBERS.get().next_multiple_of(PER_BLOCK),
            created: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    pub(crate) fn created_in(&self, txg: Txg) {
        self.created.store(txg.0, Ordering::SeqCst);
    }

    /// An object was freed.
    pub(crate) fn note_freed(&self) {
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// After `txg`: a new object set's numbers now begin at 1. Runs that are being handed out stay with their owners,
    /// who give them up when they next come by.
    pub(crate) fn synced(&self, txg: Txg) {
        let created = self.created.load(Ordering::SeqCst);
        let mut runs = self.runs.lock();
        runs.in_use
            .retain(|_, run| run.owner.is_some() || run.until > Some(txg));
        if created != 0 && created <= txg.0 {
            self.created.store(0, Ordering::SeqCst);
            runs.next = 0;
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The first block of dnodes at or after `block` that may hold objects not on disk yet.
    pub(crate) fn next_recent_block(&self, block: u64) -> Option<u64> {
        let blocks = self.run_numbers / PER_BLOCK;
        let runs = self.runs.lock();
        let (&run, _) = runs.in_use.range(block / blocks..).next()?;
        Some(block.max(run * blocks))
    }

    /// Hands out `slots` neighbouring numbers. `enter` is asked to put an object into the core under the first of them
    /// if the dnodes are still of the generation given.
    pub(crate) fn hand_out<T>(
        &self,
        dnodes: &impl Dnodes,
        txg: Txg,
        slots: u32,
        mut enter: impl FnMut(ObjectId, u64) -> Entered<T>,
    ) -> Result<T> {
        let own = txg::thread_index() % self.shards.len().saturating_sub(1).max(1);
        let mut shard = self.shards[own].lock();
        shard.used = true;
        let epoch = self.epoch.load(Ordering::SeqCst);
        if shard.run.as_ref().is_some_and(|run| run.epoch != epoch) {
            shard.run = None;
        }
        loop {
            let Some(run) = &mut shard.run else {
                shard.run = Some(self.next_run(dnodes, own, slots)?);
                continue;
            };
            let Some((at, generation)) = run.find(dnodes, slots) else {
                shard.run = None;
                continue;
            };
            match enter(ObjectId(run.first + u64::from(at)), generation) {
                Entered::In(object) => {
                    run.note(at, slots, txg);
                    return Ok(object);
                }
                Entered::Taken => run.taken |= slot_mask(at, 1),
                Entered::Outdated => {}
            }
        }
    }

    /// Hands out the number `id` with the `slots` - 1 after it, through the owner of their run; nothing if one of them
    /// is taken.
    pub(crate) fn claim<T>(
        &self,
        dnodes: &impl Dnodes,
        txg: Txg,
        id: ObjectId,
        slots: u32,
        mut enter: impl FnMut(u64) -> Entered<T>,
    ) -> Result<Option<T>> {
        let index = id.0 / self.run_numbers;
        loop {
            let owner = self.owner_of(index);
            let claims = self.shards.len() - 1;
            let mut shard = self.shards[owner.unwrap_or(claims)].lock();
            // Whoever owned it a moment ago may have handed it back.
            match shard.run.as_mut().filter(|run| run.index == index) {
                Some(run) => return run.claim(dnodes, txg, id, slots, &mut enter),
                None if owner.is_some() => {}
                None => {
                    if let Some(mut run) = self.take(index, claims) {
                        return run.claim(dnodes, txg, id, slots, &mut enter);
                    }
                }
            }
        }
    }

    fn owner_of(&self, index: u64) -> Option<usize> {
        let runs = self.runs.lock();
        runs.in_use.get(&index).and_then(|run| run.owner)
    }

    /// Makes `owner` the owner of a run that has none.
    fn take(&self, index: u64, owner: usize) -> Option<OwnedRun> {
        // The epoch is read before whether the object set is new: a run looked at as one of a new object set is given
        // up afterwards.
        let epoch = self.epoch.load(Ordering::SeqCst);
        let mut runs = self.runs.lock();
        let run = runs.in_use.entry(index).or_default();
        if run.owner.is_some() {
            return None;
        }
        run.owner = Some(owner);
        drop(runs);
        Some(OwnedRun {
            runs: Arc::downgrade(&self.runs),
            index,
            first: index * self.run_numbers,
            blocks: (self.run_numbers / PER_BLOCK) as usize,
            taken: 0,
            looked: [None; BLOCKS_MAX],
            epoch,
            last: None,
        })
    }

    /// A run that has room for `slots`.
    fn next_run(&self, dnodes: &impl Dnodes, own: usize, slots: u32) -> Result<OwnedRun> {
        self.begin_again_if_worth(own);
        let mut unreadable = 0;
        loop {
            let Some(mut run) = self.next_taken(dnodes, own)? else {
                continue;
            };
            run.taken = (run.blocks..BLOCKS_MAX)
                .fold(0, |mask, block| mask | OwnedRun::mask_of_block(block));
            if run.index == 0 {
                let created = self.created.load(Ordering::SeqCst) != 0;
                run.taken |= if created { (1 << FIRST_OF_NEW) - 1 } else { 1 };
            }
            let mut failure = None;
            for block in 0..run.blocks {
                if let Err(error) = run.look(dnodes, block) {
                    METERS.number_blocks_unreadable.increment();
                    failure = Some(error);
                }
            }
            if find_free(run.taken, slots).is_some() {
                METERS.number_runs.increment();
                return Ok(run);
            }
            if let Some(error) = failure {
                unreadable += 1;
                if unreadable > UNREADABLE_MAX {
                    return Err(error);
                }
            }
        }
    }

    /// The next run to look at, in the hands of `own`; nothing if another shard was first.
    fn next_taken(&self, dnodes: &impl Dnodes, own: usize) -> Result<Option<OwnedRun>> {
        let next = self.runs.lock().next;
        let found = self.first_worth_a_look(dnodes, next)?;
        let mut runs = self.runs.lock();
        if runs.next != next {
            return Ok(None);
        }
        if found >= NUMBERS_END / self.run_numbers {
            runs.next = 0;
            return Err(dnodes.no_number_left());
        }
        runs.next = found + 1;
        drop(runs);
        Ok(self.take(found, own))
    }

    /// The first run to look at, from `run` on. At the start of what one indirect block of dnodes addresses, those
    /// that are more than a quarter full are passed over.
    fn first_worth_a_look(&self, dnodes: &impl Dnodes, mut run: u64) -> Result<u64> {
        let numbers = dnodes.numbers_per_indirect();
        let span = (numbers / self.run_numbers).max(1);
        let mut unreadable = 0;
        while run.is_multiple_of(span) && run < NUMBERS_END / self.run_numbers {
            match dnodes.objects_under(run / span) {
                Ok(objects) if objects <= numbers / 4 => break,
                Ok(_) => {}
                Err(_) if unreadable < UNREADABLE_MAX => unreadable += 1,
                Err(error) => return Err(error),
            }
            run += span;
        }
        Ok(run)
    }

    /// Lets the search begin again at the start when enough was freed, and takes their runs from shards that have not
    /// created anything since it last did.
    fn begin_again_if_worth(&self, own: usize) {
        let mut runs = self.runs.lock();
        let passed = runs.next.saturating_mul(self.run_numbers);
        let enough = tunables::FREED_FOR_RESTART
            .get()
            .max(passed / tunables::FREED_SHARE.get().max(1));
        if self.freed.load(Ordering::Relaxed) < enough {
            return;
        }
        self.freed.store(0, Ordering::Relaxed);
        runs.next = 0;
        drop(runs);
        for (_, shard) in self
            .shards
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != own)
        {
            if let Some(mut shard) = shard.try_lock()
                && !std::mem::take(&mut shard.used)
            {
                shard.run = None;
            }
        }
    }
}

/// The lowest `count` neighbouring free bits that lie in one block of dnodes.
fn find_free(taken: u128, count: u32) -> Option<u32> {
    if count == 1 {
        return (taken != u128::MAX).then(|| taken.trailing_ones());
    }
    let per_block = SLOTS_PER_BLOCK as u32;
    (0..u128::BITS)
        .filter(|at| at % per_block + count <= per_block)
        .find(|&at| taken & slot_mask(at, count) == 0)
}

fn slot_mask(at: u32, count: u32) -> u128 {
    let mask = if count >= u128::BITS {
        u128::MAX
    } else {
        (1u128 << count) - 1
    };
    mask.checked_shl(at).unwrap_or(0)
}

#[cfg(all(test, shuttle))]
mod models;
