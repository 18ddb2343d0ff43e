use super::*;
use crate::file::{Create, File, OpenMode};

fn create(path: &Path) -> File {
    let mode = OpenMode {
        write: true,
        ..OpenMode::default()
    };
    File::open(path, mode, Create::New).unwrap()
}

#[test]
fn who_has_a_lock_is_found_and_who_only_has_the_file_open_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = create(&path);
    assert!(!is_locked(&path, None));
    assert_eq!(lock_holder(&path, None), None);
    assert!(file.try_lock_exclusive().unwrap());
    assert!(is_locked(&path, None));
    let holder = lock_holder(&path, None).unwrap();
    assert_eq!(holder.pid, std::process::id());
    assert!(is_locked(&path, Some(&(1..2))));
    drop(file);
    assert!(!is_locked(&path, None));
    assert!(!is_locked(folder.path(), None));
}

#[test]
fn a_lock_of_some_bytes_is_one_of_the_whole_and_not_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = create(&path);
    assert!(file.try_lock_shared().unwrap());
    assert!(!is_locked(&path, None));
    assert!(file.try_lock_range(&(100..200)).unwrap());
    for (bytes, expected) in [(0..100, false), (199..300, true), (200..300, false)] {
        assert_eq!(is_locked(&path, Some(&bytes)), expected, "{bytes:?}");
        let holder = lock_holder(&path, Some(&bytes));
        assert_eq!(holder.is_some(), expected, "{bytes:?}");
    }
    assert!(is_locked(&path, None));
    let mode = OpenMode {
        write: true,
        ..OpenMode::default()
    };
    let other = File::open(&path, mode, Create::Never).unwrap();
    assert!(!other.try_lock_exclusive().unwrap());
    assert!(other.try_lock_shared().unwrap());
    assert!(!other.try_lock_range(&(150..151)).unwrap());
    assert!(other.try_lock_range(&(200..201)).unwrap());
    drop(file);
    assert!(other.try_lock_exclusive().unwrap());
}

#[test]
fn lines_of_the_list_are_read() {
    let file = Some(((0xfe, 0), 1234));
    let lock = |first, last| Some(Lock { file, first, last });
    let whole = exclusive_lock("1: FLOCK  ADVISORY  WRITE 4746 fe:00:1234 0 EOF");
    assert_eq!(whole, lock(0, u64::MAX));
    let part = exclusive_lock("1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 512 1023");
    assert_eq!(part, lock(512, 1023));
    for line in [
        "1: FLOCK  ADVISORY  READ  4746 fe:00:1234 0 EOF",
        "1: POSIX  ADVISORY  WRITE 4746 fe:00:1234 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 4747 fe:00:1234 0 EOF",
        "1: FLOCK  ADVISORY  WRITE 4747 fe:00:1234 0 x",
        "",
        "1:",
        "1: FLOCK",
    ] {
        assert_eq!(exclusive_lock(line), None, "{line}");
    }
    for line in [
        "1: FLOCK  ADVISORY  WRITE 4746 fe:00:1235 0 EOF",
        "1: FLOCK  ADVISORY  WRITE 4746 fe:01:1234 0 EOF",
        "1: FLOCK ADVISORY WRITE 1 x:y:z 0 EOF",
    ] {
        assert_ne!(exclusive_lock(line).unwrap().file, file, "{line}");
    }
}
