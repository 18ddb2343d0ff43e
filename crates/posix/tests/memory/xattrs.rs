use millpond_posix::{
    Access, AclKind, Credentials, DatasetProperties, Errno, FileType, MountOptions, NewFileSystem,
    SetAttributes, XattrMode, XattrStore,
};

use crate::store::MemoryPool;
use crate::{node, root};

pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

pub(crate) fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(permissions.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

#[test]
fn small_and_large_values_in_both_places() {
    for xattr in [XattrStore::SystemAttribute, XattrStore::Directory] {
        let properties = DatasetProperties {
            xattr,
            ..DatasetProperties::default()
        };
        let mut pool = MemoryPool::new(
            NewFileSystem::default(),
            properties,
            MountOptions::default(),
        );
        let object = pool.file("f").object();
        let mut wanted = Vec::new();
        for (i, length) in [0, 1, 20, 100, 137, 500, 5_000, 30_000, 40_000, 65_536, 30]
            .iter()
            .enumerate()
        {
            let name = format!("user.{i}").into_bytes();
            let value = vec![i as u8; *length];
            pool.fs
                .setxattr(&root(), object, &name, &value, XattrMode::Create)
                .unwrap();
            wanted.push((name, value));
        }
        for _ in 0..2 {
            let mut names = pool.fs.listxattr(&root(), object).unwrap();
            names.sort();
            let mut all: Vec<Vec<u8>> = wanted.iter().map(|(name, _)| name.clone()).collect();
            all.sort();
            assert_eq!(names, all);
            for (name, value) in &wanted {
                assert_eq!(&pool.fs.getxattr(&root(), object, name).unwrap(), value);
            }
            pool.remount(true);
        }
        let set = |mode, name: &[u8]| pool.fs.setxattr(&root(), object, name, b"new", mode);
        assert_eq!(
            set(XattrMode::Create, b"user.1").unwrap_err().errno(),
            Errno::EEXIST
        );
        assert_eq!(
            set(XattrMode::Replace, b"user.x").unwrap_err().errno(),
            Errno::ENODATA
        );
        for (name, _) in &wanted {
            pool.fs
                .setxattr(&root(), object, name, b"short", XattrMode::Replace)
                .unwrap();
            assert_eq!(pool.fs.getxattr(&root(), object, name).unwrap(), b"short");
            pool.fs.removexattr(&root(), object, name).unwrap();
        }
        assert_eq!(
            pool.fs.listxattr(&root(), object).unwrap(),
            Vec::<Vec<u8>>::new()
        );
        pool.sync();
        let before = pool.objects().object_count();
        pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap();
        pool.sync();
        // The file, and the hidden directory that some values needed.
        assert_eq!(pool.objects().object_count(), before - 2);
    }
}

#[test]
fn namespaces() {
    let pool = MemoryPool::plain();
    let object = pool.file("f").object();
    let alice = Credentials::new(1000, 1000);
    let set = |who: &Credentials, name: &[u8]| {
        pool.fs
            .setxattr(who, object, name, b"v", XattrMode::Either)
            .map_err(|e| e.errno())
    };
    assert_eq!(set(&root(), b"other.x"), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&alice, b"trusted.x"), Err(Errno::EPERM));
    assert_eq!(set(&alice, b"user.x"), Err(Errno::EACCES));
    set(&root(), b"trusted.x").unwrap();
    assert_eq!(pool.fs.listxattr(&root(), object).unwrap(), [b"trusted.x"]);
    assert!(pool.fs.listxattr(&alice, object).unwrap().is_empty());
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story of one directory")]
fn access_lists_are_enforced_follow_chmod_and_are_inherited() {
    let properties = DatasetProperties {
        acl: AclKind::Posix,
        ..DatasetProperties::default()
    };
    let mut pool = MemoryPool::new(
        NewFileSystem::default(),
        properties,
        MountOptions::default(),
    );
    let any = u32::MAX;
    let object = pool.file("f").object();
    let list = acl(&[
        (1, 6, any),
        (2, 6, 1000),
        (4, 4, any),
        (0x10, 6, any),
        (0x20, 0, any),
    ]);
    pool.fs
        .setxattr(&root(), object, ACCESS, &list, XattrMode::Either)
        .unwrap();
    assert_eq!(pool.fs.getattr(object).unwrap().permissions, 0o660);
    let alice = Credentials::new(1000, 1000);
    for _ in 0..2 {
        pool.fs
            .access(&alice, object, Access::READ.and(Access::WRITE))
            .unwrap();
        let other = pool
            .fs
            .access(&Credentials::new(1001, 1), object, Access::READ);
        assert_eq!(other.unwrap_err().errno(), Errno::EACCES);
        pool.remount(true);
    }
    let chmod = SetAttributes {
        permissions: Some(0o640),
        ..SetAttributes::default()
    };
    pool.fs.setattr(&root(), object, &chmod).unwrap();
    assert!(pool.fs.access(&alice, object, Access::WRITE).is_err());
    pool.fs.access(&alice, object, Access::READ).unwrap();
    // A list that says no more than the mode is the mode.
    let plain = acl(&[(1, 6, any), (4, 4, any), (0x20, 4, any)]);
    pool.fs
        .setxattr(&root(), object, ACCESS, &plain, XattrMode::Either)
        .unwrap();
    let gone = pool.fs.getxattr(&root(), object, ACCESS);
    assert_eq!(gone.unwrap_err().errno(), Errno::ENODATA);
    assert_eq!(pool.fs.getattr(object).unwrap().permissions, 0o644);
    // Inheritance.
    let directory = pool.directory("d");
    let list = acl(&[
        (1, 7, any),
        (2, 7, 1000),
        (4, 5, any),
        (0x10, 7, any),
        (0x20, 0, any),
    ]);
    pool.fs
        .setxattr(&root(), directory, DEFAULT, &list, XattrMode::Either)
        .unwrap();
    let made = pool
        .fs
        .mknod(&root(), directory, b"f", &node(FileType::Regular, 0o666))
        .unwrap();
    assert_eq!(made.permissions, 0o660);
    pool.fs.access(&alice, made.object, Access::WRITE).unwrap();
    let below = pool
        .fs
        .mkdir(&root(), directory, b"e", &node(FileType::Directory, 0o777))
        .unwrap();
    assert_eq!(
        pool.fs.getxattr(&root(), below.object, DEFAULT).unwrap(),
        list
    );
}
