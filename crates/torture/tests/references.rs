//! Files that share blocks: copies of ranges refer to the blocks of their sources. They are changed and removed in
//! every order, under snapshots, clones, rollbacks and crashes; contents are compared with a model, counts and space
//! by zdb.

use dmu::Zap;
use dsl::tasks::{Rollback, Snapshot};
use format::brt::BlockReferencePhys;
use format::features::{BLOCK_CLONING, BLOCK_CLONING_ENDIAN};
use millpond_torture::counters::counter;
use millpond_torture::model::Tree;
use millpond_torture::operation::{Operation, Place};
use millpond_torture::pool_model::PoolModel;
use millpond_torture::pool_model::choose::ChangeChooser;
use millpond_torture::pool_model::real::differences;
use millpond_torture::random::{Random, asked, seed, seeds};
use millpond_torture::test_pool::{POOL, TestPool, image, run_change};
use millpond_torture::{aftermath, real, tunables};
use pool::{NewDevice, Pool};
use posix::{AllocateMode, Credentials, FileSystem, OpenOptions};
use sim::SimulatedDisk;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 160 << 20;
/// Of a block of a large file.
const BLOCK: usize = 128 << 10;

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// Does one thing to the file system and its model.
fn apply(system: &FileSystem, tree: &mut Tree, operation: &Operation) {
    let wanted = tree.apply(operation);
    let found = real::apply(system, operation);
    let same = match (&wanted, &found) {
        (Ok(()), Ok(())) => true,
        (Err(refusal), Err(error)) => real::errno(*refusal) == error.errno(),
        _ => false,
    };
    let mut text = format!("{operation:?}");
    text.truncate(200);
    assert!(
        same,
        "{text}: the model says {wanted:?}, the file system {found:?}"
    );
}

/// The header of the reference table of the first vdev.
fn header(pool: &Pool) -> Option<BlockReferencePhys> {
    let mos = pool.meta_object_set();
    let directory = Zap::open(&mos.object(format::config::directory::OBJECT).unwrap()).unwrap();
    let name = format!("{}0", format::config::directory::BLOCK_REFERENCE_PREFIX);
    let id = directory.lookup(name.as_bytes()).unwrap()?;
    let table = mos.object(base::ObjectId(id)).unwrap();
    Some(
        table.with_bonus(|bonus| BlockReferencePhys::decode_padded(bonus, base::ByteOrder::NATIVE)),
    )
}

/// How many references there are beyond the first of each block, by what they save.
fn saved(pool: &Pool) -> u64 {
    header(pool).map_or(0, |header| header.saved)
}

fn judge(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

fn in_a_file(folder: &Path) -> TestPool {
    let path = image(folder, "0");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    TestPool::create(vec![NewDevice::Path(path)]).unwrap()
}

fn same(test_pool: &TestPool, tree: &Tree, when: &str) {
    let found = real::differences(tree, &test_pool.root());
    assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
}

/// Bytes that do not compress.
fn noise(random: &mut Random, blocks: usize, more: usize) -> Vec<u8> {
    let words = (0..(blocks * BLOCK + more).div_ceil(8)).map(|_| random.draw().to_ne_bytes());
    let mut bytes: Vec<u8> = words.flatten().collect();
    bytes.truncate(blocks * BLOCK + more);
    bytes
}

fn copy(from: &str, to: &str, length: usize) -> Operation {
    Operation::CopyRange((place(from), 0), (place(to), 0), length)
}

/// A copy that waits to be freed, in a list or in a tree, is a reference of its block: at each export on the way the
/// counts are found as they are recorded.
#[test]
fn copies_that_wait_to_be_freed_are_references() {
    let _limits = tunables::by_default();
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    let mut test_pool = in_a_file(folder.path());
    let mut tree = Tree::new();
    let system = test_pool.root();
    for name in ["a", "b", "c"] {
        apply(&system, &mut tree, &Operation::Create(place(name), 0o644));
    }
    let whole = noise(&mut random, 12, 0);
    let length = whole.len();
    let write = Operation::Write(place("a"), 0, whole, false);
    apply(&system, &mut tree, &write);
    drop(system);
    let snapshot = Snapshot {
        names: vec![format!("{POOL}@s")],
        properties: Vec::new(),
    };
    test_pool.pool.dsl().run(snapshot).unwrap();
    let kept = tree.clone();
    for name in ["b", "c"] {
        apply(&test_pool.root(), &mut tree, &copy("a", name, length));
        test_pool.pool.sync().unwrap();
    }
    assert_eq!(saved(&test_pool.pool), 2 * length as u64);
    test_pool.close_all();
    // A tree is not freed all at once then.
    dsl::tunables::BACKGROUND_BLOCKS.set(2);
    let rollback = Rollback {
        path: POOL.to_owned(),
        snapshot: None,
    };
    test_pool.pool.dsl().run(rollback).unwrap();
    let mut exports = 0;
    loop {
        let left = saved(&test_pool.pool);
        test_pool.export().unwrap();
        aftermath::on_devices(folder.path());
        exports += 1;
        test_pool = TestPool::import(folder.path(), false).unwrap();
        if left == 0 {
            break;
        }
        test_pool.pool.sync().unwrap();
    }
    assert!(exports > 3, "{exports} exports");
    same(&test_pool, &kept, "freed");
    test_pool.export().unwrap();
    judge(folder.path());
}

#[test]
fn copies_share_blocks_until_the_last_goes_in_any_order() {
    const ORDERS: [[&str; 3]; 6] = [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["b", "a", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    let mut test_pool = in_a_file(folder.path());
    let mut tree = Tree::new();
    apply(
        &test_pool.root(),
        &mut tree,
        &Operation::Create(place("keeper"), 0o644),
    );
    for (index, order) in ORDERS.into_iter().enumerate() {
        let system = test_pool.root();
        let whole = noise(&mut random, 3, 777);
        for name in ["a", "b", "c"] {
            apply(&system, &mut tree, &Operation::Create(place(name), 0o644));
        }
        let length = whole.len();
        apply(
            &system,
            &mut tree,
            &Operation::Write(place("a"), 0, whole, false),
        );
        test_pool.pool.sync().unwrap();
        let used = test_pool.pool.space().allocated;
        apply(&system, &mut tree, &copy("a", "b", length));
        test_pool.pool.sync().unwrap();
        apply(&system, &mut tree, &copy("b", "c", length));
        test_pool.pool.sync().unwrap();
        let table = header(&test_pool.pool).expect("the copies share blocks");
        assert_eq!((table.count, table.saved), (4, 2 * table.used));
        assert!(table.used > 3 * BLOCK as u64);
        assert!(test_pool.pool.features().is_active(&BLOCK_CLONING));
        // The pool's own blocks may have become fewer.
        let grown = test_pool.pool.space().allocated.saturating_sub(used);
        assert!(grown < BLOCK as u64, "the copies take {grown} bytes");
        for (gone, name) in order.into_iter().enumerate() {
            same(&test_pool, &tree, "before a removal");
            apply(&system, &mut tree, &Operation::Unlink(place(name)));
            // What the removal queues is freed within two txgs.
            for _ in 0..3 {
                apply(
                    &system,
                    &mut tree,
                    &Operation::Chmod(place("keeper"), 0o600),
                );
                test_pool.pool.sync().unwrap();
            }
            let left = (1_u64).saturating_sub(gone as u64) * table.used;
            assert_eq!(saved(&test_pool.pool), left, "{gone} of {order:?} are gone");
        }
        assert!(header(&test_pool.pool).is_none(), "an empty table goes");
        assert!(!test_pool.pool.features().is_active(&BLOCK_CLONING));
        drop(system);
        if index % 3 == 2 {
            test_pool.export().unwrap();
            judge(folder.path());
            test_pool = TestPool::import(folder.path(), false).unwrap();
        }
    }
}

/// The shape of the entries of the first vdev's table: bytes of an integer, and integers; none without a table. And how
/// many tables are counted as those of words.
fn form(pool: &Pool) -> (Option<(u8, u64)>, Option<u64>) {
    let counted = pool.features().references(&BLOCK_CLONING_ENDIAN);
    let shape = header(pool).map(|header| {
        let entries = pool
            .meta_object_set()
            .object(base::ObjectId(header.entries));
        let entries = Zap::open(&entries.unwrap()).unwrap().entries().unwrap();
        assert_eq!(entries.len() as u64, header.count);
        let shape = (entries[0].integer_size, entries[0].count);
        assert!(
            entries
                .iter()
                .all(|entry| (entry.integer_size, entry.count) == shape)
        );
        shape
    });
    (shape, counted)
}

/// Removes files, and waits until what they had is freed.
fn remove(test_pool: &TestPool, tree: &mut Tree, names: &[&str]) {
    let system = test_pool.root();
    for name in names {
        apply(&system, tree, &Operation::Unlink(place(name)));
    }
    for _ in 0..3 {
        apply(&system, tree, &Operation::Chmod(place("a"), 0o600));
        test_pool.pool.sync().unwrap();
    }
}

/// All tables of a pool have one form: the first one that is made decides, by whether `block_cloning_endian` is enabled
/// then. OpenZFS's zdb 2.3 does not know the feature and ends with an assertion at such tables: it is not asked.
#[test]
fn tables_are_of_words_where_the_first_one_is_made_with_the_feature() {
    const BYTES: Option<(u8, u64)> = Some((1, 8));
    const WORD: Option<(u8, u64)> = Some((8, 1));
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let mut test_pool = in_a_file(folder.path());
    let mut tree = Tree::new();
    for name in ["a", "b", "c", "d"] {
        let create = Operation::Create(place(name), 0o644);
        apply(&test_pool.root(), &mut tree, &create);
    }
    let whole = noise(&mut random, 5, 0);
    let length = whole.len();
    let write = Operation::Write(place("a"), 0, whole, false);
    apply(&test_pool.root(), &mut tree, &write);
    test_pool.pool.sync().unwrap();
    assert_eq!(form(&test_pool.pool), (None, None), "new pools are without");
    apply(&test_pool.root(), &mut tree, &copy("a", "b", length));
    test_pool.pool.sync().unwrap();
    test_pool
        .pool
        .enable_features(&[&BLOCK_CLONING_ENDIAN])
        .unwrap();
    // The table that is there keeps its form.
    apply(
        &test_pool.root(),
        &mut tree,
        &copy("a", "c", length - BLOCK),
    );
    test_pool.pool.sync().unwrap();
    assert_eq!(form(&test_pool.pool), (BYTES, Some(0)));
    remove(&test_pool, &mut tree, &["b", "c"]);
    assert_eq!(form(&test_pool.pool), (None, Some(0)));

    apply(&test_pool.root(), &mut tree, &copy("a", "d", length));
    test_pool.pool.sync().unwrap();
    assert_eq!(form(&test_pool.pool), (WORD, Some(1)));
    test_pool.export().unwrap();
    aftermath::on_devices(folder.path());
    test_pool = TestPool::import(folder.path(), false).unwrap();
    same(&test_pool, &tree, "imported");
    let create = Operation::Create(place("e"), 0o644);
    apply(&test_pool.root(), &mut tree, &create);
    apply(
        &test_pool.root(),
        &mut tree,
        &copy("d", "e", length - 2 * BLOCK),
    );
    test_pool.pool.sync().unwrap();
    assert_eq!(form(&test_pool.pool), (WORD, Some(1)));
    assert_eq!(saved(&test_pool.pool), (2 * length - 2 * BLOCK) as u64);
    let change = Operation::Write(place("d"), 0, vec![1; BLOCK], false);
    apply(&test_pool.root(), &mut tree, &change);
    test_pool.pool.sync().unwrap();
    assert_eq!(saved(&test_pool.pool), (2 * length - 3 * BLOCK) as u64);
    test_pool.export().unwrap();
    aftermath::on_devices(folder.path());
    test_pool = TestPool::import(folder.path(), false).unwrap();
    same(&test_pool, &tree, "imported again");
    remove(&test_pool, &mut tree, &["d", "e"]);
    assert_eq!(form(&test_pool.pool), (None, Some(0)));
    assert!(!test_pool.pool.features().is_active(&BLOCK_CLONING));
    same(&test_pool, &tree, "freed");
    test_pool.export().unwrap();
    judge(folder.path());
}

#[test]
fn what_changes_before_the_sync_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(6);
    let test_pool = in_a_file(folder.path());
    let (system, mut tree) = (test_pool.root(), Tree::new());
    for name in ["a", "b", "c"] {
        apply(&system, &mut tree, &Operation::Create(place(name), 0o644));
    }
    let bytes = noise(&mut random, 2, 0);
    apply(
        &system,
        &mut tree,
        &Operation::Write(place("a"), 0, bytes, false),
    );
    // Its source is not stored yet: an ordinary copy.
    apply(&system, &mut tree, &copy("a", "b", 2 * BLOCK));
    test_pool.pool.sync().unwrap();
    assert_eq!(saved(&test_pool.pool), 0);
    // Source and copy both change in the txg of the copy.
    apply(&system, &mut tree, &copy("a", "c", 2 * BLOCK));
    let change = Operation::Write(place("c"), 5, vec![1; 10], false);
    apply(&system, &mut tree, &change);
    let change = Operation::Write(place("a"), BLOCK + 5, vec![2; 10], false);
    apply(&system, &mut tree, &change);
    test_pool.pool.sync().unwrap();
    same(&test_pool, &tree, "changed");
    // The second block of a died in the txg in which c's pointer to it was born: one reference is left.
    assert_eq!(saved(&test_pool.pool), 0);
    apply(&system, &mut tree, &Operation::Unlink(place("a")));
    test_pool.pool.sync().unwrap();
    same(&test_pool, &tree, "removed");
    drop(system);
    test_pool.export().unwrap();
    judge(folder.path());
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    same(&test_pool, &tree, "imported");
    test_pool.export().unwrap();
}

#[test]
fn a_snapshot_keeps_what_a_copy_shares() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let test_pool = in_a_file(folder.path());
    let (system, mut tree) = (test_pool.root(), Tree::new());
    for name in ["a", "b"] {
        apply(&system, &mut tree, &Operation::Create(place(name), 0o644));
    }
    let bytes = noise(&mut random, 2, 0);
    apply(
        &system,
        &mut tree,
        &Operation::Write(place("a"), 0, bytes, false),
    );
    test_pool.pool.sync().unwrap();
    apply(&system, &mut tree, &copy("a", "b", 2 * BLOCK));
    test_pool.pool.sync().unwrap();
    assert_eq!(saved(&test_pool.pool), 2 * BLOCK as u64);
    let dsl = test_pool.pool.dsl();
    let snapshot = Snapshot {
        names: vec![format!("{POOL}@s")],
        properties: Vec::new(),
    };
    dsl.run(snapshot).unwrap();
    let then = tree.clone();
    for name in ["a", "b"] {
        apply(&system, &mut tree, &Operation::Unlink(place(name)));
    }
    test_pool.pool.sync().unwrap();
    assert_eq!(saved(&test_pool.pool), 2 * BLOCK as u64);
    let snapshot = millpond_torture::test_pool::mount(&test_pool.pool, &format!("{POOL}@s"), true);
    let found = real::differences(&then, &snapshot);
    assert!(found.is_empty(), "{}", found.join("\n"));
    drop(snapshot);
    drop(system);
    test_pool.export().unwrap();
    judge(folder.path());
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Makes a file durable, if there is one.
fn make_durable(system: &FileSystem, random: &mut Random) {
    let name = random.pick(&NAMES).as_bytes();
    let who = Credentials::root();
    let Ok(found) = system.lookup(&who, system.root(), name) else {
        return;
    };
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = system.open(&who, found.object, options).unwrap();
    file.fsync().unwrap();
}

/// One random change of the few files of a file system.
fn step(system: &FileSystem, tree: &mut Tree, random: &mut Random) {
    let name = *random.pick(&NAMES);
    if tree.find(&place(name)).is_err() {
        apply(system, tree, &Operation::Create(place(name), 0o644));
        return;
    }
    let blocks = |random: &mut Random| random.below(4) * BLOCK;
    let operation = match random.below(16) {
        0..3 => {
            let more = if random.one_in(2) {
                random.below(3000)
            } else {
                0
            };
            let count = random.below(3);
            let bytes = noise(random, count, more);
            let at = blocks(random);
            Operation::Write(place(name), at, bytes, false)
        }
        3 => Operation::Write(
            place(name),
            blocks(random) + random.below(BLOCK),
            vec![7; 600],
            random.one_in(2),
        ),
        4 => Operation::Truncate(place(name), blocks(random) + random.below(2) * 100),
        5 => Operation::Unlink(place(name)),
        6 => Operation::Allocate(place(name), AllocateMode::PunchHole, blocks(random), BLOCK),
        7..12 => {
            // As `cp` does.
            let from = *random.pick(&NAMES);
            if from == name {
                return;
            }
            apply(system, tree, &Operation::Empty(place(name)));
            copy(from, name, 16 * BLOCK)
        }
        _ => {
            let from = *random.pick(&NAMES);
            let (start, offset) = (blocks(random), blocks(random));
            let length = BLOCK + blocks(random);
            Operation::CopyRange((place(from), start), (place(name), offset), length)
        }
    };
    apply(system, tree, &operation);
}

/// What has not synced yet reads as the model says.
fn same_now(tree: &Tree, system: &FileSystem) {
    let found = real::differences(tree, system);
    assert!(found.is_empty(), "unsynced:\n{}", found.join("\n"));
}

/// A history ends when its disk has seen so much: limits may be drawn by which a txg frees few blocks of 512 bytes, and
/// a simulated disk keeps all that they write.
const EVENTS_MAX: usize = 30_000;
/// The least blocks that a txg frees of a file here: one step may cut 4,096.
const FREE_BLOCKS_MIN: u64 = 96;

/// What a history was at its syncs.
#[derive(Default)]
struct Recorded {
    /// By the uberblock's txg that holds it and nothing more, if nothing was made durable after it before the next one.
    states: BTreeMap<u64, PoolModel>,
    /// The most bytes that references saved.
    shared: u64,
}

/// Does random things to a pool and its model.
fn change(
    test_pool: &TestPool,
    pool_model: &mut PoolModel,
    disk: &SimulatedDisk,
    random: &mut Random,
    (seed, steps): (u64, usize),
) -> Recorded {
    let mut changes = ChangeChooser::new(seed);
    let mut recorded = Recorded::default();
    let mut newest = 0;
    for _ in 0..steps {
        if disk.log_len() > EVENTS_MAX {
            break;
        }
        let batches = counter("log.batches");
        if random.one_in(12) {
            run_change(test_pool, pool_model, &mut changes);
        } else {
            let path = changes.head(pool_model);
            let system = test_pool.system(&path);
            step(&system, pool_model.tree_mut(&path), random);
            if random.one_in(8) {
                same_now(pool_model.tree_mut(&path), &system);
            }
            if random.one_in(10) {
                make_durable(&system, random);
            }
        }
        if counter("log.batches") != batches {
            // An fsync, a synchronous write, or a file system of `sync=always`: after a crash the log brings back more
            // than the newest state held. It is claimed by no older one.
            recorded.states.remove(&newest);
        }
        if random.one_in(4) {
            test_pool.pool.sync().unwrap();
            // A txg in which nothing changed has no uberblock.
            newest = test_pool.pool.on_disk().unwrap().0.0;
            recorded.states.insert(newest, pool_model.clone());
            recorded.shared = recorded.shared.max(saved(&test_pool.pool));
        }
    }
    recorded
}

/// Whether a pool holds what the model says.
fn as_modelled(pool_model: &PoolModel, test_pool: &TestPool, when: &str) {
    let found = differences(pool_model, test_pool).unwrap();
    assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
}

/// A random history with changes of datasets; at its end, and after it was left at some moment, zdb finds nothing.
fn history(seed: u64, steps: usize, crashes: usize, repeat: &str) -> u64 {
    println!(
        "repeat with: MILLPOND_SEED={seed} MILLPOND_SECONDS=1 cargo test --profile fast -p millpond-torture --test \
         references -- --nocapture {repeat}"
    );
    let _limits = tunables::drawn(seed);
    let piece = &dmu::tunables::FREE_BLOCKS_PIECE;
    piece.set(piece.get().max(FREE_BLOCKS_MIN));
    let mut random = Random::new(seed);
    let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let test_pool = TestPool::create(vec![device]).unwrap();
    let mut pool_model = PoolModel::new(POOL);
    let first = disk.log_len();
    let recorded = change(
        &test_pool,
        &mut pool_model,
        &disk,
        &mut random,
        (seed, steps),
    );
    as_modelled(&pool_model, &test_pool, "live");
    test_pool.export().unwrap();
    let last = disk.log_len();
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "left");
    for crash in 0..=crashes {
        let event = if crash == 0 {
            last
        } else {
            first + random.below(last - first + 1)
        };
        let survivors = random.draw();
        println!("left after event {event} of {first} to {last}, survivors {survivors}");
        let _ = std::fs::remove_file(&path);
        disk.crash_at(event, survivors)
            .write_to_file(&path)
            .unwrap();
        let newest = {
            let device = device::FileDevice::open(&path, device::Access::ReadOnly).unwrap();
            let labels = vdev::read_labels(&device);
            labels.best_uberblock(None).unwrap().uberblock.txg.0
        };
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        if let Some(then) = recorded.states.get(&newest) {
            as_modelled(then, &test_pool, "after a crash");
        }
        test_pool.export().unwrap();
        judge(folder.path());
    }
    recorded.shared
}

#[test]
fn a_random_history_of_copies() {
    let shared: u64 = seeds(1..2)
        .map(|seed| history(seed, 150, 1, "a_random_history"))
        .sum();
    assert!(shared > 0, "nothing was shared");
}

/// For as long as `MILLPOND_SECONDS` says.
#[test]
#[ignore = "takes as long as it is told to"]
fn random_histories_of_copies() {
    let start = std::time::Instant::now();
    let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
    let mut seed = seed(1000);
    while start.elapsed().as_secs() < seconds {
        let repeat = "--ignored random_histories";
        history(seed, 200, 3, repeat);
        seed += 1;
    }
}
