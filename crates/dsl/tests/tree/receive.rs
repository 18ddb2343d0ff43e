//! Receiving: what a stream writes between its beginning and its end is written here by hand.

use base::Guid;
use format::ObjectSetKind;
use millpond_dsl::tasks::{BeginReceive, EndReceive, ResumeReceive, StreamRedaction};
use millpond_dsl::{Dataset, DslError, ResumePoint, ResumeState};
use std::sync::Arc;

use crate::harness::{Harness, clone, create, destroy_head, snapshot};

pub(crate) fn begin(path: &str, from_guid: Guid) -> BeginReceive {
    BeginReceive {
        path: path.to_owned(),
        snapshot: "new".to_owned(),
        kind: ObjectSetKind::FileSystem,
        from_guid,
        origin: None,
        force: false,
        case_insensitive: false,
        large_blocks: false,
        features: Vec::new(),
        unencrypted: false,
        resumable: None,
        sealed: None,
        redaction: StreamRedaction::default(),
    }
}

pub(crate) fn end(receiving: &Arc<Dataset>, force: bool) -> EndReceive {
    EndReceive {
        receiving: Arc::clone(receiving),
        snapshot: "new".to_owned(),
        guid: Guid(77),
        creation_time: 1_234_567,
        force,
        sealed: None,
    }
}

fn forced(path: &str, from_guid: Guid) -> BeginReceive {
    BeginReceive {
        force: true,
        ..begin(path, from_guid)
    }
}

fn guid(harness: &Harness, name: &str) -> Guid {
    harness.dsl.dataset(name).unwrap().guid().unwrap()
}

/// `tank/a` with the snapshot `one`, and nothing after it.
pub(crate) fn with_one() -> Harness {
    let mut harness = Harness::new(61, &[]);
    harness.run(create("tank/a")).unwrap();
    for block in 0..30 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.check();
    harness
}

fn received(harness: &Harness, name: &str) {
    let snapshot = harness.dsl.dataset(name).unwrap();
    let phys = snapshot.phys().unwrap();
    assert_eq!((phys.guid, phys.creation_time), (Guid(77), 1_234_567));
    assert!(!snapshot.is_inconsistent().unwrap());
    let head = snapshot.directory().head().unwrap().unwrap();
    assert!(!head.is_inconsistent().unwrap());
    assert!(!head.is_modified_since(&snapshot).unwrap());
    assert!(head.resume_state().unwrap().is_none());
    assert!(head.directory().child("%recv").unwrap().is_none());
}

#[test]
fn a_full_stream_makes_a_head_with_one_snapshot() {
    let mut harness = Harness::new(60, &[]);
    let receiving = harness.run(begin("tank/new", Guid(0))).unwrap();
    assert!(receiving.is_inconsistent().unwrap());
    assert!(matches!(
        harness.run(begin("tank/new", Guid(0))),
        Err(DslError::Busy { .. })
    ));
    harness.check();
    harness.write("tank/new", 9, 0, 3, 4096);
    harness.sync();
    harness.check();
    harness.write("tank/new", 300, 4, 5, 4096);
    harness.run(end(&receiving, false)).unwrap();
    harness.check();
    received(&harness, "tank/new@new");
    let contents = harness.contents("tank/new@new");
    assert_eq!(contents.keys().copied().collect::<Vec<_>>(), [9, 300]);
}

#[test]
fn an_incremental_stream_takes_the_place_of_the_head() {
    let mut harness = with_one();
    let before = harness.contents("tank/a");
    let one = guid(&harness, "tank/a@one");
    let receiving = harness.run(begin("tank/a", one)).unwrap();
    harness.check();
    for block in 10..20 {
        harness.write("tank/a/%recv", 5, block, 200, 4096);
    }
    harness.sync();
    harness.check();
    assert_eq!(harness.contents("tank/a"), before);
    let after = harness.contents("tank/a/%recv");
    assert_ne!(after, before);
    harness.run(end(&receiving, false)).unwrap();
    harness.drain();
    harness.check();
    received(&harness, "tank/a@new");
    assert_eq!(harness.contents("tank/a"), after);
    assert_eq!(harness.contents("tank/a@new"), after);
    assert_eq!(harness.contents("tank/a@one"), before);
}

#[test]
fn what_was_changed_is_refused_or_goes() {
    let mut harness = with_one();
    let one = guid(&harness, "tank/a@one");
    assert!(matches!(
        harness.run(begin("tank/a", Guid(4))),
        Err(DslError::NoSource { .. })
    ));
    assert!(matches!(
        harness.run(begin("tank/a", Guid(0))),
        Err(DslError::Exists { .. })
    ));
    assert!(matches!(
        harness.run(forced("tank/a", Guid(0))),
        Err(DslError::HasSnapshots { .. })
    ));
    assert!(matches!(
        harness.run(begin("tank/gone", one)),
        Err(DslError::NotFound { .. })
    ));
    // It changes between the beginning and the end.
    let receiving = harness.run(begin("tank/a", one)).unwrap();
    harness.write("tank/a", 6, 1, 1, 4096);
    assert!(matches!(
        harness.run(end(&receiving, false)),
        Err(DslError::Modified { .. })
    ));
    drop(receiving);
    harness.run(destroy_head("tank/a/%recv")).unwrap();
    harness.drain();
    harness.check();
    assert!(matches!(
        harness.run(begin("tank/a", one)),
        Err(DslError::Modified { .. })
    ));
    harness.run(snapshot("tank/a@two")).unwrap();
    harness.write("tank/a", 6, 2, 1, 4096);
    harness.run(snapshot("tank/a@three")).unwrap();
    harness.write("tank/a", 6, 3, 1, 4096);
    harness.sync();
    let receiving = harness.run(forced("tank/a", one)).unwrap();
    harness.write("tank/a/%recv", 5, 4, 9, 4096);
    harness.run(end(&receiving, true)).unwrap();
    harness.drain();
    harness.check();
    received(&harness, "tank/a@new");
    assert!(harness.dsl.dataset("tank/a@two").is_err());
    assert!(harness.dsl.dataset("tank/a@three").is_err());
    assert!(!harness.contents("tank/a").contains_key(&6));
}

#[test]
fn a_full_stream_takes_the_place_of_a_head_without_snapshots() {
    let mut harness = Harness::new(62, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.run(create("tank/a/b")).unwrap();
    harness.write("tank/a", 5, 1, 1, 4096);
    harness.sync();
    let receiving = harness.run(forced("tank/a", Guid(0))).unwrap();
    harness.write("tank/a/%recv", 8, 1, 1, 4096);
    harness.sync();
    harness.check();
    harness.run(end(&receiving, true)).unwrap();
    harness.drain();
    harness.check();
    received(&harness, "tank/a@new");
    let contents = harness.contents("tank/a");
    assert_eq!(contents.keys().copied().collect::<Vec<_>>(), [8]);
    assert!(harness.dsl.head("tank/a/b").is_ok());
}

#[test]
fn a_clone_is_received_beside_its_origin() {
    let mut harness = with_one();
    let one = guid(&harness, "tank/a@one");
    let wrong = BeginReceive {
        origin: Some("tank/a@one".to_owned()),
        ..begin("tank/c", Guid(9))
    };
    assert!(matches!(harness.run(wrong), Err(DslError::NoSource { .. })));
    let right = BeginReceive {
        origin: Some("tank/a@one".to_owned()),
        ..begin("tank/c", one)
    };
    let receiving = harness.run(right).unwrap();
    harness.write("tank/c", 5, 4, 9, 4096);
    harness.run(end(&receiving, false)).unwrap();
    harness.drain();
    harness.check();
    received(&harness, "tank/c@new");
    let origin = receiving.directory().origin().unwrap().unwrap();
    assert_eq!(origin.name().unwrap(), "tank/a@one");
    harness.run(clone("tank/c@new", "tank/d")).unwrap();
    harness.check();
}

fn state(from_guid: Guid) -> ResumeState {
    ResumeState {
        to_guid: Guid(77),
        from_guid,
        to_name: "far/away@new".to_owned(),
        point: ResumePoint {
            object: 1,
            offset: 0,
            bytes: 0,
        },
        large_blocks: true,
        embedded: false,
        compressed: true,
        raw: false,
        redacted_from: None,
    }
}

#[test]
fn an_interrupted_receive_goes_on_where_it_was() {
    let mut harness = with_one();
    let one = guid(&harness, "tank/a@one");
    let task = BeginReceive {
        resumable: Some(state(one)),
        ..begin("tank/a", one)
    };
    let receiving = harness.run(task).unwrap();
    let point = ResumePoint {
        object: 5,
        offset: 8192,
        bytes: 4711,
    };
    harness.write("tank/a/%recv", 5, 2, 9, 4096);
    harness.with_pass(1, |pass| {
        receiving.note_received(&dmu::Tx::syncing(pass.txg), point);
    });
    harness.sync();
    harness.check();
    drop(receiving);
    harness.reopen();
    let (_, kept) = harness.dsl.interrupted_receive("tank/a").unwrap().unwrap();
    assert_eq!(
        kept,
        ResumeState {
            point,
            ..state(one)
        }
    );
    assert!(matches!(
        harness.run(begin("tank/a", one)),
        Err(DslError::PartlyReceived { .. })
    ));
    let resume = |at| ResumeReceive {
        path: "tank/a".to_owned(),
        to_guid: Guid(77),
        from_guid: one,
        at,
        sealed: None,
        redacted_by: None,
    };
    assert!(matches!(
        harness.run(resume((5, 0))),
        Err(DslError::NotResumable { .. })
    ));
    let receiving = harness.run(resume((5, 8192))).unwrap();
    harness.write("tank/a/%recv", 5, 3, 9, 4096);
    harness.run(end(&receiving, false)).unwrap();
    harness.drain();
    harness.check();
    received(&harness, "tank/a@new");
}

#[test]
fn what_takes_no_more_than_its_quota_is_received() {
    use millpond_dsl::{PropertyChange, PropertyValue, SetProperties};
    let mut harness = with_one();
    let one = guid(&harness, "tank/a@one");
    let receiving = harness.run(begin("tank/a", one)).unwrap();
    for block in 0..200 {
        harness.write("tank/a/%recv", 7, block, block as u8, 4096);
    }
    harness.sync();
    let referenced = receiving.phys().unwrap().referenced_bytes;
    let quota = PropertyChange::Set(PropertyValue::Number(referenced - 1));
    let set = SetProperties {
        name: "tank/a".to_owned(),
        changes: vec![("refquota".to_owned(), quota)],
    };
    harness.run(set).unwrap();
    assert!(matches!(
        harness.run(end(&receiving, false)),
        Err(DslError::Quota { .. })
    ));
    harness.check();
}
