//! Flags and projects of files: `chattr`, `lsattr` and their like.

use super::Mounted;
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, open};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use sys::{FileProject, file_project, set_file_project};

fn set(path: &Path, flags: IFlags) -> Result<(), Errno> {
    let file = open(path, OFlags::empty(), Mode::empty())?;
    ioctl_setflags(&file, flags)
}

fn get(path: &Path) -> IFlags {
    let file = open(path, OFlags::empty(), Mode::empty()).unwrap();
    ioctl_getflags(&file).unwrap()
}

fn refused<T: std::fmt::Debug>(done: std::io::Result<T>) {
    let error = done.unwrap_err().raw_os_error();
    assert_eq!(error, Some(Errno::PERM.raw_os_error()));
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root sets these flags");
    }
    root
}

#[test]
fn nobody_changes_what_is_immutable() {
    let Some(at) = Mounted::new().filter(|_| is_root()) else {
        return;
    };
    let path = at.path("f");
    fs::write(&path, b"as it is").unwrap();
    fs::create_dir(at.path("d")).unwrap();
    fs::write(at.path("d/in"), b"").unwrap();
    let held = fs::OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(get(&path), IFlags::empty());
    let before = fs::metadata(&path).unwrap();
    set(&path, IFlags::IMMUTABLE | IFlags::NODUMP).unwrap();
    set(&at.path("d"), IFlags::IMMUTABLE).unwrap();
    assert_eq!(get(&path), IFlags::IMMUTABLE | IFlags::NODUMP);
    let after = fs::metadata(&path).unwrap();
    let ctime = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    assert!(ctime(&after) > ctime(&before), "the kernel keeps old times");

    refused(held.write_at(b"y", 0));
    refused(fs::write(&path, b"y"));
    refused(fs::OpenOptions::new().append(true).open(&path));
    refused(fs::remove_file(&path));
    refused(fs::rename(&path, at.path("g")));
    refused(fs::hard_link(&path, at.path("g")));
    refused(fs::set_permissions(
        &path,
        fs::Permissions::from_mode(0o600),
    ));
    refused(chown(&path, Some(7), None));
    refused(fs::write(at.path("d/new"), b""));
    refused(fs::remove_file(at.path("d/in")));
    refused(fs::create_dir(at.path("d/new")));
    assert_eq!(fs::read(&path).unwrap(), b"as it is");
    // What is in an immutable directory is not.
    fs::write(at.path("d/in"), b"more").unwrap();

    set(&path, IFlags::empty()).unwrap();
    set(&at.path("d"), IFlags::empty()).unwrap();
    fs::write(&path, b"y").unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_dir_all(at.path("d")).unwrap();
}

#[test]
fn what_is_append_only_grows() {
    let Some(at) = Mounted::new().filter(|_| is_root()) else {
        return;
    };
    let path = at.path("log");
    fs::write(&path, b"one").unwrap();
    let held = fs::OpenOptions::new().write(true).open(&path).unwrap();
    set(&path, IFlags::APPEND).unwrap();
    assert_eq!(get(&path), IFlags::APPEND);
    let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut log, b" two").unwrap();
    refused(held.write_at(b"x", 0));
    refused(fs::OpenOptions::new().write(true).open(&path));
    refused(fs::write(&path, b"x"));
    refused(log.set_len(0));
    refused(fs::remove_file(&path));
    refused(fs::set_permissions(
        &path,
        fs::Permissions::from_mode(0o600),
    ));
    assert_eq!(fs::read(&path).unwrap(), b"one two");

    fs::create_dir(at.path("d")).unwrap();
    set(&at.path("d"), IFlags::APPEND).unwrap();
    fs::write(at.path("d/new"), b"").unwrap();
    refused(fs::remove_file(at.path("d/new")));
    refused(fs::rename(at.path("d/new"), at.path("d/newer")));
    set(&path, IFlags::empty()).unwrap();
    set(&at.path("d"), IFlags::empty()).unwrap();
}

#[test]
fn flags_that_linux_has_and_the_format_has_not_are_refused() {
    let Some(at) = Mounted::new() else { return };
    fs::write(at.path("f"), b"").unwrap();
    let refused = set(&at.path("f"), IFlags::NOATIME).unwrap_err();
    assert_eq!(refused, Errno::OPNOTSUPP);
}

#[test]
fn a_project_is_handed_down() {
    let Some(at) = Mounted::new() else { return };
    let set = |name: &str, id, inherits| {
        let file = fs::File::open(at.path(name)).unwrap();
        set_file_project(&file, FileProject { id, inherits })
    };
    let get = |name: &str| file_project(fs::File::open(at.path(name)).unwrap()).unwrap();
    fs::create_dir(at.path("d")).unwrap();
    fs::write(at.path("f"), b"").unwrap();
    let none = FileProject {
        id: 0,
        inherits: false,
    };
    assert_eq!(get("d"), none);
    set("d", 7, true).unwrap();
    set("f", 9, false).unwrap();
    fs::create_dir(at.path("d/e")).unwrap();
    fs::write(at.path("d/e/x"), b"").unwrap();
    let handed = FileProject {
        id: 7,
        inherits: true,
    };
    assert_eq!((get("d"), get("d/e")), (handed, handed));
    assert_eq!((get("d/e/x").id, get("f").id), (7, 9));
    // A file of another project does not get in; of the same it does.
    let moved = fs::rename(at.path("f"), at.path("d/f")).unwrap_err();
    assert_eq!(moved.raw_os_error(), Some(Errno::XDEV.raw_os_error()));
    let linked = fs::hard_link(at.path("f"), at.path("d/f")).unwrap_err();
    assert_eq!(linked.raw_os_error(), Some(Errno::XDEV.raw_os_error()));
    set("f", 7, false).unwrap();
    fs::rename(at.path("f"), at.path("d/f")).unwrap();
    assert_eq!(set("d", u32::MAX, true).unwrap_err(), Errno::INVAL);
}
