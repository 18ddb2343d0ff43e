//! The owners of runs under the model checker, over dnodes and a table of objects that are nothing but numbers.

use super::*;
use base::lock::Mutex;
use base::sync::{check, thread};
use std::collections::BTreeSet;
use std::sync::Arc;

static CORE: LockClass = LockClass::new("model.core", rank::DMU + 20);
static DISK: LockClass = LockClass::new("model.disk", rank::DMU + 35);

/// Large enough that one run of the least size holds four objects.
const SLOTS: u32 = 8;
const TXG: Txg = Txg(5);

struct World {
    numbers: Numbers,
    core: Mutex<BTreeSet<u64>>,
    disk: Mutex<BTreeSet<u64>>,
    generation: AtomicU64,
}

impl Dnodes for World {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn taken(&self, block: u64) -> Result<u32> {
        let here = |ids: &BTreeSet<u64>| {
            let ids = ids.range(block * PER_BLOCK..(block + 1) * PER_BLOCK);
            ids.fold(0u128, |taken, id| {
                taken | slot_mask((id % PER_BLOCK) as u32, SLOTS)
            })
        };
        let in_memory = here(&self.core.lock());
        let taken = in_memory | here(&self.disk.lock());
        Ok(taken as u32)
    }

    fn numbers_per_indirect(&self) -> u64 {
        1 << 20
    }

    fn objects_under(&self, _: u64) -> Result<u64> {
        Ok(0)
    }

    fn no_number_left(&self) -> DmuError {
        unreachable!("there are enough")
    }
}

impl World {
    fn new(shards: u64) -> Arc<Self> {
        tunables::RUN_NUMBERS.set(32);
        tunables::NUMBER_SHARDS.set(shards);
        tunables::FREED_FOR_RESTART.set(1);
        tunables::FREED_SHARE.set(1 << 16);
        Arc::new(Self {
            numbers: Numbers::new(),
            core: Mutex::new(&CORE, BTreeSet::new()),
            disk: Mutex::new(&DISK, BTreeSet::new()),
            generation: AtomicU64::new(0),
        })
    }

    fn enter(&self, id: u64, generation: u64) -> Entered<u64> {
        let mut core = self.core.lock();
        if core.contains(&id) {
            return Entered::Taken;
        }
        if self.generation() != generation {
            return Entered::Outdated;
        }
        core.insert(id);
        Entered::In(id)
    }

    fn create(&self) -> u64 {
        let enter = |id: ObjectId, generation| self.enter(id.0, generation);
        self.numbers
            .hand_out(self, TXG, SLOTS, enter)
            .expect("dnodes can be read")
    }

    fn claim(&self, id: u64) -> Option<u64> {
        let enter = |generation| self.enter(id, generation);
        self.numbers
            .claim(self, TXG, ObjectId(id), SLOTS, enter)
            .expect("dnodes can be read")
    }

    /// What is in memory reaches the disk and leaves memory.
    fn sync_and_evict(&self) {
        let core = self.core.lock().clone();
        self.disk.lock().extend(&core);
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.numbers.synced(TXG);
        self.core.lock().retain(|id| !core.contains(id));
    }
}

fn creating(world: &Arc<World>, count: usize) -> thread::JoinHandle<Vec<u64>> {
    let world = Arc::clone(world);
    thread::spawn(move || (0..count).map(|_| world.create()).collect())
}

fn assert_each_once(ids: &[u64]) {
    let each: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(each.len(), ids.len(), "a number twice: {ids:?}");
}

/// Whatever is synced and evicted meanwhile, and wherever the search begins again: each number once.
#[test]
fn a_number_is_handed_out_once() {
    check(|| {
        let world = World::new(4);
        let mut ids = vec![world.create()];
        world.numbers.note_freed();
        let others = [creating(&world, 2), creating(&world, 2)];
        world.sync_and_evict();
        ids.extend([world.create(), world.create()]);
        for other in others {
            ids.extend(other.join().expect("no thread fails"));
        }
        assert_each_once(&ids);
    });
}

/// A new object set's numbers begin at 1 after its first sync, also while the first runs are being handed out.
#[test]
fn the_first_sync_of_a_new_object_set_takes_no_run_from_its_owner() {
    check(|| {
        let world = World::new(2);
        world.numbers.created_in(TXG);
        let other = creating(&world, 3);
        world.sync_and_evict();
        let mut ids = vec![world.create(), world.create()];
        ids.extend(other.join().expect("no thread fails"));
        assert_each_once(&ids);
    });
}

/// A number that is given is given to one, beside those who ask for any.
#[test]
fn a_claimed_number_is_nobody_elses() {
    check(|| {
        let world = World::new(1);
        let other = creating(&world, 2);
        let claimed = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim(16))
        };
        world.sync_and_evict();
        let mut ids: Vec<u64> = world.claim(16).into_iter().collect();
        ids.extend(claimed.join().expect("no thread fails"));
        ids.extend(other.join().expect("no thread fails"));
        assert_each_once(&ids);
    });
}
