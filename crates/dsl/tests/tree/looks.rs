//! Datasets that are looked at while tasks make and destroy others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Harness, create, destroy, snapshot};
use millpond_dsl::Dsl;
use millpond_dsl::tasks::RenameSnapshot;

/// Lists the snapshots again and again, and keeps those of the turn before: what it keeps may be others' by then.
fn look(dsl: &Arc<Dsl>, is_over: &AtomicBool) -> usize {
    let (mut kept, mut seen) = (Vec::new(), 0);
    while !is_over.load(Ordering::Acquire) {
        let list = dsl.head("tank/a").and_then(|head| head.named_snapshots());
        seen += list.iter().flatten().count();
        kept = list.unwrap_or(kept);
    }
    seen
}

/// Between two tasks: each snapshot has the name that leads to it, whoever entered its live copy.
fn compare(harness: &Harness, names: &[&str]) {
    let list = harness.dsl.head("tank/a").unwrap().named_snapshots();
    let list = list.unwrap();
    for (name, snapshot) in &list {
        assert!(snapshot.is_snapshot());
        assert_eq!(snapshot.snapshot_name().unwrap(), *name);
    }
    let found: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, names);
}

#[test]
fn snapshots_keep_their_names_while_others_look() {
    let mut harness = Harness::new(31, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.sync();
    let is_over = Arc::new(AtomicBool::new(false));
    let lookers = [0; 2].map(|_| {
        let (dsl, is_over) = (Arc::clone(&harness.dsl), Arc::clone(&is_over));
        std::thread::spawn(move || look(&dsl, &is_over))
    });
    for _ in 0..150 {
        harness.run(snapshot("tank/a@new")).unwrap();
        compare(&harness, &["new"]);
        harness.sync();
        let rename = RenameSnapshot {
            from: "tank/a@new".to_owned(),
            to: "kept".to_owned(),
            recursive: false,
        };
        harness.run(rename).unwrap();
        compare(&harness, &["kept"]);
        harness.run(snapshot("tank/a@new")).unwrap();
        compare(&harness, &["kept", "new"]);
        harness.sync();
        harness.run(destroy("tank/a@kept")).unwrap();
        compare(&harness, &["new"]);
        harness.run(destroy("tank/a@new")).unwrap();
        compare(&harness, &[]);
    }
    is_over.store(true, Ordering::Release);
    for looker in lookers {
        assert!(looker.join().unwrap() > 0, "nothing was seen");
    }
    harness.check();
}
