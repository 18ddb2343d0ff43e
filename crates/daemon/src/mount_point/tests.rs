use super::*;
use std::os::unix::fs::symlink;

#[test]
fn a_mount_point_stays_where_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for made in [root.join("tank"), outside.clone()] {
        std::fs::create_dir_all(made).unwrap();
    }
    symlink(&outside, root.join("tank/out")).unwrap();
    symlink("/nowhere/at/all", root.join("tank/dangling")).unwrap();
    symlink("../tank", root.join("tank/in")).unwrap();
    let check = |path: &str| check_way(&root.join(path), Some(&root));
    for good in ["", "tank", "tank/a/b", "new/a", "tank/in/a"] {
        check(good).unwrap_or_else(|failure| panic!("{good}: {failure}"));
    }
    for bad in [
        "../outside",
        "tank/../../outside",
        "tank/..",
        "tank/out",
        "tank/out/a/b",
    ] {
        let refused = check(bad).unwrap_err().to_string();
        println!("{refused}");
        assert!(!refused.contains('\n'));
    }
    assert!(check("tank/dangling/a").is_err());
    // Links of the system's own are followed where nobody asked for another root.
    check_way(&root.join("tank/out"), None).unwrap();
    check_way(&root.join("tank/../tank"), None).unwrap_err();
    check_way(&root.join("a"), Some(&folder.path().join("not/yet"))).unwrap();
}
