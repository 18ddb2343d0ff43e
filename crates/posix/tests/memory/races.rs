//! What others do between an operation's look and its change, and while a file comes to be or goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use base::ObjectId;
use millpond_posix::{
    AclKind, DatasetProperties, Errno, FileSystem, FileType, MountOptions, NewFileSystem, OpenFile,
    PosixError, RenameMode, SetAttributes, XattrMode, XattrStore,
};

use crate::store::{Meanwhile, MemoryPool};
use crate::xattrs::{ACCESS, DEFAULT, acl};
use crate::{READ_WRITE, node, root};

fn in_directories() -> MemoryPool {
    let properties = DatasetProperties {
        acl: AclKind::Posix,
        xattr: XattrStore::Directory,
        record_size: 4096,
        ..DatasetProperties::default()
    };
    MemoryPool::new(
        NewFileSystem::default(),
        properties,
        MountOptions::default(),
    )
}

impl MemoryPool {
    /// Does something when the next operation begins its transaction.
    fn meanwhile(&self, what: impl FnOnce() + Send + 'static) {
        *self.room.1.lock().unwrap() = Some(Box::new(what));
    }
}

/// Who removes a file that is just being made finds the one that its maker has open.
#[test]
fn a_file_that_comes_to_be_is_one_file() {
    let pool = MemoryPool::plain();
    let (looked, has_looked) = mpsc::channel();
    let (fs, room) = (Arc::clone(&pool.fs), Arc::clone(&pool.room));
    let (threads, thread) = mpsc::channel();
    pool.diary.while_telling(move || {
        let tell = move || looked.send(()).unwrap();
        *room.1.lock().unwrap() = Some(Box::new(tell));
        let remove = move || drop(fs.unlink(&root(), fs.root(), b"f").unwrap());
        threads.send(std::thread::spawn(remove)).unwrap();
        has_looked.recv().unwrap();
    });
    let file = pool.file("f");
    thread.recv().unwrap().join().unwrap();
    assert!(pool.fs.lookup(&root(), pool.fs.root(), b"f").is_err());
    file.write(0, b"kept", Default::default()).unwrap();
    pool.sync();
    let mut found = [0; 4];
    assert_eq!(file.read(0, &mut found).unwrap(), 4);
    assert_eq!((&found, file.attributes().unwrap().links), (b"kept", 0));
    assert_eq!(pool.fs.unlinked().unwrap(), 1);
}

/// Replaces what has the name, until what has it then has the number of what had it before.
fn replace(fs: &FileSystem, engine: &Arc<txg::Engine>, number: ObjectId) {
    let at = fs.root();
    fs.unlink(&root(), at, b"f").unwrap();
    for _ in 0..10_000 {
        let made = fs.mknod(&root(), at, b"f", &node(FileType::Regular, 0o644));
        let made = made.unwrap();
        if made.object == number {
            return;
        }
        fs.unlink(&root(), at, b"f").unwrap();
        if made.object.0.is_multiple_of(64) {
            engine.wait_synced(None).unwrap();
        }
    }
    panic!("the number does not come again");
}

/// While a removal waits for room, the file goes, and another one comes by the name that has its number.
fn beside_another_of_the_number(change: impl FnOnce(&FileSystem)) {
    dmu::tunables::FREED_FOR_RESTART.set(1);
    let pool = MemoryPool::plain();
    let number = pool.file("f").object();
    drop(pool.file("g"));
    pool.sync();
    let (opened, open) = mpsc::channel::<OpenFile>();
    let (fs, engine) = (Arc::clone(&pool.fs), Arc::clone(pool.diary.engine()));
    pool.meanwhile(move || {
        replace(&fs, &engine, number);
        let file = fs.open(&root(), number, READ_WRITE).unwrap();
        file.write(0, b"new", Default::default()).unwrap();
        opened.send(file).unwrap();
    });
    change(&pool.fs);
    let file = open.recv().unwrap();
    pool.sync();
    let mut found = [0; 3];
    assert_eq!(file.read(0, &mut found).unwrap(), 3);
    assert_eq!(&found, b"new");
    assert_eq!(pool.fs.getattr(number).unwrap().links, 0);
    file.write(3, b"er", Default::default()).unwrap();
    assert_eq!(pool.fs.unlinked().unwrap(), 1);
}

#[test]
fn a_removal_takes_the_file_that_has_the_name_now() {
    beside_another_of_the_number(|fs| drop(fs.unlink(&root(), fs.root(), b"f").unwrap()));
}

#[test]
fn a_rename_replaces_the_file_that_has_the_name_now() {
    beside_another_of_the_number(|fs| {
        let at = fs.root();
        let renamed = fs.rename(&root(), (at, b"g"), (at, b"f"), RenameMode::Replace);
        drop(renamed.unwrap());
    });
}

/// So that a thread that runs beside a test ends with it, however that ends.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A mount frees what a crash left while it is used already.
#[test]
fn a_file_without_a_name_is_not_taken_for_what_a_crash_left() {
    const ROUNDS: usize = 20_000;
    let pool = MemoryPool::plain();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _freed = pool.fs.drain_unlinked().unwrap();
            }
        });
        let _over = SetAtEnd(&over);
        let node = node(FileType::Regular, 0o600);
        for round in 0..ROUNDS {
            let made = pool
                .fs
                .create_unnamed(&root(), pool.fs.root(), &node, READ_WRITE);
            let (file, _) = made.unwrap();
            let there = pool.fs.getattr(file.object());
            assert!(there.is_ok(), "round {round}: {there:?}");
        }
    });
}

/// Files without names that come and go with attributes in directories, while two others go through the list.
#[test]
fn files_go_beside_the_list_of_them() {
    const ROUNDS: usize = 300;
    dmu::tunables::FREED_FOR_RESTART.set(1);
    let pool = in_directories();
    let before = pool.objects().object_count();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _freed = pool.fs.drain_unlinked().unwrap();
                }
            });
        }
        let _over = SetAtEnd(&over);
        let node = node(FileType::Regular, 0o600);
        for _ in 0..ROUNDS {
            let made = pool
                .fs
                .create_unnamed(&root(), pool.fs.root(), &node, READ_WRITE);
            let (file, _) = made.unwrap();
            for name in [b"user.a", b"user.b"] {
                let set = pool
                    .fs
                    .setxattr(&root(), file.object(), name, b"1", XattrMode::Either);
                set.unwrap();
            }
        }
    });
    assert_eq!(pool.fs.unlinked().unwrap(), 0);
    pool.sync();
    assert_eq!(pool.objects().object_count(), before);
}

fn errno<T>(result: Result<T, PosixError>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// A file that is being freed piece by piece is shorter than it ever was.
#[test]
fn a_file_that_is_being_freed_is_not_opened() {
    dmu::tunables::FREE_BLOCKS_PIECE.set(64);
    let pool = in_directories();
    let file = pool.file("long");
    file.write(0, &vec![7; 4 << 20], Default::default())
        .unwrap();
    let object = file.object();
    drop(file);
    pool.sync();
    let answer = Arc::new(std::sync::Mutex::new(None));
    let (fs, room, told) = (
        Arc::clone(&pool.fs),
        Arc::clone(&pool.room),
        Arc::clone(&answer),
    );
    // The removal's transaction, the first piece, the second.
    pool.meanwhile(move || {
        let inner = Arc::clone(&room);
        let first: Meanwhile = Box::new(move || {
            let second: Meanwhile = Box::new(move || {
                let opened = fs.open(&root(), object, READ_WRITE);
                let size = opened.map(|file| file.attributes().unwrap().size);
                *told.lock().unwrap() = Some(size.map_err(|error| error.errno()));
            });
            *inner.1.lock().unwrap() = Some(second);
        });
        *room.1.lock().unwrap() = Some(first);
    });
    drop(pool.fs.unlink(&root(), pool.fs.root(), b"long").unwrap());
    assert_eq!(answer.lock().unwrap().take(), Some(Err(Errno::ESTALE)));
    assert_eq!(pool.fs.unlinked().unwrap(), 0);
}

/// An attribute that comes while its file goes must not be left without it.
#[test]
fn attributes_go_with_their_file() {
    let pool = in_directories();
    let set = |fs: &FileSystem, object, name: &[u8]| {
        fs.setxattr(&root(), object, name, b"value", XattrMode::Either)
    };
    pool.sync();
    let before = pool.objects().object_count();
    // Freed while the attribute waits for room.
    for has_others in [false, true] {
        let object = pool.file("f").object();
        if has_others {
            set(&pool.fs, object, b"user.old").unwrap();
        }
        let fs = Arc::clone(&pool.fs);
        pool.meanwhile(move || drop(fs.unlink(&root(), fs.root(), b"f").unwrap()));
        let answer = errno(set(&pool.fs, object, b"user.new"));
        assert_eq!(answer, Some(Errno::ESTALE), "{has_others}");
    }
    // Set while it is being freed: the removal, the other attribute, then the file itself.
    let object = pool.file("f").object();
    set(&pool.fs, object, b"user.old").unwrap();
    let (fs, room) = (Arc::clone(&pool.fs), Arc::clone(&pool.room));
    pool.meanwhile(move || {
        let inner = Arc::clone(&room);
        let first: Meanwhile = Box::new(move || {
            let second: Meanwhile = Box::new(move || {
                let answer = fs.setxattr(&root(), object, b"user.n", b"v", XattrMode::Either);
                assert_eq!(errno(answer), Some(Errno::ESTALE));
            });
            *inner.1.lock().unwrap() = Some(second);
        });
        *room.1.lock().unwrap() = Some(first);
    });
    drop(pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap());
    pool.sync();
    assert_eq!(pool.objects().object_count(), before);
    assert_eq!(pool.fs.unlinked().unwrap(), 0);
}

/// Files are made until one has that number, or many have another; each gets contents.
fn fill_numbers(fs: &FileSystem, number: ObjectId) -> Vec<ObjectId> {
    let mut made = Vec::new();
    while made.len() < 200 && made.last() != Some(&number) {
        let name = format!("new{}", made.len());
        let new = node(FileType::Regular, 0o600);
        let (file, _) = fs
            .create(&root(), fs.root(), name.as_bytes(), &new, READ_WRITE)
            .unwrap();
        file.write(0, &[9; 4096 * 3], Default::default()).unwrap();
        made.push(file.object());
    }
    made
}

/// While one thread empties a directory of extended attributes, another comes to free the same file: the attributes'
/// numbers may belong to new files once that is done, whose contents are not the first one's to free.
#[test]
fn a_file_is_freed_by_one_thread() {
    dmu::tunables::FREED_FOR_RESTART.set(1);
    dmu::tunables::FREE_BLOCKS_PIECE.set(1);
    let mut pool = in_directories();
    let file = pool.file("f");
    for name in [b"user.a", b"user.b"] {
        pool.fs
            .setxattr(
                &root(),
                file.object(),
                name,
                &[7; 3 * 4096],
                Default::default(),
            )
            .unwrap();
    }
    pool.sync();
    let last = (1..=pool.objects().object_count() + 8)
        .map(ObjectId)
        .filter(|id| pool.objects().object(*id).is_ok())
        .max();
    let last = last.unwrap();
    pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap();
    pool.sync();
    std::mem::forget(file);
    pool.remount(false);
    let (fs, engine) = (Arc::clone(&pool.fs), Arc::clone(pool.diary.engine()));
    let (told, made) = mpsc::channel();
    // The first piece of the first attribute.
    pool.meanwhile(move || {
        fs.drain_unlinked().unwrap();
        engine.wait_synced(None).unwrap();
        told.send(fill_numbers(&fs, last)).unwrap();
    });
    let drained = pool.fs.drain_unlinked();
    for object in made.recv().unwrap() {
        let file = pool.fs.open(&root(), object, READ_WRITE).unwrap();
        let mut found = vec![0; 4096 * 3];
        assert_eq!(file.read(0, &mut found).unwrap(), found.len());
        assert!(
            found.iter().all(|byte| *byte == 9),
            "{object} lost its contents"
        );
    }
    assert_eq!(drained.unwrap(), 1);
    assert_eq!(pool.fs.unlinked().unwrap(), 0);
}

/// Who goes through the list has read an entry whose file is freed by another meanwhile, and whose number is a
/// directory's of attributes by then.
#[test]
fn an_entry_of_the_list_means_the_file_that_was_listed() {
    dmu::tunables::FREED_FOR_RESTART.set(1);
    let mut pool = in_directories();
    let others: Vec<ObjectId> = (0..20)
        .map(|n| pool.file(&format!("other{n}")).object())
        .collect();
    let set = |fs: &FileSystem, object| {
        fs.setxattr(&root(), object, b"user.a", b"kept", XattrMode::Either)
            .unwrap();
    };
    let gone = ["f", "g"].map(|name| {
        let file = pool.file(name);
        set(&pool.fs, file.object());
        pool.fs
            .unlink(&root(), pool.fs.root(), name.as_bytes())
            .unwrap();
        let object = file.object();
        std::mem::forget(file);
        object
    });
    pool.sync();
    pool.remount(false);
    let (fs, engine, objects) = (
        Arc::clone(&pool.fs),
        Arc::clone(pool.diary.engine()),
        pool.objects(),
    );
    let (told, again) = mpsc::channel();
    let users = others.clone();
    pool.meanwhile(move || {
        fs.drain_unlinked().unwrap();
        engine.wait_synced(None).unwrap();
        let freed = gone
            .into_iter()
            .find(|id| objects.object(*id).is_err())
            .unwrap();
        for user in users {
            set(&fs, user);
            if objects.object(freed).is_ok() {
                told.send(user).unwrap();
                return;
            }
        }
    });
    pool.fs.drain_unlinked().unwrap();
    let last = again.try_recv().expect("the number comes again");
    for object in others.into_iter().take_while(|id| *id <= last) {
        let found = pool.fs.getxattr(&root(), object, b"user.a").unwrap();
        assert_eq!(found, b"kept");
    }
    assert_eq!(pool.fs.unlinked().unwrap(), 0);
}

/// The lists that a file has from its directory go with it when another got its name.
#[test]
fn a_creation_that_comes_second_leaves_nothing() {
    let pool = in_directories();
    let directory = pool.directory("d");
    let list = acl(&[(1, 7, !0), (2, 5, 4), (4, 5, !0), (16, 5, !0), (32, 0, !0)]);
    let set = pool
        .fs
        .setxattr(&root(), directory, DEFAULT, &list, XattrMode::Either);
    set.unwrap();
    let make = move |fs: &FileSystem, name: &[u8]| {
        fs.mknod(&root(), directory, name, &node(FileType::Regular, 0o666))
    };
    make(&pool.fs, b"one").unwrap();
    pool.sync();
    let before = pool.objects().object_count();
    make(&pool.fs, b"two").unwrap();
    pool.sync();
    let each = pool.objects().object_count() - before;
    let fs = Arc::clone(&pool.fs);
    pool.meanwhile(move || assert!(make(&fs, b"three").is_ok()));
    assert_eq!(errno(make(&pool.fs, b"three")), Some(Errno::EEXIST));
    pool.sync();
    assert_eq!(pool.objects().object_count(), before + 2 * each);
}

#[test]
fn an_attribute_is_created_once() {
    let pool = MemoryPool::plain();
    let object = pool.file("f").object();
    let set = move |fs: &FileSystem, value: &[u8]| {
        fs.setxattr(&root(), object, b"user.a", value, XattrMode::Create)
    };
    let fs = Arc::clone(&pool.fs);
    pool.meanwhile(move || set(&fs, b"first").unwrap());
    assert_eq!(errno(set(&pool.fs, b"second")), Some(Errno::EEXIST));
    let found = pool.fs.getxattr(&root(), object, b"user.a").unwrap();
    assert_eq!(found, b"first");
    let remove = move |fs: &FileSystem| fs.removexattr(&root(), object, b"user.a");
    let fs = Arc::clone(&pool.fs);
    pool.meanwhile(move || remove(&fs).unwrap());
    assert_eq!(errno(remove(&pool.fs)), Some(Errno::ENODATA));
}

/// A change of the mode keeps the list that there is by then.
#[test]
fn a_new_mode_brings_no_old_list_back() {
    let pool = MemoryPool::plain();
    let object = pool.file("f").object();
    let list = |id| acl(&[(1, 7, !0), (2, 5, id), (4, 5, !0), (16, 5, !0), (32, 0, !0)]);
    let set = |fs: &FileSystem, id| {
        let list = list(id);
        fs.setxattr(&root(), object, ACCESS, &list, XattrMode::Either)
    };
    set(&pool.fs, 4).unwrap();
    let fs = Arc::clone(&pool.fs);
    let new = list(9);
    pool.meanwhile(move || {
        fs.setxattr(&root(), object, ACCESS, &new, XattrMode::Either)
            .unwrap();
    });
    let mode = SetAttributes {
        permissions: Some(0o750),
        ..SetAttributes::default()
    };
    let _ = pool.fs.setattr(&root(), object, &mode).unwrap();
    let found = pool.fs.getxattr(&root(), object, ACCESS).unwrap();
    assert_eq!(found, list(9));
}

/// Who waits for room while the file system is given up changes nothing any more: somebody else may have it by then.
#[test]
fn an_operation_that_was_overtaken_by_the_end_changes_nothing() {
    let mut pool = MemoryPool::plain();
    let fs = Arc::clone(&pool.fs);
    pool.meanwhile(move || fs.unmount().unwrap());
    let node = node(FileType::Fifo, 0o600);
    let made = pool.fs.mknod(&root(), pool.fs.root(), b"late", &node);
    assert_eq!(errno(made), Some(Errno::EROFS));
    pool.remount(true);
    assert!(pool.fs.lookup(&root(), pool.fs.root(), b"late").is_err());
}
