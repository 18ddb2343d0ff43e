//! Whole object sets: damaged ones, and ones that many threads change while they sync.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ObjectId, Txg};
use format::zap::Value;
use format::{ObjectSetKind, ObjectType};
use parking_lot::Mutex;
use proptest::prelude::*;
use txg::{Engine, EngineConfig, SyncFailure, SyncTarget};

use super::{Gullible, Harness};
use crate::error::Result;
use crate::object::Object;
use crate::object_set::{AllocateObject, ObjectSet};
use crate::store::Owner;
use crate::tx::{Reservation, Tx};
use crate::zap::{CreateZap, Zap, ZapMatch};

fn file() -> AllocateObject {
    AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        block_size: 1024,
        indirect_shift: 12,
        bonus_type: ObjectType::SYSTEM_ATTRIBUTES,
        bonus_len: 168,
        ..AllocateObject::default()
    }
}

/// An object set with something of everything.
fn furnished() -> Harness {
    let mut harness = Harness::new(ObjectSetKind::FileSystem);
    for round in 0..2u64 {
        let kind = CreateZap {
            object_type: ObjectType::DIRECTORY,
            ..CreateZap::default()
        };
        let small = Zap::create(&harness.set, &harness.tx(), &kind).unwrap();
        let large = Zap::create(&harness.set, &harness.tx(), &kind).unwrap();
        for index in 0..300u64 {
            small
                .add(&harness.tx(), format!("s{index}").as_bytes(), index)
                .unwrap();
        }
        large
            .add_value(&harness.tx(), b"text", &Value::string("text"))
            .unwrap();
        for index in 0..1500u64 {
            large
                .add(&harness.tx(), format!("large {index}").as_bytes(), index)
                .unwrap();
        }
        for index in 0..20 {
            let object = harness.set.allocate(&harness.tx(), &file()).unwrap();
            object
                .write(&harness.tx(), index * 40_000, &[round as u8 + 1; 3000])
                .unwrap();
            object.set_spill(&harness.tx(), Some(&[1; 600])).unwrap();
        }
        harness.sync();
    }
    harness
}

/// Looks at everything; errors are fine, panics are not.
fn look(harness: &Harness) -> Result<u64> {
    let mut sum = 0;
    let mut at = ObjectId(0);
    let mut count = 0;
    while let Some(id) = harness.set.next_object(at)? {
        at = id;
        count += 1;
        if count > 1000 {
            break;
        }
        let Ok(object) = harness.set.object(id) else {
            continue;
        };
        let _ = object.next_hole(0..u64::MAX);
        let _ = object.next_data(1..u64::MAX);
        let _ = object.spill();
        let mut bytes = vec![0; 5000];
        for offset in [0, 40_000, 400_000, 1 << 40] {
            if object.read(offset, &mut bytes).is_ok() {
                sum += u64::from(bytes[10]);
            }
        }
        let Ok(zap) = Zap::open(&object) else {
            continue;
        };
        for name in [&b"s17"[..], b"large 1000", b"text", b"none"] {
            let _ = zap.lookup(name);
            let _ = zap.lookup_value(name);
            let _ = zap.lookup_matching(name, ZapMatch::Normalized);
        }
        let mut cursor = zap.cursor(0);
        for _ in 0..5000 {
            match cursor.next_entry() {
                Ok(Some(entry)) => sum = sum.wrapping_add(entry.value),
                Ok(None) | Err(_) => break,
            }
        }
    }
    Ok(sum)
}

/// Changes something of everything.
fn change(harness: &mut Harness) -> Result<()> {
    for id in 1..80 {
        let Ok(object) = harness.set.object(ObjectId(id)) else {
            continue;
        };
        let tx = harness.tx();
        if id % 7 == 0 {
            let _ = harness.set.free(&tx, ObjectId(id));
            continue;
        }
        let _ = object.write(&tx, 100, &[3; 2000]);
        let _ = object.free_range(&tx, 41_000, 300_000);
        let _ = object.set_spill(&tx, None);
        let Ok(zap) = Zap::open(&object) else {
            continue;
        };
        for index in 0..200 {
            let _ = zap.update(&tx, format!("large {index}").as_bytes(), 1);
            let _ = zap.add(&tx, format!("a rather long new name {index}").as_bytes(), 1);
            let _ = zap.remove(&tx, format!("s{index}").as_bytes());
        }
    }
    let _ = harness.set.allocate(&harness.tx(), &file());
    let txg = harness.advance();
    harness.sync_with(txg, &Gullible, None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn damage_is_an_error_and_never_a_panic(
        places in prop::collection::vec((any::<usize>(), 0usize..400, 1u8..), 1..60),
        anywhere in prop::collection::vec((any::<usize>(), any::<usize>(), 1u8..), 1..60),
    ) {
        let mut harness = furnished();
        harness.store.damage(&places);
        harness.store.damage(&anywhere);
        let root = harness.set.root_pointer();
        if let Ok(set) = crate::ObjectSet::open(super::options(&harness.store), &root) {
            harness.set = set;
            let _ = look(&harness);
            let _ = change(&mut harness);
            let _ = look(&harness);
        }
    }
}

/// Syncs the harness's object set.
struct Target {
    harness: Mutex<Harness>,
    engine: Mutex<Option<Arc<Engine>>>,
}

impl SyncTarget for Target {
    fn sync(&self, txg: Txg) -> std::result::Result<(), SyncFailure> {
        let engine = self.engine.lock().clone();
        let harness = self.harness.lock();
        let synced = harness.sync_with(txg, harness.store.as_ref(), engine.as_deref());
        synced.map_err(|error| SyncFailure {
            reason: error.to_string(),
        })
    }
}

#[test]
fn many_threads_change_an_object_set_while_it_syncs() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 400;
    let harness = Harness::with_store(Arc::default(), ObjectSetKind::FileSystem);
    let set = Arc::clone(&harness.set);
    let tx = Tx::syncing(Txg(4));
    let kind = CreateZap {
        object_type: ObjectType::DIRECTORY,
        ..CreateZap::default()
    };
    let directory = Zap::create(&set, &tx, &kind).unwrap();
    let shared = set.allocate(&tx, &file()).unwrap();
    let config = EngineConfig {
        timeout_ns: 3_000_000,
        dirty_bytes_max: 64 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config);
    let target = Arc::new(Target {
        harness: Mutex::new(harness),
        engine: Mutex::new(Some(Arc::clone(&engine))),
    });
    engine.start(Arc::clone(&target) as Arc<dyn SyncTarget>);
    let kept = Mutex::new(BTreeMap::new());
    let added = AtomicU64::new(0);
    let crowd = Crowd {
        engine: &engine,
        set: &set,
        directory: &directory,
        shared: &shared,
        kept: &kept,
        added: &added,
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let crowd = &crowd;
            scope.spawn(move || (0..ROUNDS).for_each(|round| crowd.change(thread, round)));
        }
    });
    engine.wait_synced(None).unwrap();
    engine.stop();
    let mut harness = Arc::into_inner(target).unwrap().harness.into_inner();
    harness.check();
    let (id, shared) = (directory.object().id(), shared.id());
    drop((directory, set));
    harness.reopen();
    check_crowd(
        &harness,
        (id, shared),
        &kept.into_inner(),
        added.into_inner(),
    );
}

/// What many threads change at once.
struct Crowd<'a> {
    engine: &'a Arc<Engine>,
    set: &'a ObjectSet,
    directory: &'a Zap,
    shared: &'a Arc<Object>,
    kept: &'a Mutex<BTreeMap<String, (ObjectId, u64)>>,
    added: &'a AtomicU64,
}

impl Crowd<'_> {
    fn change(&self, thread: u64, round: u64) {
        let reservation = Reservation {
            write_bytes: 8192,
            names: 2,
            objects: 3,
            ..Reservation::default()
        };
        let tx = Tx::assign(self.engine, &reservation).unwrap();
        let object = self.set.allocate(&tx, &file()).unwrap();
        let name = format!("t{thread} r{round}");
        let bytes = name.as_bytes();
        self.directory.add(&tx, bytes, object.id().0).unwrap();
        object.write(&tx, round % 5 * 1000, bytes).unwrap();
        object
            .modify_bonus(&tx, |bonus| bonus[100] = round as u8)
            .unwrap();
        self.shared
            .modify_block(&tx, 3, |block| {
                let sum = u64::from_le_bytes(block[..8].try_into().unwrap()) + 1;
                block[..8].copy_from_slice(&sum.to_le_bytes());
            })
            .unwrap();
        self.added.fetch_add(1, Ordering::Relaxed);
        if round.is_multiple_of(3) {
            self.directory.remove(&tx, bytes).unwrap();
            self.set.free(&tx, object.id()).unwrap();
        } else {
            self.kept.lock().insert(name, (object.id(), round));
        }
    }
}

fn check_crowd(
    harness: &Harness,
    (directory, shared): (ObjectId, ObjectId),
    kept: &BTreeMap<String, (ObjectId, u64)>,
    added: u64,
) {
    let directory = Zap::open(&harness.set.object(directory).unwrap()).unwrap();
    assert_eq!(directory.len().unwrap(), kept.len() as u64);
    for (name, (id, round)) in kept {
        assert_eq!(directory.lookup(name.as_bytes()).unwrap(), Some(id.0));
        let object = harness.set.object(*id).unwrap();
        let mut data = vec![0; name.len()];
        object.read(round % 5 * 1000, &mut data).unwrap();
        assert_eq!(data, name.as_bytes());
        assert_eq!(object.bonus()[100], *round as u8);
    }
    let counter = harness.set.object(shared).unwrap().read_block(3).unwrap();
    assert_eq!(u64::from_le_bytes(counter[..8].try_into().unwrap()), added);
    assert_eq!(harness.set.object_count(), kept.len() as u64 + 2);
    let users = harness.set.used_object(Owner::User);
    assert!(users.is_none(), "no bonus here is a znode");
}
