//! Micro ZAPs of all sizes.

use base::ObjectId;
use format::ObjectSetKind;
use format::zap::micro::{ENTRY_SIZE, SIZE_MAX, SIZE_MAX_LARGE};

use super::{contents, directory, is_fat};
use crate::testing::Harness;
use crate::tunables::MICRO_ZAP_BYTES_MAX;
use crate::zap::{CreateZap, Zap};

const fn slots(size: usize) -> u64 {
    (size / ENTRY_SIZE - 1) as u64
}

fn name(number: u64) -> Vec<u8> {
    format!("name {number}").into_bytes()
}

fn add(harness: &Harness, zap: &Zap, numbers: std::ops::Range<u64>) {
    let tx = harness.tx();
    for number in numbers {
        zap.add(&tx, &name(number), number).unwrap();
    }
}

fn reopened(harness: &mut Harness, id: ObjectId) -> Zap {
    harness.sync();
    harness.reopen();
    Zap::open(&harness.set.object(id).unwrap()).unwrap()
}

/// Others may have made them, whatever may be made here.
#[test]
fn a_large_micro_zap_is_used_as_it_is_until_it_is_full() {
    for size in [200 << 10, SIZE_MAX_LARGE] {
        let mut harness = Harness::new(ObjectSetKind::Other);
        let options = CreateZap {
            block_size: size as u32,
            ..directory()
        };
        let zap = Zap::create(&harness.set, &harness.tx(), &options).unwrap();
        let (id, count) = (zap.object().id(), slots(size));
        add(&harness, &zap, 0..count);
        drop(zap);
        let zap = reopened(&mut harness, id);
        assert_eq!(contents(&zap).len() as u64, count);
        for number in (0..count).step_by(3) {
            zap.remove(&harness.tx(), &name(number)).unwrap();
        }
        let gone = count.div_ceil(3);
        assert_eq!(contents(&zap).len() as u64, count - gone);
        add(&harness, &zap, count..count + gone);
        drop(zap);
        let zap = reopened(&mut harness, id);
        assert!(!is_fat(&zap));
        assert_eq!(zap.object().block_size() as usize, size);
        for number in 0..count + gone {
            let is_there = number % 3 != 0 || number >= count;
            let found = zap.lookup(&name(number)).unwrap();
            assert_eq!(found, is_there.then_some(number));
        }
        zap.add(&harness.tx(), b"one more", 1).unwrap();
        assert!(is_fat(&zap), "{size}");
        drop(zap);
        let zap = reopened(&mut harness, id);
        assert_eq!(contents(&zap).len() as u64, count + 1);
        assert_eq!(zap.lookup(b"one more").unwrap(), Some(1));
    }
}

/// How many names a new directory has when it becomes fat.
fn names_until_fat(harness: &mut Harness) -> u64 {
    let zap = Zap::create(&harness.set, &harness.tx(), &directory()).unwrap();
    let id = zap.object().id();
    let mut count = 0;
    while !is_fat(&zap) {
        // Some of them in a txg of their own.
        if count % 5_001 == 5_000 {
            harness.sync();
        }
        add(harness, &zap, count..count + 1);
        count += 1;
    }
    drop(zap);
    assert_eq!(contents(&reopened(harness, id)).len() as u64, count);
    count - 1
}

/// Other tests of this process may run beside it: they have object sets without such ZAPs.
#[test]
fn a_micro_zap_grows_as_far_as_the_limit_and_its_object_set_let_it() {
    MICRO_ZAP_BYTES_MAX.set(u64::MAX);
    let mut harness = Harness::new(ObjectSetKind::Other);
    assert_eq!(names_until_fat(&mut harness), slots(SIZE_MAX));
    harness.set.allow_large_micro_zaps();
    assert_eq!(names_until_fat(&mut harness), slots(SIZE_MAX_LARGE));
    MICRO_ZAP_BYTES_MAX.set(200_001);
    harness.set.allow_large_micro_zaps();
    assert_eq!(names_until_fat(&mut harness), slots(200_001 / 512 * 512));
    MICRO_ZAP_BYTES_MAX.reset();
    harness.set.allow_large_micro_zaps();
    assert_eq!(names_until_fat(&mut harness), slots(SIZE_MAX));
}
