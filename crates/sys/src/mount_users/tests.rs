use super::*;

#[test]
fn lines_of_maps_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("maps");
    let lines = "55d0-55d1 r--p 00000000 fd:01 17      /usr/bin/sleep\n\
                 7f00-7f10 rw-p 00000000 00:2a 18      /tank/a b (deleted)\n\
                 7ffd-7ffe rw-p 00000000 00:00 0       [stack]\n";
    std::fs::write(&table, lines).unwrap();
    let has = |device, below: &str| maps(&table, device, Some(Path::new(below)));
    assert!(has((0, 0x2a), "/tank"));
    assert!(!has((0, 0x2a), "/other"));
    assert!(has((0xfd, 1), "/usr"));
    assert!(maps(&table, (0xfd, 1), None));
    assert!(!maps(&table, (0, 0x2b), None));
    assert!(!maps(&folder.path().join("none"), (0, 0), None));
}

#[test]
fn a_process_that_has_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kept = std::fs::File::create(folder.path().join("kept")).unwrap();
    let users = mount_users(folder.path(), Some(folder.path()), 10);
    let own = std::process::id();
    let is_own = |user: &MountUser| matches!(user, MountUser::Process { pid, .. } if *pid == own);
    assert!(users.iter().any(is_own), "{users:?}");
    drop(kept);
    let users = mount_users(folder.path(), Some(folder.path()), 10);
    assert!(!users.iter().any(is_own), "{users:?}");
}
