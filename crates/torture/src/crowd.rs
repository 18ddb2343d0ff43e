//! Several threads at work in several file systems of one pool while datasets are changed under them, and the model
//! that goes along.
//!
//! Each worker has a directory of its own in each file system, so that the model knows every outcome whatever the
//! others do. The director changes datasets meanwhile: file systems are closed to workers only where their contents
//! are exchanged or go. A snapshot that is taken while they work must show each worker's directory as after one of
//! the operations that were under way, and those of one set the same moment.

mod director;
mod judge;

pub use director::{Director, Stage};

use crate::durable::Record;
use crate::holes;
use crate::model::{Node, Refusal, Tree};
use crate::operation::{Chooser, Limits, Operation, Place};
use crate::random::Random;
use crate::real;
use crate::test_pool::outcome;
use posix::{Credentials, FileSystem, OpenOptions, PosixError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What a worker has in one file system.
#[derive(Debug)]
pub struct Patch {
    /// What it did there, and the tree now.
    pub record: Record,
    /// While a snapshot is taken: twice the number of a turn of the worker, and the tree after it; one less, and a tree
    /// within it.
    watch: Option<Vec<(u64, Tree)>>,
}

/// A file system that workers are in, from its creation or rollback to its end.
#[derive(Debug)]
pub struct Plot {
    /// Its root directory, without names.
    root: Node,
    /// Closed while there is none.
    gate: RwLock<Option<Arc<FileSystem>>>,
    /// By worker.
    patches: Vec<Mutex<Patch>>,
}

/// The name of a worker's directory.
#[must_use]
pub fn directory(worker: usize) -> String {
    format!("worker{worker}")
}

impl Plot {
    /// A file system whose files are those of a tree.
    fn new(tree: &Tree, workers: usize) -> Self {
        let patch = |worker| {
            let own = tree.lookup(Tree::ROOT, &directory(worker));
            let own = own.map_or_else(|_| Tree::new(), |own| tree.cut(own));
            Mutex::new(Patch {
                record: Record::from(vec![directory(worker)], own),
                watch: None,
            })
        };
        Self {
            root: tree.node(Tree::ROOT).without_names(),
            gate: RwLock::new(None),
            patches: (0..workers).map(patch).collect(),
        }
    }

    fn patch(&self, worker: usize) -> MutexGuard<'_, Patch> {
        let patch = self.patches[worker].lock();
        patch.unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, system: Option<Arc<FileSystem>>) {
        *self.gate.write().unwrap_or_else(PoisonError::into_inner) = system;
    }

    /// All of its files as the model has them now.
    fn tree(&self) -> Tree {
        let trees = (0..self.patches.len()).map(|worker| self.patch(worker).record.tree.clone());
        self.join(trees)
    }

    /// The tree of the file system from those of the workers.
    fn join(&self, trees: impl Iterator<Item = Tree>) -> Tree {
        let mut all = Tree::new();
        *all.node_mut(Tree::ROOT) = self.root.clone();
        for (worker, own) in trees.enumerate() {
            all.graft(Tree::ROOT, &directory(worker), &own);
        }
        all
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads.
    pub workers: usize,
    /// Turns of each.
    pub turns: usize,
    /// Bounds of what they make.
    pub limits: Limits,
    /// Whether what was done is remembered, to judge what a crash leaves.
    pub remembers: bool,
}

/// What workers and the director share.
pub struct Crowd {
    plan: Plan,
    pool: Arc<pool::Pool>,
    plots: RwLock<BTreeMap<String, Arc<Plot>>>,
    /// How many events the disk has seen.
    events: Box<dyn Fn() -> usize + Send + Sync>,
    /// Workers that are not done.
    left: AtomicUsize,
    /// One of them failed.
    failed: AtomicBool,
    /// Operations that were done.
    done: AtomicU64,
}

impl Crowd {
    /// Operations that were done so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn plots(&self) -> BTreeMap<String, Arc<Plot>> {
        let plots = self.plots.read();
        plots.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_plots(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<Plot>>)) {
        let mut plots = self.plots.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut plots);
    }
}

/// Says that a worker is done, also when it fails.
struct Leaving<'a>(&'a Crowd);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
        self.0.left.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One thread.
struct Worker<'a> {
    crowd: &'a Crowd,
    number: usize,
    chooser: Chooser,
    random: Random,
}

impl<'a> Worker<'a> {
    fn new(crowd: &'a Crowd, number: usize, seed: u64) -> Self {
        Self {
            crowd,
            number,
            chooser: Chooser::within(seed, crowd.plan.limits),
            random: Random::new(seed ^ 0x5EED),
        }
    }

    fn work(mut self) {
        let _leaving = Leaving(self.crowd);
        for turn in 0..self.crowd.plan.turns {
            if self.crowd.failed.load(Ordering::Relaxed) {
                return;
            }
            self.turn(turn as u64 + 1);
        }
    }

    fn turn(&mut self, turn: u64) {
        let plots = self.crowd.plots();
        if plots.is_empty() {
            return std::thread::yield_now();
        }
        let (path, plot) = self
            .random
            .pick(&plots.iter().collect::<Vec<_>>())
            .to_owned();
        // A closed one is left to itself: there are others.
        let Ok(gate) = plot.gate.try_read() else {
            return std::thread::yield_now();
        };
        let Some(system) = &*gate else {
            return std::thread::yield_now();
        };
        let mut patch = plot.patch(self.number);
        match self.random.below(24) {
            0..18 => self.operate(turn, (path, system), &mut patch),
            18..20 => self.look(path, system, &patch),
            20..23 => self.fsync(system, &mut patch),
            _ if self.random.one_in(8) => {
                self.crowd.pool.sync().expect("the pool syncs");
                let events = (self.crowd.events)();
                patch.record.promise(None, events);
            }
            _ => {}
        }
        let tree = &patch.record.tree;
        if patch.watch.is_some() {
            let seen = (2 * turn, tree.clone());
            patch.watch.get_or_insert_default().push(seen);
        }
    }

    fn operate(&mut self, turn: u64, (path, system): (&str, &FileSystem), patch: &mut Patch) {
        let record = &mut patch.record;
        let operation = self.chooser.next(&record.tree);
        let mut expected = record.tree.clone();
        let mut wanted = Ok(());
        for part in operation.parts(&record.tree) {
            if let (Some(watch), true) = (&mut patch.watch, expected != record.tree) {
                watch.push((2 * turn - 1, expected.clone()));
            }
            wanted = wanted.and(expected.apply(&part));
        }
        let found = real::apply(system, &record.below(&operation));
        assert!(
            is_same(&wanted, &found),
            "{path}, worker {}: {operation:.300?}: the model says {wanted:?}, the file system {}",
            self.number,
            outcome(&found)
        );
        self.crowd.done.fetch_add(1, Ordering::Relaxed);
        if wanted.is_err() {
            return;
        }
        if !self.crowd.plan.remembers {
            record.tree = expected;
            return;
        }
        record.note(&operation);
        // The same with the moments that a watched snapshot may have seen.
        record.tree = expected;
        if let Operation::Write(place, _, bytes, true) = &operation
            && !bytes.is_empty()
        {
            record.promise(record.tree.find(place).ok(), (self.crowd.events)());
        }
    }

    fn open(&self, system: &FileSystem, place: &Place) -> posix::OpenFile {
        let root = Credentials::root();
        let own = directory(self.number);
        let names = std::iter::once(&own)
            .chain(&place.directory)
            .chain([&place.name]);
        let object = names.fold(system.root(), |directory, name| {
            let found = system.lookup(&root, directory, name.as_bytes());
            found.expect("the model has it").object
        });
        let options = OpenOptions {
            read: true,
            ..OpenOptions::default()
        };
        system.open(&root, object, options).expect("it opens")
    }

    fn fsync(&mut self, system: &FileSystem, patch: &mut Patch) {
        let Some((place, node)) = patch.record.tree.pick_file(&mut self.random) else {
            return;
        };
        self.open(system, &place).fsync().expect("the pool writes");
        patch.record.promise(Some(node), (self.crowd.events)());
    }

    /// Reads a part of a file, and where its holes are.
    fn look(&mut self, path: &str, system: &FileSystem, patch: &Patch) {
        let tree = &patch.record.tree;
        let Some((place, node)) = tree.pick_file(&mut self.random) else {
            return;
        };
        let contents = tree.contents(node).expect("a file");
        let file = self.open(system, &place);
        let start = self.random.below(contents.len() + 1000);
        let mut buffer = vec![0x5A; 1 + self.random.below(contents.len() + 1000)];
        let count = file.read(start as u64, &mut buffer).expect("it reads");
        let end = contents.len().min(start + buffer.len());
        let wanted = contents.get(start..end).unwrap_or_default();
        let about = format!("{path}: {place:?}");
        assert_eq!(count, wanted.len(), "{about} from {start}");
        assert!(
            buffer[..count] == *wanted,
            "{about} from {start}: other bytes"
        );
        let data = |at| match file.seek_data(at) {
            Ok(data) => Ok(Some(data)),
            Err(PosixError::NoSuchOffset) => Ok(None),
            Err(error) => Err(error),
        };
        let checked = holes::check(contents, &about, data, |at| file.seek_hole(at));
        checked.unwrap_or_else(|error| panic!("{about}: {error}"));
    }
}

fn is_same(wanted: &Result<(), Refusal>, found: &Result<(), PosixError>) -> bool {
    match (wanted, found) {
        (Ok(()), Ok(())) => true,
        (Err(refusal), Err(error)) => real::errno(*refusal) == error.errno(),
        _ => false,
    }
}
