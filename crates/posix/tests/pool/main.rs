//! File systems on real pools in image files: what was written is there after an export and an
//! import, and OpenZFS's zdb finds nothing wrong with it.

mod bench;
mod long_frees;
mod numbers;
mod owners;
mod replay;
#[path = "../golden/walk.rs"]
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::clock::{Clock, SystemClock};
use format::ObjectSetKind;
use golden::Zdb;
use millpond_posix::{
    AclKind, DatasetProperties, FileSystem, IntentLog, MountOptions, NewFileSystem, Source,
    XattrStore, create_file_system,
};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use torture::model::Tree;
use torture::operation::Chooser;
use torture::real;

fn populate(new: NewFileSystem) -> dsl::tasks::Populate {
    Box::new(move |objects, tx| {
        create_file_system(tx, objects, &SystemClock, &new)
            .map(|_| ())
            .map_err(|error| error.to_string())
    })
}

fn create(folder: &Path, new: NewFileSystem) -> Arc<Pool> {
    let path = folder.join("pond.img");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(512 << 20)
        .unwrap();
    let device = NewVdev::Single(NewDevice::Path(path));
    let mut options = CreateOptions::new("pond", vec![device]);
    options.root.populate = Some(populate(new));
    Pool::create(options).unwrap()
}

fn import(folder: &Path) -> Arc<Pool> {
    let options = ImportOptions::new(vec![PathBuf::from(folder)], Selection::Only);
    Pool::import(&options).unwrap()
}

fn source(pool: &Pool, name: &str, properties: DatasetProperties) -> (Source, Arc<intent::Log>) {
    let dataset = pool.dsl().dataset(name).unwrap();
    let log = pool.intent_log(&dataset).unwrap().unwrap();
    let source = Source {
        objects: dataset.object_set().unwrap(),
        engine: pool.engine().cloned(),
        log: Some(Arc::new(IntentLog::new(Arc::clone(&log)))),
        space: Some(dataset.admission()),
        clock: Arc::new(SystemClock) as Arc<dyn Clock>,
        identity: 1,
        properties,
    };
    (source, log)
}

/// Mounts the head of a dataset, after its log was replayed; says how many records that were.
fn mount_replayed(
    pool: &Pool,
    name: &str,
    properties: DatasetProperties,
) -> (Arc<FileSystem>, u64) {
    let (first, log) = source(pool, name, properties);
    let replayed = millpond_posix::replay(first, &log).unwrap();
    assert_eq!(replayed.failed, None, "{name}");
    let source = source(pool, name, properties).0;
    let system = FileSystem::mount(source, MountOptions::default()).unwrap();
    (system, replayed.records)
}

fn mount(pool: &Pool, name: &str, properties: DatasetProperties) -> Arc<FileSystem> {
    mount_replayed(pool, name, properties).0
}

struct Case {
    name: &'static str,
    new: NewFileSystem,
    properties: DatasetProperties,
    seed: u64,
}

fn cases() -> Vec<Case> {
    let plain = DatasetProperties {
        acl: AclKind::Posix,
        ..DatasetProperties::default()
    };
    let new = NewFileSystem::default();
    let case = |name, new, properties, seed| Case {
        name,
        new,
        properties,
        seed,
    };
    let large = DatasetProperties {
        record_size: 1 << 20,
        dnode_slots: 2,
        long_names: true,
        ..plain
    };
    let hidden = DatasetProperties {
        xattr: XattrStore::Directory,
        ..plain
    };
    let small = DatasetProperties {
        record_size: 4096,
        ..plain
    };
    let old = |version| NewFileSystem { version, ..new };
    vec![
        case("pond/plain", new, plain, 1),
        case("pond/large", new, large, 2),
        case("pond/hidden", new, hidden, 3),
        case("pond/small", new, small, 4),
        case("pond/v4", old(4), plain, 5),
        case("pond/v2", old(2), plain, 6),
    ]
}

fn run(fs: &FileSystem, seed: u64, steps: usize) -> Tree {
    let mut chooser = Chooser::new(seed);
    let mut tree = Tree::new();
    for step in 0..steps {
        let operation = chooser.next(&tree);
        let wanted = tree.apply(&operation);
        let found = real::apply(fs, &operation);
        assert_eq!(
            wanted.is_ok(),
            found.is_ok(),
            "seed {seed}, step {step}: {operation:?}"
        );
        if step % 150 == 0 {
            fs.sync().unwrap();
        }
    }
    tree
}

#[test]
fn histories_survive_and_zdb_is_content() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(folder.path(), NewFileSystem::default());
    let mut trees = Vec::new();
    for case in cases() {
        let task = dsl::tasks::CreateDataset {
            path: case.name.to_owned(),
            kind: ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: Some(populate(case.new)),
        };
        pool.dsl().run(task).unwrap();
        let fs = mount(&pool, case.name, case.properties);
        let tree = run(&fs, case.seed, 700);
        long_name(&fs, case.properties.long_names);
        fs.unmount().unwrap();
        trees.push((case, tree));
    }
    pool.export().unwrap();
    drop(pool);
    check_with_zdb(folder.path(), &trees);
    let pool = import(folder.path());
    for (case, tree) in &trees {
        let fs = mount(&pool, case.name, case.properties);
        if case.properties.long_names {
            let root = millpond_posix::Credentials::root();
            fs.unlink(&root, fs.root(), &[b'l'; 700]).unwrap();
        }
        assert_eq!(
            real::differences(tree, &fs),
            Vec::<String>::new(),
            "{}",
            case.name
        );
        fs.unmount().unwrap();
    }
    pool.export().unwrap();
    drop(pool);
    check_with_zdb(folder.path(), &trees);
}

/// A name that only the feature for long names allows.
fn long_name(fs: &FileSystem, allowed: bool) {
    use millpond_posix::{Credentials, FileType, NewNode};
    let file_type = FileType::Fifo;
    let node = NewNode {
        file_type,
        permissions: 0o600,
        umask: 0,
        device: (0, 0),
    };
    let made = fs.mknod(&Credentials::root(), fs.root(), &[b'l'; 700], &node);
    assert_eq!(made.is_ok(), allowed);
}

fn check_with_zdb(folder: &Path, trees: &[(Case, Tree)]) {
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    zdb.assert_clean(folder, "pond");
    for (case, _) in trees {
        let output = zdb.run(folder, &["-dddd"], &[case.name]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {text}", case.name);
    }
}

/// Leaves an image for the kernel's ZFS to look at: `MILLPOND_IMAGE` names its folder.
#[test]
#[ignore = "leaves an image behind"]
fn image_for_the_kernel() {
    let folder = PathBuf::from(std::env::var_os("MILLPOND_IMAGE").unwrap());
    let pool = create(&folder, NewFileSystem::default());
    for case in cases() {
        let task = dsl::tasks::CreateDataset {
            path: case.name.to_owned(),
            kind: ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: Some(populate(case.new)),
        };
        pool.dsl().run(task).unwrap();
        let fs = mount(&pool, case.name, case.properties);
        run(&fs, case.seed, 400);
        fs.unmount().unwrap();
    }
    pool.export().unwrap();
}
