use dsl::DatasetFeature;
use millpond_posix::{
    CaseSensitivity, DatasetProperties, Errno, FileType, MountOptions, NewFileSystem, PosixError,
    RenameMode,
};

use crate::store::MemoryPool;
use crate::{READ_WRITE, node, root};

fn errno<T: std::fmt::Debug>(result: Result<T, PosixError>) -> Errno {
    result.unwrap_err().errno()
}

#[test]
fn directories_count_entries_and_subdirectories() {
    let mut pool = MemoryPool::plain();
    let directory = pool.directory("d");
    for name in ["a", "b"] {
        let _ = pool.fs.mkdir(
            &root(),
            directory,
            name.as_bytes(),
            &node(FileType::Directory, 0o755),
        );
    }
    let _ = pool
        .fs
        .mknod(&root(), directory, b"p", &node(FileType::Fifo, 0o600))
        .unwrap();
    let shown = pool.fs.getattr(directory).unwrap();
    assert_eq!((shown.size, shown.links, shown.permissions), (5, 4, 0o755));
    assert_eq!(
        errno(pool.fs.rmdir(&root(), pool.fs.root(), b"d")),
        Errno::ENOTEMPTY
    );
    pool.fs.rmdir(&root(), directory, b"a").unwrap();
    pool.remount(true);
    let shown = pool.fs.getattr(directory).unwrap();
    assert_eq!((shown.size, shown.links), (4, 3));
}

#[test]
fn what_needs_a_feature_that_the_pool_has_not_enabled_is_refused_whole() {
    let properties = DatasetProperties {
        long_names: true,
        dnode_slots: 2,
        ..Default::default()
    };
    let new = NewFileSystem::default();
    let mut pool = MemoryPool::new(new, properties, MountOptions::default());
    let file = pool.file("f").object();
    let lacks = |pool: &MemoryPool, feature| *pool.room.2.lock().unwrap() = vec![feature];
    lacks(&pool, DatasetFeature::LongName);
    let long = [b'n'; 300];
    let (who, at) = (root(), pool.fs.root());
    let made = pool
        .fs
        .mkdir(&who, at, &long, &node(FileType::Directory, 0o755));
    assert_eq!(errno(made), Errno::EOPNOTSUPP);
    for mode in [RenameMode::Replace, RenameMode::Whiteout] {
        let renamed = pool.fs.rename(&who, (at, b"f"), (at, &long), mode);
        assert_eq!(errno(renamed), Errno::EOPNOTSUPP);
    }
    lacks(&pool, DatasetFeature::LargeDnode);
    let made = pool
        .fs
        .mkdir(&who, at, b"d", &node(FileType::Directory, 0o755));
    assert_eq!(errno(made), Errno::EOPNOTSUPP);
    pool.remount(true);
    let shown = pool.fs.getattr(at).unwrap();
    assert_eq!((shown.size, shown.links), (3, 2));
    assert_eq!(pool.object("f"), file);
}

#[test]
fn rename_modes() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let (a, b) = (pool.file("a").object(), pool.file("b").object());
    let directory = pool.directory("d");
    let to = |mode, from: &str, to: &str| {
        fs.rename(&root(), (at, from.as_bytes()), (at, to.as_bytes()), mode)
    };
    assert_eq!(errno(to(RenameMode::NoReplace, "a", "b")), Errno::EEXIST);
    to(RenameMode::Exchange, "a", "b").unwrap();
    assert_eq!((pool.object("a"), pool.object("b")), (b, a));
    assert_eq!(errno(to(RenameMode::Exchange, "a", "x")), Errno::ENOENT);
    assert_eq!(errno(to(RenameMode::Replace, "d", "a")), Errno::ENOTDIR);
    assert_eq!(errno(to(RenameMode::Replace, "a", "d")), Errno::EISDIR);
    fs.rename(&root(), (at, b"a"), (directory, b"z"), RenameMode::Whiteout)
        .unwrap();
    let left = fs.lookup(&root(), at, b"a").unwrap();
    assert_eq!(
        (left.file_type, left.device),
        (FileType::CharacterDevice, (0, 0))
    );
    assert_eq!(fs.lookup(&root(), directory, b"z").unwrap().object, b);
    // Exchanging a directory and a file across directories moves the link count.
    let inner = fs
        .mkdir(
            &root(),
            directory,
            b"inner",
            &node(FileType::Directory, 0o755),
        )
        .unwrap();
    let before = (
        fs.getattr(at).unwrap().links,
        fs.getattr(directory).unwrap().links,
    );
    fs.rename(
        &root(),
        (directory, b"inner"),
        (at, b"b"),
        RenameMode::Exchange,
    )
    .unwrap();
    let after = (
        fs.getattr(at).unwrap().links,
        fs.getattr(directory).unwrap().links,
    );
    assert_eq!((after.0, after.1), (before.0 + 1, before.1 - 1));
    assert_eq!(fs.lookup(&root(), inner.object, b"..").unwrap().object, at);
}

#[test]
fn a_directory_does_not_move_below_itself() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let outer = pool.directory("outer");
    let inner = fs
        .mkdir(&root(), outer, b"inner", &node(FileType::Directory, 0o755))
        .unwrap();
    for target in [outer, inner.object] {
        let moved = fs.rename(&root(), (at, b"outer"), (target, b"x"), RenameMode::Replace);
        assert_eq!(errno(moved), Errno::EINVAL);
    }
}

#[test]
fn an_unlinked_open_file_lives_until_its_last_handle() {
    let mut pool = MemoryPool::plain();
    let file = pool.file("f");
    file.write(0, b"still here", Default::default()).unwrap();
    let object = file.object();
    pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap();
    assert_eq!(pool.fs.getattr(object).unwrap().links, 0);
    pool.sync();
    let mut buffer = [0; 10];
    assert_eq!(file.read(0, &mut buffer).unwrap(), 10);
    assert_eq!(&buffer, b"still here");
    drop(file);
    assert_eq!(errno(pool.fs.getattr(object)), Errno::ESTALE);
    pool.remount(true);
    assert_eq!(errno(pool.fs.getattr(object)), Errno::ESTALE);
    assert_eq!(pool.fs.drain_unlinked().unwrap(), 0);
}

#[test]
fn what_a_crash_leaves_unlinked_is_freed_after_the_mount() {
    let mut pool = MemoryPool::plain();
    let file = pool.file("f");
    pool.fs
        .setxattr(
            &root(),
            file.object(),
            b"user.a",
            &[7; 40_000],
            Default::default(),
        )
        .unwrap();
    let object = file.object();
    pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap();
    pool.sync();
    std::mem::forget(file);
    let before = pool.objects().object_count();
    pool.remount(false);
    assert_eq!(pool.fs.getattr(object).unwrap().links, 0);
    assert_eq!(pool.fs.drain_unlinked().unwrap(), 1);
    assert_eq!(errno(pool.fs.getattr(object)), Errno::ESTALE);
    pool.sync();
    // The file, the hidden directory and the value.
    assert_eq!(pool.objects().object_count(), before - 3);
}

#[test]
fn a_file_without_a_name_can_get_one() {
    let mut pool = MemoryPool::plain();
    let new = node(FileType::Regular, 0o600);
    let (file, shown) = pool
        .fs
        .create_unnamed(&root(), pool.fs.root(), &new, READ_WRITE)
        .unwrap();
    assert_eq!(shown.links, 0);
    file.write(0, b"x", Default::default()).unwrap();
    pool.fs
        .link(&root(), file.object(), pool.fs.root(), b"named")
        .unwrap();
    drop(file);
    pool.remount(true);
    let shown = pool.fs.lookup(&root(), pool.fs.root(), b"named").unwrap();
    assert_eq!((shown.links, shown.size), (1, 1));
    assert_eq!(pool.fs.drain_unlinked().unwrap(), 0);
}

#[test]
fn names_that_differ_in_case_only() {
    let new = NewFileSystem {
        case: CaseSensitivity::Insensitive,
        normalization: 0x10,
        utf8_only: true,
        ..NewFileSystem::default()
    };
    let pool = MemoryPool::new(new, Default::default(), MountOptions::default());
    let (fs, at) = (&pool.fs, pool.fs.root());
    let object = pool.file("Grün").object();
    assert_eq!(pool.object("GRU\u{308}N"), object);
    let again = fs.create(
        &root(),
        at,
        "gRÜN".as_bytes(),
        &node(FileType::Regular, 0o600),
        READ_WRITE,
    );
    assert_eq!(errno(again.map(|_| ())), Errno::EEXIST);
    let bad = fs.mkdir(&root(), at, b"\xff", &node(FileType::Directory, 0o755));
    assert_eq!(errno(bad), Errno::EILSEQ);
    fs.rename(
        &root(),
        (at, "grün".as_bytes()),
        (at, "GRÜN".as_bytes()),
        RenameMode::Replace,
    )
    .unwrap();
    let mut names = Vec::new();
    fs.readdir(&root(), at, 0, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        millpond_posix::Visit::Continue
    })
    .unwrap();
    assert_eq!(names, [".", "..", "GRÜN"]);
    fs.unlink(&root(), at, "grün".as_bytes()).unwrap();
    assert_eq!(fs.getattr(at).unwrap().size, 2);
}

#[test]
fn bad_names() {
    let pool = MemoryPool::plain();
    let make = |name: &[u8]| {
        let new = node(FileType::Directory, 0o755);
        errno(pool.fs.mkdir(&root(), pool.fs.root(), name, &new))
    };
    assert_eq!(make(b"."), Errno::EEXIST);
    assert_eq!(make(b"a/b"), Errno::EINVAL);
    assert_eq!(make(&[b'x'; 256]), Errno::ENAMETOOLONG);
}

#[test]
fn listing_goes_on_where_it_stopped_while_entries_come_and_go() {
    let pool = MemoryPool::plain();
    let directory = pool.directory("d");
    let make = |name: String| {
        let new = node(FileType::Fifo, 0o600);
        pool.fs
            .mknod(&root(), directory, name.as_bytes(), &new)
            .unwrap();
    };
    (0..50).for_each(|i| make(format!("stays{i}")));
    let mut seen = Vec::new();
    let mut cookie = 0;
    for round in 0.. {
        let mut taken = 0;
        pool.fs
            .readdir(&root(), directory, cookie, &mut |entry| {
                if taken == 3 {
                    return millpond_posix::Visit::Full;
                }
                taken += 1;
                cookie = entry.next_cookie;
                seen.push(String::from_utf8(entry.name.to_vec()).unwrap());
                millpond_posix::Visit::Continue
            })
            .unwrap();
        if taken == 0 {
            break;
        }
        // The table grows into its large form in the middle of the listing.
        if round < 10 {
            (0..300).for_each(|i| make(format!("comes{round}.{i}")));
        }
    }
    for i in 0..50 {
        let name = format!("stays{i}");
        assert_eq!(
            seen.iter().filter(|seen| **seen == name).count(),
            1,
            "{name}"
        );
    }
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), seen.len());
}

/// The directory is empty when the rename looks at it first, and not when it has its names locked.
#[test]
fn a_directory_that_something_came_into_is_not_replaced() {
    let pool = MemoryPool::plain();
    let (fs, at) = (&pool.fs, pool.fs.root());
    let (_, target) = (pool.directory("a"), pool.directory("b"));
    let other = std::sync::Arc::clone(fs);
    *pool.room.1.lock().unwrap() = Some(Box::new(move || {
        let node = node(FileType::Fifo, 0o600);
        let _ = other.mknod(&root(), target, b"new", &node).unwrap();
    }));
    let renamed = fs.rename(&root(), (at, b"a"), (at, b"b"), RenameMode::Replace);
    assert_eq!(errno(renamed.map(|_| ())), Errno::ENOTEMPTY);
    assert!(fs.lookup(&root(), target, b"new").is_ok());
    assert!(fs.lookup(&root(), at, b"a").is_ok());
}
