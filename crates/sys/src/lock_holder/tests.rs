use super::*;
use std::fs::File;

#[test]
fn who_has_a_lock_is_found_and_who_only_has_the_file_open_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = File::create(&path).unwrap();
    assert!(!is_locked(&path));
    assert_eq!(lock_holder(&path), None);
    file.try_lock().unwrap();
    assert!(is_locked(&path));
    let holder = lock_holder(&path).unwrap();
    assert_eq!(holder.pid, std::process::id());
    drop(file);
    assert!(!is_locked(&path));
    assert!(!is_locked(folder.path()));
}

#[test]
fn lines_of_the_list_are_read() {
    let file = ((0xfe, 0), 1234);
    let has = |line: &str| is_exclusive_lock_of(line, file);
    assert!(has("1: FLOCK  ADVISORY  WRITE 4746 fe:00:1234 0 EOF"));
    assert!(!has("1: FLOCK  ADVISORY  READ  4746 fe:00:1234 0 EOF"));
    assert!(!has("1: POSIX  ADVISORY  WRITE 4746 fe:00:1234 0 EOF"));
    assert!(!has("1: FLOCK  ADVISORY  WRITE 4746 fe:00:1235 0 EOF"));
    assert!(!has("1: FLOCK  ADVISORY  WRITE 4746 fe:01:1234 0 EOF"));
    assert!(!has("1: -> FLOCK  ADVISORY  WRITE 4747 fe:00:1234 0 EOF"));
    for line in [
        "",
        "1:",
        "1: FLOCK",
        "1: FLOCK ADVISORY WRITE 1 x:y:z 0 EOF",
    ] {
        assert!(!has(line), "{line}");
    }
}
