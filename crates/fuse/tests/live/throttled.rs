//! Requests that wait for the write throttle wait by themselves: whoever asks for what is cached is answered, however
//! many of them there are, nobody is forgotten, and a mount with such requests can end.

use super::Mounted;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sys::UnmountMode;

const CALLERS: usize = 200;
const PIECE: usize = 64 << 10;
/// Room for a few of them.
const LIMIT_BYTES: u64 = 4 << 20;
/// Far more than any answer takes here.
const LONG: Duration = Duration::from_secs(30);

fn file_of(at: &Mounted, caller: usize) -> PathBuf {
    at.path(&format!("file-{caller}"))
}

/// A mount on which nothing is synced, with little room for what is not.
fn stuck() -> Option<Mounted> {
    let at = Mounted::new()?;
    for caller in 0..CALLERS {
        File::create(file_of(&at, caller)).unwrap();
        fs::create_dir(at.path(&format!("folder-{caller}"))).unwrap();
    }
    fs::create_dir(at.path("quiet")).unwrap();
    for name in 0..20 {
        fs::write(at.path(&format!("quiet/{name}")), b"some words").unwrap();
    }
    at.disk.engine.wait_synced(None).unwrap();
    at.disk.target.gate.shut(true);
    at.disk.engine.set_dirty_limit(LIMIT_BYTES);
    Some(at)
}

/// A caller's file, open for writing.
fn to_write(at: &Mounted, caller: usize) -> File {
    let file = file_of(at, caller);
    OpenOptions::new().write(true).open(file).unwrap()
}

/// Callers that all change something; those that are answered count themselves.
struct Callers {
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    answered: Arc<AtomicUsize>,
}

impl Callers {
    fn start(change: impl Fn(usize) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let change = Arc::new(change);
        let answered = Arc::new(AtomicUsize::new(0));
        let threads = (0..CALLERS).map(|caller| {
            let (change, answered) = (Arc::clone(&change), Arc::clone(&answered));
            std::thread::spawn(move || {
                let result = change(caller);
                answered.fetch_add(1, Ordering::SeqCst);
                result
            })
        });
        let threads = threads.collect();
        Self { threads, answered }
    }

    /// Waits until no more of them are answered; says how many still wait.
    fn settle(&self) -> usize {
        const STILL: Duration = Duration::from_millis(700);
        let mut seen = (self.answered.load(Ordering::SeqCst), Instant::now());
        while seen.1.elapsed() < STILL {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.answered.load(Ordering::SeqCst);
            if now != seen.0 {
                seen = (now, Instant::now());
            }
        }
        CALLERS - seen.0
    }

    fn end(self) -> Vec<std::io::Result<()>> {
        let deadline = Instant::now() + LONG;
        while self.answered.load(Ordering::SeqCst) < CALLERS {
            let left = CALLERS - self.answered.load(Ordering::SeqCst);
            assert!(Instant::now() < deadline, "{left} callers were forgotten");
            std::thread::sleep(Duration::from_millis(5));
        }
        let results = self
            .threads
            .into_iter()
            .map(|thread| thread.join().unwrap());
        results.collect()
    }
}

/// Asks for all that no change is needed for.
fn look_around(at: &Mounted, round: usize) {
    let quiet = at.path("quiet");
    let named = at.path("quiet/7");
    let absent = at.path(&format!("quiet/absent-{round}"));
    let (done, answered) = mpsc::channel();
    let poller = std::thread::spawn(move || {
        // The kernel answers from its own memory otherwise.
        let (asked, all) = (AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        assert_eq!(statx(CWD, &named, asked, all).unwrap().stx_size, 10);
        done.send("stat").unwrap();
        assert!(!absent.exists());
        done.send("lookup").unwrap();
        assert_eq!(fs::read_dir(&quiet).unwrap().count(), 20);
        done.send("readdir").unwrap();
        rustix::fs::statvfs(&quiet).unwrap();
        done.send("statfs").unwrap();
        assert_eq!(fs::read(&named).unwrap(), b"some words");
        done.send("read").unwrap();
    });
    for expected in ["stat", "lookup", "readdir", "statfs", "read"] {
        let answer = answered.recv_timeout(LONG);
        assert_eq!(
            answer.ok(),
            Some(expected),
            "{expected} waits behind others"
        );
    }
    poller.join().unwrap();
}

/// Lets everybody go, also when a test fails: then with errors, for who waits in the kernel keeps this process.
struct LetGo<'a>(&'a Mounted);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.disk.target.gate.shut(false);
        if std::thread::panicking() {
            drop(self.0.mount.unmount(UnmountMode::Force));
        }
    }
}

#[test]
fn writers_without_room_keep_nobody_waiting() {
    let Some(at) = stuck() else { return };
    let opened = LetGo(&at);
    let files: Vec<File> = (0..CALLERS).map(|caller| to_write(&at, caller)).collect();
    let writers = Callers::start(move |caller| {
        let bytes = [caller as u8; PIECE];
        files[caller].write_all_at(&bytes, 0)
    });
    let waiting = writers.settle();
    assert!(waiting > 100, "only {waiting} writers wait for room");
    for round in 0..20 {
        look_around(&at, round);
    }
    drop(opened);
    for result in writers.end() {
        result.unwrap();
    }
    for caller in 0..CALLERS {
        let found = fs::read(file_of(&at, caller)).unwrap();
        assert_eq!(found.len(), PIECE);
        assert!(
            found.iter().all(|byte| *byte == caller as u8),
            "file {caller}"
        );
    }
    let dirty = at.disk.engine.dirty_counts();
    at.disk.engine.wait_synced(None).unwrap();
    assert_eq!(at.disk.engine.dirty_counts().total_bytes, 0, "{dirty:?}");
}

/// The fewest threads that there can be; as many as usual when this is dropped.
struct MinLimits;

impl MinLimits {
    fn set() -> Self {
        fuse::READERS_MAX.set(0);
        fuse::PARKED_THREADS_MAX.set(0);
        Self
    }
}

impl Drop for MinLimits {
    fn drop(&mut self) {
        fuse::TUNABLES.iter().for_each(|tunable| tunable.reset());
    }
}

#[test]
fn with_the_least_threads_nobody_waits_either() {
    let _least = MinLimits::set();
    let Some(at) = stuck() else { return };
    let opened = LetGo(&at);
    let root = at.directory.path().to_owned();
    let callers = Callers::start(move |caller| {
        let file = root.join(format!("file-{caller}"));
        fs::write(file, [caller as u8; PIECE])
    });
    let waiting = callers.settle();
    assert!(waiting > 100, "only {waiting} writers wait for room");
    for round in 0..20 {
        look_around(&at, round);
    }
    drop(opened);
    for result in callers.end() {
        result.unwrap();
    }
    at.disk.engine.wait_synced(None).unwrap();
    assert_eq!(at.disk.engine.dirty_counts().total_bytes, 0);
}

/// What the caller of this number does.
fn change(root: &std::path::Path, caller: usize) -> std::io::Result<()> {
    let folder = root.join(format!("folder-{caller}"));
    let file = root.join(format!("file-{caller}"));
    match caller % 8 {
        0 => fs::create_dir(folder.join("new")),
        1 => File::create(folder.join("new")).map(drop),
        2 => symlink("target", folder.join("new")),
        3 => fs::hard_link(file, folder.join("new")),
        4 => fs::rename(file, folder.join("new")),
        5 => OpenOptions::new().write(true).open(file)?.set_len(100_000),
        6 => fs::write(folder.join("new"), vec![7; PIECE]),
        _ => fs::remove_file(file).and_then(|()| fs::write(folder.join("new"), b"")),
    }
}

#[test]
fn changes_of_all_kinds_without_room_keep_nobody_waiting() {
    let Some(at) = stuck() else { return };
    let opened = LetGo(&at);
    // One file with room for nothing beside it.
    let filler = to_write(&at, 6);
    let root = at.directory.path().to_owned();
    at.disk.engine.set_dirty_limit(1 << 20);
    filler.write_all_at(&[1; 700 << 10], 0).unwrap();
    let callers = Callers::start(move |caller| change(&root, caller));
    let waiting = callers.settle();
    assert!(waiting > 100, "only {waiting} callers wait for room");
    for round in 0..20 {
        look_around(&at, round);
    }
    drop(opened);
    for result in callers.end() {
        result.unwrap();
    }
    for caller in 0..CALLERS {
        let made = at.path(&format!("folder-{caller}/new"));
        assert_eq!(
            fs::symlink_metadata(made).is_ok(),
            caller % 8 != 5,
            "{caller}"
        );
    }
    at.disk.engine.wait_synced(None).unwrap();
    assert_eq!(at.disk.engine.dirty_counts().total_bytes, 0);
}

#[test]
fn a_mount_ends_while_writers_wait_for_room() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root ends a mount that is in use");
        return;
    }
    let Some(at) = stuck() else { return };
    let opened = LetGo(&at);
    let files: Vec<File> = (0..CALLERS).map(|caller| to_write(&at, caller)).collect();
    let writers = Callers::start(move |caller| files[caller].write_all_at(&[1; PIECE], 0));
    assert!(writers.settle() > 100);
    // The kernel gives up all requests, then the mount.
    at.mount.unmount(UnmountMode::Force).unwrap();
    let failed = writers.end().into_iter().filter(Result::is_err).count();
    assert!(
        failed > 100,
        "{failed} writers were told that the mount is gone"
    );
    drop(opened);
    assert!(at.mount.session().wait_ended(LONG), "the session goes on");
    at.disk.engine.wait_synced(None).unwrap();
    let deadline = Instant::now() + LONG;
    while at.disk.engine.dirty_counts().total_bytes != 0 {
        assert!(
            Instant::now() < deadline,
            "room that was given is not returned"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
