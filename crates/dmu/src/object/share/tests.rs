use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::{ObjectSetKind, ObjectType};
use proptest::prelude::*;

use crate::Object;
use crate::object_set::AllocateObject;
use crate::testing::Harness;

const BLOCK: usize = 1024;
const BLOCKS: u64 = 24;
const FILES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, usize, u8),
    Free(usize, u64, u64),
    /// From a block of a file to one of a file, so many blocks.
    Copy((usize, u64), (usize, u64), u64),
    Read(usize, u64),
    /// As the intent log does.
    WriteEarly(usize, u64),
    /// With what it has.
    WriteAnew(usize, u64),
    /// Whether syncs write what could be references.
    Refuse(bool),
    Sync,
    /// The txg closes; it is synced at the next `Advance`, as when syncing overlaps changing.
    Advance,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = BLOCKS * BLOCK as u64;
    let file = 0..FILES;
    let copy = (
        (file.clone(), 0..BLOCKS),
        (file.clone(), 0..BLOCKS),
        1..6_u64,
    );
    let step = prop_oneof![
        6 => (file.clone(), 0..BLOCKS, 1..4_usize, any::<u8>())
            .prop_map(|(file, block, count, fill)| {
                Step::Write(file, block * BLOCK as u64, count * BLOCK, fill)
            }),
        4 => (file.clone(), 0..end, 1..2000_usize, any::<u8>())
            .prop_map(|(file, offset, len, fill)| Step::Write(file, offset, len, fill)),
        2 => (file.clone(), 0..end, 1..end).prop_map(|(file, offset, len)| {
            Step::Free(file, offset, len)
        }),
        8 => copy.prop_map(|(from, to, count)| Step::Copy(from, to, count)),
        3 => (file.clone(), 0..end).prop_map(|(file, offset)| Step::Read(file, offset)),
        1 => (file.clone(), 0..BLOCKS).prop_map(|(file, block)| Step::WriteEarly(file, block)),
        4 => (file, 0..BLOCKS).prop_map(|(file, block)| Step::WriteAnew(file, block)),
        1 => any::<bool>().prop_map(Step::Refuse),
        2 => Just(Step::Sync),
        3 => Just(Step::Advance),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..80)
}

struct Run {
    harness: Harness,
    objects: Vec<Arc<Object>>,
    models: Vec<Vec<u8>>,
    closed: Option<base::Txg>,
    copied: u64,
}

impl Run {
    fn new() -> Self {
        let mut harness = Harness::new(ObjectSetKind::Other);
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_FILE,
            block_size: BLOCK as u32,
            indirect_shift: 12,
            ..AllocateObject::default()
        };
        let tx = harness.tx();
        let objects = (0..FILES).map(|_| harness.set.allocate(&tx, &shape).unwrap());
        let objects = objects.collect();
        drop(tx);
        harness.sync();
        let length = 2 * BLOCKS as usize * BLOCK;
        Self {
            harness,
            objects,
            models: vec![vec![0; length]; FILES],
            closed: None,
            copied: 0,
        }
    }

    fn sync_closed(&mut self) {
        if let Some(txg) = self.closed.take() {
            self.harness.sync_txg(txg);
        }
    }

    fn copy(&mut self, from: (usize, u64), to: (usize, u64), count: u64) {
        let overlaps = from.0 == to.0 && from.1 < to.1 + count && to.1 < from.1 + count;
        if overlaps {
            return;
        }
        let tx = self.harness.tx();
        let (source, target) = (&self.objects[from.0], &self.objects[to.0]);
        let stored = source.stored_blocks(from.1, count).unwrap();
        assert!(stored.count() > 0 || stored.others() > 0);
        let before = tx.dirtied_bytes();
        if !target.refer_to(&tx, to.1, source, &stored).unwrap() {
            return;
        }
        assert!(tx.dirtied_bytes() - before <= (stored.count() + 1) * 1024);
        let length = stored.count() as usize * BLOCK;
        let start = from.1 as usize * BLOCK;
        let bytes = self.models[from.0][start..start + length].to_vec();
        let at = to.1 as usize * BLOCK;
        self.models[to.0][at..at + length].copy_from_slice(&bytes);
        self.copied += stored.count();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(file, offset, len, fill) => {
                let data = vec![fill; len];
                let tx = self.harness.tx();
                self.objects[file].write(&tx, offset, &data).unwrap();
                self.models[file][offset as usize..][..len].copy_from_slice(&data);
            }
            Step::Free(file, offset, len) => {
                let tx = self.harness.tx();
                self.objects[file].free_range(&tx, offset, len).unwrap();
                self.models[file][offset as usize..][..len as usize].fill(0);
            }
            Step::Copy(from, to, count) => self.copy(from, to, count),
            Step::Read(file, offset) => {
                let mut out = vec![1; 3000];
                self.objects[file].read(offset, &mut out).unwrap();
                assert!(out == self.models[file][offset as usize..][..3000]);
            }
            Step::WriteEarly(file, block) => self.harness.write_early(&self.objects[file], block),
            Step::WriteAnew(file, block) => {
                let tx = self.harness.tx();
                self.objects[file].write_anew(&tx, block).unwrap();
            }
            Step::Refuse(refuses) => {
                let flag = &self.harness.store.refuses_references;
                flag.store(refuses, Ordering::Relaxed);
            }
            Step::Sync | Step::Reopen => {
                self.sync_closed();
                self.harness.sync();
                if matches!(step, Step::Reopen) {
                    self.reopen();
                }
            }
            Step::Advance => {
                self.sync_closed();
                self.closed = Some(self.harness.advance());
            }
        }
    }

    fn reopen(&mut self) {
        let ids: Vec<_> = self.objects.drain(..).map(|object| object.id()).collect();
        self.harness.reopen();
        let found = ids
            .into_iter()
            .map(|id| self.harness.set.object(id).unwrap());
        self.objects = found.collect();
    }

    fn check(&self) {
        for (object, model) in self.objects.iter().zip(&self.models) {
            let mut out = vec![1; model.len()];
            object.read(0, &mut out).unwrap();
            assert!(out == *model);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Copies are made, changed, freed, copied again, written by the log and refused by syncs; readers see the model's
    /// bytes after each step, and after each sync each block is counted once a pointer, and kept as long as it has one.
    #[test]
    fn copies_are_what_they_were_made_of(steps in steps()) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            run.check();
        }
        run.sync_closed();
        run.harness.sync();
        run.reopen();
        run.check();
    }
}

/// A file with blocks that are stored, and an empty one.
fn two() -> Run {
    let mut run = Run::new();
    for (block, fill) in (0..4).zip(1..) {
        run.step(&Step::Write(0, block * BLOCK as u64, BLOCK, fill));
    }
    run.step(&Step::Sync);
    run
}

#[test]
fn a_copy_of_a_copy_in_one_txg_is_a_reference_in_the_next_it_is_not() {
    let mut run = two();
    run.copy((0, 0), (1, 0), 4);
    run.copy((1, 0), (2, 0), 4);
    assert_eq!(run.copied, 8);
    // The sync of the first txg may write blocks of its own: nothing but its references keeps those of the file.
    run.step(&Step::Advance);
    run.copy((1, 0), (2, 4), 4);
    assert_eq!(run.copied, 8);
    run.check();
    run.step(&Step::Sync);
    run.copy((1, 0), (2, 4), 4);
    assert_eq!(run.copied, 12);
    run.step(&Step::Sync);
    run.check();
}

#[test]
fn a_source_that_is_changed_in_the_txg_of_its_copy_leaves_it_its_blocks() {
    let mut run = two();
    run.copy((0, 0), (1, 0), 4);
    run.step(&Step::Write(0, 0, BLOCK, 9));
    run.step(&Step::Free(0, BLOCK as u64, 1 << 14));
    run.check();
    run.step(&Step::Advance);
    run.check();
    run.step(&Step::Sync);
    run.check();
}

#[test]
fn a_source_with_changes_of_an_older_txg_is_not_referred_to() {
    let mut run = two();
    run.step(&Step::Free(0, 0, BLOCK as u64));
    run.step(&Step::Advance);
    run.copy((0, 0), (1, 0), 1);
    assert_eq!(run.copied, 0);
    let stored = run.objects[0].stored_blocks(1, 3).unwrap();
    // It goes before the reference is made.
    run.step(&Step::Free(0, 0, 1 << 14));
    let tx = run.harness.tx();
    let (source, target) = (&run.objects[0], &run.objects[1]);
    assert!(!target.refer_to(&tx, 0, source, &stored).unwrap());
    drop(tx);
    run.step(&Step::Sync);
    run.check();
}

/// What cannot be read cannot be written again either: even a sync that would rather write refers to it, and goes on.
#[test]
fn a_sync_that_has_to_write_a_damaged_block_refers_to_it() {
    let mut run = two();
    run.copy((0, 0), (1, 0), 2);
    run.step(&Step::Refuse(true));
    let pointer = run.objects[0].block_pointer(0).unwrap();
    run.harness.store.lose(&pointer);
    run.step(&Step::Advance);
    run.sync_closed();
    assert!(run.objects[1].block_pointer(0).unwrap().dva(0) == pointer.dva(0));
    let other = run.objects[0].block_pointer(1).unwrap();
    assert!(run.objects[1].block_pointer(1).unwrap().dva(0) != other.dva(0));
    let mut out = vec![0; BLOCK];
    assert!(run.objects[1].read(0, &mut out).is_err());
    run.objects[1].read(BLOCK as u64, &mut out).unwrap();
    assert!(out.iter().all(|&byte| byte == 2));
}
