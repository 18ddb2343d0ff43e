//! Pools that are filled to the brim, of every sector size, record size and number of copies: writers are told that
//! there is no space, and nothing else; no txg fails for want of space, and what is freed is there again soon.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::random::{Rng, SeededRng};
use dsl::PropertyValue;
use dsl::tasks::Snapshot;
use millpond_torture::random::{asked, seeds};
use millpond_torture::test_pool::{POOL, TestPool, image};
use millpond_torture::tunables;
use pool::{CreateOptions, NewDevice, NewVdev};
use posix::{
    Credentials, FileSystem, FileType, NewNode, OpenFile, OpenOptions, PosixError, WriteOptions,
};

/// What is drawn for a pool.
#[derive(Clone, Copy, Debug)]
struct Shape {
    seed: u64,
    size_mib: u64,
    ashift: u32,
    record_size: u64,
    copies: u64,
    writers: u64,
}

impl Shape {
    fn draw(seed: u64) -> Self {
        let rng = SeededRng::new(seed);
        Self {
            seed,
            size_mib: [64, 96, 128, 256, 512, 640][rng.below(6) as usize],
            ashift: 9 + rng.below(6) as u32,
            record_size: 512 << rng.below(16),
            copies: 1 + rng.below(3),
            writers: 1 + rng.below(16),
        }
    }

    fn create(&self, folder: &Path) -> TestPool {
        let path = image(folder, "disk");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(self.size_mib << 20).unwrap();
        let vdev = NewVdev::Single(NewDevice::Path(path));
        let mut options = CreateOptions::new(POOL, vec![vdev]);
        options.ashift = Some(self.ashift);
        options.root.populate = Some(millpond_torture::pool_model::real::populate());
        let number = |name: &str, value| (name.to_owned(), PropertyValue::Number(value));
        options.root.properties = vec![
            number("recordsize", self.record_size),
            number("copies", self.copies),
        ];
        TestPool::create_as(options).unwrap()
    }
}

fn file(system: &FileSystem, name: &str) -> Result<OpenFile, PosixError> {
    let root = Credentials::root();
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    let made = system.create(&root, system.root(), name.as_bytes(), &node, options);
    made.map(|(file, _)| file)
}

/// One writer: pieces of 4 KiB and more at scattered places of its files, until it is told for the third time that
/// there is no space; then half of its files go.
fn write(system: &FileSystem, shape: &Shape, writer: u64, written: &AtomicU64) {
    let rng = SeededRng::new(shape.seed * 1000 + writer);
    let mut full = 0;
    let mut number = 0;
    let end = Instant::now() + Duration::from_secs(8);
    'files: while full < 3 && Instant::now() < end {
        number += 1;
        let mut say = |error: PosixError| match error {
            PosixError::NoSpace => full += 1,
            other => panic!("{shape:?}: {other}"),
        };
        let file = match file(system, &format!("{writer}-{number}")) {
            Ok(file) => file,
            Err(error) => {
                say(error);
                continue;
            }
        };
        let records = 1 + rng.below(8);
        for _ in 0..40 {
            let mut data = vec![0; 4096 << rng.below(5)];
            rng.fill(&mut data);
            let offset = rng.below(records * shape.record_size.max(1 << 20)) / 4096 * 4096;
            if let Err(error) = file.write(offset, &data, WriteOptions::default()) {
                say(error);
                continue 'files;
            }
            written.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
    }
    let root = Credentials::root();
    for gone in (1..=number).step_by(2) {
        let name = format!("{writer}-{gone}");
        match system.unlink(&root, system.root(), name.as_bytes()) {
            Ok(_) | Err(PosixError::NotFound | PosixError::NoSpace) => {}
            Err(other) => panic!("{shape:?}: {other}"),
        }
    }
}

fn fill(shape: &Shape) {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = shape.create(folder.path());
    let (pool, system) = (Arc::clone(&test_pool.pool), test_pool.root());
    let written = AtomicU64::new(0);
    for round in 0..2 {
        std::thread::scope(|scope| {
            for writer in 0..shape.writers {
                let (system, written) = (&system, &written);
                scope.spawn(move || write(system, shape, round * 100 + writer, written));
            }
        });
        pool.sync()
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert_eq!(pool.suspended(), None, "{shape:?}");
        let taken = Snapshot {
            names: vec![format!("{POOL}@{round}")],
            properties: Vec::new(),
        };
        // There may be no space for it.
        let _ = pool.dsl().run(taken);
    }
    println!("{shape:?}: {} bytes written", written.into_inner());
    drop((system, pool));
    test_pool
        .export()
        .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

#[test]
fn a_full_pool_says_so_and_nothing_else() {
    let draw = |seed| Shape {
        record_size: [512, 4096, 128 << 10, 1 << 20, 16 << 20][seed as usize % 5],
        size_mib: 64,
        ..Shape::draw(seed)
    };
    (0..5).map(draw).for_each(|shape| fill(&shape));
}

#[test]
#[ignore = "long: every shape that SEEDS draws"]
fn every_shape_of_a_full_pool() {
    for seed in seeds(100..100 + asked("SEEDS").unwrap_or(60)) {
        println!("repeat with: MILLPOND_SEED={seed}");
        // A million small blocks would be freed by ones and twos.
        let _limits = tunables::drawn_but(seed, &["dmu.free_blocks_", "dsl.background_"]);
        fill(&Shape::draw(seed));
    }
}

#[test]
fn small_sectors_in_large_ones_with_copies_are_reckoned_with() {
    let shape = |ashift, copies, record_size, size_mib| Shape {
        seed: 7,
        size_mib,
        ashift,
        record_size,
        copies,
        writers: 8,
    };
    fill(&shape(12, 2, 512, 512));
    fill(&shape(13, 3, 512, 256));
    fill(&shape(9, 1, 16 << 20, 640));
}

/// Writes a file until there is no space: how many MiB there were.
fn fill_up(system: &FileSystem, name: &str) -> u64 {
    let rng = SeededRng::new(9);
    let file = file(system, name).unwrap();
    let mut data = vec![0; 1 << 20];
    for piece in 0.. {
        rng.fill(&mut data);
        match file.write(piece << 20, &data, WriteOptions::default()) {
            Ok(_) => {}
            Err(PosixError::NoSpace) => return piece,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("a pool without an end")
}

/// What is freed rests until two more uberblocks are written: who needs it gets them, also when nobody else changes
/// anything.
#[test]
fn what_was_removed_from_a_full_pool_can_be_written_again_at_once() {
    let turn = tunables::by_default();
    for hastens in [true, false] {
        if !hastens {
            // Only where less is left than what rests.
            pool::tunables::AGEING_BYTES.set(1 << 40);
            pool::tunables::SPACE_SHORT_BYTES.set(0);
        }
        let shape = Shape {
            seed: 1,
            size_mib: 256,
            ashift: 12,
            record_size: 128 << 10,
            copies: 1,
            writers: 1,
        };
        let folder = tempfile::tempdir().unwrap();
        let test_pool = shape.create(folder.path());
        let system = test_pool.root();
        let first = fill_up(&system, "first");
        for _ in 0..5 {
            test_pool.pool.sync().unwrap();
        }
        let root = Credentials::root();
        system.unlink(&root, system.root(), b"first").unwrap();
        let second = fill_up(&system, "second");
        println!("hastened {hastens}: {first} MiB, then {second}");
        assert!(
            first > 64 && second + 8 > first,
            "{first} MiB, then {second}"
        );
        drop(system);
        test_pool.close_all();
        test_pool.pool.export().unwrap();
    }
    drop(turn);
}

/// What of the free space is in memory is counted to the byte; here it may be a sixth of all.
#[test]
fn free_space_in_many_pieces_takes_bounded_memory() {
    const SEGMENTS: u64 = 100_000;
    const LIMIT: u64 = 128 << 10;
    /// What allocators work on, and what was used for the txgs that have not ended.
    const IN_USE: u64 = 192 << 10;
    let _limits = millpond_torture::tunables::by_default();
    space::tunables::LOADED_BYTES.set(LIMIT);
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "disk");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1_000_000_000_000).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path));
    let mut options = CreateOptions::new(POOL, vec![vdev]);
    options.ashift = Some(12);
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    let test_pool = TestPool::create_as(options).unwrap();
    let pool = Arc::clone(&test_pool.pool);
    let mut extents = millpond_torture::fragments::extents(&pool, SEGMENTS, 0).peekable();
    let mut taken = 0;
    while extents.peek().is_some() {
        taken += pool.take_space(extents.by_ref().take(4000)).unwrap();
        pool.sync().unwrap();
    }
    assert!(taken > SEGMENTS - 200, "{taken}");
    // This brings all maps up to date.
    pool.export().unwrap();
    let made = pool.loaded_space();
    assert!(made.max_bytes <= LIMIT + IN_USE, "{made:?}");
    drop((extents, pool, test_pool));

    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let pool = Arc::clone(&test_pool.pool);
    let system = test_pool.root();
    let random = SeededRng::new(5);
    for round in 0..30 {
        for index in 0..8 {
            let mut data = vec![0; 100_000];
            random.fill(&mut data);
            let file = self::file(&system, &format!("{round}-{index}")).unwrap();
            file.write(0, &data, WriteOptions::default()).unwrap();
        }
        if round > 2 {
            let root = Credentials::root();
            let name = format!("{}-{}", round - 3, round % 8);
            system
                .unlink(&root, system.root(), name.as_bytes())
                .unwrap();
        }
        pool.sync().unwrap();
    }
    drop(system);
    test_pool.close_all();
    pool.export().unwrap();
    let loaded = pool.loaded_space();
    assert!(loaded.loads > 4, "{loaded:?}");
    assert!(loaded.max_bytes <= LIMIT + IN_USE, "{loaded:?}");
}
