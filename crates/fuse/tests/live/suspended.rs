//! A file system that is to be replaced, and cannot be: something under way holds it.

use super::*;
use fuse::Tree;
use std::sync::mpsc;

/// What waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_file_system_that_is_not_given_up_serves_on() {
    let tried = (0..20).any(|_| serves_on());
    assert!(tried, "no request was under way in time");
}

/// False: the request was not under way yet.
fn serves_on() -> bool {
    let disk = Arc::new(Disk::new());
    let kept = Arc::new(Kept {
        disk: Arc::clone(&disk),
        roots: std::sync::Mutex::default(),
    });
    let tree = DatasetTree::new(disk.live(), kept, SnapshotDirectory::Hidden);
    let (done, served) = mpsc::channel();
    let ask = || {
        let (tree, done) = (Arc::clone(&tree), done.clone());
        std::thread::spawn(move || {
            // Nobody listens any more to one that was not under way.
            let _ = done.send(tree.sync().is_ok());
        });
    };
    disk.target.gate.shut(true);
    ask();
    std::thread::sleep(Duration::from_millis(200));
    let (suspended, suspends) = mpsc::channel();
    let suspend = |wait| {
        let (tree, suspended) = (Arc::clone(&tree), suspended.clone());
        std::thread::spawn(move || {
            let _ = suspended.send(tree.suspend_within(wait));
        });
        suspends.recv_timeout(PATIENCE * 2).unwrap()
    };
    let is_refused = !suspend(Duration::from_millis(100));
    disk.target.gate.shut(false);
    if !is_refused {
        // Whoever asks now waits for a file system that does not come.
        return false;
    }
    assert!(served.recv_timeout(PATIENCE).unwrap());
    ask();
    assert!(served.recv_timeout(PATIENCE).unwrap(), "it serves on");
    assert!(suspend(PATIENCE));
    true
}
