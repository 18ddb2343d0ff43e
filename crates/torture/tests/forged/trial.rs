//! What is tried with a forged pool: everything that a user would. Errors are fine.

use base::ObjectId;
use dsl::tasks::{DestroyHead, DestroySnapshots, Release, Snapshot};
use inspect::{Checks, CopyOptions, Image};
use millpond_torture::test_pool::{POOL, TestPool};
use posix::{Credentials, FileSystem, FileType, OpenOptions, Visit};
use std::path::Path;

/// Files and directories looked at: a forged tree may be an endless one.
const NODES_MAX: usize = 3000;
const READ_MAX: u64 = 4 << 20;

/// All of it, on the images of a folder.
pub(crate) fn run(folder: &Path) {
    stage("inspect");
    match Image::open(&[folder.to_owned()], Some(POOL), None) {
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
    stage("cp");
    copy_out(folder);
    for read_only in [true, false] {
        stage(if read_only {
            "import, read-only"
        } else {
            "import"
        });
        match TestPool::import(folder, read_only) {
            Ok(test_pool) => use_pool(&test_pool, read_only),
            Err(error) => println!("{ERROR}import: {error}"),
        }
    }
    stage("end");
}

/// Where a link of the pool leads: out of the folder that it is copied to.
pub(crate) const AWAY: &str = "../../outside";

/// The files of the pool, copied into a folder; nothing beside that folder changes.
fn copy_out(folder: &Path) {
    let [target, outside] = ["out/target", "outside"].map(|name| folder.join(name));
    for made in [&target, &outside, &folder.join("out/outside")] {
        std::fs::create_dir_all(made).expect("a folder");
    }
    let before = around(folder);
    for name in ["", "/child", "/clone", "@one"] {
        let place = format!("{}:{POOL}{name}", crate::main_image(folder).display());
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

fn use_pool(test_pool: &TestPool, read_only: bool) {
    let names = heads(test_pool);
    note("status", test_pool.pool.status());
    for name in &names {
        let is_snapshot = name.contains('@');
        if is_snapshot && !read_only {
            continue;
        }
        stage(&format!("walk {name}"));
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
        names: vec![format!("{POOL}@forged")],
        properties: Vec::new(),
    };
    note("snapshot", dsl.run(task));
    stage("destroy");
    let release = Release {
        holds: vec![(format!("{POOL}@two"), "held".to_owned())],
    };
    note("release", dsl.run(release));
    let is_below = |name: &&String| !name.contains('@') && *name != POOL;
    for name in names.iter().rev().filter(is_below) {
        let task = DestroyHead { path: name.clone() };
        note("destroy", dsl.run(task));
    }
    let snapshots: Vec<String> = names
        .iter()
        .filter(|name| name.contains('@'))
        .cloned()
        .collect();
    for name in snapshots {
        let task = DestroySnapshots {
            names: vec![name],
            defer: false,
        };
        note("destroy", dsl.run(task));
    }
    stage("sync");
    for _ in 0..3 {
        note("sync", pool.sync());
    }
    stage("export");
    note("export", pool.export());
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
