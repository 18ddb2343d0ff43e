//! What is tried with a forged pool: everything that a user would. Errors are fine.

use crate::pools;
use base::ObjectId;
use crypto::{KeyFormat, WrappingKey};
use dsl::tasks::{DestroyHead, DestroySnapshots, Release, Snapshot};
use format::ObjectSetKind;
use inspect::{Checks, CopyOptions, Image, Inspection, ListOptions, TreeOptions};
use millpond_torture::test_pool::TestPool;
use pool::tunables::MULTIHOST_WAIT_MAX_MS;
use pool::{ImportOptions, Pool, PoolError, Selection};
use posix::{Credentials, FileSystem, FileType, OpenOptions, Visit};
use std::path::Path;
use std::sync::Arc;
use volume::{Durability, Source, Volume};

/// Files and directories looked at: a forged tree may be an endless one.
const NODES_MAX: usize = 3000;
const READ_MAX: u64 = 4 << 20;
/// Who says that a passphrase is hashed more often asks for patience, not for memory.
const ITERATIONS_MAX: u64 = 400_000;

/// All of it, on the images of a folder.
pub(crate) fn run(folder: &Path, pool: &str) {
    stage("inspect");
    match Image::open(&[folder.to_owned()], Some(pool), None) {
        Ok(image) => {
            let checks = Checks {
                data: true,
                space: true,
            };
            let found = note("check", image.check(checks, &|_, _| {}));
            if found.is_some_and(|found| !found.is_clean) {
                println!("{ERROR}check: not clean");
            }
        }
        Err(error) => println!("{ERROR}open: {error}"),
    }
    stage("print");
    print(folder, pool);
    stage("cp");
    copy_out(folder, pool);
    stage("list");
    for found in note("list", pool::discover(&[folder.to_owned()])).unwrap_or_default() {
        note("try", pool::try_import(&found).outcome);
    }
    for read_only in [true, false] {
        stage(if read_only {
            "import, read-only"
        } else {
            "import"
        });
        match import(folder, pool, read_only) {
            Ok(test_pool) => use_pool(&test_pool, pool, read_only),
            Err(error) => println!("{ERROR}import: {error}"),
        }
    }
    stage("end");
}

/// What an output takes that is not looked at: a forged pool can have it be endless, and a terminal is closed then.
struct Few(usize);

impl std::io::Write for Few {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        const ENOUGH: usize = 64 << 20;
        self.0 += bytes.len();
        match self.0 {
            ..ENOUGH => Ok(bytes.len()),
            _ => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All that `inspect`, `tree` and `ls` can print.
fn print(folder: &Path, pool: &str) {
    let labels = Inspection {
        labels: 2,
        uberblock: 2,
        ..Inspection::of(vec![folder.to_owned()])
    };
    let rest = Inspection {
        pool: Some(pool.to_owned()),
        uberblock: 2,
        config: 2,
        datasets: 5,
        blocks: 4,
        checksums: 2,
        space_maps: 4,
        intent_logs: 4,
        history: 2,
        ..Inspection::of(vec![folder.to_owned()])
    };
    for inspection in [labels, rest] {
        match inspection.print(&mut Few(0)) {
            Ok(0) => {}
            Ok(status) => println!("{ERROR}print: status {status}"),
            Err(error) if error.is_broken_pipe() => {}
            Err(error) => println!("{ERROR}print: {error}"),
        }
    }
    let place = [format!("{}:", folder.display())];
    note(
        "tree",
        inspect::tree(&place, &TreeOptions::default(), &mut Few(0)),
    );
    let options = ListOptions {
        long: true,
        recursive: true,
        ..ListOptions::default()
    };
    note("ls", inspect::ls(&place, &options, &mut Few(0)));
}

/// The pool, with the keys of what is encrypted.
pub(crate) fn import(folder: &Path, name: &str, read_only: bool) -> Result<TestPool, PoolError> {
    let selection = Selection::Name(name.to_owned());
    let mut options = ImportOptions::new(vec![folder.to_owned()], selection);
    options.read_only = read_only;
    options.force = true;
    // No host has it, whatever it says.
    MULTIHOST_WAIT_MAX_MS.set(1000);
    let pool = Pool::import(&options)?;
    load_keys(&pool);
    Ok(TestPool::open(pool, read_only))
}

fn load_keys(pool: &Pool) {
    let dsl = pool.dsl();
    let Ok(root) = dsl.root_directory() else {
        return;
    };
    let Ok(heads) = dsl.heads_under(&root) else {
        return;
    };
    for head in heads.iter().take(100) {
        let directory = head.directory();
        let Ok(Some(record)) = directory.key_record() else {
            continue;
        };
        let Some(root) = record.root().filter(|_| !record.is_loaded()) else {
            continue;
        };
        let Some(material) = note("material", record.material()) else {
            continue;
        };
        let hex = format!("{}7", "0".repeat(63));
        let given = match material.format {
            KeyFormat::Raw => &pools::RAW_KEY[..],
            KeyFormat::Hex => hex.as_bytes(),
            KeyFormat::Passphrase if material.iterations > ITERATIONS_MAX => continue,
            KeyFormat::Passphrase => pools::PASSPHRASE,
        };
        if let Some(key) = note("key", WrappingKey::from_material(given, material)) {
            note("load", dsl.load_key(root, key));
        }
    }
}

/// Opens a volume; what its log owes is applied before.
pub(crate) fn open_volume(pool: &Arc<Pool>, name: &str, read_only: bool) -> Result<Volume, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let dataset = pool.dsl().dataset(name).map_err(|error| text(&error))?;
    let engine = pool.engine().filter(|_| !read_only).cloned();
    let log = match &engine {
        Some(_) if !dataset.is_snapshot() => pool.intent_log(&dataset),
        _ => Ok(None),
    };
    let log = log.map_err(|error| text(&error))?;
    let source = || -> Result<Source, String> {
        Ok(Source {
            objects: dataset.object_set().map_err(|error| text(&error))?,
            engine: engine.clone().filter(|_| log.is_some()),
            log: log.clone(),
            admission: Some(dataset.admission()),
            read_only,
        })
    };
    if let Some(log) = log.as_ref().filter(|log| log.is_owed()) {
        volume::replay(source()?, log).map_err(|error| text(&error))?;
    }
    Volume::open(source()?).map_err(|error| text(&error))
}

fn use_volume(volume: &Volume, read_only: bool) {
    let mut buffer = vec![0; 128 << 10];
    let mut at = 0;
    while at < READ_MAX.min(volume.size()) {
        let len = buffer.len().min((volume.size() - at) as usize);
        note("read", volume.read_at(at, &mut buffer[..len]));
        at += len as u64;
    }
    note("next", volume.next_data(0..u64::MAX));
    note("next", volume.next_hole(0..u64::MAX));
    if !read_only {
        note(
            "write",
            volume.write_at(8192, &[5; 20_000], Durability::AtOnce),
        );
        note("discard", volume.discard(0, 100_000, Durability::AtOnce));
        note("resize", volume.resize(volume.size() / 2 / 4096 * 4096));
        note("flush", volume.flush());
    }
    note("close", volume.close());
}

/// Where a link of the pool leads: out of the folder that it is copied to.
pub(crate) const AWAY: &str = "../../outside";

/// The files of the pool, copied into a folder; nothing beside that folder changes.
fn copy_out(folder: &Path, pool: &str) {
    let [target, outside] = ["out/target", "outside"].map(|name| folder.join(name));
    for made in [&target, &outside, &folder.join("out/outside")] {
        std::fs::create_dir_all(made).expect("a folder");
    }
    let before = around(folder);
    for name in ["", "/child", "/clone", "@one"] {
        let place = format!("{}:{pool}{name}", folder.display());
        let options = CopyOptions {
            recursive: true,
            ..CopyOptions::default()
        };
        if let Some(copied) = note("cp", inspect::cp(&[place], &target, &options))
            && copied.problems.count() > 0
        {
            println!("{ERROR}cp: {} problems", copied.problems.count());
        }
    }
    assert_eq!(around(folder), before, "something was copied elsewhere");
}

/// All that there is but in the folder of copies.
fn around(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![folder.to_owned()];
    while let Some(directory) = next.pop() {
        for entry in std::fs::read_dir(directory).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = entry.path();
            let is_target = path.ends_with("out/target");
            if entry.file_type().expect("a type").is_dir() && !is_target {
                next.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

/// How a line begins that tells of an error.
pub(crate) const ERROR: &str = "error: ";

fn stage(name: &str) {
    println!("stage: {name}");
}

fn note<T, E: std::fmt::Display>(what: &str, outcome: Result<T, E>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            println!("{ERROR}{what}: {error}");
            None
        }
    }
}

fn heads(test_pool: &TestPool) -> Vec<String> {
    let dsl = test_pool.pool.dsl();
    let Some(root) = note("root", dsl.root_directory()) else {
        return Vec::new();
    };
    let Some(heads) = note("heads", dsl.heads_under(&root)) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for head in heads.iter().take(100) {
        names.extend(note("name", head.name()));
        let Some(snapshots) = note("snapshots", head.snapshots()) else {
            continue;
        };
        for snapshot in snapshots.iter().take(100) {
            names.extend(note("name", snapshot.name()));
        }
    }
    names
}

fn use_pool(test_pool: &TestPool, pool_name: &str, read_only: bool) {
    let names = heads(test_pool);
    note("status", test_pool.pool.status());
    for name in &names {
        let is_snapshot = name.contains('@');
        if is_snapshot && !read_only {
            continue;
        }
        stage(&format!("walk {name}"));
        let dataset = note("dataset", test_pool.pool.dsl().dataset(name));
        let kind = dataset.and_then(|it| Some(note("objects", it.object_set())?.kind()));
        if kind == Some(ObjectSetKind::Volume) {
            if let Some(volume) = note("open", open_volume(&test_pool.pool, name, read_only)) {
                use_volume(&volume, read_only);
            }
            continue;
        }
        // What was received in part has nothing that can be mounted, or nearly all.
        let head = test_pool.pool.dsl().head(name);
        if head.is_ok_and(|head| head.is_inconsistent().unwrap_or(true)) {
            drop(test_pool.try_system(name));
            continue;
        }
        let Some(system) = note("mount", test_pool.try_system(name)) else {
            continue;
        };
        let mut left = NODES_MAX;
        walk(&system, system.root(), 0, &mut left);
        if !read_only {
            stage(&format!("write {name}"));
            write(&system);
        }
    }
    if read_only {
        note("close", test_pool.try_close_all());
        note("export", test_pool.pool.export());
        return;
    }
    let pool = &test_pool.pool;
    stage("sync");
    note("sync", pool.sync());
    stage("scrub");
    if note("scrub", pool.start_scrub()).is_some() {
        note("wait", pool.wait_scrub());
    }
    note("close", test_pool.try_close_all());
    stage("snapshot");
    let dsl = pool.dsl();
    let task = Snapshot {
        names: vec![format!("{pool_name}@forged")],
        properties: Vec::new(),
    };
    note("snapshot", dsl.run(task));
    stage("destroy");
    let held = format!("{pool_name}@two");
    if names.contains(&held) {
        let holds = vec![(held, "held".to_owned())];
        note("release", dsl.run(Release { holds }));
    }
    destroy(test_pool, pool_name, &names);
    stage("sync");
    for _ in 0..3 {
        note("sync", pool.sync());
    }
    stage("export");
    note("export", pool.export());
}

/// Heads without snapshots first: clones are among them. Then the snapshots, and what is left.
fn destroy(test_pool: &TestPool, pool_name: &str, names: &[String]) {
    let dsl = test_pool.pool.dsl();
    let (snapshots, heads): (Vec<&String>, Vec<_>) =
        names.iter().partition(|name| name.contains('@'));
    let has_snapshots = |head: &str| {
        let mut of = snapshots.iter().filter_map(|it| it.split_once('@'));
        of.any(|(of, _)| of == head)
    };
    let below = heads.into_iter().rev().filter(|name| *name != pool_name);
    let (late, early): (Vec<&String>, Vec<_>) = below.partition(|name| has_snapshots(name));
    let head = |name: &String| {
        let task = DestroyHead { path: name.clone() };
        note("destroy", dsl.run(task));
    };
    early.into_iter().for_each(head);
    for name in &snapshots {
        let task = DestroySnapshots {
            names: vec![(*name).clone()],
            defer: false,
        };
        note("destroy", dsl.run(task));
    }
    late.into_iter().for_each(head);
}

fn walk(system: &FileSystem, directory: ObjectId, depth: usize, left: &mut usize) {
    let who = Credentials::root();
    let mut entries = Vec::new();
    let listed = system.readdir(&who, directory, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.object));
        if entries.len() < NODES_MAX {
            Visit::Continue
        } else {
            Visit::Full
        }
    });
    note("readdir", listed);
    for (name, object) in entries {
        if *left == 0 || name == b"." || name == b".." {
            continue;
        }
        *left -= 1;
        note("lookup", system.lookup(&who, directory, &name));
        let Some(found) = note("getattr", system.getattr(object)) else {
            continue;
        };
        if let Some(names) = note("listxattr", system.listxattr(&who, object)) {
            for name in names.iter().take(50) {
                note("getxattr", system.getxattr(&who, object, name));
            }
        }
        match found.file_type {
            FileType::Directory if depth < 20 => walk(system, object, depth + 1, left),
            FileType::Regular => read(system, object),
            FileType::Symlink => {
                note("readlink", system.readlink(object));
            }
            _ => {}
        }
    }
}

fn read(system: &FileSystem, object: ObjectId) {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let Some(file) = note("open", system.open(&Credentials::root(), object, options)) else {
        return;
    };
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < READ_MAX {
        match file.read(at, &mut buffer) {
            Ok(0) => break,
            Ok(count) => at += count as u64,
            Err(error) => {
                println!("{ERROR}read: {error}");
                break;
            }
        }
    }
}

fn write(system: &FileSystem) {
    let who = Credentials::root();
    let root = system.root();
    let node = posix::NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    let made = system.create(&who, root, b"new-file", &node, options);
    if let Some((file, _)) = note("create", made) {
        note(
            "write",
            file.write(0, &[7; 300_000], posix::WriteOptions::default()),
        );
        note("fsync", file.fsync());
    }
    note(
        "setxattr",
        system.setxattr(&who, root, b"user.new", b"value", posix::XattrMode::Either),
    );
    // What is there is changed and removed.
    let mut names = Vec::new();
    let listed = system.readdir(&who, root, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.object));
        Visit::Continue
    });
    note("readdir", listed);
    for (index, (name, object)) in names.into_iter().enumerate().take(60) {
        let is_file = |found: posix::Attributes| found.file_type == FileType::Regular;
        if !note("getattr", system.getattr(object)).is_some_and(is_file) {
            continue;
        }
        if index % 3 == 0 {
            note("unlink", system.unlink(&who, root, &name).map(drop));
        } else if let Some(file) = note("open", system.open(&who, object, options)) {
            note(
                "write",
                file.write(100, &[9; 5000], posix::WriteOptions::default()),
            );
            let size = posix::SetAttributes {
                size: Some(1000),
                ..posix::SetAttributes::default()
            };
            note("truncate", system.setattr(&who, object, &size).map(drop));
        }
    }
    note("sync", system.sync());
}
