//! The pools that are forged: some made here, which have what Millpond writes, and those of OpenZFS, which have more.

use crate::trial;
use base::ObjectId;
use crypto::{KeyFormat, KeyMaterial, WrappingKey};
use dsl::tasks::{CreateDataset, CreateEncrypted, Snapshot};
use dsl::{NewEncryption, NewKey, PropertyValue};
use format::ObjectSetKind;
use millpond_torture::pool_model::{Change, real};
use millpond_torture::random::Random;
use millpond_torture::test_pool::{POOL, TestPool};
use pool::{CreateOptions, NewDevice, NewVdev, VdevRole};
use posix::{Credentials, FileSystem, FileType, NewNode, OpenOptions, WriteOptions, XattrMode};
use replication::receive::{Head, Incoming, Place, apply};
use replication::send::{SendJob, SendOptions, SendRedaction, send};
use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stream::{Part, Record, Writer};
use volume::Durability;

const SIZE: u64 = 128 << 20;
/// A passphrase of a golden pool.
pub(crate) const PASSPHRASE: &[u8] = b"correct horse battery";
/// The key of what is encrypted here.
pub(crate) const RAW_KEY: [u8; 32] = [7; 32];

/// What is forged, by name: `GOLDEN` comes from the golden pools.
pub(crate) const NAMES: [&str; 17] = [
    "one device",
    "redundant",
    "default",
    "codecs",
    "mirror",
    "raidz1",
    "raidz2",
    "classes",
    "removed",
    "enc",
    "zil",
    "checkpoint",
    "vol",
    "old",
    "v28",
    "gang",
    "nofeat",
];

/// Makes the pool of that name in a folder, or copies it there; says the pool's name. None where it is not at hand.
pub(crate) fn make(name: &str, folder: &Path) -> Option<String> {
    match name {
        "one device" => one_device(folder),
        "redundant" => redundant(folder),
        _ => {
            let golden = golden::pool(name)?;
            for image in golden.images() {
                let target = folder.join(image.file_name()?);
                let copied = std::process::Command::new("cp")
                    .arg("--sparse=always")
                    .args([&image, &target])
                    .status();
                assert!(copied.expect("cp").success());
            }
            return Some(golden.pool_name());
        }
    }
    Some(POOL.to_owned())
}

fn image(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.img"));
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    path
}

fn writing() -> OpenOptions {
    OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    }
}

fn node(file_type: FileType) -> NewNode {
    NewNode {
        file_type,
        permissions: 0o755,
        umask: 0,
        device: (0, 0),
    }
}

fn snapshot(test_pool: &TestPool, name: &str) {
    let names = vec![name.to_owned()];
    let properties = Vec::new();
    let task = Snapshot { names, properties };
    test_pool.pool.dsl().run(task).unwrap();
}

/// Files and directories of all kinds.
fn fill(system: &FileSystem, random: &mut Random) {
    let who = Credentials::root();
    let root = system.root();
    let file = |directory: ObjectId, name: &str, size: usize, random: &mut Random| {
        let made = system.create(
            &who,
            directory,
            name.as_bytes(),
            &node(FileType::Regular),
            writing(),
        );
        let (file, shown) = made.unwrap();
        file.write(0, &random.bytes(size), WriteOptions::default())
            .unwrap();
        shown.object
    };
    for (index, size) in [0, 10, 5000, 140_000, 700_000].into_iter().enumerate() {
        let object = file(root, &format!("file-{index}"), size, random);
        for (name, len) in [("user.short", 10), ("user.long", 3000)] {
            let value = vec![1; len];
            let set = system.setxattr(&who, object, name.as_bytes(), &value, XattrMode::Either);
            set.unwrap();
        }
    }
    for (name, count) in [("few", 5), ("many", 300)] {
        let made = system.mkdir(&who, root, name.as_bytes(), &node(FileType::Directory));
        let directory = made.unwrap().object;
        for index in 0..count {
            file(
                directory,
                &format!("a longer name, number {index}"),
                100,
                random,
            );
        }
    }
    // The second has as many letters as a directory: forged names can be the same.
    for (name, target) in [
        ("link", &b"a/target/somewhere"[..]),
        ("away", trial::AWAY.as_bytes()),
    ] {
        system.symlink(&who, root, name.as_bytes(), target).unwrap();
    }
}

/// A file that was fsynced and is in no txg yet.
fn log_a_file(system: &FileSystem) {
    let who = Credentials::root();
    let made = system.create(
        &who,
        system.root(),
        b"in the log",
        &node(FileType::Regular),
        writing(),
    );
    let (file, _) = made.unwrap();
    file.write(0, &[3; 20_000], WriteOptions::default())
        .unwrap();
    file.fsync().unwrap();
}

/// What a crash at this moment leaves takes the place of the images.
fn leave(test_pool: TestPool, images: &[PathBuf]) {
    for path in images {
        std::fs::copy(path, path.with_extension("kept")).unwrap();
    }
    test_pool.close_all();
    test_pool.pool.export().unwrap();
    drop(test_pool);
    for path in images {
        std::fs::rename(path.with_extension("kept"), path).unwrap();
    }
}

/// A pool with something of everything, left without an export, its log unreplayed.
fn one_device(folder: &Path) {
    let path = image(folder, "forged");
    let test_pool = TestPool::create(vec![NewDevice::Path(path.clone())]).unwrap();
    let mut random = Random::new(1);
    let root = test_pool.root();
    fill(&root, &mut random);
    snapshot(&test_pool, &format!("{POOL}@one"));
    let who = Credentials::root();
    for name in ["file-3", "file-2"] {
        drop(root.unlink(&who, root.root(), name.as_bytes()).unwrap());
    }
    snapshot(&test_pool, &format!("{POOL}@two"));
    drop(root);
    let path_of = |name: &str| format!("{POOL}/{name}");
    let changes = [
        Change::Create(path_of("child")),
        Change::Clone(format!("{POOL}@one"), path_of("clone")),
        Change::Bookmark(format!("{POOL}#mark"), format!("{POOL}@one")),
        Change::Hold(format!("{POOL}@two"), "held".to_owned()),
        Change::Set(
            path_of("child"),
            "quota".to_owned(),
            PropertyValue::Number(50 << 20),
        ),
    ];
    for change in &changes {
        real::apply(&test_pool, change).unwrap();
    }
    fill(&test_pool.system(&path_of("child")), &mut random);
    let clone = test_pool.system(&path_of("clone"));
    let changed = clone.lookup(&Credentials::root(), clone.root(), b"file-4");
    let changed = clone.open(&Credentials::root(), changed.unwrap().object, writing());
    let changed = changed.unwrap();
    changed
        .write(1000, &[5; 9000], WriteOptions::default())
        .unwrap();
    changed.fsync().unwrap();
    drop((changed, clone));
    volume(&test_pool, &mut random);
    receive_in_part(&test_pool);
    test_pool.pool.sync().unwrap();
    log_a_file(&test_pool.root());
    leave(test_pool, &[path]);
}

fn volume(test_pool: &TestPool, random: &mut Random) {
    let path = format!("{POOL}/volume");
    let task = CreateDataset {
        path: path.clone(),
        kind: ObjectSetKind::Volume,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(Box::new(|set, tx| {
            dsl::volume::populate(set, tx, 8 << 20, 8192).map_err(|error| error.to_string())
        })),
    };
    test_pool.pool.dsl().run(task).unwrap();
    let volume = trial::open_volume(&test_pool.pool, &path, false).unwrap();
    volume
        .write_at(0, &random.bytes(300_000), Durability::AtOnce)
        .unwrap();
    volume.close().unwrap();
    snapshot(test_pool, &format!("{path}@one"));
}

/// What a receive leaves that broke off and can go on.
fn receive_in_part(test_pool: &TestPool) {
    let pool = &test_pool.pool;
    let name = format!("{POOL}@one");
    let job = SendJob {
        dataset: pool.dsl().dataset(&name).unwrap(),
        name,
        from: None,
        options: SendOptions::default(),
        resume: None,
        redaction: SendRedaction::default(),
        saved: None,
    };
    let mut writer = Writer::new(Vec::new());
    send(pool, &job, &mut writer).unwrap();
    let mut sent = writer.into_output();
    sent.truncate(sent.len() / 2);
    let mut incoming = Incoming::start(Cursor::new(sent)).unwrap();
    let piece = incoming.next_piece().unwrap().unwrap();
    let (Part::Substream, Record::Begin(begin)) = (piece.item.part, &piece.item.record) else {
        panic!("a stream begins otherwise");
    };
    let head = Head::of(begin, &piece.payload).unwrap();
    let place = Place {
        path: format!("{POOL}/received"),
        snapshot: "one".to_owned(),
        origin: None,
        force: false,
        unencrypted: false,
        resumable: true,
    };
    let receiving = pool.dsl().run(head.begin(&place)).unwrap();
    let engine = pool.engine().unwrap();
    apply(
        &mut incoming,
        &receiving,
        engine,
        head.substream(&place),
        &|| Ok(()),
    )
    .unwrap_err();
}

/// A RAID-Z with a device that missed something, a log device, a device for metadata, a spare, and encrypted datasets.
fn redundant(folder: &Path) {
    let of_raidz = ["side0", "side1", "side2"].map(|name| image(folder, name));
    let [log, special, spare] = ["log", "special", "spare"].map(|name| image(folder, name));
    let device = |path: &PathBuf| NewDevice::Path(path.clone());
    let data = NewVdev::RaidZ(1, of_raidz.iter().map(device).collect());
    let mut options = CreateOptions::new(POOL, vec![data]);
    options.others = vec![
        (VdevRole::Log, NewVdev::Single(device(&log))),
        (VdevRole::Special, NewVdev::Single(device(&special))),
    ];
    options.spares = vec![device(&spare)];
    options.root.populate = Some(real::populate());
    let test_pool = TestPool::create_as(options).unwrap();
    let mut random = Random::new(2);
    fill(&test_pool.root(), &mut random);
    for suite in [3, 8] {
        encrypted(&test_pool, suite, &mut random);
    }
    test_pool.export().unwrap();
    // What comes now is not on the last device.
    let last = &of_raidz[2];
    let away = last.with_extension("away");
    std::fs::rename(last, &away).unwrap();
    let test_pool = trial::import(folder, POOL, false).unwrap();
    log_a_file(&test_pool.root());
    test_pool.export().unwrap();
    std::fs::rename(&away, last).unwrap();
    let test_pool = trial::import(folder, POOL, false).unwrap();
    log_a_file(&test_pool.system(&format!("{POOL}/suite-8")));
    let [side0, side1, side2] = of_raidz;
    leave(test_pool, &[side0, side1, side2, log, special, spare]);
}

fn encrypted(test_pool: &TestPool, suite: u64, random: &mut Random) {
    let path = format!("{POOL}/suite-{suite}");
    let material = KeyMaterial {
        format: KeyFormat::Raw,
        salt: 0,
        iterations: 0,
    };
    let key = WrappingKey::from_raw(&RAW_KEY).unwrap();
    let create = CreateDataset {
        path: path.clone(),
        kind: ObjectSetKind::FileSystem,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(real::populate()),
    };
    let encryption = NewEncryption::Root(Some(suite), NewKey { material, key });
    let task = CreateEncrypted { create, encryption };
    let made: Arc<dsl::Dataset> = test_pool.pool.dsl().run(task).unwrap();
    drop(made);
    fill(&test_pool.system(&path), random);
    snapshot(test_pool, &format!("{path}@one"));
}
