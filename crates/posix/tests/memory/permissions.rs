use millpond_posix::{
    Access, Credentials, Errno, FileType, NewNode, SetAttributes, SetTime, Timestamp, WriteOptions,
};

use crate::store::MemoryPool;
use crate::{READ_WRITE, node, root};

fn chmod(permissions: u32) -> SetAttributes {
    SetAttributes {
        permissions: Some(permissions),
        ..SetAttributes::default()
    }
}

#[test]
fn modes_and_owners() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let alice = Credentials::new(1000, 100);
    let refused = fs.mkdir(&alice, at, b"d", &node(FileType::Directory, 0o755));
    assert_eq!(refused.unwrap_err().errno(), Errno::EACCES);
    fs.setattr(&root(), at, &chmod(0o1777)).unwrap();
    let file = fs
        .mknod(&alice, at, b"f", &node(FileType::Regular, 0o640))
        .unwrap();
    assert_eq!((file.uid, file.gid), (1000, 100));
    let bob = Credentials::new(1001, 5).with_groups(&[100]);
    fs.access(&bob, file.object, Access::READ).unwrap();
    let refused = fs.access(&bob, file.object, Access::WRITE);
    assert_eq!(refused.unwrap_err().errno(), Errno::EACCES);
    assert_eq!(
        fs.setattr(&bob, file.object, &chmod(0o777))
            .unwrap_err()
            .errno(),
        Errno::EPERM
    );
    // Sticky: bob may not remove alice's file.
    assert_eq!(fs.unlink(&bob, at, b"f").unwrap_err().errno(), Errno::EPERM);
    let chown = SetAttributes {
        uid: Some(1001),
        ..SetAttributes::default()
    };
    assert_eq!(
        fs.setattr(&alice, file.object, &chown).unwrap_err().errno(),
        Errno::EPERM
    );
    fs.unlink(&alice, at, b"f").unwrap();
}

#[test]
fn set_id_bits() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let object = fs
        .mknod(&root(), at, b"f", &node(FileType::Regular, 0o6755))
        .unwrap()
        .object;
    let file = fs.open(&root(), object, READ_WRITE).unwrap();
    file.write(0, b"x", WriteOptions::default()).unwrap();
    assert_eq!(file.attributes().unwrap().permissions, 0o6755);
    file.write(
        0,
        b"x",
        WriteOptions {
            kill_set_id: true,
            ..Default::default()
        },
    )
    .unwrap();
    assert_eq!(file.attributes().unwrap().permissions, 0o755);
    fs.setattr(&root(), object, &chmod(0o4755)).unwrap();
    let chown = SetAttributes {
        gid: Some(7),
        ..SetAttributes::default()
    };
    assert_eq!(
        fs.setattr(&root(), object, &chown).unwrap().permissions,
        0o755
    );
    // A directory with the bit hands its group down.
    let directory = fs
        .mkdir(&root(), at, b"d", &node(FileType::Directory, 0o777))
        .unwrap()
        .object;
    fs.setattr(
        &root(),
        directory,
        &SetAttributes {
            gid: Some(42),
            ..chmod(0o2777)
        },
    )
    .unwrap();
    let who = Credentials::new(1000, 100);
    let below = fs
        .mkdir(&who, directory, b"e", &node(FileType::Directory, 0o755))
        .unwrap();
    assert_eq!((below.gid, below.permissions), (42, 0o2755));
    let file = fs
        .mknod(&who, directory, b"g", &node(FileType::Regular, 0o2755))
        .unwrap();
    assert_eq!((file.gid, file.permissions), (42, 0o755));
}

#[test]
fn times() {
    let mut pool = MemoryPool::plain();
    let object = pool.file("f").object();
    let at = Timestamp {
        seconds: -5,
        nanoseconds: 7,
    };
    let change = SetAttributes {
        atime: Some(SetTime::At(at)),
        mtime: Some(SetTime::At(Timestamp {
            seconds: 1,
            nanoseconds: 999_999_999,
        })),
        ..SetAttributes::default()
    };
    pool.clock.advance_ns(5_000_000_000);
    let shown = pool.fs.setattr(&root(), object, &change).unwrap();
    assert_eq!(shown.atime, at);
    assert_eq!(shown.ctime.seconds, 1_700_000_005);
    pool.remount(true);
    let again = pool.fs.getattr(object).unwrap();
    assert_eq!(
        (again.atime, again.mtime, again.ctime),
        (shown.atime, shown.mtime, shown.ctime)
    );
    // Reading moves the access time when it is older than the last change.
    let file = pool.fs.open(&root(), object, READ_WRITE).unwrap();
    file.write(0, b"x", WriteOptions::default()).unwrap();
    pool.clock.advance_ns(1_000_000_000);
    file.read(0, &mut [0]).unwrap();
    let moved = file.attributes().unwrap();
    assert!(moved.atime > moved.mtime);
    drop(file);
    pool.remount(true);
    assert_eq!(pool.fs.getattr(object).unwrap().atime, moved.atime);
}

#[test]
fn immutable_files() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let object = pool.file("f").object();
    let freeze = SetAttributes {
        flags: Some((millpond_posix::flags::IMMUTABLE, 0)),
        ..SetAttributes::default()
    };
    fs.setattr(&root(), object, &freeze).unwrap();
    assert_eq!(
        fs.open(&root(), object, READ_WRITE).unwrap_err().errno(),
        Errno::EPERM
    );
    assert_eq!(
        fs.unlink(&root(), at, b"f").unwrap_err().errno(),
        Errno::EPERM
    );
    assert_eq!(
        fs.setattr(&root(), object, &chmod(0)).unwrap_err().errno(),
        Errno::EPERM
    );
    let thaw = SetAttributes {
        flags: Some((0, millpond_posix::flags::IMMUTABLE)),
        ..SetAttributes::default()
    };
    fs.setattr(&root(), object, &thaw).unwrap();
    fs.unlink(&root(), at, b"f").unwrap();
}

#[test]
fn projects_are_handed_down_and_kept_apart() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let directory = pool.directory("d");
    let change = SetAttributes {
        project: Some(77),
        flags: Some((millpond_posix::flags::PROJECT_INHERIT, 0)),
        ..SetAttributes::default()
    };
    fs.setattr(&root(), directory, &change).unwrap();
    let inside = fs
        .mknod(&root(), directory, b"f", &node(FileType::Regular, 0o600))
        .unwrap();
    assert_eq!(inside.project, 77);
    pool.file("outside");
    let moved = fs.rename(
        &root(),
        (at, b"outside"),
        (directory, b"x"),
        Default::default(),
    );
    assert_eq!(moved.unwrap_err().errno(), Errno::EXDEV);
    pool.sync();
    let lines = fs.quotas(millpond_posix::QuotaKind::Project).unwrap();
    assert_eq!(lines.iter().find(|line| line.id == 77).unwrap().objects, 2);
}

#[test]
fn the_mask_applies() {
    let pool = MemoryPool::plain();
    let new = NewNode {
        umask: 0o027,
        ..node(FileType::Regular, 0o666)
    };
    let made = pool.fs.mknod(&root(), pool.fs.root(), b"f", &new).unwrap();
    assert_eq!(made.permissions, 0o640);
}

#[test]
fn set_group_id_of_a_directory_is_for_members_of_its_group() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let directory = fs
        .mkdir(&root(), at, b"d", &node(FileType::Directory, 0o755))
        .unwrap()
        .object;
    let give = SetAttributes {
        uid: Some(1000),
        gid: Some(42),
        ..SetAttributes::default()
    };
    fs.setattr(&root(), directory, &give).unwrap();
    let stranger = Credentials::new(1000, 100);
    let member = stranger.clone().with_groups(&[42]);
    for (who, left) in [(member, 0o2775), (stranger, 0o775)] {
        let changed = fs.setattr(&who, directory, &chmod(0o2775)).unwrap();
        assert_eq!(changed.permissions, left);
    }
}
