//! Scrubs of pools with damage.

use std::path::PathBuf;

use crate::churn::Churn;
use crate::scan::{STATE_CANCELED, STATE_FINISHED};
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
