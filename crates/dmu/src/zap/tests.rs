use std::collections::{BTreeMap, BTreeSet};

use format::zap::{FatHeader, Value};
use format::{ObjectSetKind, ObjectType};
use proptest::prelude::*;

use super::{CreateZap, Form, Zap, ZapMatch};
use crate::error::DmuError;
use crate::testing::Harness;

mod micro;

fn directory() -> CreateZap {
    CreateZap {
        object_type: ObjectType::DIRECTORY,
        ..CreateZap::default()
    }
}

fn is_fat(zap: &Zap) -> bool {
    matches!(*zap.state().form.read(), Form::Fat)
}

fn contents(zap: &Zap) -> BTreeMap<Vec<u8>, u64> {
    let entries = zap.entries().unwrap();
    let count = entries.len();
    let map: BTreeMap<_, _> = entries.into_iter().map(|e| (e.name, e.value)).collect();
    assert_eq!(map.len(), count, "a name is listed twice");
    assert_eq!(zap.len().unwrap(), count as u64);
    let mut scanned = BTreeMap::new();
    Zap::scan(zap.object(), &mut |name, value| {
        let twice = scanned.insert(name.to_vec(), value);
        assert_eq!(twice, None, "a name is given twice");
        Ok::<_, DmuError>(())
    })
    .unwrap();
    assert_eq!(scanned, map);
    map
}

#[derive(Clone, Debug)]
enum Step {
    Add(u16, u64),
    Update(u16, u64),
    Remove(u16),
    Lookup(u16),
    LongName(u16),
    Sync,
    Reopen,
}

fn name(key: u16) -> Vec<u8> {
    format!("name-{key}-{}", "x".repeat(usize::from(key % 30))).into_bytes()
}

fn steps(keys: u16) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (0..keys, any::<u64>()).prop_map(|(key, value)| Step::Add(key, value)),
        10 => (0..keys, any::<u64>()).prop_map(|(key, value)| Step::Update(key, value)),
        20 => (0..keys).prop_map(Step::Remove),
        10 => (0..keys).prop_map(Step::Lookup),
        1 => (0..keys).prop_map(Step::LongName),
        3 => Just(Step::Sync),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..400)
}

fn run(steps: &[Step], normalization: u64) {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let options = CreateZap {
        normalization,
        ..directory()
    };
    let mut zap = Zap::create(&harness.set, &harness.tx(), &options).unwrap();
    let id = zap.object().id();
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for step in steps {
        let tx = harness.tx();
        match step {
            Step::Add(key, value) => {
                let added = zap.add(&tx, &name(*key), *value);
                match model.entry(name(*key)) {
                    std::collections::btree_map::Entry::Occupied(_) => {
                        assert!(matches!(added, Err(DmuError::EntryExists { .. })));
                    }
                    std::collections::btree_map::Entry::Vacant(free) => {
                        added.unwrap();
                        free.insert(*value);
                    }
                }
            }
            Step::Update(key, value) => {
                zap.update(&tx, &name(*key), *value).unwrap();
                model.insert(name(*key), *value);
            }
            Step::Remove(key) => {
                let removed = zap.remove(&tx, &name(*key));
                assert_eq!(removed.is_ok(), model.remove(&name(*key)).is_some());
            }
            Step::Lookup(key) => {
                assert_eq!(
                    zap.lookup(&name(*key)).unwrap(),
                    model.get(&name(*key)).copied()
                );
            }
            Step::LongName(key) => {
                let long = [name(*key), vec![b'y'; 60]].concat();
                zap.update(&tx, &long, 1).unwrap();
                model.insert(long, 1);
                assert!(is_fat(&zap));
            }
            Step::Sync => harness.sync(),
            Step::Reopen => {
                harness.sync();
                drop(zap);
                harness.reopen();
                zap = Zap::open(&harness.set.object(id).unwrap()).unwrap();
            }
        }
    }
    assert_eq!(contents(&zap), model);
    harness.sync();
    harness.reopen();
    let zap = Zap::open(&harness.set.object(id).unwrap()).unwrap();
    assert_eq!(contents(&zap), model);
    for (name, value) in &model {
        assert_eq!(zap.lookup(name).unwrap(), Some(*value));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_zap_is_a_map(steps in steps(300)) {
        run(&steps, 0);
    }

    #[test]
    fn a_folding_zap_is_a_map(steps in steps(200)) {
        run(&steps, 0x2);
    }
}

#[test]
fn a_directory_grows_through_all_forms() {
    const COUNT: u64 = 60_000;
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    let mut forms = Vec::new();
    for index in 0..COUNT {
        zap.add(&harness.tx(), format!("file-{index:08}").as_bytes(), index)
            .unwrap();
        if index % 7001 == 0 {
            harness.sync();
        }
        if is_fat(&zap) && forms.is_empty() {
            forms.push(index);
        }
    }
    assert_eq!(forms, [2047], "2047 entries fit the micro form");
    harness.sync();
    let (header, _) = super::header::header(zap.object()).unwrap();
    assert_eq!(header.entry_count, COUNT);
    assert_eq!(
        header.leaf_count + 1 + table_blocks(&header),
        header.free_block - gone(&header)
    );
    for index in (0..COUNT).step_by(997) {
        let found = zap.lookup(format!("file-{index:08}").as_bytes()).unwrap();
        assert_eq!(found, Some(index));
    }
    assert_eq!(contents(&zap).len() as u64, COUNT);
    for index in (0..COUNT).filter(|index| index % 3 != 0) {
        zap.remove(&harness.tx(), format!("file-{index:08}").as_bytes())
            .unwrap();
    }
    harness.sync();
    assert_eq!(contents(&zap).len() as u64, COUNT / 3);
}

fn table_blocks(header: &FatHeader) -> u64 {
    header.table_block_count
}

/// Blocks of tables that were outgrown: 1 + 2 + 4 … before the present one.
fn gone(header: &FatHeader) -> u64 {
    header.table_block_count.saturating_sub(1)
}

#[test]
fn listings_go_on_after_an_upgrade() {
    let harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    for index in 0..1500u64 {
        zap.add(&harness.tx(), format!("entry {index}").as_bytes(), index)
            .unwrap();
    }
    let mut seen = Vec::new();
    let mut cursor = zap.cursor(0);
    for _ in 0..700 {
        seen.push(cursor.next_entry().unwrap().unwrap().value);
    }
    let cookie = cursor.cookie();
    zap.add_value(&harness.tx(), b"text", &Value::string("makes it fat"))
        .unwrap();
    assert!(is_fat(&zap));
    let mut cursor = zap.cursor(cookie);
    while let Some(entry) = cursor.next_entry().unwrap() {
        if entry.name != b"text" {
            seen.push(entry.value);
        }
    }
    assert_eq!(cursor.cookie(), u64::MAX);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1500);
    assert!(zap.cursor(u64::MAX).next_entry().unwrap().is_none());
}

#[test]
fn values_of_every_width_are_kept() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    let values = [
        Value::bytes(&[1, 2, 3]),
        Value::shorts(&[1, 2, 0xFFFF]),
        Value::words(&[u64::MAX, 0, 7]),
        Value::string("text"),
        Value::bytes(&vec![9; 8000]),
        Value::bytes(&[]),
    ];
    for (index, value) in values.iter().enumerate() {
        zap.add_value(&harness.tx(), format!("value {index}").as_bytes(), value)
            .unwrap();
    }
    harness.sync();
    for (index, value) in values.iter().enumerate() {
        let found = zap
            .lookup_value(format!("value {index}").as_bytes())
            .unwrap();
        assert_eq!(found.as_ref(), Some(value));
    }
    zap.update_value(&harness.tx(), b"value 0", &Value::words(&[5; 100]))
        .unwrap();
    assert_eq!(
        zap.lookup_value(b"value 0").unwrap(),
        Some(Value::words(&[5; 100]))
    );
    let large = Value::bytes(&vec![1; 8193]);
    assert!(zap.add_value(&harness.tx(), b"large", &large).is_err());
}

#[test]
fn keys_of_words() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    for flags in [2, 3, 7] {
        let options = CreateZap {
            flags,
            object_type: ObjectType::DDT_ZAP,
            ..CreateZap::default()
        };
        let zap = Zap::create(&harness.set, &harness.tx(), &options).unwrap();
        let key = |n: u64| [n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n, 3];
        for n in 0..2000 {
            zap.add_words(&harness.tx(), &key(n), &Value::words(&[n, n + 1]))
                .unwrap();
        }
        harness.sync();
        for n in 0..2000 {
            let found = zap.lookup_words(&key(n)).unwrap();
            assert_eq!(found, Some(Value::words(&[n, n + 1])));
        }
        zap.update_words(&harness.tx(), &key(1), &Value::word(1))
            .unwrap();
        zap.remove_words(&harness.tx(), &key(0)).unwrap();
        assert_eq!(zap.lookup_words(&key(0)).unwrap(), None);
        assert!(zap.lookup(b"name").is_err(), "names do not belong in it");
        let entries = zap.entries().unwrap();
        assert_eq!(entries.len(), 1999);
        assert!(
            entries
                .iter()
                .all(|entry| entry.words.len() == 3 && entry.name.is_empty())
        );
    }
}

#[test]
fn names_match_as_the_zap_normalises() {
    let harness = Harness::new(ObjectSetKind::Other);
    let options = CreateZap {
        normalization: 0x52,
        ..directory()
    };
    let zap = Zap::create(&harness.set, &harness.tx(), &options).unwrap();
    for fat in [false, true] {
        if fat {
            zap.add_value(&harness.tx(), b"fat", &Value::string("now"))
                .unwrap();
        } else {
            zap.add(&harness.tx(), b"ReadMe", 1).unwrap();
            zap.add(&harness.tx(), b"README", 2).unwrap();
            zap.add(&harness.tx(), "e\u{301}t\u{e9}".as_bytes(), 3)
                .unwrap();
        }
        assert_eq!(is_fat(&zap), fat);
        let find = |name: &str, how| zap.lookup_matching(name.as_bytes(), how).unwrap();
        let found = find("readme", ZapMatch::Normalized).unwrap();
        assert_eq!(
            (found.name.as_slice(), found.value, found.conflict),
            (&b"ReadMe"[..], 1, true)
        );
        let found = find("README", ZapMatch::NormalizedCase).unwrap();
        assert_eq!((found.value, found.conflict), (2, false));
        assert!(find("readme", ZapMatch::NormalizedCase).is_none());
        let found = find("\u{c9}TE\u{301}", ZapMatch::Normalized).unwrap();
        assert_eq!((found.value, found.conflict), (3, false));
        assert!(find("\u{e9}t\u{e9}", ZapMatch::Exact).is_none());
    }
}

#[test]
fn increments_remove_what_becomes_zero() {
    let harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    zap.increment(&harness.tx(), b"a", 5).unwrap();
    zap.increment(&harness.tx(), b"a", -2).unwrap();
    assert_eq!(zap.lookup(b"a").unwrap(), Some(3));
    zap.increment(&harness.tx(), b"a", -3).unwrap();
    assert_eq!(zap.lookup(b"a").unwrap(), None);
    zap.increment(&harness.tx(), b"b", 0).unwrap();
    assert!(zap.is_empty().unwrap());
    assert!(zap.add(&harness.tx(), b"", 1).is_err());
    assert!(zap.add(&harness.tx(), b"nul\0", 1).is_err());
}

#[test]
fn readers_are_right_while_a_writer_splits() {
    const COUNT: u64 = 20_000;
    let harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    let done = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let until = done.load(std::sync::atomic::Ordering::Acquire);
                    for index in (0..until).step_by(61) {
                        let found = zap.lookup(format!("{index}").as_bytes()).unwrap();
                        assert_eq!(found, Some(index));
                    }
                    if until == COUNT {
                        return;
                    }
                }
            });
        }
        let tx = harness.tx();
        for index in 0..COUNT {
            zap.add(&tx, format!("{index}").as_bytes(), index).unwrap();
            done.store(index + 1, std::sync::atomic::Ordering::Release);
        }
    });
}

/// Many times as many leaves as are read ahead at once, whose pointer table lies in the first block; opened anew.
fn many_leaves() -> (Harness, Zap) {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    for key in 0..10_000 {
        zap.add(&harness.tx(), format!("{key:x}").as_bytes(), key)
            .unwrap();
    }
    assert!(is_fat(&zap));
    let id = zap.object().id();
    harness.sync();
    drop(zap);
    harness.reopen();
    let zap = Zap::open(&harness.set.object(id).unwrap()).unwrap();
    (harness, zap)
}

#[test]
fn a_last_scan_leaves_nothing_in_the_cache() {
    let (harness, zap) = many_leaves();
    let store = &harness.store;
    let (mut scanned, mut last) = (BTreeMap::new(), BTreeMap::new());
    store.kept.lock().clear();
    Zap::scan(zap.object(), &mut |name, value| {
        scanned.insert(name.to_vec(), value);
        Ok::<_, DmuError>(())
    })
    .unwrap();
    // The first block, leaves, and the indirect block above them.
    let leaves = store.kept.lock().len() - 2;
    assert!(leaves > 50, "{leaves} leaves");
    Zap::last_scan(zap.object(), &mut |name, value| {
        last.insert(name.to_vec(), value);
        Ok::<_, DmuError>(())
    })
    .unwrap();
    assert_eq!(*store.kept.lock(), BTreeSet::new());
    assert_eq!(last, scanned);
    assert_eq!(last.len(), 10_000);
}

/// What is asked for again after it was read and forgotten would be read in vain.
#[test]
fn a_scan_asks_for_each_leaf_once() {
    let (harness, zap) = many_leaves();
    let store = &harness.store;
    Zap::last_scan(zap.object(), &mut |_, _| Ok::<_, DmuError>(())).unwrap();
    let asked = std::mem::take(&mut *store.ahead.lock());
    let once: BTreeSet<u64> = asked.iter().copied().collect();
    assert_eq!(asked.len(), once.len());
    store.kept.lock().clear();
    Zap::scan(zap.object(), &mut |_, _| Ok::<_, DmuError>(())).unwrap();
    let read = store.kept.lock().len() - 2;
    assert_eq!(once.len(), read, "leaves that were not asked for");
}

/// The same of a ZAP in one block.
#[test]
fn a_last_scan_of_a_small_zap_leaves_nothing_in_the_cache() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    zap.add(&harness.tx(), b"one", 1).unwrap();
    assert!(!is_fat(&zap));
    let id = zap.object().id();
    harness.sync();
    drop(zap);
    harness.reopen();
    let object = harness.set.object(id).unwrap();
    harness.store.kept.lock().clear();
    let mut found = Vec::new();
    Zap::last_scan(&object, &mut |name, value| {
        found.push((name.to_vec(), value));
        Ok::<_, DmuError>(())
    })
    .unwrap();
    assert_eq!(found, [(b"one".to_vec(), 1)]);
    assert_eq!(*harness.store.kept.lock(), BTreeSet::new());
}
