//! Long frees in pieces: what a txg frees and what its sync keeps in memory are bounded, each piece leaves whole files,
//! and a crash between two of them loses no space.

use base::metrics::registry;
use base::{ByteOrder, ObjectId, Txg};
use dmu::Zap;
use dsl::tasks::{CreateDataset, DestroySnapshots, Snapshot};
use dsl::{PropertyChange, PropertyValue, SetProperties, Task, TaskContext};
use format::bptree::BlockTreeEntry;
use format::config::directory;
use millpond_torture::operation::{Operation, Place};
use millpond_torture::random::Random;
use millpond_torture::real;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{CreateOptions, NewDevice, NewVdev};
use posix::{AllocateMode, Credentials, FileSystem, OpenOptions};
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SIZE: u64 = 160 << 20;
const BLOCK: usize = 4096;
/// What a sync may drop beside the blocks that it was told of: indirect blocks, dnodes, roots, entries of directories.
const BESIDE: u64 = 100;

/// Tunables are the process's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Small limits while it lives.
struct Limits<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

impl Limits<'_> {
    fn set(piece: u64, txg: u64, kept: u64) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        dmu::tunables::FREE_BLOCKS_PIECE.set(piece);
        dmu::tunables::FREE_BLOCKS_TXG.set(txg);
        dsl::tunables::KEPT_BLOCKS.set(kept);
        Self(turn)
    }
}

impl Drop for Limits<'_> {
    fn drop(&mut self) {
        dmu::tunables::FREE_BLOCKS_PIECE.reset();
        dmu::tunables::FREE_BLOCKS_TXG.reset();
        dsl::tunables::KEPT_BLOCKS.reset();
    }
}

fn test_pool(disk: &Arc<SimulatedDisk>) -> TestPool {
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let set = |name: &str, value| {
        (
            name.to_owned(),
            PropertyChange::Set(PropertyValue::Number(value)),
        )
    };
    let changes = vec![set("recordsize", BLOCK as u64)];
    let name = POOL.to_owned();
    test_pool
        .pool
        .dsl()
        .run(SetProperties { name, changes })
        .unwrap();
    test_pool.renew_properties().unwrap();
    test_pool
}

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// Block `index` of every file: too much to be kept in its pointer, little on disk.
fn block(index: usize) -> Vec<u8> {
    let mut random = Random::new(index as u64 + 1);
    let mut bytes: Vec<u8> = (0..48).flat_map(|_| random.draw().to_ne_bytes()).collect();
    bytes.resize(BLOCK, 0);
    bytes
}

fn write_file(system: &FileSystem, name: &str, blocks: usize) {
    real::apply(system, &Operation::Create(place(name), 0o644)).unwrap();
    for from in (0..blocks).step_by(256) {
        let bytes: Vec<u8> = (from..blocks.min(from + 256)).flat_map(block).collect();
        let write = Operation::Write(place(name), from * BLOCK, bytes, false);
        real::apply(system, &write).unwrap();
    }
}

/// The file's contents; none when the name is gone.
fn read_file(system: &FileSystem, name: &str) -> Option<Vec<u8>> {
    let root = Credentials::root();
    let found = system.lookup(&root, system.root(), name.as_bytes()).ok()?;
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = system.open(&root, found.object, options).unwrap();
    let mut bytes = vec![0; found.size as usize];
    assert_eq!(file.read(0, &mut bytes).unwrap(), bytes.len());
    Some(bytes)
}

fn snapshot(test_pool: &TestPool, name: &str) {
    let task = Snapshot {
        names: vec![format!("{POOL}@{name}")],
        properties: Vec::new(),
    };
    test_pool.pool.dsl().run(task).unwrap();
}

/// The most blocks that one sync of a head dropped so far.
fn dropped_max() -> u64 {
    registry().histogram("dsl.dropped_blocks").snapshot().max
}

fn kept_max() -> i64 {
    registry().gauge("dsl.kept_blocks").high_water()
}

#[test]
fn what_a_txg_frees_is_bounded_however_long_the_file_is() {
    const BLOCKS: usize = 4000;
    let limits = Limits::set(300, 700, 64);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 1));
    let test_pool = test_pool(&disk);
    let system = test_pool.root();
    for name in ["removed", "cut", "holed", "replaced", "open"] {
        write_file(&system, name, BLOCKS);
    }
    write_file(&system, "new", 3);
    test_pool.pool.sync().unwrap();
    snapshot(&test_pool, "kept");
    let engine = Arc::clone(test_pool.pool.engine().unwrap());
    let before = (engine.synced_txg(), dropped_max());
    // The meters are of the whole process, in which other tests with these limits may have run before.
    assert!(before.1 <= 700 + BESIDE, "nothing more was freed yet");

    real::apply(&system, &Operation::Unlink(place("removed"))).unwrap();
    real::apply(&system, &Operation::Truncate(place("cut"), 5000)).unwrap();
    let hole = Operation::Allocate(
        place("holed"),
        AllocateMode::PunchHole,
        4096,
        BLOCKS * BLOCK,
    );
    real::apply(&system, &hole).unwrap();
    let over = Operation::Rename(place("new"), place("replaced"), posix::RenameMode::Replace);
    real::apply(&system, &over).unwrap();
    let root = Credentials::root();
    let open = system.lookup(&root, system.root(), b"open").unwrap().object;
    let handle = system.open(&root, open, OpenOptions::default()).unwrap();
    real::apply(&system, &Operation::Unlink(place("open"))).unwrap();
    drop(handle);
    test_pool.pool.sync().unwrap();

    assert!(engine.synced_txg() >= Txg(before.0.0 + 5 * BLOCKS as u64 / 700));
    assert!(
        dropped_max() <= 700 + BESIDE,
        "{} blocks in one txg",
        dropped_max()
    );
    assert!(engine.blocks_to_free_max() <= 700);
    // One batch of each kind, and what each worker is about to hand over.
    assert!(
        kept_max() <= 64 * 2 + 32,
        "{} pointers in memory",
        kept_max()
    );
    assert_eq!(registry().gauge("dsl.kept_blocks").get(), 0);
    assert_eq!(system.unlinked().unwrap(), 0);
    assert_eq!(read_file(&system, "removed"), None);
    assert_eq!(read_file(&system, "open"), None);
    let mut cut: Vec<u8> = block(0);
    cut.extend(&block(1)[..5000 - BLOCK]);
    assert_eq!(read_file(&system, "cut"), Some(cut));
    let mut holed = block(0);
    holed.resize(BLOCKS * BLOCK, 0);
    assert_eq!(read_file(&system, "holed"), Some(holed));
    assert_eq!(
        read_file(&system, "replaced").map(|bytes| bytes.len()),
        Some(3 * BLOCK)
    );
    drop(limits);

    // Without the limits it is one txg: the meters see it.
    let limits = Limits::set(1 << 20, 1 << 24, 64);
    write_file(&system, "control", BLOCKS);
    test_pool.pool.sync().unwrap();
    real::apply(&system, &Operation::Unlink(place("control"))).unwrap();
    test_pool.pool.sync().unwrap();
    assert!(dropped_max() >= BLOCKS as u64);
    drop((limits, system));
    judge(test_pool, &disk);
}

/// Exports the pool; zdb finds nothing wrong with it.
fn judge(test_pool: TestPool, disk: &SimulatedDisk) {
    test_pool.export().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disk.write_to_file(&image(folder.path(), "0")).unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

const CRASH_BLOCKS: usize = 200;

/// What a crash may leave of the three files that are removed, cut and holed, in this order.
fn check_crashed(system: &FileSystem) {
    let whole: Vec<u8> = (0..CRASH_BLOCKS).flat_map(block).collect();
    if let Some(removed) = read_file(system, "removed") {
        assert_eq!(removed.len(), whole.len(), "a file with a name is whole");
        assert!(removed == whole);
    }
    let cut = read_file(system, "cut").unwrap();
    assert!(
        cut.len() >= 5000 && whole.starts_with(&cut),
        "cut to {}",
        cut.len()
    );
    let holed = read_file(system, "holed").unwrap();
    assert_eq!(holed.len(), whole.len());
    let data = holed
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    assert!(whole.starts_with(&holed[..data]), "data up to {data}");
}

/// Leaves the disk after `event` events; imports it, and frees what is left to be freed.
fn check_crash(disk: &SimulatedDisk, event: usize, seed: u64, folder: &Path) {
    let path = image(folder, "crashed");
    let _ = std::fs::remove_file(&path);
    disk.crash_at(event, seed).write_to_file(&path).unwrap();
    let test_pool = TestPool::import(folder, false).unwrap();
    let system = test_pool.root();
    check_crashed(&system);
    system.drain_unlinked().unwrap();
    assert_eq!(system.unlinked().unwrap(), 0);
    drop(system);
    test_pool.export().unwrap();
    if event.is_multiple_of(8)
        && let Some(zdb) = golden::Zdb::from_environment()
    {
        zdb.assert_clean(folder, POOL);
    }
}

#[test]
fn a_crash_between_two_pieces_leaves_whole_files_and_loses_no_space() {
    let limits = Limits::set(32, 48, 8);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 2));
    let test_pool = test_pool(&disk);
    let system = test_pool.root();
    for name in ["removed", "cut", "holed"] {
        write_file(&system, name, CRASH_BLOCKS);
    }
    test_pool.pool.sync().unwrap();
    snapshot(&test_pool, "kept");
    let first = disk.log_len();
    real::apply(&system, &Operation::Unlink(place("removed"))).unwrap();
    real::apply(&system, &Operation::Truncate(place("cut"), 5000)).unwrap();
    let length = CRASH_BLOCKS * BLOCK;
    let hole = Operation::Allocate(place("holed"), AllocateMode::PunchHole, 4096, length);
    real::apply(&system, &hole).unwrap();
    test_pool.pool.sync().unwrap();
    drop(system);
    let last = disk.log_len();
    drop(test_pool);
    let folder = tempfile::tempdir().unwrap();
    let points = 24.min(last - first);
    for point in 0..=points {
        let event = first + (last - first) * point / points;
        check_crash(&disk, event, point as u64, folder.path());
    }
    drop(limits);
}

/// A pool in which nobody frees trees in the background, with a file system of one long file and two that have nothing
/// to do with it.
fn without_background(disk: &Arc<SimulatedDisk>, blocks: usize) -> TestPool {
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _);
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    let mut features = pool::default_features();
    features.retain(|feature| feature.guid != format::features::ASYNC_DESTROY.guid);
    options.features = Some(features);
    let test_pool = TestPool::create_as(options).unwrap();
    for name in [DOOMED, CALM] {
        let create = CreateDataset {
            path: format!("{POOL}/{name}"),
            kind: format::ObjectSetKind::FileSystem,
            properties: vec![("recordsize".to_owned(), PropertyValue::Number(4096))],
            case_insensitive: false,
            populate: Some(millpond_torture::pool_model::real::populate()),
        };
        test_pool.pool.dsl().run(create).unwrap();
    }
    let doomed = test_pool.system(&format!("{POOL}/{DOOMED}"));
    for (name, blocks) in [("long", blocks), ("short", 3)] {
        write_file(&doomed, name, blocks);
    }
    write_file(
        &test_pool.system(&format!("{POOL}/{CALM}")),
        "long",
        CRASH_BLOCKS,
    );
    drop(doomed);
    test_pool.pool.sync().unwrap();
    test_pool.close_all();
    test_pool
}

const DOOMED: &str = "doomed";
const CALM: &str = "calm";

#[test]
fn a_file_system_goes_in_pieces_where_nobody_frees_trees_in_the_background() {
    const BLOCKS: usize = 3000;
    let limits = Limits::set(300, 700, 64);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 5));
    let test_pool = without_background(&disk, BLOCKS);
    let engine = Arc::clone(test_pool.pool.engine().unwrap());
    let (before, dropped) = (engine.synced_txg(), dropped_max());
    let dsl = test_pool.pool.dsl();
    dsl.destroy_head(&format!("{POOL}/{DOOMED}")).unwrap();
    assert!(dsl.head(&format!("{POOL}/{DOOMED}")).is_err());
    assert!(engine.synced_txg() >= Txg(before.0 + BLOCKS as u64 / 700));
    assert!(engine.blocks_to_free_max() <= 700);
    assert!(dropped_max() <= dropped.max(700 + BESIDE));
    let at_once = registry().histogram("dsl.tree_blocks_at_once");
    assert!(
        at_once.snapshot().max <= BESIDE,
        "{} blocks in the txg in which it went",
        at_once.snapshot().max
    );
    drop(limits);
    judge(test_pool, &disk);
}

/// It is there whole, or it is gone with all that it had once the pool is imported.
#[test]
fn a_crash_while_a_file_system_goes_in_pieces_loses_no_space() {
    let limits = Limits::set(32, 48, 8);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 6));
    let test_pool = without_background(&disk, 400);
    let first = disk.log_len();
    let dsl = test_pool.pool.dsl();
    dsl.destroy_head(&format!("{POOL}/{DOOMED}")).unwrap();
    let last = disk.log_len();
    drop(test_pool);
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "crashed");
    let points = 24.min(last - first);
    let mut left = Vec::new();
    for point in 0..=points {
        let event = first + (last - first) * point / points;
        let _ = std::fs::remove_file(&path);
        let crashed = disk.crash_at(event, point as u64);
        crashed.write_to_file(&path).unwrap();
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let doomed = format!("{POOL}/{DOOMED}");
        let is_left = test_pool.pool.dsl().head(&doomed).is_ok();
        left.push(is_left);
        for name in [Some(CALM), is_left.then_some(DOOMED)]
            .into_iter()
            .flatten()
        {
            let system = test_pool.system(&format!("{POOL}/{name}"));
            let found = read_file(&system, "long").unwrap();
            let blocks = if name == CALM { CRASH_BLOCKS } else { 400 };
            assert!(
                found == (0..blocks).flat_map(block).collect::<Vec<u8>>(),
                "{name}, event {event}"
            );
        }
        millpond_torture::aftermath::export(test_pool, folder.path());
        if event.is_multiple_of(8)
            && let Some(zdb) = golden::Zdb::from_environment()
        {
            zdb.assert_clean(folder.path(), POOL);
        }
    }
    assert!(left.contains(&true) && left.contains(&false), "{left:?}");
    drop(limits);
}

/// Says of the first queued tree that it was freed up to a block of a file.
struct FreedTo {
    object: u64,
    block: u64,
}

impl Task for FreedTo {
    type Output = ();

    fn check(&mut self, _: &TaskContext<'_>) -> dsl::Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        let set = &context.dsl.mos().set;
        let directory = Zap::open(&set.object(directory::OBJECT)?)?;
        let queue = directory.lookup(directory::BPTREE.as_bytes())?.unwrap();
        let mut entry = [0; BlockTreeEntry::SIZE];
        let queue = set.object(ObjectId(queue))?;
        queue.read(0, &mut entry)?;
        let mut entry = BlockTreeEntry::decode_padded(&entry, ByteOrder::NATIVE);
        entry.bookmark = [u64::MAX, self.object, 0, self.block];
        Ok(queue.write(context.tx, 0, &entry.to_bytes(ByteOrder::NATIVE))?)
    }
}

/// The bytes that a report calls leaked.
fn leaked_bytes(report: &str) -> u64 {
    let (_, after) = report.split_once("(leaked ").expect("a leak");
    after.split(')').next().unwrap().parse().unwrap()
}

/// What comes before the bookmark of a tree is not the tree's any more, and may be another block's.
#[test]
fn a_tree_that_is_freed_in_part_holds_what_is_left_of_it() {
    const BLOCKS: usize = 1000;
    let shares = Shares::set(1000, 1, 64);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 8));
    let test_pool = test_pool(&disk);
    let dsl = test_pool.pool.dsl();
    let path = format!("{POOL}/{DOOMED}");
    let create = CreateDataset {
        path: path.clone(),
        kind: format::ObjectSetKind::FileSystem,
        properties: vec![("recordsize".to_owned(), PropertyValue::Number(BLOCK as u64))],
        case_insensitive: false,
        populate: Some(millpond_torture::pool_model::real::populate()),
    };
    dsl.run(create).unwrap();
    let system = test_pool.system(&path);
    write_file(&system, "long", BLOCKS);
    let root = Credentials::root();
    let found = system.lookup(&root, system.root(), b"long").unwrap();
    let object = found.object.0;
    test_pool.pool.sync().unwrap();
    drop(system);
    test_pool.close_all();
    dsl.destroy_head(&path).unwrap();
    let block = BLOCKS as u64 / 2;
    dsl.run(FreedTo { object, block }).unwrap();
    test_pool.export().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disk.write_to_file(&image(folder.path(), "0")).unwrap();
    let mut report = Vec::new();
    let inspection = inspect::Inspection::of(vec![folder.path().to_owned()]).verifying();
    inspection.print(&mut report).unwrap();
    let leaked = leaked_bytes(&String::from_utf8_lossy(&report));
    assert!((256_000..320_000).contains(&leaked), "{leaked} bytes");
    if let Some(zdb) = golden::Zdb::from_environment() {
        let output = zdb.run(folder.path(), &["-bcc"], &[POOL]);
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(leaked_bytes(&report), leaked, "{report}");
    }
    drop(shares);
}

#[test]
fn a_thread_frees_what_is_long_and_goes_on_after_an_end() {
    const BLOCKS: usize = 1000;
    let limits = Limits::set(64, 64, 64);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 3));
    let test_pool = test_pool(&disk);
    let system = test_pool.in_background(POOL);
    for name in ["one", "two"] {
        write_file(&system, name, BLOCKS);
    }
    test_pool.pool.sync().unwrap();
    for name in ["one", "two"] {
        real::apply(&system, &Operation::Unlink(place(name))).unwrap();
    }
    // Nobody waited for sixteen txgs each.
    assert_eq!(system.unlinked().unwrap(), 2);
    system.unmount().unwrap();
    drop(system);
    let system = test_pool.in_background(POOL);
    system.drain_unlinked().unwrap();
    let mut waits = 0;
    while system.unlinked().unwrap() != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waits += 1;
        assert!(waits < 3000, "what waits is freed");
    }
    system.unmount().unwrap();
    drop((limits, system));
    judge(test_pool, &disk);
}

/// A file whose blocks each snapshot has of its own.
fn layered(test_pool: &TestPool, snapshots: usize, blocks: usize) -> Vec<String> {
    let system = test_pool.root();
    let mut names = Vec::new();
    real::apply(&system, &Operation::Create(place("layers"), 0o644)).unwrap();
    for index in 0..snapshots {
        let bytes: Vec<u8> = (0..blocks)
            .flat_map(|at| block(at + index * blocks))
            .collect();
        let write = Operation::Write(place("layers"), 0, bytes, false);
        real::apply(&system, &write).unwrap();
        let name = format!("s{index:03}");
        snapshot(test_pool, &name);
        names.push(format!("{POOL}@{name}"));
    }
    names
}

fn snapshot_names(test_pool: &TestPool) -> Vec<String> {
    let head = test_pool.pool.dsl().head(POOL).unwrap();
    let snapshots = head.snapshots().unwrap();
    snapshots
        .iter()
        .map(|found| found.name().unwrap())
        .collect()
}

/// Small shares of a txg for snapshots and for the background while it lives.
struct Shares(#[expect(dead_code, reason = "held")] Limits<'static>);

impl Shares {
    fn set(snapshots: u64, blocks: u64, keys: u64) -> Self {
        let limits = Limits::set(16_384, 131_072, 8);
        dsl::tunables::DESTROY_SNAPSHOTS_TXG.set(snapshots);
        dsl::tunables::BACKGROUND_BLOCKS.set(blocks);
        dsl::tunables::DEAD_KEYS.set(keys);
        Self(limits)
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        for tunable in dsl::tunables::TUNABLES {
            tunable.reset();
        }
    }
}

fn destroy(test_pool: &TestPool, names: &[String]) -> dsl::Result<()> {
    let (names, defer) = (names.to_vec(), false);
    test_pool.pool.dsl().run(DestroySnapshots { names, defer })
}

#[test]
fn snapshots_go_in_as_many_txgs_as_it_takes() {
    // With the keys of deadlists in memory, and with next to none.
    for keys in [1 << 20, 2] {
        let shares = Shares::set(3, 8, keys);
        let disk = Arc::new(SimulatedDisk::new(SIZE, 4));
        let test_pool = test_pool(&disk);
        let names = layered(&test_pool, 20, 10);
        let engine = Arc::clone(test_pool.pool.engine().unwrap());
        // All or nothing, as far as it can be known: one that is not there, and nothing happens.
        let mut wrong = names.clone();
        wrong.push(format!("{POOL}@never"));
        assert!(destroy(&test_pool, &wrong).is_err());
        assert_eq!(snapshot_names(&test_pool), names);

        let before = engine.synced_txg().0;
        destroy(&test_pool, &names[2..18]).unwrap();
        assert!(engine.synced_txg().0 >= before + 16 / 3);
        let left = [&names[..2], &names[18..]].concat();
        assert_eq!(snapshot_names(&test_pool), left);
        let system = test_pool.root();
        let whole: Vec<u8> = (0..10).flat_map(|at| block(at + 190)).collect();
        assert_eq!(read_file(&system, "layers"), Some(whole));
        destroy(&test_pool, &left).unwrap();
        let mut txgs = 0;
        while test_pool.pool.dsl().has_background_frees().unwrap() {
            test_pool.pool.sync().unwrap();
            txgs += 1;
        }
        assert!(txgs >= 2, "{txgs} txgs in the background");
        drop((shares, system));
        judge(test_pool, &disk);
    }
}

#[test]
fn a_crash_between_two_slices_leaves_snapshots_whole_and_loses_no_space() {
    const SNAPSHOTS: usize = 8;
    const BLOCKS: usize = 10;
    let shares = Shares::set(2, 12, 64);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 5));
    let test_pool = test_pool(&disk);
    let names = layered(&test_pool, SNAPSHOTS, BLOCKS);
    let first = disk.log_len();
    destroy(&test_pool, &names[..SNAPSHOTS - 1]).unwrap();
    while test_pool.pool.dsl().has_background_frees().unwrap() {
        test_pool.pool.sync().unwrap();
    }
    let last = disk.log_len();
    drop(test_pool);
    let folder = tempfile::tempdir().unwrap();
    let points = 20.min(last - first);
    for point in 0..=points {
        let event = first + (last - first) * point / points;
        let path = image(folder.path(), "crashed");
        let _ = std::fs::remove_file(&path);
        let crashed = disk.crash_at(event, point as u64);
        crashed.write_to_file(&path).unwrap();
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let left = snapshot_names(&test_pool);
        // The oldest of those that were to go are left, and the one that was to stay.
        let gone = SNAPSHOTS - left.len();
        let wanted = [&names[..SNAPSHOTS - 1 - gone], &names[SNAPSHOTS - 1..]].concat();
        assert_eq!(left, wanted, "event {event}");
        for name in &left {
            let index: usize = name[name.len() - 3..].parse().unwrap();
            let system = millpond_torture::test_pool::mount(&test_pool.pool, name, true);
            let whole: Vec<u8> = (0..BLOCKS)
                .flat_map(|at| block(at + index * BLOCKS))
                .collect();
            assert!(
                read_file(&system, "layers") == Some(whole),
                "{name} at event {event}"
            );
        }
        while test_pool.pool.dsl().has_background_frees().unwrap() {
            test_pool.pool.sync().unwrap();
        }
        test_pool.export().unwrap();
        if point % 5 == 0
            && let Some(zdb) = golden::Zdb::from_environment()
        {
            zdb.assert_clean(folder.path(), POOL);
        }
    }
    drop(shares);
}
