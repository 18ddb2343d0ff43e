//! Datasets that are looked at while tasks make and destroy others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Harness, create, destroy, snapshot};
use millpond_dsl::Dsl;
use millpond_dsl::tasks::RenameSnapshot;

/// Lists the snapshots again and again, and keeps those of the turn before: what it keeps may be others' by then.
fn look(dsl: &Arc<Dsl>, is_over: &AtomicBool) -> usize {
    let (mut kept, mut compared) = (Vec::new(), 0);
    while !is_over.load(Ordering::Acquire) {
        let stamp = dsl.stamp();
        let list = dsl.head("tank/a").and_then(|head| head.named_snapshots());
        for (name, snapshot) in list.iter().flatten() {
            let own = snapshot.snapshot_name();
            if let Ok(own) = own
                && dsl.stamp() == stamp
            {
                assert_eq!(own, *name);
                compared += 1;
            }
        }
        kept = list.unwrap_or(kept);
    }
    compared
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
        harness.sync();
        let rename = RenameSnapshot {
            from: "tank/a@new".to_owned(),
            to: "kept".to_owned(),
            recursive: false,
        };
        harness.run(rename).unwrap();
        harness.run(snapshot("tank/a@new")).unwrap();
        harness.sync();
        harness.run(destroy("tank/a@kept")).unwrap();
        harness.run(destroy("tank/a@new")).unwrap();
    }
    is_over.store(true, Ordering::Release);
    for looker in lookers {
        assert!(looker.join().unwrap() > 0, "nothing was compared");
    }
    let head = harness.dsl.head("tank/a").unwrap();
    assert!(!head.has_snapshots().unwrap());
    harness.check();
}
