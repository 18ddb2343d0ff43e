//! Snapshots under `.zfs` that come and go.

use crate::{Mounted, WAIT};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Waits until no more than so many snapshots have a place in the mount; the kernel says when it has forgotten what.
fn wait_for_slots(at: &Mounted, most: usize) {
    let deadline = Instant::now() + WAIT;
    while at.tree.snapshot_slots() > most {
        let taken = at.tree.snapshot_slots();
        assert!(Instant::now() < deadline, "{taken} places are taken");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn places_of_snapshots_that_are_gone_are_used_again() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    for round in 0..40 {
        fs::write(at.path("d/f"), format!("{round}")).unwrap();
        let name = format!("s{round}");
        at.snapshot(&name);
        let shown = at.path(&format!(".zfs/snapshot/{name}"));
        let read = fs::read_to_string(shown.join("d/f")).unwrap();
        assert_eq!(read, format!("{round}"));
        let listed = fs::read_dir(shown.join("d")).unwrap();
        let found = listed.map(|one| one.unwrap().metadata().unwrap().len());
        assert_eq!(found.count(), 1);
        at.destroy_snapshot(&name);
        assert!(fs::metadata(&shown).is_err());
        wait_for_slots(&at, 0);
    }
}

#[test]
fn a_node_of_a_snapshot_that_is_gone_is_never_one_of_another() {
    let Some(at) = Mounted::new() else { return };
    fs::write(at.path("f"), b"one").unwrap();
    at.snapshot("one");
    let held = File::open(at.path(".zfs/snapshot/one/f")).unwrap();
    at.destroy_snapshot("one");
    fs::write(at.path("f"), b"two").unwrap();
    at.snapshot("two");
    let two = at.path(".zfs/snapshot/two/f");
    assert_eq!(fs::read_to_string(&two).unwrap(), "two");
    assert_eq!(at.tree.snapshot_slots(), 2);
    // What the kernel has in its cache it may still show, and nothing else.
    let mut bytes = [0; 3];
    if held.read_at(&mut bytes, 0).is_ok() {
        assert_eq!(&bytes, b"one");
    }
    drop(held);
    // Its place may be given away as soon as the kernel forgets the file, which is when it likes.
    assert!(at.tree.snapshot_slots() <= 2);
    assert_eq!(fs::read_to_string(&two).unwrap(), "two");
}
