use super::*;

fn pool(paths: &[&str]) -> NvList {
    let leaves = paths.iter().map(|path| {
        let mut leaf = NvList::new();
        leaf.set("type", "file").set("path", *path);
        leaf
    });
    let mut mirror = NvList::new();
    mirror.set("type", "mirror");
    mirror.set("children", Value::ListArray(leaves.collect()));
    let mut root = NvList::new();
    root.set("type", "root");
    root.set("children", Value::ListArray(vec![mirror]));
    let mut pool = NvList::new();
    pool.set("name", "some");
    pool.set("vdev_tree", Value::List(root));
    pool
}

#[test]
fn pools_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zpool.cache");
    assert!(cached_devices(&path).is_err());
    change(&path, "one", Some(pool(&["/a", "/b"]))).unwrap();
    change(&path, "two", Some(pool(&["/c"]))).unwrap();
    change(&path, "one", Some(pool(&["/a"]))).unwrap();
    let mut found = cached_devices(&path).unwrap();
    found.sort();
    assert_eq!(found, [PathBuf::from("/a"), PathBuf::from("/c")]);
    change(&path, "absent", None).unwrap();
    change(&path, "two", None).unwrap();
    change(&path, "one", None).unwrap();
    assert!(!path.exists());
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zpool.cache");
    for bytes in [
        &b""[..],
        b"\x01",
        b"hello, this is no cache file",
        &[1; 4096],
    ] {
        std::fs::write(&path, bytes).unwrap();
        assert!(cached_devices(&path).is_err());
        assert!(change(&path, "one", None).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
