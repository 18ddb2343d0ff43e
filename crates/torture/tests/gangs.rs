//! Blocks in pieces, behind gang headers as long as OpenZFS 2.4 makes them: written, read, scrubbed and freed, on each
//! kind of vdev, in a pool that is exported and imported in between.

use base::random::{Rng, SeededRng};
use format::features::{self, DYNAMIC_GANG_HEADER, Feature, Flags};
use millpond_torture::aftermath;
use millpond_torture::pool_model::real::populate;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{CreateOptions, DraidWidth, NewDevice, NewVdev, Pool};
use posix::{Credentials, FileSystem, FileType, NewNode, OpenOptions, WriteOptions};
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 192 << 20;
const FILE_BYTES: usize = 1 << 20;
/// Longer blocks are stored in pieces.
const WHOLE_MAX: u64 = 32 << 10;

/// As OpenZFS has it once it wrote such a header: new pools of ours never count it.
static ACTIVE: Feature = Feature {
    flags: Flags {
        active_when_enabled: true,
        ..DYNAMIC_GANG_HEADER.flags
    },
    ..DYNAMIC_GANG_HEADER
};

#[derive(Clone, Copy, Debug)]
enum Shape {
    Single,
    Mirror,
    RaidZ,
    Draid,
}

impl Shape {
    const fn devices(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Mirror => 2,
            Self::RaidZ => 4,
            Self::Draid => 5,
        }
    }

    fn vdev(self, mut devices: Vec<NewDevice>) -> NewVdev {
        let width = DraidWidth {
            parity: 1,
            data: 3,
            spares: 1,
        };
        match self {
            Self::Single => NewVdev::Single(devices.remove(0)),
            Self::Mirror => NewVdev::Mirror(devices),
            Self::RaidZ => NewVdev::RaidZ(2, devices),
            Self::Draid => NewVdev::Draid(width, devices),
        }
    }

    /// What a header is as long as.
    const fn header_bytes(self) -> usize {
        match self {
            Self::Single | Self::Mirror | Self::RaidZ => 4096,
            Self::Draid => 3 * 4096,
        }
    }

    /// Whether a device has all of a header: of a dRAID each has a column.
    const fn has_whole_headers(self) -> bool {
        !matches!(self, Self::Draid)
    }

    fn create(self, folder: &Path) -> TestPool {
        let devices = (0..self.devices()).map(|number| {
            let path = image(folder, &number.to_string());
            drop(device::FileDevice::create(&path, SIZE).unwrap());
            NewDevice::Path(path)
        });
        let mut options = CreateOptions::new(POOL, vec![self.vdev(devices.collect())]);
        options.ashift = Some(12);
        options.root.populate = Some(populate());
        let mut enabled = pool::default_features();
        enabled.push(&ACTIVE);
        options.features = Some(enabled);
        TestPool::create_as(options).unwrap()
    }
}

fn contents(seed: u64) -> Vec<u8> {
    let mut data = vec![0; FILE_BYTES];
    SeededRng::new(seed).fill(&mut data);
    data
}

fn write(system: &FileSystem, name: &str, seed: u64) {
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let made = system.create(&root, system.root(), name.as_bytes(), &node, options);
    let (file, _) = made.unwrap();
    let options = WriteOptions::default();
    assert_eq!(file.write(0, &contents(seed), options).unwrap(), FILE_BYTES);
}

fn is_there(system: &FileSystem, name: &str, seed: u64) {
    let root = Credentials::root();
    let found = system.lookup(&root, system.root(), name.as_bytes());
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = system.open(&root, found.unwrap().object, options).unwrap();
    let (mut data, mut at) = (vec![0; FILE_BYTES], 0);
    while at < data.len() {
        at += file.read(at as u64, &mut data[at..]).unwrap();
    }
    assert!(data == contents(seed), "{name}");
}

fn settle(pool: &Arc<Pool>) {
    (0..4).for_each(|_| pool.sync().unwrap());
}

fn scrub(pool: &Arc<Pool>) {
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
}

/// How many headers of a length the devices show.
fn headers(folder: &Path, shape: Shape) -> usize {
    let magic = format::embedded_checksum::MAGIC.to_ne_bytes();
    let at = shape.header_bytes() - format::embedded_checksum::SIZE;
    let count = |number: usize| {
        let bytes = std::fs::read(image(folder, &number.to_string())).unwrap();
        let sectors = bytes[4 << 20..bytes.len() - (1 << 20)].chunks(shape.header_bytes());
        sectors
            .filter(|sector| sector.get(at..at + 8) == Some(&magic))
            .count()
    };
    (0..shape.devices()).map(count).sum()
}

/// That of OpenZFS 2.3 opens no such pool: `MILLPOND_ZDB_24` says that the zdb at hand is newer.
fn judge_by_zdb(folder: &Path) {
    if std::env::var_os("MILLPOND_ZDB_24").is_some()
        && let Some(zdb) = golden::Zdb::from_environment()
    {
        zdb.assert_clean(folder, POOL);
    }
}

fn come_and_go(shape: Shape) {
    println!("{shape:?}");
    let folder = tempfile::tempdir().unwrap();
    shape.create(folder.path()).export().unwrap();
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let pool = Arc::clone(&test_pool.pool);
    let in_use = || pool.space().allocated;
    settle(&pool);
    let before = in_use();
    pool.set_whole_block_max(WHOLE_MAX);
    let system = test_pool.root();
    for (seed, name) in [(1, "goes"), (2, "stays")] {
        write(&system, name, seed);
    }
    settle(&pool);
    scrub(&pool);
    is_there(&system, "goes", 1);
    let root = Credentials::root();
    drop(system.unlink(&root, system.root(), b"goes").unwrap());
    settle(&pool);
    let one = in_use() - before;
    assert!(one < 2 * FILE_BYTES as u64 + (1 << 20), "{one}");
    drop((system, pool));
    aftermath::export(test_pool, folder.path());
    judge_by_zdb(folder.path());
    if shape.has_whole_headers() {
        // A record of 128 KiB in four pieces or more, in two copies.
        let found = headers(folder.path(), shape);
        assert!(found >= 2 * FILE_BYTES / (128 << 10), "{found}");
    }

    // Nothing is in pieces any more that is written now.
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let pool = Arc::clone(&test_pool.pool);
    assert_eq!(
        pool.features().references(&features::DYNAMIC_GANG_HEADER),
        Some(1)
    );
    let system = test_pool.root();
    is_there(&system, "stays", 2);
    write(&system, "whole", 3);
    drop(system.unlink(&root, system.root(), b"stays").unwrap());
    settle(&pool);
    is_there(&system, "whole", 3);
    scrub(&pool);
    drop((system, pool));
    aftermath::export(test_pool, folder.path());
    judge_by_zdb(folder.path());
}

#[test]
fn long_gang_headers_come_and_go() {
    for shape in [Shape::Single, Shape::Mirror, Shape::RaidZ, Shape::Draid] {
        come_and_go(shape);
    }
}
