use super::*;
use control::MountOptions;
use std::os::unix::fs::symlink;

fn request(path: &Path, beneath: Option<&Path>, of_stranger: bool) -> MountRequest {
    MountRequest {
        dataset: "tank/a".to_owned(),
        path: path.to_owned(),
        beneath: beneath.map(Path::to_owned),
        of_stranger: of_stranger.then(|| "was last used on 'elsewhere'".to_owned()),
        options: MountOptions::default(),
    }
}

#[test]
fn a_mount_point_stays_where_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for made in [root.join("tank"), outside.clone()] {
        std::fs::create_dir_all(made).unwrap();
    }
    symlink(&outside, root.join("tank/out")).unwrap();
    symlink("/nowhere/at/all", root.join("tank/dangling")).unwrap();
    let check = |path: &str, beneath: Option<&Path>, of_stranger: bool| {
        prepare(&request(&root.join(path), beneath, of_stranger), false)
            .map(|found| found.is_some())
    };
    for good in ["", "tank/a/b", "new/a"] {
        // A stranger's pool may have what is empty.
        let of_stranger = !good.is_empty();
        assert!(check(good, Some(&root), of_stranger).unwrap(), "{good}");
    }
    for bad in [
        "../outside",
        "tank/../../outside",
        "tank/..",
        "tank/out",
        "tank/out/a/b",
        "tank/dangling/a",
    ] {
        for (beneath, of_stranger) in [
            (Some(root.as_path()), false),
            (Some(&root), true),
            (None, true),
        ] {
            let refused = check(bad, beneath, of_stranger).unwrap_err().to_string();
            assert!(!refused.contains('\n'), "{refused}");
        }
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // Links of the system's own are followed where nobody asked for another root.
    assert!(!check("tank/out", None, false).unwrap());
    check("tank/../tank", None, false).unwrap_err();
    let new = folder.path().join("not/yet");
    assert!(
        prepare(&request(&new.join("a"), Some(&new), false), false)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_pool_of_somebody_else_covers_nothing_unasked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = |path: &Path, beneath| {
        prepare(&request(path, beneath, true), false)
            .unwrap_err()
            .to_string()
    };
    let said = refused(folder.path(), None);
    assert!(
        said.contains("is not empty, and the pool was last used on 'elsewhere'"),
        "{said}"
    );
    refused(folder.path(), Some(folder.path()));
    // What lies in the pool itself covers what the pool itself has, and who is told may.
    assert!(
        prepare(&request(folder.path(), None, true), true)
            .unwrap()
            .is_some()
    );
    assert!(
        prepare(&request(folder.path(), None, false), false)
            .unwrap()
            .is_none()
    );
    for of_system in [
        "/",
        "/etc",
        "/etc/nowhere/at/all",
        "/usr/local/x",
        "/home",
        "/root/x",
        "/var/lib",
    ] {
        let said = refused(Path::new(of_system), None);
        assert!(said.contains("a directory of the system"), "{said}");
    }
    assert!(!Path::new("/etc/nowhere").exists());
    let said = refused(Path::new("/home/nobody-at-all"), None);
    assert!(said.contains("somebody's home"), "{said}");
}
