//! Datasets on a real pool: after every kind of change, zdb finds nothing wrong.

use std::sync::{Arc, mpsc};

use base::ObjectId;
use base::clock::SystemClock;
use dsl::tasks::{
    CleanedUp, Clone, CreateBookmark, CreateDataset, DestroyHead, DestroySnapshots, Hold, Populate,
    Promote, Release, Rename, Rollback, Snapshot,
};
use dsl::{DslError, PropertyChange, PropertyValue, SetProperties, Task, TaskContext};
use format::ObjectSetKind;
use format::config::directory;
use format::dsl::{DatasetPhys, DirectoryPhys};
use millpond_pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use posix::{
    Credentials, DatasetProperties, FileSystem, FileType, MountOptions, NewFileSystem, NewNode,
    OpenOptions, Source, WriteOptions,
};
use tempfile::TempDir;

fn populate() -> Populate {
    Box::new(|objects, tx| {
        posix::create_file_system(tx, objects, &SystemClock, &NewFileSystem::default())
            .map(drop)
            .map_err(|error| error.to_string())
    })
}

fn create(path: &str) -> CreateDataset {
    CreateDataset {
        path: path.to_owned(),
        kind: ObjectSetKind::FileSystem,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(populate()),
    }
}

fn snapshot(names: &[&str]) -> Snapshot {
    Snapshot {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        properties: Vec::new(),
    }
}

fn destroy(name: &str) -> DestroySnapshots {
    DestroySnapshots {
        names: vec![name.to_owned()],
        defer: false,
    }
}

/// A pool on a file, and the zdb that judges it.
struct Bench {
    folder: TempDir,
    pool: Option<Arc<Pool>>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("tank.img");
        std::fs::File::create(&image)
            .unwrap()
            .set_len(256 << 20)
            .unwrap();
        let vdev = NewVdev::Single(NewDevice::Path(image));
        let mut options = CreateOptions::new("tank", vec![vdev]);
        options.root.populate = Some(populate());
        let pool = Some(Pool::create(options).unwrap());
        Self { folder, pool }
    }

    fn pool(&self) -> &Arc<Pool> {
        self.pool.as_ref().unwrap()
    }

    fn run<T: dsl::Task + 'static>(&self, task: T) -> T::Output {
        self.pool().dsl().run(task).unwrap()
    }

    /// Exports the pool, lets zdb look at it, and imports it again.
    fn check(&mut self) {
        let pool = self.pool.take().unwrap();
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(self.folder.path(), "tank");
            let objects = zdb.run(self.folder.path(), &["-dddd"], &["tank"]);
            let text = String::from_utf8_lossy(&objects.stderr);
            assert!(objects.status.success(), "zdb -dddd: {text}");
        }
        let paths = vec![self.folder.path().to_owned()];
        let options = ImportOptions::new(paths, Selection::Name("tank".to_owned()));
        self.pool = Some(Pool::import(&options).unwrap());
    }

    /// Frees all that waits.
    fn drain(&self) {
        for _ in 0..200 {
            if !self.pool().dsl().has_background_frees().unwrap() {
                return;
            }
            self.pool().sync().unwrap();
        }
        panic!("the background frees do not end");
    }

    /// Writes some files into a head and closes it.
    fn write(&self, path: &str, names: &[&str], size: usize, seed: u8) {
        let dataset = self.pool().dsl().head(path).unwrap();
        let source = Source {
            objects: dataset.object_set().unwrap(),
            engine: self.pool().engine().cloned(),
            log: Some(Arc::new(posix::NoLog::new(
                self.pool().engine().cloned().unwrap(),
            ))),
            space: Some(dataset.admission()),
            clock: Arc::new(SystemClock),
            identity: 0,
            properties: DatasetProperties::default(),
        };
        let files = FileSystem::mount(source, MountOptions::default()).unwrap();
        let root = Credentials::root();
        for name in names {
            let found = files.lookup(&root, files.root(), name.as_bytes());
            let options = OpenOptions {
                write: true,
                ..OpenOptions::default()
            };
            let file = match found {
                Ok(found) => files
                    .open(&root, ObjectId(found.object.0), options)
                    .unwrap(),
                Err(_) => {
                    let node = NewNode {
                        file_type: FileType::Regular,
                        permissions: 0o644,
                        umask: 0,
                        device: (0, 0),
                    };
                    files
                        .create(&root, files.root(), name.as_bytes(), &node, options)
                        .unwrap()
                        .0
                }
            };
            // Nothing that compresses: an ordinary generator's high bytes.
            let mut state = u64::from(seed);
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            };
            let data: Vec<u8> = (0..size).map(|_| next()).collect();
            file.write(0, &data, WriteOptions::default()).unwrap();
        }
        files.unmount().unwrap();
        self.pool().sync().unwrap();
    }
}

#[test]
fn snapshots_clones_and_their_ends() {
    let mut bench = Bench::new();
    bench.run(create("tank/a"));
    bench.write("tank/a", &["x", "y"], 300_000, 3);
    bench.run(snapshot(&["tank@one", "tank/a@one"]));
    bench.write("tank/a", &["y", "z"], 200_000, 5);
    bench.run(snapshot(&["tank/a@two"]));
    bench.check();
    let name = "tank/a#mark".to_owned();
    bench.run(CreateBookmark {
        name,
        source: "tank/a@one".to_owned(),
    });
    let holds = vec![("tank/a@one".to_owned(), "keep".to_owned())];
    bench.run(Hold {
        holds: holds.clone(),
    });
    let origin = "tank/a@two".to_owned();
    bench.run(Clone {
        origin,
        path: "tank/c".to_owned(),
        properties: Vec::new(),
    });
    bench.write("tank/c", &["x", "w"], 100_000, 7);
    bench.write("tank/a", &["x"], 100_000, 9);
    bench.check();
    bench.run(Release { holds });
    bench.run(destroy("tank/a@one"));
    bench.drain();
    bench.check();
    bench.run(Promote {
        path: "tank/c".to_owned(),
    });
    bench.check();
    bench.run(Rollback {
        path: "tank/c".to_owned(),
        snapshot: None,
    });
    bench.check();
    bench.drain();
    bench.run(DestroyHead {
        path: "tank/a".to_owned(),
    });
    bench.check();
    bench.drain();
    bench.run(destroy("tank/c@two"));
    bench.run(DestroyHead {
        path: "tank/c".to_owned(),
    });
    bench.drain();
    bench.check();
}

#[test]
fn a_clone_is_destroyed_by_its_livelist() {
    let mut bench = Bench::new();
    bench.run(create("tank/a"));
    bench.write("tank/a", &["x", "y", "z"], 600_000, 3);
    bench.run(snapshot(&["tank/a@one"]));
    let origin = "tank/a@one".to_owned();
    bench.run(Clone {
        origin,
        path: "tank/c".to_owned(),
        properties: Vec::new(),
    });
    bench.write("tank/c", &["x"], 40_000, 7);
    bench.write("tank/c", &["x", "w"], 30_000, 8);
    let livelist = bench
        .pool()
        .dsl()
        .directory("tank/c")
        .unwrap()
        .livelist()
        .unwrap();
    assert!(
        livelist.is_some()
            || !bench
                .pool()
                .features()
                .is_enabled(&format::features::LIVELIST)
    );
    bench.check();
    bench.run(DestroyHead {
        path: "tank/c".to_owned(),
    });
    bench.check();
    bench.drain();
    bench.check();
}

#[test]
fn properties_and_names() {
    let mut bench = Bench::new();
    bench.run(create("tank/a"));
    bench.run(create("tank/a/b"));
    let mut changes = Vec::new();
    for (name, value) in [
        ("quota", 64 << 20),
        ("reservation", 8 << 20),
        ("refreservation", 1 << 20),
    ] {
        changes.push((
            name.to_owned(),
            PropertyChange::Set(PropertyValue::Number(value)),
        ));
    }
    let text = PropertyValue::Text("some text".to_owned());
    changes.push(("user:note".to_owned(), PropertyChange::Set(text)));
    const ZSTD: u64 = 16;
    changes.push((
        "compression".to_owned(),
        PropertyChange::Set(PropertyValue::Number(ZSTD)),
    ));
    bench.run(SetProperties {
        name: "tank/a".to_owned(),
        changes,
    });
    bench.write("tank/a", &["x"], 500_000, 2);
    bench.write("tank/a/b", &["x"], 500_000, 1);
    bench.run(snapshot(&["tank/a@s", "tank/a/b@s"]));
    bench.write("tank/a/b", &["x"], 500_000, 0);
    bench.check();
    bench.run(Rename {
        from: "tank/a/b".to_owned(),
        to: "tank/z".to_owned(),
    });
    bench.check();
    let space = bench.pool().dsl().head("tank/a").unwrap().space().unwrap();
    assert!(space.available < 64 << 20);
    let found = bench
        .pool()
        .dsl()
        .head("tank/z")
        .unwrap()
        .effective(dsl::property::dataset::COMPRESSION.row())
        .unwrap();
    assert_eq!(found, None);
}

/// Leaves the pool as a receive and a send do that were broken off.
struct BreakOff {
    inconsistent: Vec<&'static str>,
    /// A child of this head's directory that gets a hidden name.
    hidden: (&'static str, &'static str),
    held: &'static str,
}

impl dsl::Task for BreakOff {
    type Output = ();

    fn check(&mut self, _context: &TaskContext<'_>) -> dsl::Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        for path in &self.inconsistent {
            let object = dsl.mos().set.object(dsl.head(path)?.id())?;
            object.modify_bonus(tx, |bytes| {
                let mut phys = DatasetPhys::decode_padded(bytes, base::ByteOrder::NATIVE);
                phys.flags |= DatasetPhys::FLAG_INCONSISTENT;
                phys.encode(bytes, base::ByteOrder::NATIVE);
            })?;
        }
        let set = &dsl.mos().set;
        let parent = dsl.directory(self.hidden.0)?.id();
        let child_map = set.object(parent)?.with_bonus(|bytes| {
            DirectoryPhys::decode_padded(bytes, base::ByteOrder::NATIVE).child_map
        });
        let children = dmu::Zap::open(&set.object(child_map)?)?;
        let name = self.hidden.1.as_bytes();
        let child = children.lookup(name)?.unwrap();
        children.remove(tx, name)?;
        children.add(tx, &[b"%", name].concat(), child)?;
        let options = dmu::CreateZap {
            object_type: format::ObjectType::USER_REFERENCES,
            ..dmu::CreateZap::default()
        };
        let list = dmu::Zap::create(set, tx, &options)?;
        let snapshot = dsl.dataset(self.held)?.id();
        list.add(tx, format!("{:x}-keep", snapshot.0).as_bytes(), 1)?;
        list.add(tx, b"7777-gone", 1)?;
        let directory = dmu::Zap::open(&set.object(directory::OBJECT)?)?;
        directory.update(
            tx,
            directory::TEMPORARY_HOLDS.as_bytes(),
            list.object().id().0,
        )?;
        Ok(())
    }
}

#[test]
fn an_import_removes_what_a_broken_session_left() {
    let mut bench = Bench::new();
    for path in ["tank/a", "tank/half", "tank/kept"] {
        bench.run(create(path));
        bench.write(path, &["x"], 300_000, 3);
    }
    bench.run(snapshot(&["tank/a@one"]));
    bench.run(snapshot(&["tank/a@two"]));
    bench.run(Clone {
        origin: "tank/a@two".to_owned(),
        path: "tank/a/recv".to_owned(),
        properties: Vec::new(),
    });
    bench.write("tank/a/recv", &["y"], 200_000, 5);
    bench.run(Hold {
        holds: ["keep", "stays"]
            .map(|tag| ("tank/a@one".to_owned(), tag.to_owned()))
            .into(),
    });
    bench.run(BreakOff {
        inconsistent: vec!["tank/half", "tank/a/recv"],
        hidden: ("tank/a", "recv"),
        held: "tank/a@one",
    });
    bench.check();
    let dsl = bench.pool().dsl();
    assert!(dsl.head("tank/half").is_err());
    assert!(dsl.head("tank/a/%recv").is_err());
    assert!(dsl.head("tank/kept").is_ok());
    let holds = dsl.dataset("tank/a@one").unwrap().holds().unwrap();
    let tags: Vec<_> = holds.into_iter().map(|hold| hold.tag).collect();
    assert_eq!(tags, ["stays"]);
    // Nothing is left to be done the next time.
    assert_eq!(dsl.clean_up().unwrap(), CleanedUp::default());
    bench.drain();
    bench.check();
}

/// Imports a copy of a golden pool for writing.
fn golden_copy(name: &str) -> Option<(TempDir, String, Arc<Pool>)> {
    let golden = golden::pool(name)?;
    let (folder, _) = golden.copy();
    let pool_name = golden.pool_name();
    let selection = Selection::Name(pool_name.clone());
    let mut options = ImportOptions::new(vec![folder.path().to_owned()], selection);
    options.force = true;
    let pool = Pool::import(&options).unwrap();
    Some((folder, pool_name, pool))
}

#[test]
fn a_pool_made_by_openzfs_is_taken_apart() {
    let Some((folder, name, pool)) = golden_copy("default") else {
        return;
    };
    let dsl = pool.dsl();
    let path = |path: &str| format!("{name}/{path}");
    dsl.run(snapshot(&[&path("clone@new"), &path("home/alice@three")]))
        .unwrap();
    dsl.run(destroy(&path("clone@new"))).unwrap();
    dsl.run(DestroyHead {
        path: path("clone"),
    })
    .unwrap();
    for snapshot in ["home/alice@two", "home/alice@one", "home@two"] {
        let found = dsl.dataset(&path(snapshot)).unwrap();
        let holds = found.holds().unwrap().into_iter();
        let holds: Vec<_> = holds.map(|hold| (path(snapshot), hold.tag)).collect();
        if !holds.is_empty() {
            dsl.run(Release { holds }).unwrap();
        }
        dsl.run(destroy(&path(snapshot))).unwrap();
        pool.sync().unwrap();
    }
    dsl.run(dsl::tasks::DestroyBookmark {
        name: path("home/alice#mark"),
    })
    .unwrap();
    for _ in 0..100 {
        if dsl.has_background_frees().unwrap() {
            pool.sync().unwrap();
        }
    }
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), &name);
    }
}

/// A task that goes on from txg to txg until there is a snapshot `tank@other`.
struct Watching {
    /// What the last check saw.
    seen: bool,
    slices: u32,
    began: mpsc::Sender<()>,
}

fn other_is_there(context: &TaskContext<'_>) -> Result<bool, DslError> {
    Ok(context.dsl.head("tank")?.snapshot("other")?.is_some())
}

impl Task for Watching {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<(), DslError> {
        self.seen = other_is_there(context)?;
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<(), DslError> {
        assert_eq!(self.seen, other_is_there(context)?, "not checked again");
        self.slices += 1;
        let _ = self.began.send(());
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.seen || self.slices == 10_000
    }
}

#[test]
fn a_task_that_goes_on_is_checked_again_after_another() {
    let bench = Bench::new();
    let (began, first) = mpsc::channel();
    let bench = &bench;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            first.recv().unwrap();
            bench.run(snapshot(&["tank@other"]));
        });
        bench.run(Watching {
            seen: false,
            slices: 0,
            began,
        });
    });
    assert!(bench.pool().dsl().dataset("tank@other").is_ok());
}
