//! Checkpoints of pools on files: taken, kept, discarded, and pools taken back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Standing;
use crate::churn::Churn;
use crate::import::rewind::{load_with_rewind, write_checkpoint};
use crate::vdevs::devices::{Devices, Purpose};
use crate::{
    CreateOptions, ImportOptions, NewDevice, NewVdev, OutOfUse, Pool, PoolError, Selection,
};
use format::features;

struct OnFiles {
    folder: tempfile::TempDir,
}

impl OnFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn image(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        if !path.exists() {
            device::FileDevice::create(&path, 96 << 20).unwrap();
        }
        path
    }

    fn single(&self) -> Arc<Pool> {
        let device = NewDevice::Path(self.image("a.img"));
        Pool::create(CreateOptions::new("tank", vec![NewVdev::Single(device)])).unwrap()
    }

    fn mirror(&self) -> Arc<Pool> {
        let sides = ["a.img", "b.img"].map(|name| NewDevice::Path(self.image(name)));
        let vdev = NewVdev::Mirror(sides.to_vec());
        Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap()
    }

    fn options(&self) -> ImportOptions {
        let folder = self.folder.path().to_owned();
        let mut options = ImportOptions::new(vec![folder], Selection::Only);
        options.force = true;
        options
    }

    fn import(&self) -> Arc<Pool> {
        Pool::import(&self.options()).unwrap()
    }

    fn take_back(&self, read_only: bool) -> Result<Arc<Pool>, PoolError> {
        let mut options = self.options();
        (options.to_checkpoint, options.read_only) = (true, read_only);
        Pool::import(&options)
    }
}

fn assert_clean(folder: &Path, pool: &str) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, pool);
    }
}

fn consumed(pool: &Pool) -> u64 {
    let checkpoint = pool.facts().checkpoint();
    checkpoint.map_or(0, |checkpoint| checkpoint.consumes)
}

fn wait_discarded(pool: &Pool) {
    let until = Instant::now() + Duration::from_secs(60);
    while pool.facts().checkpoint().is_some() {
        assert!(Instant::now() < until, "it is not discarded");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn standing(pool: &Pool) -> Standing {
    pool.writer().unwrap().checkpoint.standing()
}

#[test]
fn what_is_freed_after_a_checkpoint_is_kept_until_it_is_discarded() {
    let files = OnFiles::new();
    let pool = files.single();
    let mut churn = Churn::new(&pool, 3);
    churn.run(&pool, 4);
    assert!(matches!(
        pool.discard_checkpoint(),
        Err(PoolError::NoCheckpoint)
    ));
    pool.take_checkpoint().unwrap();
    assert!(matches!(standing(&pool), Standing::Taken(_)));
    assert!(matches!(
        pool.take_checkpoint(),
        Err(PoolError::CheckpointExists)
    ));
    let found = pool.facts().checkpoint().unwrap();
    assert!(found.created_s.is_some());
    churn.run(&pool, 8);
    let kept = consumed(&pool);
    assert!(kept > 256 << 10, "{kept} bytes");
    let figures = pool.space();
    assert!(figures.checkpoint > 0 && figures.checkpoint <= kept);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
    let pool = files.import();
    assert!(matches!(standing(&pool), Standing::Taken(_)));
    assert!(consumed(&pool) >= kept);
    churn.run(&pool, 4);
    churn.check(&pool);
    let before = pool.space().allocated;
    let kept = consumed(&pool);
    pool.discard_checkpoint().unwrap();
    wait_discarded(&pool);
    assert_eq!(standing(&pool), Standing::None);
    assert_eq!(
        pool.features().references(&features::ZPOOL_CHECKPOINT),
        Some(0)
    );
    pool.sync().unwrap();
    let after = pool.space().allocated;
    println!("{before} bytes before, {kept} of them kept, {after} after");
    assert!(after + kept / 2 < before);
    churn.run(&pool, 2);
    churn.check(&pool);
    // There can be another one then.
    pool.take_checkpoint().unwrap();
    churn.run(&pool, 2);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
}

#[test]
fn a_pool_is_taken_back_to_its_checkpoint() {
    let files = OnFiles::new();
    let pool = files.single();
    assert!(files.take_back(true).is_err(), "the device is in use");
    let mut churn = Churn::new(&pool, 9);
    churn.run(&pool, 4);
    pool.take_checkpoint().unwrap();
    let mut then = churn.as_of_now();
    churn.run(&pool, 7);
    pool.export().unwrap();
    drop(pool);
    let image = files.image("a.img");
    let before = std::fs::read(&image).unwrap();
    let pool = files.take_back(true).unwrap();
    then.check(&pool);
    assert!(pool.facts().checkpoint().is_none());
    drop(pool);
    assert!(before == std::fs::read(&image).unwrap(), "it was written");
    // Nothing is lost by looking.
    let pool = files.import();
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    let pool = files.take_back(false).unwrap();
    then.check(&pool);
    assert_eq!(standing(&pool), Standing::None);
    assert_eq!(pool.space().checkpoint, 0);
    then.run(&pool, 4);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
    let refused = files.take_back(false).map(|_| ());
    assert!(matches!(refused, Err(PoolError::NoCheckpoint)));
    let pool = files.import();
    then.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_pool_goes_back_without_the_vdev_that_it_got_since() {
    let files = OnFiles::new();
    let pool = files.single();
    let mut churn = Churn::new(&pool, 11);
    churn.run(&pool, 2);
    pool.take_checkpoint().unwrap();
    let mut then = churn.as_of_now();
    let added = NewVdev::Single(NewDevice::Path(files.image("b.img")));
    pool.add_vdevs(&[(crate::VdevRole::Data, added)], None, false)
        .unwrap();
    churn.run(&pool, 5);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
    let pool = files.take_back(false).unwrap();
    assert_eq!(pool.vdevs().tops().len(), 1);
    then.check(&pool);
    then.run(&pool, 3);
    pool.export().unwrap();
    drop(pool);
    // Also if the other one is there still.
    let pool = files.import();
    assert_eq!(pool.vdevs().tops().len(), 1);
    then.check(&pool);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
}

#[test]
fn the_devices_of_a_checkpoint_stay() {
    let files = OnFiles::new();
    let pool = files.mirror();
    let mut churn = Churn::new(&pool, 5);
    churn.run(&pool, 2);
    let leaf = pool.vdevs().tops()[0].leaves()[0].guid();
    pool.take_checkpoint().unwrap();
    let new = NewDevice::Path(files.image("c.img"));
    for replace in [false, true] {
        let options = crate::AttachOptions {
            replace,
            ..crate::AttachOptions::default()
        };
        let refused = pool.attach_device(leaf, &new, &options);
        assert!(matches!(refused, Err(PoolError::CheckpointExists)));
    }
    let refused = pool.detach_device(leaf);
    assert!(matches!(refused, Err(PoolError::CheckpointExists)));
    let refused = pool.reguid(None);
    assert!(matches!(refused, Err(PoolError::CheckpointExists)));
    // One that is out of use for a while has what it needs of the checkpoint.
    let out = OutOfUse {
        faulted: false,
        temporary: false,
    };
    pool.take_out(leaf, out).unwrap();
    churn.run(&pool, 2);
    pool.bring_online(leaf).unwrap();
    pool.wait_scrub().unwrap();
    churn.run(&pool, 2);
    pool.discard_checkpoint().unwrap();
    wait_discarded(&pool);
    pool.detach_device(leaf).unwrap();
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_replacement_ends_when_the_checkpoint_is_gone() {
    let files = OnFiles::new();
    let pool = files.mirror();
    let mut churn = Churn::new(&pool, 6);
    churn.run(&pool, 3);
    let leaf = pool.vdevs().tops()[0].leaves()[0].guid();
    let new = NewDevice::Path(files.image("c.img"));
    let options = crate::AttachOptions {
        replace: true,
        ..crate::AttachOptions::default()
    };
    pool.attach_device(leaf, &new, &options).unwrap();
    let under_way = pool.config().root.find(leaf).is_some();
    // It may have ended already: then there is nothing to see.
    if under_way && pool.take_checkpoint().is_ok() && pool.config().root.find(leaf).is_some() {
        pool.wait_scrub().unwrap();
        pool.sync().unwrap();
        assert!(pool.config().root.find(leaf).is_some());
        pool.discard_checkpoint().unwrap();
        wait_discarded(&pool);
        let until = Instant::now() + Duration::from_secs(60);
        while pool.config().root.find(leaf).is_some() {
            assert!(Instant::now() < until, "the old device stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
}

/// The golden pool whose checkpoint OpenZFS took.
fn golden_pool() -> Option<(tempfile::TempDir, Vec<PathBuf>, String)> {
    let golden = golden::pool("checkpoint")?;
    let (folder, images) = golden.copy();
    Some((folder, images, golden.pool_name()))
}

#[test]
fn a_checkpoint_of_openzfs_is_kept_and_discarded() {
    let Some((folder, images, name)) = golden_pool() else {
        return;
    };
    let mut options = ImportOptions::new(images, Selection::Only);
    options.force = true;
    let pool = Pool::import(&options).unwrap();
    // As OpenZFS said, but for what this import has freed since.
    assert!(consumed(&pool) >= 93_696, "{}", consumed(&pool));
    let mut churn = Churn::new(&pool, 13);
    churn.run(&pool, 5);
    pool.export().unwrap();
    drop(pool);
    assert_clean(folder.path(), &name);
    let pool = Pool::import(&options).unwrap();
    pool.discard_checkpoint().unwrap();
    wait_discarded(&pool);
    churn.run(&pool, 3);
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    assert_clean(folder.path(), &name);
}

#[test]
fn a_pool_is_taken_back_to_a_checkpoint_of_openzfs() {
    let Some((folder, images, name)) = golden_pool() else {
        return;
    };
    let mut options = ImportOptions::new(images, Selection::Only);
    options.force = true;
    let pool = Pool::import(&options).unwrap();
    Churn::new(&pool, 17).run(&pool, 5);
    pool.export().unwrap();
    drop(pool);
    options.to_checkpoint = true;
    let pool = Pool::import(&options).unwrap();
    // What came after it is gone.
    assert!(pool.dsl().head(&format!("{name}/churn")).is_err());
    assert!(pool.dsl().head(&format!("{name}/d")).is_ok());
    let mut churn = Churn::new(&pool, 19);
    churn.run(&pool, 5);
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    assert_clean(folder.path(), &name);
}

/// The process ends when the pool has gone back, before its labels say that it is without the vdev.
#[test]
fn a_pool_that_has_just_gone_back_is_imported_without_the_vdev_that_it_got_since() {
    let files = OnFiles::new();
    let pool = files.single();
    let mut churn = Churn::new(&pool, 21);
    churn.run(&pool, 2);
    pool.take_checkpoint().unwrap();
    let mut then = churn.as_of_now();
    let added = NewVdev::Single(NewDevice::Path(files.image("b.img")));
    pool.add_vdevs(&[(crate::VdevRole::Data, added)], None, false)
        .unwrap();
    churn.run(&pool, 5);
    pool.export().unwrap();
    drop(pool);
    let mut options = files.options();
    options.to_checkpoint = true;
    let found = crate::import::discover::discover(&options.paths).unwrap();
    let mut devices = Devices::of_pool(&found[0], Purpose::Writing, None).unwrap();
    let (loaded, _) = load_with_rewind(&found[0], &mut devices, &options).unwrap();
    write_checkpoint(&loaded.objects.foundation.vdevs, &loaded.uberblock).unwrap();
    drop((loaded, devices, found));
    let pool = files.import();
    assert_eq!(pool.vdevs().tops().len(), 1);
    then.check(&pool);
    then.run(&pool, 3);
    pool.export().unwrap();
    drop(pool);
    assert_clean(files.folder.path(), "tank");
}
