//! Scrubs of pools with damage.

mod deferred;
mod resumed;
mod roles;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, PoisonError};

use base::random::{Rng, SeededRng};
use base::{ObjectId, Txg};
use dsl::tasks::{DestroySnapshots, Rollback};
use dsl::{DslError, Services, Succession, Task, TaskContext};
use format::BlockPointer;

use crate::churn::{Churn, Filler};
use crate::pool::services::PoolServices;
use crate::scan::control::{ScanChange, ScanRequest, Scrub};
use crate::scan::course::Course;
use crate::scan::pending::PendingBlocks;
use crate::scan::phys::{
    FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_FINISHED, STATE_SCANNING,
    ScanPhys,
};
use crate::scan::work::advance;
use crate::tunables::{
    SCAN_AHEAD_BYTES, SCAN_GAP_BYTES, SCAN_MEMORY_BYTES, SCAN_RUN_BYTES, SCAN_SLICE_MS,
    SCRUB_SLICE_BLOCKS,
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
fn a_damaged_side_of_a_mirror_is_repaired() {
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

/// Goes on with a scrub that is paused until so many times all that was collected was looked at; whether there is more
/// to do.
fn steps(pool: &Pool, count: usize) -> bool {
    let scrub = &pool.writer().unwrap().scrub;
    for _ in 0..count {
        let before = scrub.control.lock().kept.clone();
        while scrub.control.lock().kept == before {
            if !advance(pool, scrub) {
                return false;
            }
        }
    }
    scrub.control.lock().course.leg().is_some()
}

/// A scrub that is left and resumed again and again, while snapshots come and go, has seen every
/// block at its end: what it did not repair is lost when the other side of the mirror is damaged.
#[test]
fn a_scrub_goes_on_where_it_was() {
    /// More would fill the pool with snapshots.
    const CHANGED_ROUNDS: u32 = 6;
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
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
    while steps(&pool, 1) {
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
    SCAN_MEMORY_BYTES.reset();
}

/// Overwrites the data area of an image with something else, all of it.
fn damage_all(path: &std::path::Path, seed: u8) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let (start, end) = (4 << 20, 95 << 20);
    let bytes = vec![seed; end - start];
    file.write_all_at(&bytes, start as u64).unwrap();
}

/// Tests under limits of their own take turns.
pub(in crate::scan) static LIMITED: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// What a task made a scan follow is undone with the task, of the stored place as well; but a scan that began meanwhile
/// is not put back to where another one was.
#[test]
fn a_scan_goes_back_with_a_task_that_is_undone() {
    let destroyed = Succession::Merged {
        snapshot: ObjectId(5),
        taken: Txg(20),
        next: ObjectId(6),
    };
    let scan = ScanPhys {
        state: STATE_SCANNING,
        txg_max: 30,
        current_max: 30,
        bookmark: [5, 1, 0, 3],
        ..ScanPhys::default()
    };
    let course = Course::resume(scan, BTreeMap::new(), &|_| true);
    let scrub = Scrub::new(&Arc::new(PendingBlocks::new()));
    let set = |number| {
        let mut control = scrub.control.lock();
        (control.scan, control.number) = (Some(scan), number);
        (control.course, control.kept) = (course.clone(), course.clone());
    };
    set(1);
    let before = scrub.stored();
    let way = scrub.way();
    assert!(scrub.follow(destroyed));
    assert_ne!(scrub.stored(), before);
    scrub.go_back(way);
    assert_eq!(scrub.stored(), before);
    let (epoch, leg) = scrub.control.lock().course.leg().unwrap();
    assert_eq!(
        (epoch > 0, Some(leg)),
        (true, course.leg().map(|(_, leg)| leg))
    );

    let way = scrub.way();
    set(2);
    assert!(scrub.follow(destroyed));
    let followed = scrub.stored();
    scrub.go_back(way);
    assert_eq!(scrub.stored(), followed);
}

/// A task that fails when all of it is done, and so is undone.
struct Undone<T>(T);

impl<T: Task> Task for Undone<T> {
    type Output = T::Output;

    fn check(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        self.0.check(context)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<T::Output> {
        self.0.apply(context)?;
        let name = "undone".to_owned();
        Err(DslError::Exists { name })
    }
}

/// Frees blocks.
struct Free {
    services: Arc<PoolServices>,
    blocks: Vec<BlockPointer>,
}

impl Task for Free {
    type Output = ();

    fn check(&mut self, _: &TaskContext<'_>) -> dsl::Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        let free = |block| self.services.free(context.tx.txg(), block);
        self.blocks.iter().for_each(free);
        Ok(())
    }
}

/// Destroys a snapshot of the churn, puts its head back, and frees its blocks; all this fails in the end.
fn change_and_undo(pool: &Arc<Pool>, churn: &Churn, random: &mut SeededRng) {
    let services = Arc::clone(&pool.services);
    let blocks = churn.blocks(pool);
    let freed = pool.dsl().run(Undone(Free { services, blocks }));
    assert!(freed.unwrap_err().to_string().contains("undone"));
    let snapshots = pool.dsl().head("tank/churn").unwrap().snapshots().unwrap();
    let at = random.below(snapshots.len() as u64) as usize;
    let names = vec![snapshots[at].name().unwrap()];
    drop(snapshots);
    let defer = false;
    let destroyed = pool
        .dsl()
        .run(Undone(DestroySnapshots { names, defer }))
        .unwrap_err();
    assert!(destroyed.to_string().contains("undone"), "{destroyed}");
    let path = "tank/churn".to_owned();
    let snapshot = None;
    let back = pool.dsl().run(Undone(Rollback { path, snapshot }));
    assert!(back.unwrap_err().to_string().contains("undone"));
}

/// Everything is on the first side: the other one is damaged, and a scrub misses nothing.
fn assert_whole(paths: &[PathBuf], options: &ImportOptions, churn: &Churn) {
    damage_all(&paths[1], 0xBB);
    let pool = Pool::import(options).unwrap();
    churn.check(&pool);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    pool.export().unwrap();
}

/// Between any two slices of a scan blocks are freed, snapshots destroyed, and tasks undone that did both. What follows
/// the scan of a side that was damaged, until that is all there is.
fn scan_amid_changes(seed: u64, start: fn(&Arc<Pool>), end: fn(&Arc<Pool>)) {
    const CHANGED_SLICES: u32 = 40;
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    // Most of the pool waits to be looked at, and is looked at little by little.
    let limits = [
        (&SCAN_MEMORY_BYTES, 512 << 10),
        (&SCAN_RUN_BYTES, 16 << 10),
        (&SCAN_GAP_BYTES, 0),
        (&SCAN_SLICE_MS, 1),
        (&SCRUB_SLICE_BLOCKS, 64),
        (&SCAN_AHEAD_BYTES, 8 << 10),
    ];
    limits.iter().for_each(|(limit, value)| limit.set(*value));
    let folder = tempfile::tempdir().unwrap();
    let (vdev, paths) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, seed);
    let mut random = SeededRng::new(seed);
    churn.run(&pool, 8);
    pool.export().unwrap();
    drop(pool);
    damage_all(&paths[0], 0xAA);
    let mut options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    options.force = true;
    let pool = Pool::import(&options).unwrap();
    start(&pool);
    let mut slices = 0;
    while advance(&pool, &pool.writer().unwrap().scrub) {
        slices += 1;
        // A scan that went back looks at the log once more.
        if slices % 4 == 0 {
            change_and_undo(&pool, &churn, &mut random);
        }
        if slices <= CHANGED_SLICES && slices % 8 == 0 {
            churn.run(&pool, 1);
        }
    }
    println!("{slices} slices");
    assert!(slices > CHANGED_SLICES);
    end(&pool);
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    let top = Arc::clone(&pool.vdevs().tops()[0]);
    assert!(top.leaves().iter().all(|leaf| leaf.missing().is_empty()));
    drop(top);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
    assert_whole(&paths, &options, &churn);
    limits.iter().for_each(|(limit, _)| limit.reset());
}

#[test]
fn a_scrub_passes_nothing_over_that_was_nearly_freed() {
    scan_amid_changes(13, begin, |pool| pool.start_scrub().unwrap());
}

#[test]
fn a_resilver_passes_nothing_over_that_was_nearly_freed() {
    let start = |pool: &Arc<Pool>| {
        let last = pool.engine().unwrap().open_txg();
        let first = Arc::clone(&pool.vdevs().tops()[0].leaves()[0]);
        (1..=last.0).for_each(|txg| first.note_missing(Txg(txg)));
        assert_eq!(pool.begin_resilver(&[]), Some((Txg(1), last)));
        let scan = ScanPhys {
            function: FUNCTION_RESILVER,
            state: STATE_SCANNING,
            txg_max: last.0 + 1,
            flags: FLAG_PAUSED,
            ..ScanPhys::default()
        };
        pool.store_scan(ScanChange::Start(scan)).unwrap();
        pool.run_scrub(scan, Course::begin(scan)).unwrap();
    };
    let end = |pool: &Arc<Pool>| {
        let scrub = &pool.writer().unwrap().scrub;
        let mut control = scrub.control.lock();
        control.scan.as_mut().unwrap().flags = 0;
        control.request = ScanRequest::Run;
        drop(control);
        scrub.changed.notify_all();
    };
    scan_amid_changes(14, start, end);
}

/// In a full pool the places of blocks that wait to be looked at are given away as soon as they may be. What lies there
/// then is neither judged nor repaired.
#[test]
fn places_that_are_given_away_before_they_were_looked_at_are_left_alone() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = [
        (&SCAN_RUN_BYTES, 16 << 10),
        (&SCAN_GAP_BYTES, 0),
        (&SCAN_SLICE_MS, 1),
    ];
    limits.iter().for_each(|(limit, value)| limit.set(*value));
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut full = Filler::new(&pool, 5);
    full.fill(&pool);
    pool.sync().unwrap();
    begin(&pool);
    let scrub = &pool.writer().unwrap().scrub;
    while !scrub.control.lock().is_issuing {
        assert!(advance(&pool, scrub));
    }
    let place = |block: BlockPointer| (block.dva(0).unwrap().offset, block.physical_birth());
    let before: BTreeMap<u64, Txg> = full.blocks(&pool).into_iter().map(place).collect();
    full.punch(&pool);
    // The frees go through, and their places come back.
    (0..6).for_each(|_| pool.sync().unwrap());
    full.fill(&pool);
    pool.sync().unwrap();
    let now = full.blocks(&pool).into_iter().map(place);
    let reused = now.filter(|(place, birth)| before.get(place).is_some_and(|was| was < birth));
    let reused = reused.count();
    println!("{reused} of {} places", before.len());
    assert!(reused > 20, "{reused}");
    while scrub.control.lock().is_issuing {
        assert!(advance(&pool, scrub));
    }
    let scan = scrub.current().unwrap();
    assert_eq!((scan.errors, scan.processed), (0, 0));
    let top = Arc::clone(&pool.vdevs().tops()[0]);
    assert!(top.leaves().iter().all(|leaf| leaf.errors().checksum == 0));
    full.check(&pool);
    pool.export().unwrap();
    limits.iter().for_each(|(limit, _)| limit.reset());
}

/// Between the look whether a scan runs and its start is a txg: of those who ask at once one starts it.
#[test]
fn of_several_who_start_a_scrub_one_does() {
    const CALLERS: usize = 4;
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    // It goes on for long, a block at a time.
    let limits = [(&SCAN_MEMORY_BYTES, 1 << 10), (&SCRUB_SLICE_BLOCKS, 1)];
    limits.iter().for_each(|(limit, value)| limit.set(*value));
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    Churn::new(&pool, 17).run(&pool, 6);
    let barrier = Barrier::new(CALLERS);
    let start = || {
        barrier.wait();
        pool.start_scrub().is_ok()
    };
    let started: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(start)).collect();
        let results = callers.into_iter().map(|caller| caller.join().unwrap());
        results.map(usize::from).sum()
    });
    assert_eq!(started, 1);
    pool.stop_scrub().unwrap();
    pool.export().unwrap();
    limits.iter().for_each(|(limit, _)| limit.reset());
}

/// A scan that is stopped, or comes to its end, while others stop it ends once.
#[test]
fn of_several_who_stop_a_scrub_one_does() {
    const CALLERS: usize = 4;
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = [(&SCAN_MEMORY_BYTES, 1 << 10), (&SCRUB_SLICE_BLOCKS, 1)];
    limits.iter().for_each(|(limit, value)| limit.set(*value));
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    Churn::new(&pool, 19).run(&pool, 6);
    for _ in 0..5 {
        pool.start_scrub().unwrap();
        let barrier = Barrier::new(CALLERS);
        let stop = || {
            barrier.wait();
            pool.stop_scrub().is_ok()
        };
        let stopped: usize = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(stop)).collect();
            let results = callers.into_iter().map(|caller| caller.join().unwrap());
            results.map(usize::from).sum()
        });
        assert_eq!(stopped, 1);
    }
    pool.export().unwrap();
    limits.iter().for_each(|(limit, _)| limit.reset());
}

/// What a scan found is forgotten at the end of the next one, not when somebody says once more that it ended.
#[test]
fn what_a_scrub_found_outlives_a_second_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path.clone()));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    Churn::new(&pool, 23).run(&pool, 4);
    pool.export().unwrap();
    drop(pool);
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    damage(&path, 0xCC);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let found = pool.services.data_errors().unwrap();
    assert!(!found.is_empty());
    let scan = pool.scan().unwrap().unwrap();
    let writer = pool.writer.as_ref().unwrap();
    writer.scrub.change_next(ScanChange::End(scan));
    pool.sync().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.services.data_errors().unwrap(), found);
}

/// A rebuild ends between the look whether a device lacks something and the start of a resilver.
#[test]
fn a_scrub_goes_on_when_nothing_is_left_to_resilver() {
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let churn = Churn::new(&pool, 71);
    pool.sync().unwrap();
    begin(&pool);
    assert!(!pool.start_resilver().unwrap());
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    churn.check(&pool);
    pool.export().unwrap();
}
