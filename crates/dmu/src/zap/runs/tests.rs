use std::collections::BTreeMap;
use std::sync::Arc;

use base::random::{Rng, SeededRng};
use format::zap::Value;
use format::{ObjectSetKind, ObjectType};

use super::super::{CreateZap, KeyMemory, Zap};
use crate::error::DmuError;
use crate::testing::Harness;

fn table(harness: &Harness) -> Zap {
    let options = CreateZap {
        flags: 7,
        object_type: ObjectType::DDT_ZAP,
        block_size: 4096,
        ..CreateZap::default()
    };
    Zap::create(&harness.set, &harness.tx(), &options).unwrap()
}

fn key(n: u64) -> [u64; 3] {
    [(n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), n, 3]
}

/// Brings all in; how many runs that took.
fn update(harness: &Harness, zap: &Zap, entries: &BTreeMap<[u64; 3], u64>) -> usize {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| (key.as_slice(), Value::words(&[*value, 7])));
    let entries: Vec<(&[u64], Value)> = entries.collect();
    let mut rest = entries.as_slice();
    let mut runs = 0;
    while !rest.is_empty() {
        let done = zap.update_words_run(&harness.tx(), rest).unwrap();
        assert!((1..=rest.len()).contains(&done));
        rest = &rest[done..];
        runs += 1;
    }
    runs
}

#[test]
fn runs_of_keys_are_what_a_map_says() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = table(&harness);
    let random = SeededRng::new(5);
    let mut model = BTreeMap::new();
    for round in 0..30 {
        let new: BTreeMap<[u64; 3], u64> = (0..300)
            .map(|_| (key(random.below(4000)), random.below(1 << 40)))
            .collect();
        let runs = update(&harness, &zap, &new);
        assert!(
            round < 5 || runs < new.len(),
            "{runs} runs of {}",
            new.len()
        );
        model.extend(new);
        assert_eq!(zap.len().unwrap(), model.len() as u64);
        if round % 4 == 3 {
            harness.sync();
        }
        for n in 0..4000 {
            let found = zap.lookup_words(&key(n)).unwrap();
            let wanted = model.get(&key(n)).map(|value| Value::words(&[*value, 7]));
            assert_eq!(found, wanted, "{n} in round {round}");
        }
    }
}

/// A table with many leaves, which are stored.
fn filled() -> (Harness, Zap, BTreeMap<[u64; 3], u64>) {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = table(&harness);
    let all: BTreeMap<[u64; 3], u64> = (0..2000).map(|n| (key(n), n)).collect();
    update(&harness, &zap, &all);
    harness.sync();
    (harness, zap, all)
}

#[test]
fn a_leaf_is_changed_once_for_all_of_its_keys() {
    let (harness, zap, all) = filled();
    let leaves = zap.object().info().max_block as usize;
    let runs = update(&harness, &zap, &all);
    assert!(
        (leaves / 2..=leaves).contains(&runs),
        "{runs} runs, {leaves} leaves"
    );
}

#[test]
fn keys_are_read_ahead_a_leaf_once() {
    let (harness, zap, all) = filled();
    harness.store.ahead.lock().clear();
    let keys: Vec<[u64; 3]> = all.keys().copied().collect();
    let count = zap.prefetch_words(keys.iter().map(|key| key.as_slice()), 10);
    assert!((10..1000).contains(&count), "{count}");
    let asked = harness.store.ahead.lock().clone();
    assert_eq!(asked.len(), 10);
    harness.store.kept.lock().clear();
    for key in &keys[..count] {
        assert!(zap.lookup_words(key).unwrap().is_some());
    }
    let read = harness.store.kept.lock().clone();
    assert!(asked.iter().all(|leaf| read.contains(leaf)));
    // And the indirect block.
    assert_eq!(read.len(), 11);
}

/// Nothing is taken for done that is not.
#[test]
fn a_run_ends_before_a_value_that_no_zap_holds() {
    let harness = Harness::new(ObjectSetKind::Other);
    let zap = table(&harness);
    let long = Value::bytes(&[1; 9000]);
    let entries = [(&key(1)[..], Value::word(1)), (&key(2)[..], long)];
    let mut entries = entries.to_vec();
    entries.sort_by_key(|(key, _)| key.to_vec());
    let error = zap.update_words_run(&harness.tx(), &entries).unwrap_err();
    assert!(matches!(error, DmuError::Unsuitable { .. }), "{error}");
    assert!(zap.is_empty().unwrap());
}

/// That a key is not there may be known without its leaf; whether it can come there is not.
#[test]
fn a_leaf_that_cannot_be_read_takes_no_keys() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = table(&harness);
    let memory = Arc::<KeyMemory>::default();
    memory.set_limit(1 << 20);
    zap.know_keys(&memory);
    let all: BTreeMap<[u64; 3], u64> = (0..600).map(|n| (key(n), n)).collect();
    update(&harness, &zap, &all);
    harness.sync();
    for n in 5000..7000 {
        assert_eq!(zap.lookup_words(&key(n)).unwrap(), None);
    }
    for block in 1..=zap.object().info().max_block {
        let pointer = zap.object().block_pointer(block).unwrap();
        harness.store.lose(&pointer);
    }
    let zap = Zap::open(zap.object()).unwrap();
    assert_eq!(zap.lookup_words(&key(5000)).unwrap(), None);
    assert!(zap.lookup_words(&key(5)).is_err());
    zap.read_words_leaf(&key(5000)).unwrap_err();
    let entries = [(&key(5000)[..], Value::word(1))];
    zap.update_words_run(&harness.tx(), &entries).unwrap_err();
}
