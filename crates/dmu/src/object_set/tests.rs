use std::collections::BTreeSet;

use base::{ObjectId, Txg};
use format::{ObjectSetKind, ObjectType};

use crate::error::DmuError;
use crate::object_set::AllocateObject;
use crate::store::Owner;
use crate::testing::Harness;
use crate::zap::Zap;

fn shape(slots: u8) -> AllocateObject {
    AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        bonus_type: ObjectType::SYSTEM_ATTRIBUTES,
        bonus_len: 176,
        slots,
        ..AllocateObject::default()
    }
}

fn all(harness: &Harness) -> Vec<u64> {
    let mut found = Vec::new();
    let mut at = ObjectId(0);
    while let Some(next) = harness.set.next_object(at).unwrap() {
        found.push(next.0);
        at = next;
    }
    found
}

#[test]
fn a_new_object_set_starts_at_32_and_later_fills_from_1() {
    let store = std::sync::Arc::new(crate::testing::MemoryStore::default());
    let mut harness = Harness::with_store(store, ObjectSetKind::Other);
    let first = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    assert_eq!(first.id(), ObjectId(32));
    harness
        .set
        .claim(&harness.tx(), ObjectId(1), &shape(1))
        .unwrap();
    harness.sync();
    let next = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    assert_eq!(next.id(), ObjectId(2));
    assert_eq!(all(&harness), [1, 2, 32]);
    harness.sync();
    harness.reopen();
    assert_eq!(all(&harness), [1, 2, 32]);
    assert_eq!(harness.set.object_count(), 3);
}

#[test]
fn numbers_are_not_reused_before_their_free_has_synced() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness
        .set
        .claim(&harness.tx(), ObjectId(5), &shape(1))
        .unwrap();
    object.write(&harness.tx(), 0, &[1; 512]).unwrap();
    harness.sync();
    harness.set.free(&harness.tx(), ObjectId(5)).unwrap();
    let gone = harness.set.object(ObjectId(5));
    assert!(matches!(gone, Err(DmuError::NoSuchObject { .. })));
    let closed = harness.advance();
    let early = harness.set.claim(&harness.tx(), ObjectId(5), &shape(1));
    assert!(
        matches!(early, Err(DmuError::ObjectInUse { .. })),
        "its free has not synced"
    );
    harness.sync_txg(closed);
    harness.check();
    assert!(all(&harness).is_empty());
    harness
        .set
        .claim(&harness.tx(), ObjectId(5), &shape(1))
        .unwrap();
    harness.sync();
    assert_eq!(all(&harness), [5]);
}

#[test]
fn an_object_made_and_freed_in_one_txg_leaves_nothing() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    object.write(&harness.tx(), 0, &[1; 512]).unwrap();
    harness.set.free(&harness.tx(), object.id()).unwrap();
    assert!(object.write(&harness.tx(), 0, &[1]).is_err());
    harness.sync();
    assert!(all(&harness).is_empty());
    assert_eq!(harness.set.object_count(), 0);
}

#[test]
fn large_dnodes_do_not_overlap() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let mut taken = BTreeSet::new();
    for round in 0..6u8 {
        for slots in [1, 2, 3, 16, 31, 32, 1] {
            let object = harness.set.allocate(&harness.tx(), &shape(slots)).unwrap();
            object
                .modify_bonus(&harness.tx(), |bonus| bonus.fill(round + 1))
                .unwrap();
            let id = object.id().0;
            assert_eq!(id / 32, (id + u64::from(slots) - 1) / 32, "crosses a block");
            for slot in id..id + u64::from(slots) {
                assert!(taken.insert(slot), "slot {slot} twice");
            }
        }
        harness.sync();
        if round % 2 == 1 {
            harness.reopen();
        }
    }
    let found = all(&harness);
    assert_eq!(found.len(), 42);
    let interior = harness
        .set
        .object(ObjectId(*found.iter().max().unwrap() + 1));
    assert!(interior.is_err());
}

#[test]
fn many_objects_survive_eviction_and_reopening() {
    const COUNT: usize = 3000;
    let mut harness = Harness::new(ObjectSetKind::FileSystem);
    let mut ids = Vec::new();
    for index in 0..COUNT {
        let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
        object
            .write(&harness.tx(), 0, &(index as u64).to_le_bytes())
            .unwrap();
        ids.push(object.id());
        if index % 1000 == 999 {
            harness.sync();
        }
    }
    for round in 0..2 {
        for (index, id) in ids.iter().enumerate() {
            let mut out = [0; 8];
            harness.set.object(*id).unwrap().read(0, &mut out).unwrap();
            assert_eq!(u64::from_le_bytes(out), index as u64);
        }
        if round == 0 {
            harness.reopen();
        }
    }
    assert_eq!(all(&harness).len(), COUNT);
    for id in &ids[..COUNT / 2] {
        harness.set.free(&harness.tx(), *id).unwrap();
    }
    harness.sync();
    assert_eq!(all(&harness).len(), COUNT / 2);
}

fn attributes(user: u64, group: u64) -> Vec<u8> {
    let mut bonus = vec![0; 176];
    bonus[..4].copy_from_slice(&0x002F_505Au32.to_ne_bytes());
    bonus[4..6].copy_from_slice(&((1u16 << 10) | 2).to_ne_bytes());
    bonus[32..40].copy_from_slice(&user.to_ne_bytes());
    bonus[40..48].copy_from_slice(&group.to_ne_bytes());
    bonus
}

fn used(harness: &Harness, owner: Owner, key: &str) -> Option<u64> {
    Zap::open(&harness.set.used_object(owner)?)
        .unwrap()
        .lookup(key.as_bytes())
        .unwrap()
}

#[test]
fn owners_are_charged() {
    let mut harness = Harness::new(ObjectSetKind::FileSystem);
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    let kind = ObjectType::SYSTEM_ATTRIBUTES;
    object
        .set_bonus(&harness.tx(), kind, &attributes(1000, 100))
        .unwrap();
    object.set_block_size(&harness.tx(), 4096, 0).unwrap();
    object.write(&harness.tx(), 0, &[1; 4096]).unwrap();
    let other = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    other
        .set_bonus(&harness.tx(), kind, &attributes(1000, 101))
        .unwrap();
    harness.sync();
    assert_eq!(used(&harness, Owner::User, "3e8"), Some(4096 + 512 + 512));
    assert_eq!(used(&harness, Owner::User, "obj-3e8"), Some(2));
    assert_eq!(used(&harness, Owner::Group, "64"), Some(4096 + 512));
    assert_eq!(used(&harness, Owner::Project, "0"), Some(4096 + 1024));
    harness.reopen();
    let object = harness.set.object(object.id()).unwrap();
    object
        .set_bonus(&harness.tx(), kind, &attributes(2000, 100))
        .unwrap();
    harness.sync();
    assert_eq!(used(&harness, Owner::User, "3e8"), Some(512));
    assert_eq!(used(&harness, Owner::User, "7d0"), Some(4096 + 512));
    harness.set.free(&harness.tx(), object.id()).unwrap();
    harness.set.free(&harness.tx(), other.id()).unwrap();
    harness.sync();
    assert_eq!(used(&harness, Owner::User, "3e8"), None);
    assert_eq!(used(&harness, Owner::Group, "obj-65"), None);
}

#[test]
fn the_meta_object_set_starts_with_one_level_and_grows() {
    let mut harness = Harness::new(ObjectSetKind::Meta);
    assert_eq!(harness.set.shared.meta.version().tree.levels, 1);
    for _ in 0..200 {
        harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    }
    harness.sync();
    assert_eq!(harness.set.shared.meta.version().tree.levels, 2);
    assert_eq!(all(&harness).len(), 200);
}

#[test]
fn negative_control_an_object_that_enters_again_is_seen() {
    let harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    super::dirty::REQUEUES.set(true);
    for change in 0..10u8 {
        object.write(&harness.tx(), 0, &[change; 512]).unwrap();
    }
    super::dirty::REQUEUES.set(false);
    assert!(harness.set.shared.dirty.len(harness.txg) > 1);
}

#[test]
fn an_object_that_is_twice_on_a_dirty_list_is_a_broken_invariant() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let engine = txg::Engine::new(txg::EngineConfig::default());
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    for requeues in [false, true] {
        assert_eq!(engine.findings().first(), None);
        super::dirty::REQUEUES.set(requeues);
        for change in 0..2u8 {
            object.write(&harness.tx(), 0, &[change; 512]).unwrap();
        }
        super::dirty::REQUEUES.set(false);
        let closed = harness.advance();
        let store = std::sync::Arc::clone(&harness.store);
        let synced = harness.sync_with(closed, store.as_ref(), Some(&engine));
        assert!(synced.is_ok() || requeues);
    }
    let found = engine.findings().first().map(|first| first.name);
    assert_eq!(found, Some("dmu.dirty"));
}

#[test]
fn an_object_is_on_a_dirty_list_once_a_txg() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    for round in 0..3 {
        for change in 0..100u8 {
            object.write(&harness.tx(), 0, &[change; 512]).unwrap();
            object
                .modify_bonus(&harness.tx(), |bonus| bonus.fill(change))
                .unwrap();
        }
        let listed = harness.set.shared.dirty.len(harness.txg);
        assert_eq!(listed, 1, "txg {round}");
        harness.advance();
    }
    for txg in harness.txg.0 - 3..harness.txg.0 {
        harness.sync_txg(Txg(txg));
    }
    harness.check();
    assert!(!object.is_dirty());
}

#[test]
fn a_read_only_object_set_refuses_changes() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let id = harness.set.allocate(&harness.tx(), &shape(1)).unwrap().id();
    harness.sync();
    let options = crate::OpenObjectSet {
        store: std::sync::Arc::clone(&harness.store) as _,
        id: harness.set.id(),
        writable: false,
        objects_max: 16,
    };
    let set = crate::ObjectSet::open(options, &harness.set.root_pointer()).unwrap();
    let tx = crate::Tx::syncing(Txg(100));
    let object = set.object(id).unwrap();
    assert!(matches!(
        object.write(&tx, 0, &[1]),
        Err(DmuError::ReadOnly { .. })
    ));
    assert!(matches!(
        set.allocate(&tx, &shape(1)),
        Err(DmuError::ReadOnly { .. })
    ));
    assert!(!set.is_dirty(Txg(100)));
}

#[test]
fn an_object_set_where_objects_come_and_go_stays_small() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let (mut living, mut highest) = (std::collections::VecDeque::new(), 0);
    for _ in 0..200 {
        for _ in 0..40 {
            let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
            highest = highest.max(object.id().0);
            living.push_back(object.id());
        }
        while living.len() > 300 {
            let oldest = living.pop_front().unwrap();
            harness.set.free(&harness.tx(), oldest).unwrap();
        }
        harness.sync();
    }
    assert!(highest < 4000, "number {highest} for 340 objects at once");
    assert_eq!(all(&harness).len(), 300);
}

/// What a pool that is dropped without an export had not written keeps nothing of it in memory, and no device open.
#[test]
fn what_was_dirty_goes_with_its_object_set() {
    let store = std::sync::Arc::new(crate::testing::MemoryStore::default());
    let watched = std::sync::Arc::downgrade(&store);
    let harness = Harness::with_store(store, ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &shape(1)).unwrap();
    object.write(&harness.tx(), 0, &[1; 512]).unwrap();
    drop(object);
    drop(harness);
    assert!(watched.upgrade().is_none());
}
