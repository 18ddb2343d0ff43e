//! Many mounts in one process: what they cost, and that none waits for another. Needs `/dev/fuse` and root; without
//! them the tests say so and pass.

extern crate millpond_fuse as fuse;

#[allow(dead_code, reason = "shared between test programs")]
mod memory;

use fuse::{Mount, MountOptions};
use memory::Memory;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sys::UnmountMode;

/// Far longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// They count the threads of the process.
static TURN: Mutex<()> = Mutex::new(());

struct Many {
    mounts: Vec<(Mount, Arc<Memory>, PathBuf)>,
    _directory: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Many {
    fn new(count: usize) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: only root has many mounts, and there must be a /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mounts = (0..count).map(|number| {
            let path = directory.path().join(number.to_string());
            fs::create_dir(&path).unwrap();
            let tree = Memory::new();
            let options = MountOptions {
                source: format!("tank/{number}"),
                ..MountOptions::default()
            };
            let mount = Mount::start(&path, tree.clone(), &options).unwrap();
            (mount, tree, path)
        });
        Some(Self {
            mounts: mounts.collect(),
            _directory: directory,
            _turn: turn,
        })
    }

    fn path(&self, number: usize, name: &str) -> PathBuf {
        self.mounts[number].2.join(name)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        for (mount, tree, _) in &self.mounts {
            tree.stuck.store(false, Ordering::Relaxed);
            drop(mount.unmount(UnmountMode::Force));
        }
        fuse::TUNABLES.iter().for_each(|tunable| tunable.reset());
    }
}

/// Threads of this process whose names begin so.
fn threads(prefix: &str) -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(prefix)).count()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A request that the kernel does not answer by itself.
fn ask(path: &Path) -> bool {
    statx(
        CWD,
        path,
        AtFlags::STATX_FORCE_SYNC,
        StatxFlags::BASIC_STATS,
    )
    .is_ok()
}

/// Asks so often that the mount is in use.
fn use_much(path: &Path) {
    for _ in 0..200 {
        assert!(ask(path));
    }
}

#[test]
fn hundreds_of_mounts_take_a_handful_of_threads() {
    let Some(many) = Many::new(300) else { return };
    // Helpers that an earlier test of this process needed stay: they are the process's, and bounded.
    let helpers = threads("fuse-helper");
    let write = |number| {
        let path = many.path(number, "file");
        fs::write(&path, number.to_string()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), number.to_string());
    };
    (0..300).for_each(write);
    until("readers stay", || threads("fuse-") <= 8 + helpers);
    // All at once, some of them much.
    std::thread::scope(|scope| {
        for number in 0..300 {
            let path = many.path(number, "file");
            scope.spawn(move || {
                if number % 3 == 0 {
                    use_much(&path);
                }
                assert_eq!(fs::read_to_string(&path).unwrap(), number.to_string());
            });
        }
    });
    let most = fuse::BUSY_MOUNTS_MAX.count() * 32 + 64;
    assert!(threads("fuse-") <= most, "{}", threads("fuse-"));
}

#[test]
fn a_mount_that_hangs_keeps_no_other_waiting() {
    let Some(many) = Many::new(40) else { return };
    // With readers of its own, and without.
    for (hanging, busy) in [(0, 0), (1, 16)] {
        fuse::BUSY_MOUNTS_MAX.set(busy);
        let tree = &many.mounts[hanging].1;
        tree.stuck.store(true, Ordering::Relaxed);
        let callers: Vec<_> = (0..80)
            .map(|caller| {
                let path = many.path(hanging, &format!("absent-{caller}"));
                std::thread::spawn(move || path.exists())
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        for round in 0..20 {
            for number in 2..40 {
                let path = many.path(number, &format!("file-{round}"));
                fs::write(&path, b"words").unwrap();
                assert!(ask(&path));
            }
        }
        assert!(callers.iter().all(|caller| !caller.is_finished()));
        tree.stuck.store(false, Ordering::Relaxed);
        for caller in callers {
            assert!(!caller.join().unwrap());
        }
    }
}

#[test]
fn many_that_hang_keep_no_other_waiting() {
    let Some(many) = Many::new(24) else { return };
    fuse::BUSY_MOUNTS_MAX.set(0);
    let hanging = || many.mounts.iter().take(20);
    hanging().for_each(|(_, tree, _)| tree.stuck.store(true, Ordering::Relaxed));
    let callers: Vec<_> = (0..400)
        .map(|caller| {
            let path = many.path(caller % 20, &format!("absent-{caller}"));
            std::thread::spawn(move || path.exists())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    for round in 0..100 {
        let path = many.path(20 + round % 4, &format!("file-{round}"));
        fs::write(&path, b"words").unwrap();
        assert!(ask(&path));
    }
    assert!(threads("fuse-helper") <= 32);
    hanging().for_each(|(_, tree, _)| tree.stuck.store(false, Ordering::Relaxed));
    for caller in callers {
        assert!(!caller.join().unwrap());
    }
}

#[test]
fn a_mount_in_use_has_readers_of_its_own_and_gives_them_back() {
    let Some(many) = Many::new(3) else { return };
    fuse::BUSY_IDLE_MS.set(30);
    let path = many.path(0, "file");
    fs::write(&path, b"words").unwrap();
    for round in 0..20 {
        until("no readers come", || {
            use_much(&path);
            threads("fuse-reader") > 0
        });
        if round % 4 == 0 {
            until("readers stay", || threads("fuse-reader") == 0);
        }
        assert_eq!(fs::read(&path).unwrap(), b"words");
    }
    until("readers stay", || threads("fuse-reader") == 0);
    assert!(ask(&path));
}

#[test]
fn mounts_end_while_they_are_used_and_change_hands() {
    for round in 0..4 {
        let Some(many) = Many::new(8) else { return };
        // Returned as soon as nobody asks for a moment.
        fuse::BUSY_IDLE_MS.set(1);
        for number in 0..8 {
            fs::write(many.path(number, "file"), b"words").unwrap();
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for caller in 0..16 {
                let (over, path) = (&over, many.path(caller % 8, "file"));
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        for _ in 0..40 {
                            let _gone = ask(&path);
                        }
                        std::thread::sleep(Duration::from_millis(60));
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300 + 37 * round));
            for (number, (mount, ..)) in many.mounts.iter().enumerate() {
                let modes = [UnmountMode::Force, UnmountMode::Detach];
                mount.unmount(modes[number % 2]).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        for (mount, tree, _) in &many.mounts {
            assert!(mount.session().wait_ended(LONG));
            assert!(tree.ended.load(Ordering::SeqCst));
        }
    }
}
