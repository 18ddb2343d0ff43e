//! An object set that is opened while what it was opened from is replaced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::harness::{Harness, create, snapshot};
use format::{BlockPointer, ObjectSetKind};
use millpond_dsl::tasks::Rollback;

const PATIENCE: Duration = Duration::from_secs(20);

/// A pool with `tank/a`, which nobody has open, and what its snapshot has and what it has itself.
fn pool() -> (Harness, [BTreeMap<u64, Vec<u8>>; 2]) {
    let mut harness = Harness::new(12, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.write("tank/a", 5, 0, 1, 4096);
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.write("tank/a", 5, 0, 3, 4096);
    harness.write("tank/a", 6, 0, 5, 4096);
    harness.sync();
    let contents = ["tank/a@one", "tank/a"].map(|name| harness.contents(name));
    harness.sync();
    (harness, contents)
}

/// Opens `tank/a` on another thread, whose first read of the root block comes to its end only when `meanwhile` has.
fn opened_beside(harness: &mut Harness, meanwhile: impl FnOnce(&mut Harness)) {
    let head = harness.dsl.head("tank/a").unwrap();
    let root = head.phys().unwrap().block_pointer;
    let (reads, read) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(Some(waits));
    let hook = move |pointer: &BlockPointer| {
        if !pointer.same_block(&root) {
            return;
        }
        let first = waits.lock().unwrap().take();
        if let Some(waits) = first {
            reads.send(()).unwrap();
            let _ = waits.recv_timeout(PATIENCE);
        }
    };
    *harness.memory.on_read.lock().unwrap() = Some(Arc::new(hook));
    let opening = std::thread::spawn(move || drop(head.object_set().unwrap()));
    read.recv_timeout(PATIENCE).unwrap();
    meanwhile(harness);
    goes_on.send(()).unwrap();
    opening.join().unwrap();
    *harness.memory.on_read.lock().unwrap() = None;
}

fn rollback() -> Rollback {
    let path = "tank/a".to_owned();
    Rollback {
        path,
        snapshot: None,
    }
}

#[test]
fn a_head_that_was_rolled_back_is_not_entered_as_it_was() {
    let (mut harness, [old, _]) = pool();
    opened_beside(&mut harness, |harness| {
        harness.run(rollback()).unwrap();
    });
    assert!(harness.contents("tank/a") == old);
    harness.write("tank/a", 7, 0, 7, 4096);
    harness.sync();
    harness.check();
    harness.drain();
    harness.check();
}

#[test]
fn a_head_that_was_written_and_closed_is_not_entered_as_it_was() {
    let (mut harness, [_, mut new]) = pool();
    opened_beside(&mut harness, |harness| {
        harness.write("tank/a", 6, 0, 9, 4096);
        harness.sync();
        // It closes here, and is opened by nobody else.
        harness.sync();
    });
    new.insert(6, vec![9; 4096]);
    assert!(harness.contents("tank/a") == new);
    harness.write("tank/a", 7, 0, 7, 4096);
    harness.sync();
    harness.check();
}

#[test]
fn what_the_root_block_says_is_read_of_a_head_that_stays_closed() {
    let (harness, _) = pool();
    let dsl = &harness.dsl;
    let head = dsl.head("tank/a").unwrap();
    let root = head.root().unwrap().unwrap();
    assert_eq!(root.kind, ObjectSetKind::FileSystem);
    assert!(dsl.open_head(head.id()).is_none());
    let origin = dsl.origin_snapshot().unwrap().unwrap();
    let origin = dsl.dataset_by_id(origin).unwrap();
    assert_eq!(origin.root().unwrap(), None);
}
