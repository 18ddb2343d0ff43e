//! Files that come and go, made by several threads at once: none ever has the number, or the contents, of another.

use std::collections::BTreeMap;

use base::ObjectId;
use base::random::{Rng as _, SeededRng};
use golden::Zdb;
use millpond_posix::{
    Credentials, DatasetProperties, FileSystem, FileType, NewFileSystem, NewNode, OpenOptions,
};

const THREADS: usize = 6;

/// Names of the files that there are, with their numbers.
type Files = BTreeMap<String, ObjectId>;

fn create(fs: &FileSystem, names: impl Iterator<Item = String>) -> Files {
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0o022,
        device: (0, 0),
    };
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let root = Credentials::root();
    let create = |name: String| {
        let made = fs.mknod(&root, fs.root(), name.as_bytes(), &node).unwrap();
        let file = fs.open(&root, made.object, options).unwrap();
        file.write(0, name.as_bytes(), Default::default()).unwrap();
        (name, made.object)
    };
    names.map(create).collect()
}

fn check(fs: &FileSystem, files: &Files) {
    let root = Credentials::root();
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    for (name, &object) in files {
        let found = fs.lookup(&root, fs.root(), name.as_bytes()).unwrap();
        assert_eq!(found.object, object, "{name}");
        let mut contents = vec![0; name.len() + 1];
        let file = fs.open(&root, object, options).unwrap();
        let len = file.read(0, &mut contents).unwrap();
        assert_eq!(&contents[..len], name.as_bytes(), "contents of {name}");
    }
    let numbers: std::collections::BTreeSet<ObjectId> = files.values().copied().collect();
    assert_eq!(numbers.len(), files.len(), "two files of one number");
}

#[test]
fn no_file_gets_the_number_of_another() {
    dmu::tunables::NUMBER_SHARDS.set(4);
    dmu::tunables::FREED_FOR_RESTART.set(100);
    dmu::tunables::FREED_SHARE.set(64);
    pool::tunables::OBJECTS_MAX.set(64);
    let random = SeededRng::new(7);
    let folder = tempfile::tempdir().unwrap();
    let pool = super::create(folder.path(), NewFileSystem::default());
    let fs = super::mount(&pool, "pond", DatasetProperties::default());
    let mut files = Files::new();
    for round in 0..12 {
        let counts: [u64; THREADS] = std::array::from_fn(|_| random.below(4) * random.below(100));
        let made: Vec<Files> = std::thread::scope(|scope| {
            let start = |thread: usize| {
                let (fs, count) = (&fs, counts[thread]);
                let names = (0..count).map(move |file| format!("f{round}-{thread}-{file}"));
                scope.spawn(move || create(fs, names))
            };
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        files.extend(made.into_iter().flatten());
        fs.sync().unwrap();
        check(&fs, &files);
        files.retain(|name, _| {
            let kept = random.below(4) == 0;
            if !kept {
                let root = Credentials::root();
                drop(fs.unlink(&root, fs.root(), name.as_bytes()).unwrap());
            }
            kept
        });
        fs.sync().unwrap();
    }
    check(&fs, &files);
    fs.unmount().unwrap();
    drop(fs);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "pond");
    }
    let pool = super::import(folder.path());
    let fs = super::mount(&pool, "pond", DatasetProperties::default());
    check(&fs, &files);
    fs.unmount().unwrap();
    pool.export().unwrap();
}
