//! Devices that are rebuilt sequentially have everything then: without the others the pool is as it was.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Guid, Txg, VdevId};
use format::config::{keys, vdev_zap};
use format::rebuild::{Rebuild, RebuildState};
use format::zap::Value;

use super::fill::Fill;
use crate::churn::Churn;
use crate::create::CreateOptions;
use crate::error::PoolError;
use crate::facts::RebuildFacts;
use crate::pool::Pool;
use crate::scan::phys::{FUNCTION_SCRUB, STATE_FINISHED};
use crate::vdevs::disks::AttachOptions;
use crate::vdevs::disks::tests::{
    ATTACH, OFFLINE, REPLACE, attach_only, close, crash, file, files, import, import_crashed, leaf,
    reason, shape, wait, wait_whole,
};
use crate::vdevs::new::{DraidWidth, NewDevice, NewVdev};
use txg::TXGS_UNDER_WAY;
use vdev::{Leaf, WriteGroup};

const ATTACH_IN_SEQUENCE: AttachOptions = AttachOptions {
    fill: Fill::Sequential,
    ..ATTACH
};
const REPLACE_IN_SEQUENCE: AttachOptions = AttachOptions {
    fill: Fill::Sequential,
    ..REPLACE
};
const TOP: VdevId = VdevId(0);

fn create(vdev: NewVdev, seed: u64) -> (Arc<Pool>, Churn) {
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, seed);
    churn.run(&pool, 3);
    (pool, churn)
}

fn mirror(folder: &Path, seed: u64) -> (Arc<Pool>, Churn) {
    create(NewVdev::Mirror(files(folder, &["a", "b"])), seed)
}

/// The last rebuild of the first vdev.
fn last(pool: &Pool) -> Option<RebuildFacts> {
    pool.facts().rebuilds().into_iter().next()
}

fn references(pool: &Pool) -> Option<u64> {
    let features = pool.features().all();
    let mut features = features.into_iter();
    let found = features.find(|found| found.feature.name == "device_rebuild");
    found.unwrap().references
}

fn wait_rebuilt(pool: &Pool) {
    pool.wait_rebuilds().unwrap();
    wait("the rebuild", || {
        let rebuilds = pool.facts().rebuilds();
        rebuilds.iter().all(|found| !found.rebuild.is_active())
    });
}

/// Without these files the pool has everything.
fn check_without(folder: &Path, names: &[&str], churn: &Churn) {
    for name in names {
        std::fs::rename(folder.join(name), folder.join(format!("../away-{name}"))).unwrap();
    }
    let pool = import(folder);
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    for name in names {
        std::fs::rename(folder.join(format!("../away-{name}")), folder.join(name)).unwrap();
    }
}

/// A folder of its own, with room beside it.
fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("pool");
    std::fs::create_dir(&folder).unwrap();
    (outer, folder)
}

fn leaf_at(pool: &Pool, guid: Guid) -> Arc<Leaf> {
    pool.leaf_of(guid).unwrap().1
}

#[test]
fn a_side_is_rebuilt_beside_writes_and_a_scrub_follows() {
    let (_outer, folder) = folder();
    let (pool, mut churn) = mirror(&folder, 61);
    let a = leaf(&pool, "a");
    pool.attach_device(a, &file(&folder, "c"), &ATTACH_IN_SEQUENCE)
        .unwrap();
    assert_eq!(shape(&pool), "mirror(a b c)");
    churn.run(&pool, 3);
    wait_rebuilt(&pool);
    wait_whole(&pool);
    let found = last(&pool).unwrap();
    assert_eq!(found.name, "mirror-0");
    let rebuild = found.rebuild;
    assert_eq!((rebuild.state, rebuild.errors), (RebuildState::Complete, 0));
    assert!(rebuild.rebuilt > 0 && rebuild.ended_s >= rebuild.started_s);
    assert_eq!(references(&pool), Some(0));
    pool.wait_scrub().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!(
        (scan.function, scan.state),
        (FUNCTION_SCRUB, STATE_FINISHED)
    );
    assert_eq!((scan.errors, scan.processed), (0, 0));
    let config = pool.config();
    let marked = config.root.leaves().into_iter();
    assert_eq!(
        marked.filter(|leaf| leaf.flag(keys::REBUILD_TXG)).count(),
        0
    );
    churn.run(&pool, 1);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}

/// Who waits for rebuilds and scrubs meets no moment between them.
#[test]
fn a_rebuild_is_under_way_until_the_scrub_is() {
    let (_outer, folder) = folder();
    let (pool, _churn) = mirror(&folder, 62);
    let a = leaf(&pool, "a");
    pool.attach_device(a, &file(&folder, "c"), &ATTACH_IN_SEQUENCE)
        .unwrap();
    let is_active = |found: &RebuildFacts| found.rebuild.is_active();
    while last(&pool).as_ref().is_none_or(is_active) {
        std::thread::yield_now();
    }
    let scan = pool.scan().unwrap();
    assert!(scan.is_some_and(|scan| scan.function == FUNCTION_SCRUB));
    pool.wait_scrub().unwrap();
    close(pool, &folder);
}

/// How a vdev is made, what it is afterwards, and which devices it needs no more.
type Case<'a> = (&'a dyn Fn(&Path) -> NewVdev, &'a str, &'a [&'a str]);

#[test]
fn devices_are_replaced_in_sequence_wherever_there_are_copies() {
    let draid = |folder: &Path| {
        let width = DraidWidth {
            parity: 1,
            data: 2,
            spares: 1,
        };
        NewVdev::Draid(width, files(folder, &["a", "b", "c", "d", "e"]))
    };
    let single = |folder: &Path| NewVdev::Single(file(folder, "a"));
    let pair = |folder: &Path| NewVdev::Mirror(files(folder, &["a", "b"]));
    let cases: [Case<'_>; 3] = [
        (&single, "x", &[]),
        (&pair, "mirror(x b)", &["b"]),
        (&draid, "draid(x b c d e)", &["d"]),
    ];
    for (number, (vdev, after, without)) in cases.into_iter().enumerate() {
        let (_outer, folder) = folder();
        let (pool, mut churn) = create(vdev(&folder), 62 + number as u64);
        let a = leaf(&pool, "a");
        pool.attach_device(a, &file(&folder, "x"), &REPLACE_IN_SEQUENCE)
            .unwrap();
        churn.run(&pool, 2);
        wait_rebuilt(&pool);
        wait("the replacement", || shape(&pool) == after);
        wait_whole(&pool);
        assert_eq!(last(&pool).unwrap().rebuild.errors, 0);
        close(pool, &folder);
        check_without(&folder, without, &churn);
    }
}

#[test]
fn a_distributed_spare_is_rebuilt_and_stands_for_its_device() {
    let (_outer, folder) = folder();
    let width = DraidWidth {
        parity: 1,
        data: 2,
        spares: 2,
    };
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let (pool, mut churn) = create(NewVdev::Draid(width, files(&folder, &names)), 66);
    let b = leaf(&pool, "b");
    pool.take_out(b, OFFLINE).unwrap();
    churn.run(&pool, 2);
    let room = NewDevice::Path("draid1-0-0".into());
    pool.attach_device(b, &room, &REPLACE_IN_SEQUENCE).unwrap();
    churn.run(&pool, 1);
    wait_rebuilt(&pool);
    let found = last(&pool).unwrap();
    assert_eq!(found.name, "draid1:2d:7c:2s-0");
    assert_eq!(
        (found.rebuild.errors, found.rebuild.state),
        (0, RebuildState::Complete)
    );
    wait("the scrub", || pool.scan().unwrap().is_some());
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().processed, 0);
    close(pool, &folder);
    check_without(&folder, &["b", "e"], &churn);
}

#[test]
fn what_cannot_be_rebuilt_is_refused() {
    let (_outer, folder) = folder();
    let raidz = NewVdev::RaidZ(1, files(&folder, &["a", "b", "c"]));
    let (pool, _) = create(raidz, 67);
    let a = leaf(&pool, "a");
    let new = file(&folder, "x");
    let refused = pool.attach_device(a, &new, &REPLACE_IN_SEQUENCE);
    let only = "only mirror and dRAID vdevs support sequential reconstruction";
    assert_eq!(reason(refused), only);
    let top = pool.config().root.children[0].guid();
    assert_eq!(
        reason(pool.expand_raidz(top, &new, &ATTACH_IN_SEQUENCE)),
        only
    );
    assert_eq!(shape(&pool), "raidz(a b c)");
    pool.export().unwrap();
}

#[test]
fn a_pool_without_the_feature_is_not_rebuilt() {
    let (_outer, folder) = folder();
    let mut options = CreateOptions::new("tank", vec![NewVdev::Single(file(&folder, "a"))]);
    let all = crate::create::default_features().into_iter();
    options.features = Some(all.filter(|one| one.name != "device_rebuild").collect());
    let pool = Pool::create(options).unwrap();
    let refused = pool.attach_device(leaf(&pool, "a"), &file(&folder, "b"), &ATTACH_IN_SEQUENCE);
    assert!(reason(refused).contains("device_rebuild feature must be enabled"));
    pool.export().unwrap();
}

/// Attaches a third side, and has the pool say that it is rebuilt up to a place.
fn begin_at(pool: &Arc<Pool>, folder: &Path, offset: u64) -> Guid {
    let a = leaf(pool, "a");
    attach_only(pool, a, &file(folder, "c"), &ATTACH_IN_SEQUENCE);
    let c = leaf(pool, "c");
    let new = leaf_at(pool, c);
    let rebuild = Rebuild {
        state: RebuildState::Active,
        offset,
        txg_max: new.missing().bounds().unwrap().1.0 + 1,
        started_s: 7,
        estimated: 1 << 20,
        ..Rebuild::default()
    };
    new.begin_rebuild();
    let rebuilds = &pool.writer().unwrap().rebuilds;
    rebuilds.begin(TOP, rebuild, vec![c]).unwrap();
    (0..TXGS_UNDER_WAY).for_each(|_| pool.sync().unwrap());
    assert_eq!(references(pool), Some(1));
    c
}

/// The end of what the first vdev can hold.
fn end_of(pool: &Pool) -> u64 {
    pool.config().root.children[0].metaslab_bytes()
}

#[test]
fn an_import_goes_on_from_where_a_rebuild_was() {
    let (_outer, folder) = folder();
    let (pool, churn) = mirror(&folder, 68);
    // All but the last byte is said to be done, and nothing was.
    let end = end_of(&pool);
    begin_at(&pool, &folder, end - (1 << 20));
    crash(pool);
    let pool = import_crashed(&folder);
    wait_rebuilt(&pool);
    let rebuild = last(&pool).unwrap().rebuild;
    assert_eq!(
        (rebuild.state, rebuild.started_s),
        (RebuildState::Complete, 7)
    );
    assert!(rebuild.rebuilt <= 1 << 20);
    assert_eq!(references(&pool), Some(0));
    // It believed what was stored: the scrub has it all to repair.
    wait("the scrub", || pool.scan().unwrap().is_some());
    pool.wait_scrub().unwrap();
    assert!(pool.scan().unwrap().unwrap().processed > 0);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}

#[test]
fn a_rebuild_begins_anew_for_a_device_that_was_away_meanwhile() {
    let (_outer, folder) = folder();
    let (pool, mut churn) = mirror(&folder, 69);
    let end = end_of(&pool);
    let c = begin_at(&pool, &folder, end - (1 << 20));
    // It is away while something is written.
    leaf_at(&pool, c).set_condition(vdev::Condition::new(
        vdev::VdevState::Faulted,
        vdev::VdevAux::IoFailure,
    ));
    churn.run(&pool, 1);
    crash(pool);
    let pool = import_crashed(&folder);
    wait_rebuilt(&pool);
    wait_whole(&pool);
    assert!(last(&pool).unwrap().rebuild.rebuilt > 1 << 20);
    wait("the scrub", || pool.scan().unwrap().is_some());
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().processed, 0);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}

/// Each txg that a device misses while it is rebuilt is news.
#[test]
fn a_rebuild_begins_when_all_is_on_disk_that_its_device_missed() {
    let (_outer, folder) = folder();
    let (pool, _churn) = mirror(&folder, 75);
    let a = leaf(&pool, "a");
    pool.attach_device(a, &file(&folder, "c"), &ATTACH_IN_SEQUENCE)
        .unwrap();
    let missed_before = last(&pool).unwrap().rebuild.txg_max;
    assert!(pool.writer().unwrap().engine.synced_txg().0 + 1 >= missed_before);
    wait_rebuilt(&pool);
    close(pool, &folder);
}

/// It is back before the txg ends that stores how far the rebuild is, and lacks no txg.
#[test]
fn a_rebuild_begins_anew_for_a_device_that_lost_copies_and_is_back() {
    let (_outer, folder) = folder();
    let (pool, mut churn) = mirror(&folder, 74);
    let end = end_of(&pool);
    let c = begin_at(&pool, &folder, end - (1 << 20));
    let new = leaf_at(&pool, c);
    let top = pool.vdevs.top(TOP).unwrap();
    let writes = WriteGroup::of_copies(&pool.writer().unwrap().syncer.findings);
    let targets: Arc<[_]> = Arc::new([Arc::clone(&new)]);
    for copy in top
        .begin_copies(std::iter::once(0..1 << 20), &targets)
        .unwrap()
    {
        assert!(copy.run(&writes).unwrap().written > 0);
    }
    writes.wait().unwrap();
    new.reopen(new.device());
    assert!(new.is_writable());
    drop((top, targets, new, writes));
    churn.run(&pool, 1);
    crash(pool);
    let pool = import_crashed(&folder);
    wait_rebuilt(&pool);
    wait_whole(&pool);
    assert!(last(&pool).unwrap().rebuild.rebuilt > 1 << 20);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}

/// The thread of a rebuild that goes on from a place.
fn run(pool: &Arc<Pool>, device: Guid, offset: u64) {
    let rebuilds = Arc::clone(&pool.writer().unwrap().rebuilds);
    let rebuild = rebuilds.of(TOP).unwrap();
    let number = rebuilds.begin(TOP, rebuild, vec![device]).unwrap();
    let (weak, own) = (Arc::downgrade(pool), Arc::clone(&rebuilds));
    let thread = base::thread::named("test-rebuild", sys::thread::BACKGROUND);
    let thread = thread.spawn(move || super::work::run(&weak, &own, (TOP, number), offset));
    rebuilds.set_thread(TOP, number, thread.unwrap());
}

/// Long enough for a thread to do what it can.
const A_WHILE: Duration = Duration::from_millis(300);

/// Who starts rebuilds of several vdevs waits for the threads of those that it begins anew.
#[test]
fn a_rebuild_that_is_about_to_end_is_left_by_who_starts_others() {
    let (_outer, folder) = folder();
    let (pool, _churn) = mirror(&folder, 76);
    let end = end_of(&pool);
    let c = begin_at(&pool, &folder, end);
    let rebuilds = Arc::clone(&pool.writer().unwrap().rebuilds);
    let starting = rebuilds.starting();
    run(&pool, c, end);
    std::thread::sleep(A_WHILE);
    let (sender, left) = std::sync::mpsc::channel();
    let own = Arc::clone(&rebuilds);
    std::thread::spawn(move || {
        own.leave(TOP);
        let _ = sender.send(());
    });
    let in_time = left.recv_timeout(Duration::from_secs(60));
    assert!(in_time.is_ok(), "both wait for each other");
    drop(starting);
    pool.resilver_if_needed().unwrap();
    wait_rebuilt(&pool);
    wait_whole(&pool);
    close(pool, &folder);
}

/// Whoever brought it back saw a rebuild of it under way.
#[test]
fn a_device_that_is_back_while_its_rebuild_is_given_up_is_rebuilt() {
    let (_outer, folder) = folder();
    let (pool, churn) = mirror(&folder, 77);
    let c = begin_at(&pool, &folder, 0);
    let new = leaf_at(&pool, c);
    let rebuilds = Arc::clone(&pool.writer().unwrap().rebuilds);
    let starting = rebuilds.starting();
    new.set_condition(vdev::Condition::new(
        vdev::VdevState::Faulted,
        vdev::VdevAux::IoFailure,
    ));
    run(&pool, c, 0);
    std::thread::sleep(A_WHILE);
    new.set_condition(vdev::Condition::HEALTHY);
    drop((new, starting));
    wait_whole(&pool);
    wait_rebuilt(&pool);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}

#[test]
fn a_rebuild_whose_device_is_detached_is_cancelled() {
    let (_outer, folder) = folder();
    let (pool, churn) = mirror(&folder, 70);
    let c = begin_at(&pool, &folder, 0);
    pool.detach_device(c).unwrap();
    assert_eq!(shape(&pool), "mirror(a b)");
    crash(pool);
    let pool = import_crashed(&folder);
    wait_rebuilt(&pool);
    assert_eq!(last(&pool).unwrap().rebuild.state, RebuildState::Cancelled);
    assert_eq!(references(&pool), Some(0));
    churn.check(&pool);
    close(pool, &folder);
}

#[test]
fn a_state_that_is_none_is_refused_for_writing() {
    let (_outer, folder) = folder();
    let (pool, _) = mirror(&folder, 71);
    begin_at(&pool, &folder, 0);
    // As if by another version: of another number of words.
    let top = pool.config().root.children[0].clone();
    let id = top.object(keys::VDEV_ZAP_TOP).unwrap();
    let table = dmu::Zap::open(&pool.services.mos.object(id).unwrap()).unwrap();
    let engine = &pool.writer().unwrap().engine;
    let tx = dmu::Tx::assign(engine, &dmu::Reservation::default()).unwrap();
    let value = Value::words(&[1; 11]);
    table
        .update_value(&tx, vdev_zap::REBUILD.as_bytes(), &value)
        .unwrap();
    drop((tx, table));
    pool.sync().unwrap();
    crash(pool);
    let mut options = crate::vdevs::disks::tests::options(&folder);
    options.force = true;
    let imported = Pool::import(&options).map(drop);
    assert!(
        matches!(imported, Err(PoolError::Corrupt { .. })),
        "{imported:?}"
    );
}

#[test]
fn several_vdevs_are_rebuilt_at_once_and_another_disk_has_one_begin_anew() {
    let (_outer, folder) = folder();
    let vdevs = [["a", "b"], ["c", "d"]].map(|names| NewVdev::Mirror(files(&folder, &names)));
    let pool = Pool::create(CreateOptions::new("tank", vdevs.to_vec())).unwrap();
    let mut churn = Churn::new(&pool, 72);
    churn.run(&pool, 3);
    for (beside, new) in [("a", "x"), ("c", "y"), ("a", "z")] {
        let beside = leaf(&pool, beside);
        pool.attach_device(beside, &file(&folder, new), &ATTACH_IN_SEQUENCE)
            .unwrap();
        churn.run(&pool, 1);
    }
    wait_rebuilt(&pool);
    wait_whole(&pool);
    assert_eq!(shape(&pool), "mirror(a b x z) mirror(c d y)");
    let states = pool.facts().rebuilds().into_iter();
    let states: Vec<_> = states.map(|found| found.rebuild.state).collect();
    assert_eq!(states, [RebuildState::Complete; 2]);
    assert_eq!(references(&pool), Some(0));
    close(pool, &folder);
    check_without(&folder, &["a", "b", "c", "d", "x"], &churn);
}

#[test]
fn what_no_device_can_give_is_left_to_the_resilver() {
    let (_outer, folder) = folder();
    let (pool, mut churn) = mirror(&folder, 73);
    // Both sides lack a txg of their own: neither is believed without knowing blocks.
    for name in ["a", "b"] {
        let side = leaf_at(&pool, leaf(&pool, name));
        side.set_missing(
            [(Txg(if name == "a" { 5 } else { 6 }), 1)]
                .into_iter()
                .collect(),
        );
    }
    churn.run(&pool, 1);
    let a = leaf(&pool, "a");
    pool.attach_device(a, &file(&folder, "c"), &ATTACH_IN_SEQUENCE)
        .unwrap();
    wait_rebuilt(&pool);
    wait_whole(&pool);
    assert!(last(&pool).unwrap().rebuild.errors > 0);
    close(pool, &folder);
    check_without(&folder, &["a", "b"], &churn);
}
