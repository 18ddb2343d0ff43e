use format::{ObjectSetKind, ObjectType};
use proptest::prelude::*;
use sys::Buffer;

use crate::object_set::AllocateObject;
use crate::testing::Harness;
use parking_lot::Mutex;
use std::sync::Arc;

fn file(block_size: u32) -> AllocateObject {
    AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        block_size,
        indirect_shift: 12,
        ..AllocateObject::default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        offset: u64,
        len: usize,
        fill: u8,
    },
    Free {
        offset: u64,
        len: u64,
    },
    FreeEnd {
        offset: u64,
    },
    Read {
        offset: u64,
        len: usize,
    },
    /// The txg closes and is synced at once.
    Sync,
    /// The txg closes; it is synced at the next `Advance`, as when syncing overlaps changing.
    Advance,
    Reopen,
}

fn steps(reach: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..reach, 1usize..5000, any::<u8>())
            .prop_map(|(offset, len, fill)| Step::Write { offset, len, fill }),
        2 => (0..reach, 1..reach).prop_map(|(offset, len)| Step::Free { offset, len }),
        1 => (0..reach).prop_map(|offset| Step::FreeEnd { offset }),
        3 => (0..reach, 1usize..9000).prop_map(|(offset, len)| Step::Read { offset, len }),
        2 => Just(Step::Sync),
        2 => Just(Step::Advance),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

/// Runs the steps on an object and on a vector, and compares after each.
fn run(steps: &[Step], block_size: u32) {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let id = harness
        .set
        .allocate(&harness.tx(), &file(block_size))
        .unwrap()
        .id();
    let mut model = vec![0u8; 2 << 20];
    let mut closed = None;
    let mut object = harness.set.object(id).unwrap();
    for step in steps {
        match *step {
            Step::Write { offset, len, fill } => {
                let data = vec![fill; len];
                object.prepare_write(offset, len as u64).unwrap();
                object.write(&harness.tx(), offset, &data).unwrap();
                model[offset as usize..offset as usize + len].copy_from_slice(&data);
            }
            Step::Free { offset, len } => {
                object.free_range(&harness.tx(), offset, len).unwrap();
                model[offset as usize..(offset + len) as usize].fill(0);
            }
            Step::FreeEnd { offset } => {
                object.free_range(&harness.tx(), offset, u64::MAX).unwrap();
                model[offset as usize..].fill(0);
            }
            Step::Read { offset, len } => {
                let mut out = vec![1; len];
                object.read(offset, &mut out).unwrap();
                assert!(out == model[offset as usize..offset as usize + len]);
            }
            Step::Sync | Step::Reopen => {
                closed
                    .take()
                    .into_iter()
                    .for_each(|txg| harness.sync_txg(txg));
                harness.sync();
                if matches!(step, Step::Reopen) {
                    drop(object);
                    harness.reopen();
                    object = harness.set.object(id).unwrap();
                }
            }
            Step::Advance => {
                closed
                    .take()
                    .into_iter()
                    .for_each(|txg| harness.sync_txg(txg));
                closed = Some(harness.advance());
            }
        }
        check_map(&object, &model, u64::from(block_size));
    }
    closed
        .take()
        .into_iter()
        .for_each(|txg| harness.sync_txg(txg));
    harness.sync();
    harness.reopen();
    let object = harness.set.object(id).unwrap();
    let mut out = vec![1; model.len()];
    object.read(0, &mut out).unwrap();
    assert!(out == model);
}

/// Whoever looks through a part of the map finds what that has.
fn check_part(object: &crate::Object, from: u64, block_size: u64) {
    let data = object.next_data(from..u64::MAX).unwrap();
    let hole = object.next_hole(from..u64::MAX).unwrap();
    let ends =
        [data.unwrap_or(hole), hole].map(|found| [found.saturating_sub(1), found, found + 1]);
    let blocks = [1, 2, 5].map(|count| from + count * block_size);
    for end in ends.into_iter().flatten().chain(blocks).chain([from]) {
        let within = data.filter(|&found| found < end);
        assert_eq!(
            object.next_data(from..end).unwrap(),
            within,
            "{from}..{end}"
        );
        let hole = hole.min(end.max(from));
        assert_eq!(object.next_hole(from..end).unwrap(), hole, "{from}..{end}");
    }
}

/// What the map of data and holes calls a hole holds zeros.
fn check_map(object: &crate::Object, model: &[u8], block_size: u64) {
    let mut at = 0;
    let end = (object.info().max_block + 1) * block_size;
    while at < end {
        check_part(object, at, block_size);
        let data = object
            .next_data(at..u64::MAX)
            .unwrap()
            .unwrap_or(end)
            .min(end);
        assert!(data >= at);
        assert!(
            model[at as usize..data as usize]
                .iter()
                .all(|&byte| byte == 0),
            "data in a hole"
        );
        if data == end {
            break;
        }
        at = object.next_hole(data..u64::MAX).unwrap();
        assert!(at > data, "a hole at {data} where data were said to be");
    }
    assert!(
        model[end as usize..].iter().all(|&byte| byte == 0),
        "data past the last block"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_object_is_a_vector_of_bytes(steps in steps(60_000)) {
        run(&steps, 512);
    }

    #[test]
    fn an_object_of_large_blocks_is_a_vector_of_bytes(steps in steps(900_000)) {
        run(&steps, 16 * 1024);
    }
}

#[test]
fn a_small_file_grows_by_sectors() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(512)).unwrap();
    for round in 1..=5u32 {
        let tx = harness.tx();
        object.set_block_size(&tx, 1024 * round, 0).unwrap();
        object
            .write(&tx, u64::from(1024 * (round - 1)), &vec![round as u8; 1024])
            .unwrap();
        if round % 2 == 0 {
            harness.sync();
        } else {
            harness.advance();
            harness.sync_txg(base::Txg(harness.txg.0 - 1));
        }
    }
    let data = object.read_block(0).unwrap();
    let expected: Vec<u8> = (1..=5).flat_map(|round| vec![round; 1024]).collect();
    assert!(*data == *expected);
    let tx = harness.tx();
    assert!(
        object.write(&tx, 5120, &[1]).is_err(),
        "5 KiB blocks allow no second block"
    );
    object.set_block_size(&tx, 8192, 0).unwrap();
    object.write(&tx, 9000, &[9]).unwrap();
    assert!(
        object.set_block_size(&tx, 512, 0).is_err(),
        "two blocks fix the size"
    );
    harness.sync();
    assert_eq!(object.info().max_block, 1);
}

#[test]
fn an_older_txg_keeps_its_contents_while_a_newer_one_changes_them() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(4096)).unwrap();
    let id = object.id();
    object.write(&harness.tx(), 0, &[1; 4096]).unwrap();
    object
        .set_bonus(&harness.tx(), ObjectType::PLAIN_OTHER, &[1; 64])
        .unwrap();
    let first = harness.advance();
    object.write(&harness.tx(), 0, &[2; 4096]).unwrap();
    object
        .modify_bonus(&harness.tx(), |bonus| bonus.fill(2))
        .unwrap();
    object.write(&harness.tx(), 4096, &[2; 10]).unwrap();
    let second = harness.advance();
    object.free_range(&harness.tx(), 0, u64::MAX).unwrap();
    object
        .set_bonus(&harness.tx(), ObjectType::PLAIN_OTHER, &[3; 8])
        .unwrap();
    for (txg, byte, last) in [(first, 1u8, 0), (second, 2, 1)] {
        harness.sync_txg(txg);
        harness.check();
        let root = harness.set.root_pointer();
        let options = crate::OpenObjectSet {
            store: std::sync::Arc::clone(&harness.store) as _,
            id: harness.set.id(),
            writable: false,
            objects_max: 16,
        };
        let on_disk = crate::ObjectSet::open(options, &root)
            .unwrap()
            .object(id)
            .unwrap();
        assert!(
            on_disk.read_block(0).unwrap().iter().all(|&b| b == byte),
            "txg {txg}"
        );
        assert_eq!(on_disk.bonus(), vec![byte; 64]);
        assert_eq!(on_disk.info().max_block, last);
    }
    harness.sync();
    assert_eq!(object.bonus(), vec![3; 8]);
    assert_eq!(object.used_bytes(), 0);
    assert_eq!(object.info().max_block, 0);
}

#[test]
fn whole_blocks_are_not_copied() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(4096)).unwrap();
    let data = Buffer::from_slice(&[7; 4096]);
    object.write_block(&harness.tx(), 3, data.clone()).unwrap();
    assert!(object.read_block(3).unwrap().same_memory(&data));
    harness.sync();
    assert!(object.read_block(3).unwrap().same_memory(&data));
    assert!(
        object
            .write_block(&harness.tx(), 3, Buffer::zeroed(512))
            .is_err()
    );
}

/// What the sync of a write of whole blocks will need is read before, so that the write fails and not the txg.
#[test]
fn a_write_finds_that_a_block_of_pointers_is_lost() {
    const BLOCKS: u64 = 64;
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(512)).unwrap();
    let id = object.id();
    let data = vec![7; 512 * BLOCKS as usize];
    object.write(&harness.tx(), 0, &data).unwrap();
    harness.sync();
    let above_the_second_half = object.state.read().tree.pointers[1];
    assert_eq!(above_the_second_half.level(), 1);
    drop(object);
    harness.store.lose(&above_the_second_half);
    harness.reopen();
    let object = harness.set.object(id).unwrap();
    let half = 512 * BLOCKS / 2;
    object.prepare_write(0, half).unwrap();
    assert!(object.prepare_write(half, 512).is_err());
    assert!(object.prepare_write(half - 512, 1024).is_err());
}

#[test]
fn spill_blocks_come_and_go() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let bare = harness.set.allocate(&harness.tx(), &file(512)).unwrap();
    bare.set_bonus(&harness.tx(), ObjectType::PLAIN_OTHER, &[1; 64])
        .unwrap();
    assert!(
        bare.set_spill(&harness.tx(), Some(&[1])).is_err(),
        "three pointers and a bonus"
    );
    let shape = AllocateObject {
        bonus_type: ObjectType::SYSTEM_ATTRIBUTES,
        ..file(512)
    };
    let object = harness.set.allocate(&harness.tx(), &shape).unwrap();
    assert_eq!(object.spill().unwrap(), None);
    object
        .set_bonus(&harness.tx(), ObjectType::SYSTEM_ATTRIBUTES, &[1; 64])
        .unwrap();
    object.set_spill(&harness.tx(), Some(&[5; 700])).unwrap();
    let closed = harness.advance();
    object.set_spill(&harness.tx(), Some(&[6; 100])).unwrap();
    harness.sync_txg(closed);
    harness.check();
    assert_eq!(object.spill().unwrap().unwrap().len(), 512);
    harness.sync();
    harness.reopen();
    let object = harness.set.object(object.id()).unwrap();
    assert_eq!(&object.spill().unwrap().unwrap()[..100], &[6; 100]);
    assert!(object.info().has_spill);
    object.set_spill(&harness.tx(), None).unwrap();
    harness.sync();
    assert_eq!(object.spill().unwrap(), None);
    assert_eq!(object.used_bytes(), 0);
}

/// A file with data in the block `last` and the first, and in `new` since a txg that syncs while somebody who began
/// before looks for data and for a hole from there on: what is found of both, in blocks.
fn found_beside_a_sync(new: u64, last: u64, from: u64) -> (Option<u64>, u64) {
    const SIZE: u64 = 1024;
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(1024)).unwrap();
    for block in [0, last] {
        object.write(&harness.tx(), block * SIZE, &[1]).unwrap();
    }
    harness.sync();
    let mut both = [0; 2];
    let harness = Arc::new(Mutex::new(harness));
    for (number, found) in both.iter_mut().enumerate() {
        let block = new + number as u64;
        let (store, tx) = {
            let harness = harness.lock();
            (Arc::clone(&harness.store), harness.tx())
        };
        object.write(&tx, block * SIZE, &[1]).unwrap();
        let syncer = Arc::clone(&harness);
        *store.after_read.lock() = Some(Box::new(move || syncer.lock().sync()));
        *found = if number == 0 {
            object
                .next_data(from * SIZE..u64::MAX)
                .unwrap()
                .unwrap_or(u64::MAX)
                / SIZE
        } else {
            object.next_hole(new * SIZE..u64::MAX).unwrap() / SIZE
        };
        assert!(store.after_read.lock().is_none(), "it synced meanwhile");
    }
    (Some(both[0]), both[1])
}

#[test]
fn data_that_sync_meanwhile_are_not_shown_as_a_hole() {
    // One level of indirect blocks, and two: then those of the old tree are gone.
    assert_eq!(found_beside_a_sync(20, 30, 10), (Some(20), 22));
    assert_eq!(found_beside_a_sync(70, 100, 50), (Some(70), 72));
}

#[test]
fn an_object_with_the_last_block_of_all_is_written() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(512)).unwrap();
    object.write(&harness.tx(), 0, &[1; 512]).unwrap();
    harness.sync();
    object.state.write().header.max_block = u64::MAX;
    object.write(&harness.tx(), 0, &[2; 512]).unwrap();
    assert_eq!(object.read_block(0).unwrap()[..], [2; 512]);
}

/// Births of the blocks of an object: logical, physical.
fn births(object: &crate::Object, count: u64) -> Vec<(u64, u64)> {
    let reader = object.reader();
    let tree = object.state.read().tree.clone();
    let of = |block| {
        let pointer = tree.lookup(&reader, block).unwrap();
        (pointer.birth().0, pointer.physical_birth().0)
    };
    (0..count).map(of).collect()
}

/// Block by block: as it is; changed after that, or before, in the same txg; twice; a hole; and changed in the txg
/// before, which has not synced.
#[test]
fn a_block_that_is_written_anew_keeps_its_birth_until_something_changes_it() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let object = harness.set.allocate(&harness.tx(), &file(1024)).unwrap();
    for block in [0, 1, 2, 3, 5] {
        object
            .write(&harness.tx(), block * 1024, &[7; 1024])
            .unwrap();
    }
    let first = harness.txg.0;
    harness.sync();
    object.write(&harness.tx(), 5 * 1024, &[8; 10]).unwrap();
    let between = harness.advance();
    let tx = harness.tx();
    object.modify_block(&tx, 2, |bytes| bytes[0] = 9).unwrap();
    for block in [0, 1, 2, 3, 3, 4, 5] {
        object.write_anew(&tx, block).unwrap();
    }
    object.modify_block(&tx, 1, |bytes| bytes[0] = 9).unwrap();
    let now = harness.txg.0;
    harness.sync_txg(between);
    harness.sync();
    let between = between.0;
    let expected = [
        (first, now),
        (now, now),
        (now, now),
        (first, now),
        (0, 0),
        (between, now),
    ];
    assert_eq!(births(&object, 6), expected);
    // Once more, and then an ordinary write.
    object.write_anew(&harness.tx(), 0).unwrap();
    let again = harness.txg.0;
    harness.sync();
    assert_eq!(births(&object, 1), [(first, again)]);
    object.modify_block(&harness.tx(), 0, |_| ()).unwrap();
    let changed = harness.txg.0;
    harness.sync();
    assert_eq!(births(&object, 1), [(changed, changed)]);
}
