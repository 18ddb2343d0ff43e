use super::*;
use std::os::unix::fs::symlink;

#[test]
fn no_link_is_followed_below_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for made in [root.join("tank"), outside.clone()] {
        std::fs::create_dir_all(made).unwrap();
    }
    symlink(&outside, root.join("tank/out")).unwrap();
    symlink("/nowhere/at/all", root.join("tank/dangling")).unwrap();
    symlink("../tank", root.join("tank/in")).unwrap();
    std::fs::write(root.join("tank/file"), "").unwrap();
    // The root itself may be a link: it was named by whoever asks.
    let linked = folder.path().join("linked");
    symlink(&root, &linked).unwrap();
    for root in [&root, &linked] {
        for (good, is_new) in [
            ("", false),
            ("tank", false),
            ("tank/a/b", true),
            ("./new", true),
        ] {
            let found = MountDirectory::below(root, Path::new(good)).unwrap();
            assert_eq!(
                (found.is_new(), found.entries().is_ok()),
                (is_new, true),
                "{good}"
            );
            drop(std::fs::remove_dir_all(root.join("tank/a")));
            drop(std::fs::remove_dir_all(root.join("new")));
        }
        for bad in ["tank/out", "tank/out/a", "tank/dangling", "tank/in/a"] {
            let refused = MountDirectory::below(root, Path::new(bad)).unwrap_err();
            assert!(
                matches!(refused, MountWayError::Link { .. }),
                "{bad}: {refused}"
            );
        }
        for bad in ["../outside", "tank/..", "tank/file"] {
            let refused = MountDirectory::below(root, Path::new(bad)).unwrap_err();
            assert!(
                matches!(refused, MountWayError::Part { .. }),
                "{bad}: {refused}"
            );
        }
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn what_was_found_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let found = MountDirectory::below(folder.path(), Path::new("inside")).unwrap();
    std::fs::rename(&inside, folder.path().join("elsewhere")).unwrap();
    symlink(&outside, &inside).unwrap();
    let real = std::fs::canonicalize(found.by_number()).unwrap();
    assert!(real.ends_with("elsewhere"), "{}", real.display());
}
