//! Importing the pools that OpenZFS made.

mod claims;
mod forged;

use super::*;
use crate::churn::Churn;
use crate::import::load::{LoadOptions, load};
use crate::vdevs::devices::Purpose;
use device::Access;
use golden::GoldenPool;

fn options(images: &[PathBuf]) -> ImportOptions {
    let mut options = ImportOptions::new(images.to_vec(), Selection::Only);
    options.force = true;
    options.cache_bytes = 16 << 20;
    options
}

fn contents(images: &[PathBuf]) -> Vec<Vec<u8>> {
    images
        .iter()
        .map(|image| std::fs::read(image).unwrap())
        .collect()
}

/// The reason for which a pool must not be written.
fn expected_blocker(name: &str) -> Option<&'static str> {
    Some(match name {
        "ztest-be" => "",
        _ => return None,
    })
}

fn readable(golden: &GoldenPool) -> bool {
    let mut devices = Devices::open(&golden.images(), Access::ReadOnly).unwrap();
    let found = crate::import::discover::assemble(devices.found());
    let load_options = LoadOptions {
        purpose: Purpose::Reading,
        txg_max: None,
        state: None,
        cache_bytes: 1 << 20,
        without_logs: false,
    };
    !matches!(
        load(found[0].guid, &mut devices, &load_options),
        Err(PoolError::UnsupportedVdev { .. })
    )
}

#[test]
fn what_we_cannot_maintain_is_refused_by_name_and_left_alone() {
    for golden in golden::all_pools() {
        let Some(reason) = expected_blocker(&golden.name) else {
            continue;
        };
        let (_folder, images) = golden.copy();
        let before = contents(&images);
        let refused = Pool::import(&options(&images)).map(|_| ()).unwrap_err();
        let text = refused.to_string();
        println!("{}: {text}", golden.name);
        assert!(
            text.contains(reason) && !text.contains('\n'),
            "{}: {text}",
            golden.name
        );
        assert!(text.contains("readonly=on"), "{}: {text}", golden.name);
        assert!(before == contents(&images), "{} was written", golden.name);
    }
}

#[test]
fn every_readable_pool_opens_read_only_and_is_left_alone() {
    for golden in golden::all_pools() {
        if !readable(&golden) {
            continue;
        }
        let (_folder, images) = golden.copy();
        let before = contents(&images);
        let pool = Pool::import(&options(&images).read_only())
            .unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let status = pool.status().unwrap();
        let figures = golden.lines("zpool-list.tsv");
        println!("{}: {:?} {figures:?}", golden.name, status.space);
        if let Some(line) = figures.first() {
            let size: u64 = line.split('\t').nth(1).unwrap().parse().unwrap();
            assert_eq!(status.space.size, size, "{}", golden.name);
        }
        // The list beside "zil" was made after its replay.
        let replayed = golden.name == "zil";
        if let Some(line) = golden.lines("list.tsv").first().filter(|_| !replayed) {
            let available: u64 = line.split('\t').nth(3).unwrap().parse().unwrap();
            let head = pool.dsl().head(&pool.name()).unwrap();
            let ours = head.available(dsl::SpaceClass::Normal).unwrap();
            assert_eq!(ours, available, "{}: available", golden.name);
        }
        if let Some(line) = figures.first() {
            let ratio = line.split('\t').nth(6).unwrap().replace('.', "");
            assert_eq!(status.space.dedup_percent.to_string(), ratio);
        }
        pool.history()
            .unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        drop(pool);
        assert!(before == contents(&images), "{} was written", golden.name);
    }
}

#[test]
fn pools_of_openzfs_are_written_and_stay_clean() {
    const POOLS: [&str; 15] = [
        "default",
        "nofeat",
        "grub2",
        "gang",
        "streams",
        "mirror",
        "many",
        "vol",
        "zil",
        "classes",
        "codecs",
        "v28",
        "old",
        "checkpoint",
        "removed",
    ];
    for name in POOLS {
        let Some(golden) = golden::pool(name) else {
            continue;
        };
        let (folder, images) = golden.copy();
        let pool = Pool::import(&options(&images))
            .unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let mut churn = Churn::new(&pool, 7);
        churn.run(&pool, 6);
        pool.export()
            .unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            println!("{name}: zdb");
            zdb.assert_clean(folder.path(), &golden.pool_name());
        }
        let pool = Pool::import(&options(&images)).unwrap();
        churn.check(&pool);
        pool.export().unwrap();
    }
}

/// Notes what it is shown.
#[derive(Default)]
struct Seen {
    kinds: Vec<u64>,
    /// Bytes of data by file.
    data: std::collections::BTreeMap<u64, usize>,
}

impl intent::Replay for Seen {
    fn apply(
        &mut self,
        record: &format::intent_log::Record<'_>,
        block: Option<&[u8]>,
    ) -> Result<(), intent::Unapplied> {
        self.kinds.push(record.kind());
        if let format::intent_log::Body::Write(fields) = &record.body {
            let there = block.unwrap_or(record.tail).len();
            *self.data.entry(fields.object.0).or_default() += there.min(fields.length as usize);
        }
        Ok(())
    }

    fn pass_over(&mut self, record: &format::intent_log::Record<'_>) {
        panic!("record {} is passed over", record.header.sequence);
    }
}

#[test]
fn a_log_that_openzfs_left_is_claimed_shown_and_freed() {
    let Some(golden) = golden::pool("zil") else {
        return;
    };
    let (folder, images) = golden.copy();
    let zdb = golden::Zdb::from_environment();
    // Left owed by one import, replayed by the next.
    let mut seen = [Seen::default(), Seen::default()];
    for (round, seen) in seen.iter_mut().enumerate() {
        let pool = Pool::import(&options(&images)).unwrap();
        let head = pool.dsl().head("gzil/d").unwrap();
        let log = pool.intent_log(&head).unwrap().unwrap();
        assert!(log.is_owed());
        if round == 1 {
            let replayed = log.replay(seen).unwrap();
            assert_eq!(replayed.failed, None);
            assert_eq!(replayed.records, seen.kinds.len() as u64);
            assert!(!log.is_owed());
        }
        drop((log, head));
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = &zdb {
            zdb.assert_clean(folder.path(), "gzil");
        }
    }
    // As `zdb -iiii` lists it.
    let [_, seen] = seen;
    let listed = [1, 9, 1, 9, 9, 9, 2, 1, 9, 8, 1, 9, 5, 4, 7, 11, 21, 9, 11];
    assert_eq!(seen.kinds, listed);
    assert_eq!(seen.data[&128], 0x40000 + 0x93e0);
}

/// An image that was cut off is refused for writing, with its path and what to do, and left alone;
/// what is left of it can still be read.
#[test]
fn a_truncated_image_is_refused() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a.img", "b.img"]
        .map(|name| folder.path().join(name))
        .into();
    for path in &paths {
        device::FileDevice::create(path, 200 * MIB).unwrap();
    }
    let devices = paths.iter().cloned().map(crate::NewDevice::Path).collect();
    let vdev = crate::NewVdev::Mirror(devices);
    let pool = Pool::create(crate::CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 3);
    churn.run(&pool, 2);
    pool.export().unwrap();
    drop(pool);
    let cut = |path: &PathBuf| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(120 * MIB).unwrap();
    };
    // One side is enough.
    cut(&paths[0]);
    let pool = Pool::import(&options(&paths)).unwrap();
    assert_eq!(
        pool.status().unwrap().condition.state,
        vdev::VdevState::Degraded
    );
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    cut(&paths[1]);
    let before = contents(&paths);
    let refused = Pool::import(&options(&paths)).map(|_| ()).unwrap_err();
    let PoolError::MissingDevices { reason, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(
        reason.contains("b.img") && reason.contains("truncated"),
        "{reason}"
    );
    assert!(contents(&paths) == before);
    let found = discover(&paths).unwrap();
    assert_eq!(found[0].truncated().len(), 2);
    assert!(Pool::import(&options(&paths).read_only()).is_ok());
}
