use super::*;
use crate::churn::Churn;
use crate::pool::Pool;
use crate::tunables::REMOVAL_BYTES;
use crate::{
    AttachOptions, CreateOptions, ImportOptions, NewDevice, NewVdev, OutOfUse, Selection, VdevRole,
};
use base::Guid;
use format::config::VdevType;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SIZE: u64 = 400 << 20;
const NAME: &str = "tank";
const OFFLINE: OutOfUse = OutOfUse {
    faulted: false,
    temporary: true,
};

struct Bench {
    folder: TempDir,
}

impl Bench {
    /// A pool of single devices, or of mirrors of two.
    fn new(count: usize, mirrors: bool) -> (Self, Arc<Pool>) {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let device = |name: String| {
            let path = bench.folder.path().join(name);
            device::FileDevice::create(&path, SIZE).unwrap();
            NewDevice::Path(path)
        };
        let vdev = |index: usize| match mirrors {
            false => NewVdev::Single(device(format!("{index}.img"))),
            true => NewVdev::Mirror(vec![
                device(format!("{index}a.img")),
                device(format!("{index}b.img")),
            ]),
        };
        let vdevs = (0..count).map(vdev).collect();
        let pool = Pool::create(CreateOptions::new(NAME, vdevs)).unwrap();
        (bench, pool)
    }

    fn images(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut images: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        images.sort();
        images
    }

    fn import(&self) -> Arc<Pool> {
        let selection = Selection::Name(NAME.to_owned());
        let mut options = ImportOptions::new(self.images(), selection);
        options.force = true;
        Pool::import(&options).unwrap()
    }

    /// Exports the pool, for zdb to judge it.
    fn close(&self, pool: Arc<Pool>) {
        pool.export().unwrap();
        drop(pool);
        self.check();
    }

    fn check(&self) {
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(self.folder.path(), NAME);
        }
    }
}

fn guid_of(pool: &Pool, id: usize) -> Guid {
    pool.config().root.children[id].guid()
}

fn kind_of(pool: &Pool, id: usize) -> String {
    pool.config().root.children[id].kind().to_owned()
}

/// Removals that take as many txgs as there are pieces of so many bytes.
fn in_steps(bytes: u64) -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    REMOVAL_BYTES.set(bytes);
    alone
}

#[test]
fn no_removal_begins_while_blocks_are_healed_and_nothing_is_healed_beside_one() {
    let _alone = in_steps(512);
    let (bench, pool) = Bench::new(3, false);
    let mut churn = Churn::new(&pool, 5);
    churn.run(&pool, 3);
    let barred = [pool.bar_removals().unwrap(), pool.bar_removals().unwrap()];
    let refused = pool.remove_vdev(guid_of(&pool, 1));
    assert!(matches!(refused, Err(PoolError::Busy)), "{refused:?}");
    let [first, second] = barred;
    drop(first);
    assert!(pool.remove_vdev(guid_of(&pool, 1)).is_err());
    drop(second);
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    let refused = pool.bar_removals().map(drop);
    assert!(matches!(refused, Err(PoolError::Busy)), "{refused:?}");
    REMOVAL_BYTES.set(256 << 10);
    pool.wait_removal().unwrap();
    drop(pool.bar_removals().unwrap());
    churn.check(&pool);
    bench.close(pool);
}

#[test]
fn a_removal_that_says_it_has_ended_lets_another_begin() {
    let _alone = in_steps(256 << 10);
    let (bench, pool) = Bench::new(3, false);
    Churn::new(&pool, 4).run(&pool, 3);
    for id in [1, 2] {
        pool.remove_vdev(guid_of(&pool, id)).unwrap();
        let has_ended = || {
            pool.facts()
                .removal()
                .is_some_and(|it| it.ended_s.is_some())
        };
        while !has_ended() {
            std::thread::yield_now();
        }
        assert!(!pool.is_removing());
    }
    bench.close(pool);
}

#[test]
fn a_device_is_removed_while_its_blocks_come_and_go() {
    let _alone = in_steps(512);
    let (bench, pool) = Bench::new(3, false);
    let mut churn = Churn::new(&pool, 3);
    churn.run(&pool, 5);
    let held = pool.status().unwrap().root.children[1].allocated;
    assert!(held > 1 << 20, "{held}");
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    let second = pool.remove_vdev(guid_of(&pool, 2));
    let checkpoint = pool.take_checkpoint();
    assert!(matches!(second, Err(PoolError::Busy)), "{second:?}");
    assert!(checkpoint.is_err());
    REMOVAL_BYTES.set(256 << 10);
    churn.run(&pool, 4);
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
    churn.check(&pool);
    churn.run(&pool, 3);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    bench.close(pool);
    // The device belongs to no pool any more, and its copies are read through the mapping.
    std::fs::remove_file(bench.folder.path().join("1.img")).unwrap();
    let pool = bench.import();
    churn.check(&pool);
    // What lies elsewhere by now goes elsewhere again.
    pool.remove_vdev(guid_of(&pool, 2)).unwrap();
    churn.run(&pool, 2);
    pool.wait_removal().unwrap();
    churn.check(&pool);
    bench.close(pool);
    std::fs::remove_file(bench.folder.path().join("2.img")).unwrap();
    let pool = bench.import();
    churn.check(&pool);
    churn.run(&pool, 3);
    churn.check(&pool);
    bench.close(pool);
}

#[test]
fn a_removal_goes_on_after_an_export_and_can_be_given_up() {
    let _alone = in_steps(2 << 10);
    let (bench, pool) = Bench::new(3, true);
    let mut churn = Churn::new(&pool, 4);
    churn.run(&pool, 4);
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    for _ in 0..3 {
        pool.sync().unwrap();
    }
    assert!(pool.is_removing());
    churn.run(&pool, 1);
    bench.close(pool);
    let pool = bench.import();
    assert!(pool.is_removing());
    churn.run(&pool, 1);
    churn.check(&pool);
    pool.cancel_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Mirror.name());
    churn.run(&pool, 2);
    bench.close(pool);
    let pool = bench.import();
    churn.check(&pool);
    REMOVAL_BYTES.set(64 << 10);
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
    churn.check(&pool);
    bench.close(pool);
}

fn spoil(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    // All that it has of its first metaslab but the labels.
    let noise = vec![0xA5; 1 << 20];
    for block in 0..24 {
        file.write_all_at(&noise, (4 << 20) + (block << 20))
            .unwrap();
    }
}

#[test]
fn sides_that_differ_are_not_guessed_about() {
    // No multiple of a sector.
    let _alone = in_steps((1 << 20) + 77);
    let (bench, pool) = Bench::new(3, true);
    let mut churn = Churn::new(&pool, 5);
    churn.run(&pool, 3);
    pool.sync().unwrap();
    spoil(&bench.folder.path().join("1b.img"));
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Mirror.name());
    let history = pool.history().unwrap();
    let text: String = history.iter().map(ToString::to_string).collect();
    assert!(text.contains("its sides differ"), "{text}");
    let writer = pool.writer().unwrap();
    for trim in [&writer.trim, &writer.initialize] {
        assert!(!trim.is_barred(VdevId(1)), "it stays: it can be trimmed");
    }
    churn.check(&pool);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
    churn.check(&pool);
    bench.close(pool);
}

#[test]
fn a_device_with_other_sectors_is_not_added_meanwhile() {
    let _alone = in_steps(512);
    let (bench, pool) = Bench::new(3, false);
    let mut churn = Churn::new(&pool, 7);
    churn.run(&pool, 3);
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    // It does not end before devices were added.
    let removal = Arc::clone(&pool.writer().unwrap().removal);
    removal.close();
    let add = |name: &str, ashift| {
        let path = bench.folder.path().join(name);
        device::FileDevice::create(&path, SIZE).unwrap();
        let new = [(VdevRole::Data, NewVdev::Single(NewDevice::Path(path)))];
        pool.add_vdevs(&new, Some(ashift), false)
    };
    let larger = add("larger.img", 13);
    assert!(
        matches!(larger, Err(PoolError::Invalid { .. })),
        "{larger:?}"
    );
    add(
        "same.img",
        pool.config().root.children[0]
            .list
            .u64(keys::ASHIFT)
            .unwrap() as u32,
    )
    .unwrap();
    assert!(pool.is_removing());
    REMOVAL_BYTES.set(64 << 10);
    removal.stay();
    drop(removal);
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    std::fs::remove_file(bench.folder.path().join("larger.img")).unwrap();
    bench.check();
}

/// A side that was away while something was copied to it has that in the end, though the blocks are older than its
/// absence.
#[test]
fn what_a_side_missed_of_copies_is_resilvered() {
    let _alone = in_steps(2 << 10);
    let (bench, pool) = Bench::new(2, true);
    let mut churn = Churn::new(&pool, 8);
    churn.run(&pool, 4);
    pool.sync().unwrap();
    pool.remove_vdev(guid_of(&pool, 1)).unwrap();
    let side = pool.config().root.children[0].children[0].guid();
    pool.take_out(side, OFFLINE).unwrap();
    for _ in 0..5 {
        pool.sync().unwrap();
    }
    // Nothing more is copied before the resilver has ended.
    let removal = Arc::clone(&pool.writer().unwrap().removal);
    removal.close();
    pool.sync().unwrap();
    assert!(pool.is_removing());
    pool.bring_online(side).unwrap();
    pool.wait_scrub().unwrap();
    assert!(pool.is_removing());
    REMOVAL_BYTES.set(64 << 10);
    removal.stay();
    drop(removal);
    pool.wait_removal().unwrap();
    assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
    // Another resilver begins by itself.
    let lacks = |pool: &Pool| {
        let top = pool.vdevs.top(VdevId(0)).unwrap();
        top.leaves().iter().any(|leaf| !leaf.missing().is_empty())
    };
    let begin = std::time::Instant::now();
    while lacks(&pool) {
        assert!(
            begin.elapsed().as_secs() < 60,
            "nothing resilvers what was missed"
        );
        pool.sync().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The other side alone has had everything all the time.
    let other = pool.config().root.children[0].children[1].guid();
    pool.take_out(other, OFFLINE).unwrap();
    pool.export().unwrap();
    drop(pool);
    let pool = bench.import();
    churn.check(&pool);
    // The other one is back, and is given what it missed meanwhile.
    pool.wait_scrub().unwrap();
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    let status = pool.status().unwrap();
    assert_eq!(status.root.children[0].children[0].errors.checksum, 0);
    pool.export().unwrap();
}

#[test]
fn what_cannot_be_removed_is_refused() {
    let (_bench, pool) = Bench::new(1, false);
    let only = pool.remove_vdev(guid_of(&pool, 0));
    assert!(matches!(only, Err(PoolError::NoSpace)), "{only:?}");
    assert!(matches!(
        pool.remove_vdev(Guid(5)),
        Err(PoolError::NoSuchVdev { .. })
    ));
    assert!(matches!(pool.cancel_removal(), Err(PoolError::NoRemoval)));
    pool.export().unwrap();
}

/// What a vdev says of its removal goes along when it becomes a single device meanwhile.
#[test]
fn a_replacement_ends_while_its_vdev_is_removed() {
    for goes_on in [true, false] {
        let _alone = in_steps(512);
        let (bench, pool) = Bench::new(2, false);
        let mut churn = Churn::new(&pool, 9);
        churn.run(&pool, 4);
        let old = guid_of(&pool, 1);
        let path = bench.folder.path().join("new.img");
        device::FileDevice::create(&path, SIZE).unwrap();
        let replace = AttachOptions {
            replace: true,
            ..AttachOptions::default()
        };
        pool.attach_device(old, &NewDevice::Path(path), &replace)
            .unwrap();
        let sides = pool.config().root.children[1].children.clone();
        let [_, new] = &sides[..] else {
            panic!("it has ended already");
        };
        pool.take_out(new.guid(), OFFLINE).unwrap();
        pool.remove_vdev(guid_of(&pool, 1)).unwrap();
        pool.bring_online(new.guid()).unwrap();
        pool.wait_scrub().unwrap();
        while !pool.config().root.children[1].is_leaf() {
            pool.sync().unwrap();
        }
        assert!(pool.is_removing());
        let pool = if goes_on {
            bench.close(pool);
            let pool = bench.import();
            REMOVAL_BYTES.set(256 << 10);
            churn.run(&pool, 1);
            pool.wait_removal().unwrap();
            assert_eq!(kind_of(&pool, 1), VdevType::Indirect.name());
            pool
        } else {
            pool.cancel_removal().unwrap();
            pool
        };
        bench.close(pool);
        let pool = bench.import();
        churn.check(&pool);
        churn.run(&pool, 2);
        churn.check(&pool);
        bench.close(pool);
    }
}
