use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{ObjectId, Txg};
use format::{ObjectSetKind, ObjectType};
use sys::Buffer;

use crate::error::Result;
use crate::object_set::AllocateObject;
use crate::testing::Harness;
use crate::tx::Tx;

/// In the second pass of a txg a block of dnodes is rewritten where it is. Whoever reads it then, by the pointer of the
/// first pass, gets the new one when the pass is over, and no error.
#[test]
fn who_reads_what_a_pass_rewrites_waits_for_its_end() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let shape = AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        ..AllocateObject::default()
    };
    let object = harness.set.allocate(&harness.tx(), &shape).unwrap();
    harness.sync();
    harness.store.verifies.store(true, Ordering::Relaxed);
    let txg = harness.advance();
    let passes = object_passes(&harness, object.id(), txg);
    passes(&[1; 512]);
    let reader: Arc<Mutex<Option<JoinHandle<Result<Buffer>>>>> = Arc::default();
    let (set, started) = (Arc::clone(&harness.set), Arc::clone(&reader));
    *harness.store.after_rewrite.lock() = Some(Box::new(move || {
        let its = Arc::clone(&set);
        let thread = std::thread::spawn(move || its.shared.meta.read_block(&its.shared, 0));
        while set.shared.passes.waiting() == 0 && !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        *started.lock().unwrap() = Some(thread);
    }));
    passes(&[2; 512]);
    let thread = reader
        .lock()
        .unwrap()
        .take()
        .expect("a block was rewritten");
    let block = thread.join().unwrap().expect("no error");
    let newest = harness
        .set
        .shared
        .meta
        .read_block(&harness.set.shared, 0)
        .unwrap();
    assert_eq!(block, newest);
}

/// Answers what changes an object in a txg and syncs it: each call is a pass.
fn object_passes(harness: &Harness, id: ObjectId, txg: Txg) -> impl Fn(&[u8]) {
    let object = harness.set.object(id).unwrap();
    move |bytes| {
        object.write(&Tx::syncing(txg), 0, bytes).unwrap();
        harness.sync_txg(txg);
    }
}

/// Damage stays damage: the error comes when the pass is over, and at once if none is under way.
#[test]
fn damage_beside_a_pass_is_an_error() {
    let mut harness = Harness::new(ObjectSetKind::Other);
    let shape = AllocateObject {
        object_type: ObjectType::PLAIN_FILE,
        ..AllocateObject::default()
    };
    let object = harness.set.allocate(&harness.tx(), &shape).unwrap();
    object.write(&harness.tx(), 0, &[1; 512]).unwrap();
    harness.sync();
    harness.store.verifies.store(true, Ordering::Relaxed);
    harness.store.lose(&object.block_pointer(0).unwrap());
    let set = &harness.set;
    assert!(object.read_block(0).is_err());
    drop(set.shared.passes.begin(Txg(100)));
    let pass = set.shared.passes.begin(Txg(100));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| object.read_block(0).map(drop));
        while set.shared.passes.waiting() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(pass);
        assert!(reader.join().unwrap().is_err());
    });
}
