//! Changes datasets while workers are in them.

use super::judge::lasting_sums;
use super::{Crowd, Plan, Plot, Worker, directory};
use crate::comparison;
use crate::durable::Found;
use crate::model::Tree;
use crate::operation::{Operation, Place};
use crate::picture::Picture;
use crate::pool_model::choose::ChangeChooser;
use crate::pool_model::real::{apply, differences};
use crate::pool_model::{Change, PoolModel, split};
use crate::real;
use crate::test_pool::{TestPool, mount};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The datasets after a change, and who was in them.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Events that the disk had seen when the change began.
    pub begun: usize,
    /// And when it was acknowledged.
    pub done: usize,
    /// The datasets; trees of heads are not kept.
    pub pool_model: PoolModel,
    /// The file systems.
    pub plots: BTreeMap<String, Arc<Plot>>,
}

/// A pool with its model and the crowd in it.
pub struct Director {
    /// The pool.
    pub test_pool: TestPool,
    pub(super) pool_model: PoolModel,
    chooser: ChangeChooser,
    crowd: Arc<Crowd>,
    seed: u64,
    /// Changes of datasets that were done.
    changes: u64,
    /// Pairs of states that were compared as `zfs diff` does.
    compared: usize,
    stages: Vec<Stage>,
}

impl Director {
    /// A director of a pool whose datasets are those of a model; they sync before it begins.
    ///
    /// # Panics
    /// If the workers' directories cannot be made.
    #[must_use]
    pub fn new(
        test_pool: TestPool,
        pool_model: PoolModel,
        (seed, plan): (u64, Plan),
        events: Box<dyn Fn() -> usize + Send + Sync>,
    ) -> Self {
        let crowd = Arc::new(Crowd {
            plan,
            pool: Arc::clone(&test_pool.pool),
            plots: RwLock::new(BTreeMap::new()),
            events,
            left: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            done: AtomicU64::new(0),
        });
        let mut director = Self {
            test_pool,
            pool_model,
            chooser: ChangeChooser::new(seed),
            crowd,
            seed,
            changes: 0,
            compared: 0,
            stages: Vec::new(),
        };
        let paths: Vec<String> = director.pool_model.heads().keys().cloned().collect();
        for path in paths {
            director.occupy(&path);
        }
        director.test_pool.pool.sync().expect("the pool syncs");
        let now = (director.crowd.events)();
        director.note_stage(now);
        director
    }

    /// The changes of datasets, each with what it left.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Operations on files, and changes of datasets, that were done.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.crowd.done(), self.changes)
    }

    /// Pairs of states of file systems whose differences were compared.
    #[must_use]
    pub const fn compared(&self) -> usize {
        self.compared
    }

    /// Workers come into a head: each gets its directory.
    fn occupy(&mut self, path: &str) {
        let workers = self.crowd.plan.workers;
        let system = self.test_pool.system(path);
        let tree = &mut self.pool_model.tree_mut(path);
        for worker in 0..workers {
            let place = Place {
                directory: Vec::new(),
                name: directory(worker),
            };
            let operation = Operation::MakeDirectory(place, 0o755);
            if tree.apply(&operation).is_ok() {
                real::apply(&system, &operation).expect("a directory is made");
            }
        }
        let plot = Arc::new(Plot::new(tree, workers));
        plot.open(Some(system));
        self.crowd.change_plots(|plots| {
            plots.insert(path.to_owned(), plot);
        });
    }

    fn note_stage(&mut self, begun: usize) {
        if self.crowd.plan.remembers {
            let stage = Stage {
                begun,
                done: (self.crowd.events)(),
                pool_model: self.pool_model.clone(),
                plots: self.crowd.plots(),
            };
            self.stages.push(stage);
        }
    }

    /// Has everybody work until all are done, and changes datasets meanwhile.
    ///
    /// # Panics
    /// If the pool and the model differ anywhere.
    pub fn run(&mut self, round: u64) {
        let crowd = Arc::clone(&self.crowd);
        crowd.left.store(crowd.plan.workers, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for number in 0..crowd.plan.workers {
                let seed = self.seed.wrapping_mul(1000) + round * 100 + number as u64;
                let worker = Worker::new(&crowd, number, seed);
                scope.spawn(move || worker.work());
            }
            let stop = Stop(&crowd);
            while crowd.left.load(Ordering::SeqCst) > 0 {
                self.change();
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(stop);
        });
        assert!(!crowd.failed.load(Ordering::SeqCst), "a worker failed");
    }

    /// Changes a dataset; pool and model must agree on the outcome.
    fn change(&mut self) {
        let change = self.chooser.next(&self.pool_model);
        let begun = (self.crowd.events)();
        // What was done before the change is in its txg or an older one.
        let marks = self.marks();
        self.changes += 1;
        let done = match &change {
            Change::Snapshot(names) => self.take_snapshots(&change, names),
            Change::Rollback(path, _) | Change::Destroy(path) => {
                self.change_closed(&change, std::slice::from_ref(path))
            }
            Change::Rename(..) => {
                let paths: Vec<String> = self.pool_model.heads().keys().cloned().collect();
                self.change_closed(&change, &paths)
            }
            _ => self.change_open(&change),
        };
        if !done {
            return;
        }
        if let Change::Create(path) | Change::Clone(_, path) = &change {
            self.occupy(path);
            self.test_pool.pool.sync().expect("the pool syncs");
        }
        let events = (self.crowd.events)();
        for (plot, marks) in marks {
            for (worker, mark) in marks.into_iter().enumerate() {
                let mut patch = plot.patch(worker);
                patch.record.promise_until(mark, None, events);
            }
        }
        self.note_stage(begun);
    }

    /// How much each worker did in each file system.
    fn marks(&self) -> Vec<(Arc<Plot>, Vec<usize>)> {
        if !self.crowd.plan.remembers {
            return Vec::new();
        }
        let workers = 0..self.crowd.plan.workers;
        let marks = |plot: &Arc<Plot>| {
            let marks = workers.clone();
            marks
                .map(|worker| plot.patch(worker).record.operations())
                .collect()
        };
        let plots = self.crowd.plots();
        plots
            .values()
            .map(|plot| (Arc::clone(plot), marks(plot)))
            .collect()
    }

    /// One that workers need not notice.
    fn change_open(&mut self, change: &Change) -> bool {
        let found = apply(&self.test_pool, change);
        let wanted = self.pool_model.apply(change);
        agree(change, &wanted, &found)
    }

    /// One during which file systems are closed to workers.
    fn change_closed(&mut self, change: &Change, paths: &[String]) -> bool {
        let plots = self.crowd.plots();
        let mut gates = Vec::new();
        for path in paths {
            let Some(plot) = plots.get(path) else {
                continue;
            };
            let mut gate = plot.gate.write().unwrap_or_else(PoisonError::into_inner);
            *gate = None;
            gates.push((path, plot, gate));
        }
        let found = apply(&self.test_pool, change);
        let wanted = self.pool_model.apply(change);
        let done = agree(change, &wanted, &found);
        for (path, plot, mut gate) in gates {
            let now = match change {
                Change::Rename(from, to) if done => renamed(path, from, to),
                Change::Destroy(_) | Change::Rollback(..) if done => None,
                _ => Some(path.clone()),
            };
            self.crowd.change_plots(|plots| {
                plots.remove(path);
            });
            let Some(now) = now else {
                continue;
            };
            *gate = Some(self.test_pool.system(&now));
            self.crowd.change_plots(|plots| {
                plots.insert(now, Arc::clone(plot));
            });
        }
        if let Change::Rollback(path, _) = change
            && done
        {
            self.occupy(path);
        }
        done
    }

    /// Snapshots of heads that are being changed.
    fn take_snapshots(&mut self, change: &Change, names: &[String]) -> bool {
        let workers = self.crowd.plan.workers;
        let plots = self.crowd.plots();
        let watched: Vec<Option<&Arc<Plot>>> = names
            .iter()
            .map(|name| plots.get(split(name, '@').0))
            .collect();
        for plot in watched.iter().flatten() {
            for worker in 0..workers {
                let mut patch = plot.patch(worker);
                let now = (0, patch.record.tree.clone());
                patch.watch = Some(vec![now]);
            }
        }
        let found = apply(&self.test_pool, change);
        let mut candidates = Vec::new();
        for plot in &watched {
            let of = |worker| plot.map(|plot| plot.patch(worker).watch.take().unwrap_or_default());
            candidates.push((0..workers).filter_map(of).collect::<Vec<_>>());
        }
        if found.is_ok() {
            let mut moments = vec![vec![0..u64::MAX]; workers];
            for ((name, plot), candidates) in names.iter().zip(&watched).zip(candidates) {
                let trees = self.recognise(name, &candidates, &mut moments);
                let Some(plot) = plot else {
                    continue;
                };
                let tree = plot.join(trees.into_iter());
                *self.pool_model.tree_mut(split(name, '@').0) = tree;
            }
        }
        let wanted = self.pool_model.apply(change);
        agree(change, &wanted, &found)
    }

    /// What each worker's directory is in a snapshot: as after one of its turns. `moments` are the turns that the
    /// snapshots of the set so far may be of, by worker.
    fn recognise(
        &self,
        name: &str,
        candidates: &[Vec<(u64, Tree)>],
        moments: &mut [Vec<Range<u64>>],
    ) -> Vec<Tree> {
        let system = mount(&self.test_pool.pool, name, true);
        let mut trees = Vec::new();
        for ((worker, candidates), moments) in candidates.iter().enumerate().zip(moments) {
            let found = Found::read(&system, &[directory(worker)]);
            let found = Picture::found(&found);
            let compared = candidates
                .iter()
                .map(|(_, tree)| Picture::of(tree).differences(&found));
            let compared: Vec<Vec<String>> = compared.collect();
            let same: Vec<usize> = (0..compared.len())
                .filter(|index| compared[*index].is_empty())
                .collect();
            let Some(first) = same.first() else {
                let nearest = compared.iter().min_by_key(|lines| lines.len());
                let lines = nearest.map_or(String::new(), |lines| lines.join("\n"));
                let (worker, count) = (directory(worker), candidates.len());
                panic!(
                    "{name}: {worker} is as after none of {count} operations; the nearest:\n{lines}"
                );
            };
            let turns = same.iter().map(|index| {
                let next = candidates.get(index + 1);
                let moment = candidates[*index].0;
                // Of the states within a turn, which are of one moment, none is the others' end.
                moment..next.map_or(u64::MAX, |(next, _)| (*next).max(moment + 1))
            });
            let turns: Vec<_> = turns.collect();
            let common = both(moments, &turns);
            assert!(
                !common.is_empty(),
                "{name}: {} is of the turns {turns:?}, others of the set of {moments:?}",
                directory(worker)
            );
            *moments = common;
            let first = &candidates[*first].1;
            // Something was changed and changed back: it looks as before, and yet it changed.
            let is_certain = same.iter().all(|index| candidates[*index].1 == *first);
            trees.push(match is_certain {
                true => first.clone(),
                false => first.without_history(),
            });
        }
        trees
    }

    /// Everything in which pool and model differ while nobody works, a line each; also what does not add up.
    ///
    /// # Panics
    /// If datasets cannot be read.
    #[must_use]
    pub fn differences(&mut self) -> Vec<String> {
        for (path, plot) in self.crowd.plots() {
            *self.pool_model.tree_mut(&path) = plot.tree();
        }
        self.test_pool.pool.sync().expect("the pool syncs");
        let mut found = differences(&self.pool_model, &self.test_pool).expect("datasets are read");
        found.extend(lasting_sums(&self.test_pool).expect("datasets are read"));
        let (lines, compared) = comparison::differences(&self.pool_model, &self.test_pool);
        self.compared += compared;
        found.extend(lines);
        found
    }

    /// Ends all work; the pool is still imported.
    #[must_use]
    pub fn finish(self) -> (TestPool, PoolModel) {
        for plot in self.crowd.plots().values() {
            plot.open(None);
        }
        (self.test_pool, self.pool_model)
    }
}

/// The others stop when the director fails.
struct Stop<'a>(&'a Crowd);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
    }
}

/// What two lists of ranges have in common.
fn both(left: &[Range<u64>], right: &[Range<u64>]) -> Vec<Range<u64>> {
    let pairs = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| (left, right)));
    let common = pairs.map(|(left, right)| left.start.max(right.start)..left.end.min(right.end));
    common.filter(|range| !range.is_empty()).collect()
}

/// What a path becomes.
fn renamed(path: &str, from: &str, to: &str) -> Option<String> {
    let below = path.strip_prefix(from);
    Some(match below {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
        _ => path.to_owned(),
    })
}

fn agree(change: &Change, wanted: &Result<(), &'static str>, found: &dsl::Result<()>) -> bool {
    assert!(
        wanted.is_ok() == found.is_ok(),
        "{change:?}: the model says {wanted:?}, the pool {found:?}"
    );
    found.is_ok()
}
