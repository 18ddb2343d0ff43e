//! Scrubs of pools with damage.

use std::path::PathBuf;
use std::sync::Arc;

use super::course::Course;
use super::work::{look_up, step};
use crate::churn::Churn;
use crate::duties::ScanChange;
use crate::scan::{
    FLAG_PAUSED, FUNCTION_SCRUB, STATE_CANCELED, STATE_FINISHED, STATE_SCANNING, ScanPhys,
};
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};

fn mirror(folder: &std::path::Path) -> (NewVdev, Vec<PathBuf>) {
    let paths: Vec<PathBuf> = ["a.img", "b.img"].map(|name| folder.join(name)).into();
    for path in &paths {
        device::FileDevice::create(path, 96 << 20).unwrap();
    }
    let devices = paths.iter().cloned().map(NewDevice::Path).collect();
    (NewVdev::Mirror(devices), paths)
}

/// Overwrites the data area of an image with something else, here and there.
fn damage(path: &std::path::Path, seed: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    for piece in 0..1400_u64 {
        let offset = (4 << 20) + piece * 65_536 + 1024;
        file.write_all_at(&[seed; 4096], offset).unwrap();
    }
}

#[test]
fn a_damaged_side_of_a_mirror_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let (vdev, paths) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 11);
    churn.run(&pool, 4);
    pool.export().unwrap();
    drop(pool);
    damage(&paths[0], 0xAA);
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    pool.start_scrub().unwrap();
    assert!(pool.start_scrub().is_err());
    churn.run(&pool, 2);
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    println!("{scan:?} {:?}", pool.pipeline().statistics());
    for leaf in pool.vdevs().tops()[0].leaves() {
        println!("{} {:?} {:?}", leaf.path(), leaf.errors(), leaf.condition());
    }
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert!(scan.processed > 0);
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    // The other side's turn: everything must be on the side that was damaged first.
    damage(&paths[1], 0xBB);
    let pool = Pool::import(&options).unwrap();
    churn.check(&pool);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().processed, 0);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
}

#[test]
fn golden_pools_scrub_clean_and_a_scrub_can_be_stopped() {
    for name in ["default", "gang", "many", "streams"] {
        let Some(golden) = golden::pool(name) else {
            continue;
        };
        let (folder, images) = golden.copy();
        let mut options = ImportOptions::new(images, Selection::Only);
        options.force = true;
        let pool = Pool::import(&options).unwrap();
        pool.start_scrub().unwrap();
        pool.wait_scrub().unwrap();
        pool.sync().unwrap();
        let scan = pool.scan().unwrap().unwrap();
        println!("{name}: {scan:?}");
        assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
        assert!(scan.examined * 10 >= scan.to_examine * 9);
        pool.start_scrub().unwrap();
        if pool.pause_scrub().is_ok() {
            assert!(pool.scan().unwrap().unwrap().is_paused());
            assert!(pool.pause_scrub().is_err());
            pool.stop_scrub().unwrap();
            assert_eq!(pool.scan().unwrap().unwrap().state, STATE_CANCELED);
        }
        assert!(pool.stop_scrub().is_err());
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), &golden.pool_name());
        }
    }
}

/// Begins a scrub that goes on only where a test steps it, and shows as paused.
fn begin(pool: &Arc<Pool>) {
    let scan = ScanPhys {
        function: FUNCTION_SCRUB,
        state: STATE_SCANNING,
        txg_max: pool.engine().unwrap().open_txg().0,
        to_examine: pool.space().allocated,
        flags: FLAG_PAUSED,
        ..ScanPhys::default()
    };
    pool.store_scan(ScanChange::Start(scan)).unwrap();
    pool.run_scrub(scan, Course::begin(scan)).unwrap();
}

/// Some slices of a scrub that is paused; whether there is more to do.
fn steps(pool: &Pool, count: usize) -> bool {
    let scrub = &pool.writer().unwrap().scrub;
    for _ in 0..count {
        let leg = scrub.control.lock().course.leg();
        let Some((epoch, leg)) = leg else {
            return false;
        };
        if leg.until.is_none() {
            look_up(pool, scrub, epoch);
        } else {
            step(pool, scrub, epoch, leg);
        }
    }
    scrub.control.lock().course.leg().is_some()
}

/// A scrub that is left and resumed again and again, while snapshots come and go, has seen every
/// block at its end: what it did not mend is lost when the other side of the mirror is damaged.
#[test]
fn a_scrub_goes_on_where_it_was() {
    /// More would fill the pool with snapshots.
    const CHANGED_ROUNDS: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let (vdev, paths) = mirror(folder.path());
    let mut pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 12);
    churn.run(&pool, 6);
    pool.export().unwrap();
    drop(pool);
    damage(&paths[0], 0xAA);
    let mut options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    options.force = true;
    pool = Pool::import(&options).unwrap();
    begin(&pool);
    let mut rounds = 0;
    let mut places = std::collections::BTreeSet::new();
    while steps(&pool, 2) {
        rounds += 1;
        if rounds <= CHANGED_ROUNDS {
            churn.run(&pool, 1);
        }
        let scrub = &pool.writer().unwrap().scrub;
        let (stored, _) = scrub.stored().unwrap();
        assert!(places.insert((stored.examined, stored.bookmark)) || stored.examined > 0);
        if rounds % 2 == 0 {
            pool.export().unwrap();
        } else {
            // As at a crash: what the last txg stored is what is known.
            pool.store_scan(ScanChange::Update).unwrap();
        }
        drop(pool);
        pool = Pool::import(&options).unwrap();
        let scan = pool.scan().unwrap().unwrap();
        assert!(scan.is_paused());
        assert_eq!(
            (scan.bookmark, scan.examined),
            (stored.bookmark, stored.examined)
        );
    }
    println!("{rounds} rounds, {} places", places.len());
    assert!(rounds >= 4 && places.len() >= 4);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
    damage(&paths[1], 0xBB);
    let pool = Pool::import(&options).unwrap();
    churn.check(&pool);
}
