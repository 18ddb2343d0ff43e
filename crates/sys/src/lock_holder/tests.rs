use super::*;

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
