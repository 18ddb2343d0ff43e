//! Devices that fail under a pool: nothing is acknowledged, nobody hangs, and nothing that was accepted is lost once
//! the device is back and the pool was cleared.

use base::random::{Rng, SeededRng};
use dsl::tasks::{Rollback, Snapshot};
use millpond_torture::aftermath;
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::random::{Random, seed};
use millpond_torture::real::differences;
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use pool::{CreateOptions, NewDevice, NewVdev, PoolError};
use posix::{Credentials, FileType, NewNode, OpenOptions, WriteOptions};
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 96 << 20;
/// What takes longer hangs.
const PROMPT: Duration = Duration::from_secs(60);

struct Rig {
    disk: Arc<SimulatedDisk>,
    test_pool: TestPool,
    tree: Tree,
    chooser: Chooser,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let disk = Arc::new(SimulatedDisk::new(SIZE, seed));
        let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
        let mut rig = Self {
            disk,
            test_pool: TestPool::create(vec![device]).unwrap(),
            tree: Tree::new(),
            chooser: Chooser::new(seed),
        };
        rig.test_pool.draw_storage(seed, false, None);
        rig.change(12);
        rig.test_pool.pool.sync().unwrap();
        rig
    }

    fn change(&mut self, count: usize) {
        let system = self.test_pool.root();
        run_operations(&system, &mut self.tree, &mut self.chooser, count);
    }

    fn same(&self) {
        let found = differences(&self.tree, &self.test_pool.root());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// What a power loss now would leave must be one of these.
    fn survives(&self, trees: &[&Tree], seed: u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), "left");
        self.disk.crash(seed).write_to_file(&path).unwrap();
        let left = TestPool::import(folder.path(), true).unwrap();
        let differences = |tree: &&Tree| differences(tree, &left.root()).join("\n");
        let found: Vec<String> = trees.iter().map(differences).collect();
        assert!(
            found.iter().any(String::is_empty),
            "{}",
            found.join("\nor\n")
        );
        drop(left);
        if !seed.is_multiple_of(8) {
            return;
        }
        if let Some(zdb) = golden::Zdb::from_environment() {
            let left = TestPool::import(folder.path(), false).unwrap();
            aftermath::export(left, folder.path());
            zdb.assert_clean(folder.path(), POOL);
        }
    }
}

fn is_suspended(result: Result<(), PoolError>) -> bool {
    matches!(result, Err(PoolError::Suspended { .. }))
}

/// The limits that stay as by default. A device whose labels could not be read and written is out of use until it is
/// cleared: what was not in the cache then cannot be read.
fn limits_kept(kind: &FaultKind) -> Vec<&'static str> {
    let mut kept = TXGS_AS_ASKED.to_vec();
    if matches!(kind, FaultKind::ReadError | FaultKind::WriteError) {
        kept.push("cache.");
    }
    kept
}

/// One failure at a moment of a sync that `seed` picks; then the device is back.
fn fail_and_repair(seed: u64) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test faults");
    let mut random = Random::new(seed);
    let kinds = [
        FaultKind::WriteError,
        FaultKind::HostFull,
        FaultKind::FlushError,
        FaultKind::ReadError,
    ];
    let kind = random.pick(&kinds).clone();
    let _limits = tunables::drawn_but(seed, &limits_kept(&kind));
    let mut rig = Rig::new(seed);
    let durable = rig.tree.clone();
    rig.change(12);
    let passed = match kind {
        FaultKind::FlushError => random.below(3),
        FaultKind::ReadError => 0,
        _ => random.below(12),
    };
    let passed = u32::try_from(passed).unwrap();
    println!("{kind:?} after {passed}");
    rig.disk
        .inject(Fault::everywhere(kind, Times::After(passed)));
    let started = Instant::now();
    let pool = Arc::clone(&rig.test_pool.pool);
    let suspended = match pool.sync() {
        Ok(()) => false, // it struck nothing that the txg needed
        Err(error) => {
            assert!(matches!(error, PoolError::Suspended { .. }), "{error}");
            true
        }
    };
    if suspended {
        assert!(pool.suspended().is_some());
        assert!(is_suspended(pool.sync()), "nothing is acknowledged");
        assert!(is_suspended(pool.export()), "nor exported");
        assert!(
            is_suspended(pool.clear(&|_| true).map(drop)),
            "still broken"
        );
        assert!(started.elapsed() < PROMPT, "nobody hangs");
        if random.one_in(2) {
            // The uberblock may be on the medium already, when it is the flush after it that fails.
            rig.survives(&[&durable, &rig.tree], seed);
        }
        if random.one_in(2) {
            rig.disk.heal();
            rig.change(6); // accepted in memory
        }
    }
    rig.disk.heal();
    pool.clear(&|_| true).unwrap();
    assert!(pool.suspended().is_none());
    pool.sync().unwrap();
    rig.same();
    rig.survives(&[&rig.tree], seed);
    rig.change(6);
    pool.sync().unwrap();
    rig.survives(&[&rig.tree], seed ^ 1);
    drop(pool);
    let mut found = aftermath::objects(&rig.test_pool);
    rig.test_pool.close_all();
    found.extend(aftermath::owed(&rig.test_pool));
    assert!(found.is_empty(), "afterwards:\n{}", found.join("\n"));
    rig.test_pool.export().unwrap();
}

#[test]
fn what_was_accepted_survives_a_failure_of_the_device() {
    for run in 0..8 {
        fail_and_repair(seed(1) + run);
    }
}

/// What is in pieces is freed by reading where they lie.
#[test]
fn a_gang_that_is_freed_while_its_device_is_away_leaks_nothing() {
    let _limits = tunables::drawn_but(5, &["cache.", "txg.", "dmu."]);
    let rig = Rig::new(5);
    let pool = Arc::clone(&rig.test_pool.pool);
    let settle = || (0..4).for_each(|_| pool.sync().unwrap());
    settle();
    let before = pool.space().allocated;
    pool.set_whole_block_max(4096);
    let system = rig.test_pool.root();
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0,
        device: (0, 0),
    };
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let made = system.create(&root, system.root(), b"in-pieces", &node, options);
    let (file, _) = made.unwrap();
    let mut data = vec![0; 1 << 20];
    SeededRng::new(5).fill(&mut data);
    file.write(0, &data, WriteOptions::default()).unwrap();
    drop(file);
    settle();
    assert!(pool.space().allocated > before + (1 << 20));
    pool.set_whole_block_max(1 << 20);
    drop(system.unlink(&root, system.root(), b"in-pieces").unwrap());
    let away = Fault::everywhere(FaultKind::ReadError, Times::Always);
    rig.disk.inject(away);
    assert!(is_suspended(pool.sync()));
    rig.disk.heal();
    pool.clear(&|_| true).unwrap();
    settle();
    let after = pool.space().allocated;
    assert!(after < before + (256 << 10), "{before}, then {after}");
}

/// A change of the tree of datasets whose caller was told that the pool is suspended does not come later: whoever had
/// let go of a file system for a rollback goes on with it as it is.
#[test]
fn a_task_that_was_refused_is_not_done_later() {
    let mut rig = Rig::new(79);
    let pool = Arc::clone(&rig.test_pool.pool);
    let name = format!("{POOL}@before");
    let snapshot = || Snapshot {
        names: vec![name.clone()],
        properties: Vec::new(),
    };
    rig.change(6);
    rig.disk
        .inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    assert!(is_suspended(pool.sync()));
    assert!(pool.dsl().run(snapshot()).is_err());
    rig.disk.heal();
    pool.clear(&|_| true).unwrap();
    pool.sync().unwrap();
    assert!(
        pool.dsl().dataset(&name).is_err(),
        "it was done all the same"
    );
    pool.dsl().run(snapshot()).unwrap();
    rig.same();
}

/// The same of one that had begun, and could not read what it needs: it is undone when the device does not answer, and
/// waits for nothing.
#[test]
fn a_task_that_cannot_read_is_undone_and_not_done_later() {
    let _limits = tunables::drawn_but(81, &["cache.", "txg.", "dmu.", "dsl.", "pool."]);
    let disk = Arc::new(SimulatedDisk::new(SIZE, 81));
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(&disk) as _);
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    options.cache_bytes = 1;
    let test_pool = TestPool::create_as(options).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(81));
    run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
    let pool = Arc::clone(&test_pool.pool);
    let name = format!("{POOL}@before");
    let names = vec![name.clone()];
    pool.dsl()
        .run(Snapshot {
            names,
            properties: Vec::new(),
        })
        .unwrap();
    run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
    pool.sync().unwrap();
    test_pool.close_all();
    let head = pool.dsl().head(POOL).unwrap();
    // For every n: the device answers n reads of the rollback, and then none.
    for after in 0.. {
        let before = head.epoch();
        let fault = Fault::everywhere(FaultKind::ReadError, Times::After(after));
        disk.inject(fault);
        let rolled_back = pool.dsl().run(Rollback {
            path: POOL.to_owned(),
            snapshot: Some("before".to_owned()),
        });
        let told = head.epoch();
        disk.heal();
        pool.clear(&|_| true).unwrap();
        pool.sync().unwrap();
        assert_eq!(head.epoch(), told, "it came later, after {after} reads");
        if told != before {
            // The sync that came after the change may have waited.
            assert!(after > 0, "it reads nothing");
            break;
        }
        assert!(rolled_back.is_err());
        let found = differences(&tree, &test_pool.root());
        assert!(
            found.is_empty(),
            "after {after} reads: {}",
            found.join("\n")
        );
        test_pool.close_all();
    }
    drop(head);
    drop(pool);
    test_pool.export().unwrap();
}

#[test]
fn a_suspended_pool_can_be_given_up() {
    let mut rig = Rig::new(77);
    let durable = rig.tree.clone();
    rig.change(12);
    let fault = Fault::everywhere(FaultKind::FlushError, Times::Always);
    rig.disk.inject(fault);
    assert!(is_suspended(rig.test_pool.pool.sync()));
    let started = Instant::now();
    assert!(rig.test_pool.pool.abandon().is_some());
    assert!(rig.test_pool.pool.sync().is_err());
    assert!(started.elapsed() < PROMPT);
    rig.survives(&[&durable], 77);
}

#[test]
fn dropping_a_suspended_pool_does_not_hang() {
    let mut rig = Rig::new(78);
    rig.change(12);
    let fault = Fault::everywhere(FaultKind::WriteError, Times::Always);
    rig.disk.inject(fault);
    assert!(is_suspended(rig.test_pool.pool.sync()));
    let started = Instant::now();
    drop(rig);
    assert!(started.elapsed() < PROMPT);
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        #[test]
        #[ignore = "sim: 200 failures"]
        fn two_hundred_failures() {
            for run in 0..200 {
                super::super::fail_and_repair(super::super::seed(1000) + run);
            }
        }
    }
}
