//! Files and directories whose last name is gone while somebody holds them.

use super::Mounted;
use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, open, openat};
use rustix::io::Errno;
use std::fs;
use std::time::{Duration, Instant};

const DIRECTORY: OFlags = OFlags::DIRECTORY;

/// Waits until the file system has freed what has no name.
fn wait_until_freed(at: &Mounted) {
    let files = at.tree.file_system().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while files.unlinked().unwrap() != 0 {
        assert!(Instant::now() < deadline, "what was removed is never freed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_removed_directory_answers_who_has_it_open() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    let held = open(at.path("d"), DIRECTORY, Mode::empty()).unwrap();
    let before = fstat(&held).unwrap();
    fs::remove_dir(at.path("d")).unwrap();
    // Its number is nobody else's.
    for name in ["e", "f", "g"] {
        fs::create_dir(at.path(name)).unwrap();
    }
    fchmod(&held, Mode::from_raw_mode(0o511)).unwrap();
    let after = fstat(&held).unwrap();
    assert_eq!((after.st_ino, after.st_nlink), (before.st_ino, 0));
    assert_eq!(FileType::from_raw_mode(after.st_mode), FileType::Directory);
    assert_eq!(after.st_mode & 0o777, 0o511);
    let create = OFlags::CREATE | OFlags::WRONLY;
    let made = openat(&held, "x", create, Mode::RUSR).unwrap_err();
    assert_eq!(made, Errno::NOENT);
    let files = at.tree.file_system().unwrap();
    assert_eq!(files.unlinked().unwrap(), 1);
    drop(files);
    drop(held);
    wait_until_freed(&at);
}

#[test]
fn a_replaced_directory_answers_who_has_it_open() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("old")).unwrap();
    fs::create_dir(at.path("new")).unwrap();
    let held = open(at.path("old"), DIRECTORY, Mode::empty()).unwrap();
    let before = fstat(&held).unwrap();
    fs::rename(at.path("new"), at.path("old")).unwrap();
    let after = fstat(&held).unwrap();
    assert_eq!((after.st_ino, after.st_nlink), (before.st_ino, 0));
    drop(held);
    wait_until_freed(&at);
}

#[test]
fn a_removed_file_answers_who_only_looks_at_it() {
    let Some(at) = Mounted::new() else { return };
    for replaced in [false, true] {
        fs::write(at.path("f"), b"twelve bytes").unwrap();
        let held = open(at.path("f"), OFlags::PATH, Mode::empty()).unwrap();
        let before = fstat(&held).unwrap();
        if replaced {
            fs::write(at.path("other"), b"x").unwrap();
            fs::rename(at.path("other"), at.path("f")).unwrap();
        } else {
            fs::remove_file(at.path("f")).unwrap();
        }
        let after = fstat(&held).unwrap();
        assert_eq!((after.st_ino, after.st_nlink), (before.st_ino, 0));
        assert_eq!(after.st_size, 12);
    }
    assert_eq!(at.tree.file_system().unwrap().unlinked().unwrap(), 0);
}

#[test]
fn a_mount_ends_while_a_removed_directory_is_held() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    let held = open(at.path("d"), DIRECTORY, Mode::empty()).unwrap();
    fs::remove_dir(at.path("d")).unwrap();
    let files = at.tree.file_system().unwrap();
    at.tree.abandon();
    // The last one to hold it frees it, though nobody may change anything after the end.
    assert_eq!(files.unlinked().ok(), Some(0));
    assert_eq!(fstat(&held).unwrap_err(), Errno::STALE);
}

/// Programs that make, open and remove the same few files: the kernel comes to open one that was removed since it was
/// looked up, and once more when it has looked it up again.
#[test]
fn nobody_hears_of_files_that_were_removed_on_the_way_to_them() {
    const NAMES: u64 = 4;
    const THREADS: u64 = 48;
    let Some(at) = Mounted::new() else { return };
    let deadline = Instant::now() + Duration::from_secs(4);
    let work = |seed: u64| {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut name = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            at.path(&format!("{}", state % NAMES))
        };
        let absent = |error: &Errno| *error == Errno::NOENT;
        let mut opened = 0_u64;
        while Instant::now() < deadline {
            rustix::fs::unlink(name())
                .or_else(|error| absent(&error).then_some(()).ok_or(error))
                .unwrap();
            let create = OFlags::CREATE | OFlags::WRONLY;
            let made = open(name(), create, Mode::RUSR | Mode::WUSR).unwrap();
            rustix::io::write(&made, b"text").unwrap();
            drop(made);
            match open(name(), OFlags::RDWR | OFlags::APPEND, Mode::empty()) {
                Ok(_file) => opened += 1,
                Err(error) => assert!(absent(&error), "{error}"),
            }
        }
        opened
    };
    let opened: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|seed| scope.spawn(move || work(seed)))
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!(opened > THREADS, "{opened} opened");
    for name in 0..NAMES {
        let _gone = fs::remove_file(at.path(&format!("{name}")));
    }
    wait_until_freed(&at);
}
