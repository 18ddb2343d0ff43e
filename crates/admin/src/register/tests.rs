use super::*;
use std::os::unix::fs::PermissionsExt;

fn pool(guid: u64, devices: &[&Path]) -> KnownPool {
    KnownPool {
        name: "tank".into(),
        guid,
        devices: devices.iter().map(PathBuf::from).collect(),
        altroot: Some("/mnt".into()),
        readonly: false,
        of_stranger: None,
        began: 1000,
        ended: None,
    }
}

#[test]
fn what_is_kept_is_known_until_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state/millpond");
    assert!(known_in(&directory).is_empty());
    let image = folder.path().join("a.img");
    std::fs::write(&image, "").unwrap();
    let gone = folder.path().join("gone.img");
    let kept = pool(7, &[&image, &gone]);
    keep(&directory, &kept).unwrap();
    keep(&directory, &kept).unwrap();
    std::fs::write(directory.join("0.pool"), "nonsense").unwrap();
    assert_eq!(known_in(&directory), std::slice::from_ref(&kept));
    assert_eq!(kept.present(), [image]);
    // The image changed later than the daemon began.
    assert!(matches!(kept.last_seen(), LastSeen::Written(then) if then > 1000));
    let on_disks = pool(8, &[Path::new("/dev/null"), &gone]);
    assert_eq!(on_disks.last_seen(), LastSeen::Began(1000));
    let told = KnownPool {
        ended: Some(2000),
        ..kept
    };
    assert_eq!(told.last_seen(), LastSeen::Ended(2000));
    forget(&directory, 7).unwrap();
    forget(&directory, 7).unwrap();
    assert!(known_in(&directory).is_empty());
}

#[test]
fn a_directory_that_others_may_write_to_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &pool(7, &[])).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    assert!(known_in(folder.path()).is_empty());
}
