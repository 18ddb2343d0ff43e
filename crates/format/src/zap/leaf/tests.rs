use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::zap::{HashKind, hash_name, swap_block};

fn hash_of(name: &[u8]) -> u64 {
    // Few bits, so that hashes collide.
    hash_name(HashKind::PLAIN, 1, name) & 0xF000_0000_0000_0000
}

fn value_of(seed: u8) -> Value {
    match seed % 4 {
        0 => Value::word(seed.into()),
        1 => Value::bytes(&vec![seed; usize::from(seed)]),
        2 => Value::shorts(&[seed.into(); 30]),
        _ => Value::words(&[u64::from(seed) << 50; 3]),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, u8),
    Remove(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = proptest::collection::vec(b'a'..=b'd', 1..60);
    let short = proptest::collection::vec(b'a'..=b'd', 1..3);
    let name = prop_oneof![short, name];
    let step = prop_oneof![
        3 => (name.clone(), any::<u8>()).prop_map(|(name, seed)| Step::Put(name, seed)),
        1 => name.prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..120)
}

fn contents(block: &[u8]) -> BTreeMap<Vec<u8>, Value> {
    let leaf = Leaf::new(block).unwrap();
    leaf.entries()
        .map(|entry| (entry.name().unwrap(), entry.value().unwrap()))
        .collect()
}

fn check_sound(block: &[u8]) {
    let leaf = Leaf::new(block).unwrap();
    let header = leaf.header();
    let mut used = 0;
    let mut count = 0;
    for entry in leaf.entries() {
        count += 1;
        let key = entry.name().unwrap();
        used += entry_chunks(&Key::Name(&key), &entry.value().unwrap());
        assert!(leaf.covers(entry.hash()));
    }
    assert_eq!(count, header.entry_count);
    let chunks = |entry: Entry<'_>| entry.chunk();
    let stored: Vec<_> = leaf.stored_entries().map(chunks).collect();
    let mut linked: Vec<_> = leaf.entries().map(chunks).collect();
    assert!(stored.is_sorted());
    linked.sort_unstable();
    assert_eq!(stored, linked);
    assert_eq!(used + usize::from(header.free_count), leaf.chunk_count());
    let sorted = leaf.sorted_entries();
    assert!(sorted.windows(2).all(|pair| {
        (pair[0].hash(), pair[0].differentiator()) < (pair[1].hash(), pair[1].differentiator())
    }));
}

#[test]
fn the_default_leaf_has_638_chunks() {
    let mut block = vec![0; 16384];
    let leaf = LeafMut::create(&mut block, 0, 0, false).unwrap();
    assert_eq!(leaf.as_leaf().chunk_count(), 638);
    assert!(LeafMut::create(&mut [0; 1000], 0, 0, false).is_err());
}

/// A leaf whose keys are numbers in hexadecimal, with some that lie in several chunks.
fn leaf_of_numbers() -> (Vec<u8>, BTreeMap<Vec<u8>, u64>) {
    let mut block = vec![0; 4096];
    let mut model = BTreeMap::new();
    let mut leaf = LeafMut::create(&mut block, 0, 0, true).unwrap();
    for number in 0..30u64 {
        let long = if number % 3 == 0 { 25 } else { 1 };
        let name = format!("{:0long$x}", number * 77).into_bytes();
        let (key, value) = (Key::Name(&name), Value::word(u64::MAX - number));
        leaf.insert(hash_of(&name), number as u32, &key, &value)
            .unwrap();
        model.insert(name, u64::MAX - number);
    }
    (block, model)
}

/// The entries as a scan reads them: without allocating where that is possible.
fn scanned(block: &[u8]) -> Vec<(Option<Vec<u8>>, Option<u64>)> {
    let leaf = Leaf::new(block).unwrap();
    let name = |entry: &Entry<'_>| match entry.short_name() {
        Some(name) => Some(name.to_vec()),
        None => entry.name().ok(),
    };
    leaf.entries()
        .map(|entry| (name(&entry), entry.word_value()))
        .collect()
}

#[test]
fn numbers_are_read_in_place_in_either_byte_order() {
    let (mut block, model) = leaf_of_numbers();
    let read = |block: &[u8]| -> BTreeMap<Vec<u8>, u64> {
        let entries = scanned(block).into_iter();
        entries
            .map(|(name, value)| (name.unwrap(), value.unwrap()))
            .collect()
    };
    assert_eq!(read(&block), model);
    // As a machine of the other byte order wrote it, and as it is after reading.
    let mut foreign = block.clone();
    swap(&mut foreign);
    assert_ne!(foreign, block);
    swap_block(&mut foreign);
    assert_eq!(read(&foreign), model);
    // A value that is cut off: its chunk is none any more.
    let damaged = Leaf::new(&block).unwrap().entries().next().unwrap();
    let at = Geometry::of(block.len()).unwrap();
    let at = at.chunk_offset(damaged.fields.value_chunk).unwrap();
    block[at] = CHUNK_FREE;
    assert_eq!(scanned(&block)[0].1, None);
    assert!(
        Leaf::new(&block)
            .unwrap()
            .entries()
            .next()
            .unwrap()
            .value()
            .is_err()
    );
}

#[test]
fn a_scan_of_a_chain_that_leads_back_ends() {
    let (mut block, _) = leaf_of_numbers();
    let geometry = Geometry::of(block.len()).unwrap();
    let chunks: Vec<u16> = Leaf::new(&block)
        .unwrap()
        .entries()
        .map(|entry| entry.chunk())
        .collect();
    for chunk in chunks {
        let at = geometry.chunk_offset(chunk).unwrap();
        block[at + 2..at + 4].copy_from_slice(&chunk.to_ne_bytes());
    }
    assert!(scanned(&block).len() <= usize::from(geometry.chunks));
}

proptest! {
    #[test]
    fn a_leaf_behaves_as_a_map(steps in steps()) {
        let mut block = vec![0; 16384];
        let mut model = BTreeMap::new();
        LeafMut::create(&mut block, 0, 0, true).unwrap();
        for step in steps {
            let mut leaf = LeafMut::new(&mut block).unwrap();
            match step {
                Step::Put(name, seed) => {
                    let (hash, value) = (hash_of(&name), value_of(seed));
                    let key = Key::Name(&name);
                    let found = leaf.as_leaf().find_key(hash, &key).map(|entry| entry.chunk());
                    let result = match found {
                        Some(chunk) => leaf.update(chunk, &value),
                        None => {
                            let differentiator = leaf.as_leaf().unused_differentiator(hash);
                            leaf.insert(hash, differentiator, &key, &value).map(drop)
                        }
                    };
                    match result {
                        Ok(()) => { model.insert(name, value); }
                        Err(FormatError::NoRoom { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Remove(name) => {
                    let entry = leaf.as_leaf().find_key(hash_of(&name), &Key::Name(&name));
                    let chunk = entry.map(|entry| entry.chunk());
                    prop_assert_eq!(chunk.is_some(), model.remove(&name).is_some());
                    if let Some(chunk) = chunk {
                        leaf.remove(chunk).unwrap();
                    }
                }
            }
            prop_assert_eq!(&contents(&block), &model);
            check_sound(&block);
        }
        let mut upper = vec![0; 16384];
        LeafMut::new(&mut block).unwrap().split(&mut upper, false).unwrap();
        check_sound(&block);
        check_sound(&upper);
        let mut both = contents(&block);
        both.append(&mut contents(&upper));
        prop_assert_eq!(both, model);
        let mut swapped = block.clone();
        swap(&mut swapped);
        swap_block(&mut swapped);
        prop_assert_eq!(swapped, block);
    }

    #[test]
    fn hostile_leaves_never_panic(
        seed in proptest::collection::vec(any::<u8>(), 1024),
        marks in proptest::collection::vec((0usize..38, 0u8..3), 0..60),
    ) {
        let mut block = seed;
        let header = LeafHeader::decode_padded(&block, ByteOrder::NATIVE);
        let header = LeafHeader {
            block_type: BLOCK_LEAF,
            magic: LeafHeader::MAGIC,
            prefix_len: header.prefix_len % 64,
            ..header
        };
        header.encode(&mut block, ByteOrder::NATIVE);
        for bucket in 0..32 {
            block[48 + 2 * bucket + 1] = 0;
        }
        for (chunk, kind) in marks {
            let at = 48 + 64 + chunk * 24;
            block[at] = CHUNK_ARRAY + kind;
            for high in [3, 5, 9, 15, 23] {
                block[at + high] = 0;
            }
        }
        let chunks: Vec<_> = Leaf::new(&block).unwrap().entries().map(|entry| {
            let _ = (entry.name(), entry.value(), entry.words(), entry.word_value());
            entry.chunk()
        }).collect();
        let _ = Leaf::new(&block).unwrap().sorted_entries();
        let mut leaf = LeafMut::new(&mut block).unwrap();
        let _ = leaf.insert(5 << 60, 0, &Key::Name(b"some name"), &Value::word(1));
        for chunk in chunks {
            let _ = leaf.update(chunk, &Value::bytes(&[1; 100]));
            let _ = leaf.remove(chunk);
        }
        let mut upper = vec![0; 1024];
        let _ = leaf.split(&mut upper, false);
        swap(&mut block);
    }
}

#[test]
fn a_name_longer_than_an_entry_can_say_has_no_room() {
    let mut block = vec![0; 1 << 20];
    let mut leaf = LeafMut::create(&mut block, 0, 0, false).unwrap();
    let names = [vec![b'a'; 65_534], vec![b'a'; 65_535]];
    let mut insert = |name: &[u8]| leaf.insert(7, 0, &Key::Name(name), &Value::word(1));
    assert!(insert(&names[0]).is_ok());
    let refused = insert(&names[1]);
    assert!(matches!(refused, Err(FormatError::NoRoom { .. })));
}
