use std::cell::Cell;

use format::{ObjectSetKind, ObjectType};
use txg::{Engine, EngineConfig};

use crate::object_set::AllocateObject;
use crate::testing::Harness;
use crate::workers::SyncWorkers;

thread_local! {
    static OPEN_MAX: Cell<usize> = const { Cell::new(0) };
}

/// How many indirect blocks this thread had open at once.
pub(super) fn note_open(count: usize) {
    OPEN_MAX.set(OPEN_MAX.get().max(count));
}

#[test]
fn scattered_writes_keep_few_indirect_blocks_in_memory() {
    const BLOCKS: u64 = 300;
    let mut harness = Harness::new(ObjectSetKind::Other);
    // So that it is done on this thread.
    harness.workers = SyncWorkers::new(1);
    let shape = AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        block_size: 512,
        indirect_shift: 12,
        ..AllocateObject::default()
    };
    let object = harness.set.allocate(&harness.tx(), &shape).unwrap();
    let place = |number: u64| (number * 7919 % BLOCKS) * 1_000_003 * 512;
    for pass in 1..3u8 {
        OPEN_MAX.set(0);
        for number in 0..BLOCKS {
            object
                .write(&harness.tx(), place(number), &[pass; 100])
                .unwrap();
        }
        harness.sync();
        let open = OPEN_MAX.get();
        assert!(open > 0, "nothing was noted");
        assert!(open <= 2 * format::dnode::LEVELS_MAX as usize, "{open}");
    }
    let mut bytes = [0; 100];
    for number in 0..BLOCKS {
        object.read(place(number), &mut bytes).unwrap();
        assert_eq!(bytes, [2; 100]);
    }
}

#[test]
fn a_block_of_another_txg_is_a_broken_invariant() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let engine = Engine::new(EngineConfig::default());
    let shape = AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        ..AllocateObject::default()
    };
    let object = harness.set.allocate(&harness.tx(), &shape).unwrap();
    for mistakes in [false, true] {
        assert_eq!(engine.findings().first(), None);
        object.write(&harness.tx(), 0, &[1; 100]).unwrap();
        if mistakes {
            harness.store.mistake_births();
        }
        let closed = harness.advance();
        let store = std::sync::Arc::clone(&harness.store);
        harness
            .sync_with(closed, store.as_ref(), Some(&engine))
            .unwrap();
    }
    let found = engine.findings().first().map(|first| first.name);
    assert_eq!(found, Some("dmu.births"));
}
