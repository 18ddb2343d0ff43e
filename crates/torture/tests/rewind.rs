//! Pools whose newest state is damaged: what a plain import says, how far `-F` goes back, and what is there then.

use base::Txg;
use format::block_pointer::BlockPointer;
use millpond_torture::model::Tree;
use millpond_torture::operation::{Chooser, Operation, Place};
use millpond_torture::random::Random;
use millpond_torture::real::{self, differences};
use millpond_torture::test_pool::{POOL, TestPool, image, run_operations};
use millpond_torture::tunables;
use pool::{ImportOptions, NewDevice, Pool, PoolError, Rewind, Selection};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SIZE: u64 = 256 << 20;
/// Where the allocatable space of a device begins.
const SPACE_START: u64 = 4 << 20;

/// A pool that stopped after some txgs, and the model at each.
struct Stopped {
    folder: tempfile::TempDir,
    states: BTreeMap<u64, State>,
}

struct State {
    tree: Tree,
    /// The root file system's root block.
    files: BlockPointer,
}

impl Stopped {
    fn new(seed: u64, rounds: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), "disk");
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        let test_pool = TestPool::create(vec![NewDevice::Path(path)]).unwrap();
        let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
        let mut states = BTreeMap::new();
        for _ in 0..rounds {
            run_operations(&test_pool.root(), &mut tree, &mut chooser, 12);
            test_pool.pool.sync().unwrap();
            let head = test_pool.pool.dsl().head(POOL).unwrap();
            let state = State {
                tree: tree.clone(),
                files: head.phys().unwrap().block_pointer,
            };
            let txg = test_pool.pool.engine().unwrap().synced_txg().0;
            states.insert(txg, state);
        }
        // Left as at a crash: not exported.
        drop(test_pool);
        Self { folder, states }
    }

    fn image(&self) -> PathBuf {
        image(self.folder.path(), "disk")
    }

    /// The txgs of the model's states, the newest first.
    fn txgs(&self) -> Vec<u64> {
        self.states.keys().rev().copied().collect()
    }

    fn overwrite(&self, offset: u64, length: u64) {
        let file = std::fs::File::options().write(true).open(self.image());
        let rubbish = vec![0xA5; usize::try_from(length).unwrap()];
        file.unwrap().write_all_at(&rubbish, offset).unwrap();
    }

    fn destroy_block(&self, block: &BlockPointer) {
        for dva in block.dvas() {
            self.overwrite(SPACE_START + dva.offset, block.psize());
        }
    }

    /// The roots of the pool's own object set, by txg.
    fn roots(&self) -> BTreeMap<u64, BlockPointer> {
        let device = device::FileDevice::open(&self.image(), device::Access::ReadOnly).unwrap();
        let labels = vdev::read_labels(&device);
        let found = labels.uberblocks.iter();
        found
            .map(|one| (one.uberblock.txg.0, one.uberblock.root))
            .collect()
    }

    /// Overwrites the uberblock of a txg in all labels: 256 KiB each, two at the front and two at the end of the
    /// device, with the ring of uberblocks in the second half.
    fn destroy_uberblock(&self, txg: u64) {
        const STEP: usize = 1024;
        let image = std::fs::read(self.image()).unwrap();
        for label in [0, 256 << 10, SIZE - (512 << 10), SIZE - (256 << 10)] {
            let ring = label + (128 << 10)..label + (256 << 10);
            for offset in ring.step_by(STEP) {
                let word = |index: u64| {
                    let at = usize::try_from(offset + 8 * index).unwrap();
                    u64::from_ne_bytes(image[at..at + 8].try_into().unwrap())
                };
                // Magic number, version, txg.
                if (word(0), word(2)) == (0x00ba_b10c, txg) {
                    self.overwrite(offset, STEP as u64);
                }
            }
        }
    }

    fn destroy_root(&self, txg: u64) {
        self.destroy_block(&self.roots()[&txg]);
    }

    fn import(&self, rewind: Rewind, read_only: bool) -> Result<TestPool, PoolError> {
        let folder = self.folder.path().to_owned();
        let mut options = ImportOptions::new(vec![folder], Selection::Name(POOL.to_owned()));
        (options.rewind, options.read_only, options.force) = (rewind, read_only, true);
        let pool: Arc<Pool> = Pool::import(&options)?;
        Ok(TestPool::open(pool, read_only))
    }

    /// Asserts that the pool is as it was at the end of a txg, that it can be written, and that zdb finds nothing.
    fn check(&self, test_pool: TestPool, txg: u64) {
        let mut tree = self.states[&txg].tree.clone();
        let found = differences(&tree, &test_pool.root());
        assert!(found.is_empty(), "as of {txg}:\n{}", found.join("\n"));
        run_operations(&test_pool.root(), &mut tree, &mut Chooser::new(txg), 20);
        test_pool.export().unwrap();
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(self.folder.path(), POOL);
        }
        let test_pool = self.import(Rewind::Never, true).unwrap();
        let found = differences(&tree, &test_pool.root());
        assert!(found.is_empty(), "imported again:\n{}", found.join("\n"));
    }
}

fn hash(path: &Path) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(path).unwrap());
    hasher.finish()
}

#[test]
fn without_its_newest_uberblock_a_pool_is_as_of_the_txg_before() {
    let stopped = Stopped::new(11, 6);
    let txgs = stopped.txgs();
    stopped.destroy_uberblock(txgs[0]);
    let test_pool = stopped.import(Rewind::Never, false).unwrap();
    stopped.check(test_pool, txgs[1]);
}

#[test]
fn a_damaged_root_needs_a_rewind_and_says_what_is_lost() {
    let stopped = Stopped::new(12, 6);
    let txgs = stopped.txgs();
    stopped.destroy_root(txgs[0]);
    assert!(stopped.import(Rewind::Never, false).is_err());
    let before = hash(&stopped.image());
    // A trial writes nothing.
    let trial = stopped.import(Rewind::Safe, true).unwrap();
    assert_eq!(trial.pool.rewound().unwrap().txg, Txg(txgs[1]));
    drop(trial);
    assert_eq!(before, hash(&stopped.image()));
    let test_pool = stopped.import(Rewind::Safe, false).unwrap();
    assert_eq!(test_pool.pool.rewound().unwrap().txg, Txg(txgs[1]));
    stopped.check(test_pool, txgs[1]);
}

#[test]
fn damage_below_a_dataset_is_found_by_the_rewind() {
    let stopped = Stopped::new(13, 6);
    let txgs = stopped.txgs();
    stopped.destroy_block(&stopped.states[&txgs[0]].files);
    let test_pool = stopped.import(Rewind::Safe, false).unwrap();
    assert_eq!(test_pool.pool.rewound().unwrap().txg, Txg(txgs[1]));
    stopped.check(test_pool, txgs[1]);
}

#[test]
fn an_extreme_rewind_goes_further_back() {
    let stopped = Stopped::new(14, 8);
    let txgs = stopped.txgs();
    for txg in stopped.roots().keys().filter(|txg| **txg > txgs[4]) {
        stopped.destroy_root(*txg);
    }
    let refused = stopped.import(Rewind::Safe, false);
    assert!(refused.is_err(), "three txgs are gone");
    let test_pool = stopped.import(Rewind::Extreme, false).unwrap();
    let reached = test_pool.pool.rewound().unwrap().txg;
    assert_eq!(reached, Txg(txgs[4]));
    stopped.check(test_pool, txgs[4]);
}

#[test]
fn a_certain_txg_can_be_asked_for() {
    let stopped = Stopped::new(15, 6);
    let txgs = stopped.txgs();
    let test_pool = stopped.import(Rewind::To(Txg(txgs[2])), false).unwrap();
    assert_eq!(test_pool.pool.rewound().unwrap().txg, Txg(txgs[2]));
    stopped.check(test_pool, txgs[2]);
}

fn place(name: &str) -> Place {
    Place {
        directory: Vec::new(),
        name: name.to_owned(),
    }
}

/// A new file of so many MiB that compress to nothing less.
fn write(test_pool: &TestPool, tree: &mut Tree, name: &str, pieces: usize) {
    const PIECE: usize = 1 << 20;
    let mut random = Random::new(pieces as u64);
    let mut apply = |operation: &Operation| {
        tree.apply(operation).unwrap();
        real::apply(&test_pool.root(), operation).unwrap();
    };
    apply(&Operation::Create(place(name), 0o644));
    for piece in 0..pieces {
        let data = random.bytes(PIECE);
        apply(&Operation::Write(place(name), piece * PIECE, data, false));
    }
}

/// How a pool comes to be imported.
#[derive(Clone, Copy)]
enum Left {
    /// As at a crash.
    Open,
    Exported,
}

/// A file is removed, and the pool imported and written in one txg, more than fits beside what the file had. Then it is
/// imported as it was before what came last before the import: with the file, or at the export's last txg but one.
fn what_went_before_an_import_is_there_after_it(left: Left) {
    const SIZE: u64 = 96 << 20;
    let _limits = tunables::by_default();
    let asked = "txg.age_ns=600000000000,dsl.room_short_bytes=0,pool.space_short_bytes=0";
    let text = format!("{asked},pool.ageing_bytes={}", 1_u64 << 40);
    base::tunable::set_all(&tunables::all(), &text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "disk");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let test_pool = TestPool::create(vec![NewDevice::Path(path)]).unwrap();
    let mut tree = Tree::new();
    write(&test_pool, &mut tree, "gone", 40);
    test_pool.pool.sync().unwrap();
    let mut before = test_pool.pool.engine().unwrap().synced_txg();
    let mut wanted = tree.clone();
    let remove = Operation::Unlink(place("gone"));
    tree.apply(&remove).unwrap();
    real::apply(&test_pool.root(), &remove).unwrap();
    match left {
        Left::Open => {
            test_pool.pool.sync().unwrap();
            drop(test_pool);
        }
        Left::Exported => {
            test_pool.export().unwrap();
            wanted = tree.clone();
        }
    }
    let stopped = Stopped {
        folder,
        states: BTreeMap::new(),
    };
    let mut txgs = stopped.roots().into_keys().rev();
    let imported_at = txgs.next().unwrap();
    if let Left::Exported = left {
        before = Txg(txgs.next().unwrap());
    }
    let test_pool = stopped.import(Rewind::Never, false).unwrap();
    write(&test_pool, &mut tree, "new", 24);
    write(&test_pool, &mut tree, "other", 2);
    test_pool.pool.sync().unwrap();
    drop(test_pool);
    println!("back to {before}, imported at {imported_at}");
    let test_pool = stopped.import(Rewind::To(before), true).unwrap();
    assert_eq!(test_pool.pool.rewound().unwrap().txg, before);
    let found = differences(&wanted, &test_pool.root());
    assert!(found.is_empty(), "as of {before}:\n{}", found.join("\n"));
    drop(test_pool);
    let test_pool = stopped.import(Rewind::Never, false).unwrap();
    let found = differences(&tree, &test_pool.root());
    assert!(found.is_empty(), "the newest:\n{}", found.join("\n"));
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(stopped.folder.path(), POOL);
    }
}

#[test]
fn what_the_last_txg_before_a_crash_freed_rests_after_the_import() {
    what_went_before_an_import_is_there_after_it(Left::Open);
}

#[test]
fn what_the_last_txg_of_an_export_freed_rests_after_the_import() {
    what_went_before_an_import_is_there_after_it(Left::Exported);
}
