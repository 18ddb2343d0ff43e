//! Dirty datasets are written beside each other, and come to the same as one after the other.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::harness::{Harness, create, snapshot};

const HEADS: u64 = 12;

fn path(head: u64) -> String {
    format!("tank/h{head}")
}

/// A pool with some file systems, each with a snapshot and changes since; one of them with `large` ones.
fn pool(threads: usize, large: bool) -> Harness {
    let mut harness = Harness::new(7, &[]);
    harness.set_threads(threads);
    for head in 0..HEADS {
        harness.run(create(&path(head))).unwrap();
        harness.write(&path(head), 10, 0, 1, 8192);
    }
    harness.sync();
    for head in 0..HEADS {
        harness.run(snapshot(&format!("{}@s", path(head)))).unwrap();
    }
    for head in 0..HEADS {
        harness.write(&path(head), 10, 1, 3, 4096);
        // One with much to write among them.
        let blocks = if large && head == 5 { 400 } else { 2 };
        (0..blocks).for_each(|block| harness.write(&path(head), 11, block, 5, 4096));
    }
    harness
}

#[test]
fn small_heads_are_written_at_once() {
    const THREADS: usize = 4;
    let mut harness = pool(THREADS, false);
    // Threads that write, now and at most; the first few wait for each other.
    let counts = Arc::new((Mutex::new((0_usize, 0_usize)), Condvar::new()));
    let seen = Arc::clone(&counts);
    *harness.memory.on_write.lock().unwrap() = Some(Arc::new(move || {
        let (counts, changed) = &*seen;
        let mut now = counts.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
        changed.notify_all();
        let waiting = |now: &mut (usize, usize)| now.1 < THREADS && now.0 < THREADS;
        let patience = Duration::from_millis(300);
        let waited = changed.wait_timeout_while(now, patience, waiting);
        waited.unwrap().0.0 -= 1;
    }));
    harness.sync();
    *harness.memory.on_write.lock().unwrap() = None;
    assert_eq!(counts.0.lock().unwrap().1, THREADS);
    harness.check();
}

#[test]
fn it_comes_to_the_same() {
    let used = |harness: &Harness| -> Vec<(u64, u64)> {
        let heads = (0..HEADS).map(|head| harness.dsl.head(&path(head)).unwrap());
        let of = |phys: format::dsl::DatasetPhys| (phys.referenced_bytes, phys.unique_bytes);
        heads.map(|head| of(head.phys().unwrap())).collect()
    };
    let mut outcomes = Vec::new();
    for threads in [1, 4] {
        let mut harness = pool(threads, true);
        harness.sync();
        harness.check();
        harness.reopen();
        harness.check();
        let contents: Vec<_> = (0..HEADS)
            .map(|head| harness.contents(&path(head)))
            .collect();
        outcomes.push((used(&harness), contents));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}
