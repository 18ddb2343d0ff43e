use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::random::{Rng, SeededRng};
use format::zap::Value;
use format::{ObjectSetKind, ObjectType};

use super::super::{CreateZap, Zap};
use super::KeyMemory;
use crate::testing::{Harness, MemoryStore};

/// Of the kind that dedup tables have.
fn table(harness: &Harness, memory: &Arc<KeyMemory>) -> Zap {
    let options = CreateZap {
        flags: 7,
        object_type: ObjectType::DDT_ZAP,
        block_size: 4096,
        ..CreateZap::default()
    };
    let zap = Zap::create(&harness.set, &harness.tx(), &options).unwrap();
    zap.know_keys(memory);
    zap
}

fn memory(bytes: usize) -> Arc<KeyMemory> {
    let memory = Arc::<KeyMemory>::default();
    memory.set_limit(bytes);
    memory
}

fn key(n: u64) -> [u64; 3] {
    [(n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), n, 3]
}

/// Opened anew: nothing is known of it.
fn reopened(harness: &mut Harness, zap: Zap, memory: &Arc<KeyMemory>) -> Zap {
    let id = zap.object().id();
    harness.sync();
    drop(zap);
    harness.reopen();
    let zap = Zap::open(&harness.set.object(id).unwrap()).unwrap();
    zap.know_keys(memory);
    zap
}

#[test]
fn a_key_that_is_not_there_is_looked_for_without_its_leaf_once_that_was_read() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let memory = memory(1 << 20);
    let zap = table(&harness, &memory);
    for n in 0..1000 {
        zap.add_words(&harness.tx(), &key(n), &Value::word(n))
            .unwrap();
    }
    let zap = reopened(&mut harness, zap, &memory);
    assert_eq!(memory.used_bytes(), 0);
    let read = |keys: std::ops::Range<u64>| {
        harness.store.kept.lock().clear();
        for n in keys {
            assert_eq!(zap.lookup_words(&key(n)).unwrap(), None);
        }
        harness.store.kept.lock().len()
    };
    let first = read(1000..3000);
    assert!(first > 25, "{first} leaves");
    // Of the first block, the pointer table and the indirect block. One in 4096 is not told from one that is there.
    let again = read(3000..4000);
    assert!(again <= 6, "{again} leaves");
    assert!(memory.used_bytes() > 2000);
    for n in 0..1000 {
        assert_eq!(zap.lookup_words(&key(n)).unwrap(), Some(Value::word(n)));
    }
}

/// With as much memory as they want, with less, with none.
#[test]
fn lookups_say_what_a_map_says() {
    const KEYS: u64 = 3000;
    for (seed, bytes) in [(1, 1 << 20), (2, 3000), (3, 0)] {
        let mut harness = Harness::new(ObjectSetKind::Other);
        let memory = memory(bytes);
        let mut zap = table(&harness, &memory);
        let random = SeededRng::new(seed);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..12_000_u64 {
            let n = random.below(KEYS);
            let tx = harness.tx();
            match random.below(8) {
                0 | 1 if model.remove(&n).is_some() => zap.remove_words(&tx, &key(n)).unwrap(),
                0..=3 => {
                    let found = zap.lookup_words(&key(n)).unwrap();
                    assert_eq!(
                        found,
                        model.get(&n).copied().map(Value::word),
                        "{n} in {step}"
                    );
                }
                _ => {
                    zap.update_words(&tx, &key(n), &Value::word(step)).unwrap();
                    model.insert(n, step);
                }
            }
            drop(tx);
            match random.below(1500) {
                0 => harness.sync(),
                1 => zap = reopened(&mut harness, zap, &memory),
                2 => memory.set_limit(bytes / 2),
                3 => memory.set_limit(bytes),
                _ => {}
            }
            assert!(memory.used_bytes() <= bytes);
        }
        for n in 0..KEYS {
            let found = zap.lookup_words(&key(n)).unwrap();
            assert_eq!(found, model.get(&n).copied().map(Value::word), "{n}");
        }
        drop(zap);
        drop(harness);
        assert_eq!(memory.used_bytes(), 0);
    }
}

/// What a reader learns of a leaf must not hide what has come into it meanwhile.
#[test]
fn readers_are_right_while_a_writer_splits() {
    const COUNT: u64 = 20_000;
    let harness = Harness::new(ObjectSetKind::Other);
    let memory = memory(1 << 20);
    let zap = table(&harness, &memory);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let until = done.load(Ordering::Acquire);
                    for n in (0..until).step_by(61) {
                        let found = zap.lookup_words(&key(n)).unwrap();
                        assert_eq!(found, Some(Value::word(n)), "{n} of {until}");
                        assert_eq!(zap.lookup_words(&key(COUNT + n)).unwrap(), None);
                    }
                    if until == COUNT {
                        return;
                    }
                }
            });
        }
        let tx = harness.tx();
        for n in 0..COUNT {
            zap.add_words(&tx, &key(n), &Value::word(n)).unwrap();
            done.store(n + 1, Ordering::Release);
        }
    });
}

#[test]
fn a_limit_that_falls_gives_memory_back() {
    let harness = Harness::new(ObjectSetKind::Other);
    let memory = memory(1 << 20);
    let zap = table(&harness, &memory);
    for n in 0..1000 {
        zap.add_words(&harness.tx(), &key(n), &Value::word(n))
            .unwrap();
    }
    let before = memory.used_bytes();
    memory.set_limit(before / 4);
    for n in 0..2000 {
        let wanted = (n < 1000).then(|| Value::word(n));
        assert_eq!(zap.lookup_words(&key(n)).unwrap(), wanted);
    }
    let after = memory.used_bytes();
    assert!((1..=before / 4).contains(&after), "{after} of {before}");
}

/// Has a key that is not there looked up behind so many reads. There is memory from then on.
fn arm(store: &Arc<MemoryStore>, reads: usize, zap: Zap, memory: Arc<KeyMemory>) {
    let again = Arc::clone(store);
    let hook = move || match reads.checked_sub(1) {
        Some(left) => arm(&again, left, zap, memory),
        None => {
            memory.set_limit(1 << 20);
            assert_eq!(zap.lookup_words(&key(5000)).unwrap(), None);
        }
    };
    *store.after_read.lock() = Some(Box::new(hook));
}

/// Somebody learns of a leaf while a key comes into it, at each step of that.
#[test]
fn what_is_learned_of_a_leaf_that_changes_hides_nothing() {
    for runs in [false, true] {
        for reads in 0..12 {
            let mut harness = Harness::new(ObjectSetKind::Other);
            let memory = memory(0);
            let zap = table(&harness, &memory);
            zap.add_words(&harness.tx(), &key(0), &Value::word(0))
                .unwrap();
            let zap = reopened(&mut harness, zap, &memory);
            arm(&harness.store, reads, zap.clone(), Arc::clone(&memory));
            let (new, value) = (key(1), Value::word(1));
            if runs {
                let entries = [(&new[..], value.clone())];
                assert_eq!(zap.update_words_run(&harness.tx(), &entries).unwrap(), 1);
            } else {
                zap.update_words(&harness.tx(), &new, &value).unwrap();
            }
            harness.store.after_read.lock().take();
            let found = zap.lookup_words(&new).unwrap();
            assert_eq!(found, Some(value), "after {reads} reads, {runs}");
        }
    }
}
