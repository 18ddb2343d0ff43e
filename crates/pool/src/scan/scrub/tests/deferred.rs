//! Devices that come back while a resilver runs.

use std::path::Path;

use format::features::RESILVER_DEFER;
use format::nvlist::NvList;
use vdev::{Condition, Leaf};

use super::resumed::{forced, go_on, leaf, start_paused, take_out};
use super::*;
use crate::tunables::RESILVER_DEFER_PERCENT;

fn bring_back(pool: &Pool, name: &str) {
    leaf(pool, name).set_condition(Condition::HEALTHY);
}

/// A mirror of three whose sides `b.img` and `c.img` missed much; the resilver of `b.img` is under way, and goes on
/// only where a test steps it.
fn two_behind(
    options: impl FnOnce(CreateOptions) -> CreateOptions,
    folder: &Path,
) -> (Arc<Pool>, Churn) {
    let (vdev, _) = mirror(folder);
    let NewVdev::Mirror(mut devices) = vdev else {
        unreachable!("a mirror")
    };
    let third = folder.join("c.img");
    device::FileDevice::create(&third, 96 << 20).unwrap();
    devices.push(NewDevice::Path(third));
    let vdev = NewVdev::Mirror(devices);
    let pool = Pool::create(options(CreateOptions::new("tank", vec![vdev]))).unwrap();
    let mut churn = Churn::new(&pool, 31);
    take_out(&pool, "b.img");
    take_out(&pool, "c.img");
    churn.run(&pool, 6);
    pool.sync().unwrap();
    bring_back(&pool, "b.img");
    start_paused(&pool);
    (pool, churn)
}

/// A resilver that is under way is said to run or sleep; its thread sleeps in any case.
fn say_that_it_runs(pool: &Pool, runs: bool) {
    let mut control = pool.writer().unwrap().scrub.control.lock();
    let Some(scan) = &mut control.scan else {
        panic!("none is under way")
    };
    scan.flags = if runs { 0 } else { FLAG_PAUSED };
    control.request = if runs {
        ScanRequest::Run
    } else {
        ScanRequest::Pause
    };
}

/// Whether devices that lack something are left to the resilver that runs.
fn is_left_to_it(pool: &Pool) -> bool {
    say_that_it_runs(pool, true);
    let is_left = pool.is_left_to_running().unwrap();
    say_that_it_runs(pool, false);
    is_left
}

fn number(pool: &Pool) -> u64 {
    pool.writer().unwrap().scrub.control.lock().number
}

/// How many references the feature has.
fn references(pool: &Pool) -> Option<u64> {
    pool.services.features.references(&RESILVER_DEFER)
}

/// The leaves that the configuration says to be waiting, in the MOS and in labels.
fn marked(pool: &Pool, for_label: bool) -> usize {
    fn count(list: &NvList) -> usize {
        let own = usize::from(list.get("com.datto:resilver_defer").is_some());
        own + list.lists("children").iter().map(count).sum::<usize>()
    }
    count(&pool.config().root.to_list(for_label))
}

fn internal_events(pool: &Pool) -> Vec<String> {
    let history = pool.history().unwrap();
    let names = history.iter();
    let names = names.filter_map(|record| record.str(format::history::keys::INTERNAL_NAME));
    names.map(str::to_owned).collect()
}

fn is_resilvering(pool: &Pool, name: &str) -> bool {
    leaf(pool, name).is_resilvering()
}

/// Every side has everything.
fn assert_each_alone(pool: Arc<Pool>, churn: &Churn, folder: &Path) {
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, "tank");
    }
    for alone in ["b.img", "c.img"] {
        for other in ["a.img", "b.img", "c.img"]
            .into_iter()
            .filter(|name| *name != alone)
        {
            std::fs::rename(folder.join(other), folder.join(format!("{other}.away"))).unwrap();
        }
        let mut options = forced(folder);
        options.read_only = true;
        let pool = Pool::import(&options).unwrap();
        churn.check(&pool);
        drop(pool);
        for other in ["a.img", "b.img", "c.img"]
            .into_iter()
            .filter(|name| *name != alone)
        {
            std::fs::rename(folder.join(format!("{other}.away")), folder.join(other)).unwrap();
        }
    }
}

#[test]
fn a_device_that_comes_meanwhile_waits_for_the_end() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    RESILVER_DEFER_PERCENT.set(1);
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn) = two_behind(|options| options, folder.path());
    assert_eq!((references(&pool), marked(&pool, false)), (Some(0), 0));
    assert!(steps(&pool, 3));
    churn.run(&pool, 1);
    let first = number(&pool);
    bring_back(&pool, "c.img");
    assert!(is_left_to_it(&pool));
    assert_eq!(number(&pool), first, "it does not begin anew");
    assert_eq!((references(&pool), marked(&pool, false)), (Some(1), 1));
    assert_eq!(marked(&pool, true), 0, "labels do not say it");
    assert!(is_resilvering(&pool, "b.img") && !is_resilvering(&pool, "c.img"));
    // An import goes on with the one, and leaves the other one waiting.
    pool.store_scan(ScanChange::Update).unwrap();
    pool.abandon();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
    SCAN_MEMORY_BYTES.reset();
    let pool = Pool::import(&forced(folder.path())).unwrap();
    assert_eq!(
        pool.start_scrub().unwrap_err().to_string(),
        "currently resilvering"
    );
    let scan = go_on(&pool);
    assert_eq!(
        (scan.function, scan.state, scan.errors),
        (FUNCTION_RESILVER, STATE_FINISHED, 0)
    );
    assert!(
        ["b.img", "c.img"]
            .iter()
            .all(|name| leaf(&pool, name).missing().is_empty())
    );
    assert_eq!((references(&pool), marked(&pool, false)), (Some(0), 0));
    let events = internal_events(&pool);
    let names: Vec<&str> = events.iter().map(String::as_str).collect();
    let scans: Vec<&str> = names
        .into_iter()
        .filter(|name| name.contains("scan") || name.contains("resilver"))
        .collect();
    let wanted = [
        "scan setup",
        "scan done",
        "starting deferred resilver",
        "scan setup",
        "scan done",
    ];
    assert_eq!(scans, wanted);
    RESILVER_DEFER_PERCENT.reset();
    assert_each_alone(pool, &churn, folder.path());
}

#[test]
fn a_resilver_that_has_just_begun_begins_anew_and_so_does_one_of_a_pool_without_the_feature() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    for is_enabled in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        RESILVER_DEFER_PERCENT.set(if is_enabled { 100 } else { 0 });
        let without = |options: CreateOptions| CreateOptions {
            features: Some(
                crate::default_features()
                    .into_iter()
                    .filter(|feature| feature.guid != RESILVER_DEFER.guid)
                    .collect(),
            ),
            ..options
        };
        let (pool, churn) = match is_enabled {
            true => two_behind(|options| options, folder.path()),
            false => two_behind(without, folder.path()),
        };
        assert!(steps(&pool, 1));
        say_that_it_runs(&pool, true);
        let first = number(&pool);
        bring_back(&pool, "c.img");
        let refused = pool.restart_resilver().map_err(|error| error.to_string());
        let reason = "this action requires the resilver_defer feature";
        assert_eq!(refused.err().as_deref(), (!is_enabled).then_some(reason));
        assert!(pool.resilver_if_needed().unwrap());
        assert!(number(&pool) > first, "it has begun anew");
        assert_eq!(marked(&pool, false), 0);
        let scan = go_on(&pool);
        assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
        assert_each_alone(pool, &churn, folder.path());
    }
    RESILVER_DEFER_PERCENT.reset();
    SCAN_MEMORY_BYTES.reset();
}

/// The one that the resilver is for goes and comes back: it stays with it, and what it could not be given meanwhile it
/// gets afterwards. One that comes back and missed nothing changes nothing.
#[test]
fn a_device_that_was_away_for_a_moment_stays_with_its_resilver() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    RESILVER_DEFER_PERCENT.set(0);
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn) = two_behind(|options| options, folder.path());
    assert!(steps(&pool, 1));
    let first = number(&pool);
    assert!(is_left_to_it(&pool));
    assert_eq!(
        (number(&pool), marked(&pool, false)),
        (first, 0),
        "nothing new"
    );
    take_out(&pool, "b.img");
    churn.run(&pool, 2);
    // What is looked at now it cannot be given.
    let scrub = &pool.writer().unwrap().scrub;
    assert!((0..2).all(|_| advance(&pool, scrub)));
    assert!(leaf(&pool, "b.img").has_left());
    bring_back(&pool, "b.img");
    assert!(is_left_to_it(&pool));
    assert_eq!((number(&pool), marked(&pool, false)), (first, 1));
    assert!(is_resilvering(&pool, "b.img"));
    bring_back(&pool, "c.img");
    assert!(is_left_to_it(&pool));
    assert_eq!(
        (number(&pool), references(&pool), marked(&pool, false)),
        (first, Some(1), 2)
    );
    let text = "currently resilvering";
    assert_eq!(pool.stop_scrub().unwrap_err().to_string(), text);
    assert_eq!(pool.pause_scrub().unwrap_err().to_string(), text);
    let leaves = || ["b.img", "c.img"].into_iter();
    SCAN_MEMORY_BYTES.reset();
    let scan = go_on(&pool);
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert!(leaves().all(|name| Leaf::missing(&leaf(&pool, name)).is_empty()));
    assert_eq!((references(&pool), marked(&pool, false)), (Some(0), 0));
    RESILVER_DEFER_PERCENT.reset();
    assert_each_alone(pool, &churn, folder.path());
}
