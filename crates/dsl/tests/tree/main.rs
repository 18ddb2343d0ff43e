//! The tree of datasets under changes: after each, every account of space, every feature count and
//! every reference is recomputed from the blocks, and nothing may differ.

mod blocks;
mod caching;
mod circles;
mod counted;
mod harness;
mod invariants;
mod lists;
mod livelists;
mod lives;
mod looks;
mod memory;
mod opening;
mod receive;
mod side_by_side;
mod slices;
mod undo;
mod walk;

use base::ObjectId;
use dmu::Zap;
use format::bptree::BlockTreeEntry;
use format::config::directory;
use format::{ObjectType, features};
use harness::{Harness, clone, create, destroy, destroy_head, promote, snapshot};
use millpond_dsl::property::dataset::{ATIME, CANMOUNT, SNAPDIR};
use millpond_dsl::property::{CanMount, SnapshotDirectory};
use millpond_dsl::tasks::{DestroySnapshots, Hold, Release, Rename, RenameSnapshot, Rollback};
use millpond_dsl::{DslError, PropertyChange, PropertyValue, SetProperties, Source};

#[test]
fn a_new_pool_has_the_objects_that_openzfs_makes() {
    let harness = Harness::new(1, &[features::EMPTY_BPOBJ.guid]);
    harness.check();
    let root = harness.dsl.root_directory().unwrap();
    assert_eq!(root.id(), ObjectId(32));
    let children = ["$MOS", "$FREE", "$ORIGIN"].map(|name| root.child(name).unwrap().unwrap().id());
    assert_eq!(children, [ObjectId(35), ObjectId(38), ObjectId(42)]);
    let origin = root.child("$ORIGIN").unwrap().unwrap();
    assert_eq!(origin.head().unwrap().unwrap().id(), ObjectId(45));
    assert_eq!(harness.dsl.origin_snapshot().unwrap(), Some(ObjectId(48)));
    assert_eq!(
        harness.mos.object(ObjectId(41)).unwrap().info().object_type,
        ObjectType::BPOBJ
    );
    assert_eq!(
        harness.mos.object(ObjectId(50)).unwrap().info().object_type,
        ObjectType::BPOBJ
    );
}

#[test]
fn the_life_of_a_snapshot() {
    let mut harness = Harness::new(2, &[]);
    harness.run(create("tank/a")).unwrap();
    assert!(matches!(
        harness.run(create("tank/a")),
        Err(DslError::Exists { .. })
    ));
    assert!(matches!(
        harness.run(create("tank/x/y")),
        Err(DslError::NotFound { .. })
    ));
    harness.check();
    for block in 0..40 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.check();
    let one = harness.contents("tank/a@one");
    for block in 10..20 {
        harness.write("tank/a", 5, block, 77, 1000);
    }
    harness.run(snapshot("tank/a@two")).unwrap();
    let two = harness.contents("tank/a@two");
    harness.check();
    harness.free("tank/a", 5);
    harness.run(snapshot("tank/a@three")).unwrap();
    harness.check();
    assert_eq!(harness.contents("tank/a@one"), one);
    assert_eq!(harness.contents("tank/a@two"), two);
    harness.run(destroy("tank/a@two")).unwrap();
    harness.check();
    harness.drain();
    harness.check();
    assert_eq!(harness.contents("tank/a@one"), one);
    let path = "tank/a".to_owned();
    let back = Rollback {
        path: path.clone(),
        snapshot: Some("one".to_owned()),
    };
    assert!(matches!(harness.run(back), Err(DslError::NotLatest { .. })));
    harness.write("tank/a", 9, 0, 3, 4096);
    let back = Rollback {
        path: path.clone(),
        snapshot: Some("three".to_owned()),
    };
    assert_eq!(harness.run(back).unwrap(), "tank/a@three");
    harness.check();
    assert!(harness.contents("tank/a").is_empty());
    let held = vec![("tank/a@one".to_owned(), "keep".to_owned())];
    harness
        .run(Hold {
            holds: held.clone(),
        })
        .unwrap();
    assert!(matches!(
        harness.run(destroy("tank/a@one")),
        Err(DslError::Busy { .. })
    ));
    let defer = DestroySnapshots {
        names: vec!["tank/a@one".to_owned()],
        defer: true,
    };
    harness.run(defer).unwrap();
    harness.check();
    harness.run(Release { holds: held }).unwrap();
    assert!(harness.dsl.dataset("tank/a@one").is_err());
    harness.drain();
    harness.check();
}

/// Whoever reads a snapshot's blocks, or writes damaged ones again, keeps it: however it would go.
#[test]
fn a_snapshot_that_is_held_long_does_not_go() {
    let mut harness = Harness::new(3, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.write("tank/a", 5, 0, 1, 4096);
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.write("tank/a", 5, 0, 2, 4096);
    harness.run(snapshot("tank/a@two")).unwrap();
    harness.run(clone("tank/a@two", "tank/c")).unwrap();
    let one = harness.dsl.dataset("tank/a@one").unwrap();
    let two = harness.dsl.dataset("tank/a@two").unwrap();
    let held = vec![("tank/a@one".to_owned(), "keep".to_owned())];
    let holds = held.clone();
    harness.run(Hold { holds }).unwrap();
    let defer = DestroySnapshots {
        names: vec!["tank/a@one".to_owned(), "tank/a@two".to_owned()],
        defer: true,
    };
    harness.run(defer).unwrap();
    let long = (one.hold_long(), two.hold_long());
    let holds = held.clone();
    let released = harness.run(Release { holds });
    assert!(
        matches!(released, Err(DslError::Busy { .. })),
        "{released:?}"
    );
    let destroyed = harness.run(destroy_head("tank/c"));
    assert!(
        matches!(destroyed, Err(DslError::Busy { .. })),
        "{destroyed:?}"
    );
    harness.check();
    assert!(harness.dsl.dataset("tank/a@one").is_ok());
    assert!(harness.dsl.dataset("tank/a@two").is_ok());
    drop(long);
    harness.run(Release { holds: held }).unwrap();
    harness.run(destroy_head("tank/c")).unwrap();
    assert!(harness.dsl.dataset("tank/a@one").is_err());
    assert!(harness.dsl.dataset("tank/a@two").is_err());
    harness.drain();
    harness.check();
}

/// A pool with `tank/a`, its snapshots `one` and `two`, and `tank/c`, a written clone of `two`.
fn with_a_clone(disabled: &[&'static str]) -> Harness {
    let mut harness = Harness::new(3, disabled);
    harness.run(create("tank/a")).unwrap();
    for block in 0..30 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.write("tank/a", 5, 3, 99, 4096);
    harness.run(snapshot("tank/a@two")).unwrap();
    harness.run(clone("tank/a@two", "tank/c")).unwrap();
    harness.check();
    let clone = harness.dsl.directory("tank/c").unwrap();
    assert_eq!(clone.livelist().unwrap().is_some(), disabled.is_empty());
    harness.write("tank/c", 5, 7, 1, 4096);
    harness.sync();
    harness.check();
    harness.write("tank/c", 5, 7, 5, 4096);
    harness.write("tank/c", 6, 0, 5, 4096);
    harness.sync();
    harness.check();
    harness
}

#[test]
fn clones_are_promoted_and_destroyed() {
    for disabled in [
        vec![],
        vec![features::LIVELIST.guid, features::ASYNC_DESTROY.guid],
    ] {
        let mut harness = with_a_clone(&disabled);
        harness.run(clone("tank/a@one", "tank/d")).unwrap();
        let error = harness.run(destroy("tank/a@one"));
        assert!(matches!(error, Err(DslError::HasClones { .. })));
        harness.run(promote("tank/c")).unwrap();
        harness.check();
        assert!(harness.dsl.dataset("tank/c@one").is_ok());
        let demoted = harness.dsl.directory("tank/a").unwrap();
        let origin = demoted.origin().unwrap().unwrap();
        assert_eq!(origin.name().unwrap(), "tank/c@two");
        let mut defer = destroy("tank/c@one");
        defer.defer = true;
        harness.run(defer).unwrap();
        harness.run(destroy_head("tank/d")).unwrap();
        assert!(harness.dsl.dataset("tank/c@one").is_err());
        harness.check();
        harness.run(destroy_head("tank/a")).unwrap();
        harness.check();
        harness.run(destroy("tank/c@two")).unwrap();
        harness.drain();
        harness.check();
        harness.run(destroy_head("tank/c")).unwrap();
        harness.drain();
        harness.check();
        let root = harness.dsl.root_directory().unwrap();
        assert!(root.children().unwrap().is_empty());
    }
}

fn set(name: &str, property: &str, change: PropertyChange) -> SetProperties {
    SetProperties {
        name: name.to_owned(),
        changes: vec![(property.to_owned(), change)],
    }
}

fn set_number(name: &str, property: &str, number: u64) -> SetProperties {
    set(
        name,
        property,
        PropertyChange::Set(PropertyValue::Number(number)),
    )
}

#[test]
fn properties_come_from_where_they_are_set() {
    let number = PropertyValue::Number;
    let mut harness = Harness::new(4, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.run(create("tank/a/b")).unwrap();
    harness.run(set_number("tank/a", "atime", 0)).unwrap();
    let below = harness.dsl.head("tank/a/b").unwrap();
    let from = Source::Inherited("tank/a".to_owned());
    assert_eq!(
        below.effective(ATIME.row()).unwrap(),
        Some((number(0), from.clone()))
    );
    let got = below.get(ATIME).unwrap();
    assert!(!got.value && got.source == Some(from));
    harness.run(set_number("tank/a", "canmount", 2)).unwrap();
    assert_eq!(below.effective(CANMOUNT.row()).unwrap(), None);
    assert_eq!(below.get(CANMOUNT).unwrap().value, CanMount::On);
    let receive = PropertyChange::Receive(number(1));
    harness.run(set("tank/a/b", "atime", receive)).unwrap();
    let received = Some((number(1), Source::Received));
    assert_eq!(below.effective(ATIME.row()).unwrap(), received);
    harness
        .run(set("tank/a/b", "atime", PropertyChange::Inherit))
        .unwrap();
    assert_eq!(below.effective(ATIME.row()).unwrap().unwrap().0, number(0));
    harness.run(set_number("tank/a", "snapdir", 2)).unwrap();
    assert_eq!(
        below.get(SNAPDIR).unwrap().value,
        SnapshotDirectory::Disabled
    );
    harness.run(snapshot("tank/a/b@s")).unwrap();
    let note = PropertyValue::Text("x".to_owned());
    let change = PropertyChange::Set(note.clone());
    harness.run(set("tank/a/b@s", "my:note", change)).unwrap();
    harness.check();
    let taken = harness.dsl.dataset("tank/a/b@s").unwrap();
    assert_eq!(taken.user_property("my:note").unwrap().unwrap().0, note);
    harness
        .run(set("tank/a/b@s", "my:note", PropertyChange::Inherit))
        .unwrap();
    harness.check();
}

#[test]
fn limits_hold_and_move_with_a_rename() {
    let mut harness = Harness::new(5, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.run(create("tank/a/b")).unwrap();
    let below = harness.dsl.head("tank/a/b").unwrap();
    harness
        .run(set_number("tank/a", "reservation", 1 << 20))
        .unwrap();
    harness
        .run(set_number("tank/a/b", "refreservation", 3 << 19))
        .unwrap();
    harness.write("tank/a/b", 4, 0, 1, 4096);
    harness.sync();
    harness.check();
    let quota = harness.run(set_number("tank/a", "quota", 4096));
    assert!(matches!(quota, Err(DslError::NoSpace)));
    harness.run(set_number("tank/a", "quota", 2 << 20)).unwrap();
    assert!(below.space().unwrap().available <= 2 << 20);
    let to = "tank/z".to_owned();
    harness
        .run(Rename {
            from: "tank/a/b".to_owned(),
            to,
        })
        .unwrap();
    harness.check();
    assert_eq!(below.name().unwrap(), "tank/z");
    harness.run(snapshot("tank/z@s")).unwrap();
    harness.check();
    let (from, to) = ("tank/z@s".to_owned(), "t".to_owned());
    harness
        .run(RenameSnapshot {
            from,
            to,
            recursive: false,
        })
        .unwrap();
    assert!(harness.dsl.dataset("tank/z@t").is_ok());
    harness.run(set_number("tank/a", "reservation", 0)).unwrap();
    harness.check();
}

/// OpenZFS goes on from nothing else, and zdb ends with an assertion.
#[test]
fn what_is_freed_in_the_background_pauses_at_blocks_of_level_0() {
    let mut harness = Harness::new(11, &[]);
    harness.run(create("tank/a")).unwrap();
    for block in 0..700 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.sync();
    harness.run(destroy_head("tank/a")).unwrap();
    let (mut paused, mut root) = (0, harness.mos.object(ObjectId(1)).unwrap());
    while harness.dsl.has_background_frees().unwrap() {
        let queue = Zap::open(&root)
            .unwrap()
            .lookup(directory::BPTREE.as_bytes());
        if let Some(queue) = queue.unwrap() {
            let queue = harness.mos.object(ObjectId(queue)).unwrap();
            let mut bytes = [0; BlockTreeEntry::SIZE];
            queue.read(BlockTreeEntry::offset(0), &mut bytes).unwrap();
            let entry = BlockTreeEntry::decode_padded(&bytes, base::ByteOrder::NATIVE);
            assert_eq!(entry.bookmark[2], 0, "{:?}", entry.bookmark);
            paused += 1;
        }
        harness.sync();
        root = harness.mos.object(ObjectId(1)).unwrap();
    }
    assert!(paused > 50, "{paused}");
    harness.check();
}
