//! The files of a history: what is done to them, and which states a power loss may leave.

use crate::history::History;
use millpond_torture::operation::Operation;
use millpond_torture::pool_model::PoolModel;
use millpond_torture::pool_model::choose::ChangeChooser;
use millpond_torture::pool_model::real as pool_real;
use millpond_torture::pool_model::{Change, Head};
use millpond_torture::real;
use millpond_torture::test_pool::{POOL, TestPool};

/// Snapshots of one head, and heads, that a history has at most.
const SNAPSHOTS_MAX: usize = 3;
const HEADS_MAX: usize = 4;

/// Every state of the files since a moment.
#[derive(Default)]
pub(crate) struct States {
    /// Each with the moment when what led to it began.
    all: Vec<(u64, PoolModel)>,
    /// From which moment on how many of these are on disk for certain.
    synced: Vec<(u64, usize)>,
}

impl States {
    /// There is only this one, and it is on disk.
    pub(crate) fn begin(&mut self, moment: u64, model: &PoolModel) {
        self.all = vec![(moment, model.clone())];
        self.synced = vec![(moment, 1)];
    }

    pub(crate) fn note(&mut self, begun: u64, model: &PoolModel) {
        self.all.push((begun, model.clone()));
    }

    pub(crate) fn synced(&mut self, moment: u64) {
        self.synced.push((moment, self.all.len()));
    }

    /// The moment before which nothing need be remembered: that of the last sync but one.
    pub(crate) fn since(&self) -> u64 {
        let last = self.synced.len().saturating_sub(2);
        self.synced[last].0
    }

    /// Those that a pool can be in whose power went at a moment, the newest first.
    pub(crate) fn possible(&self, moment: u64) -> impl Iterator<Item = &PoolModel> {
        let synced = self.synced.iter().rfind(|(at, _)| *at <= moment);
        let first = synced.map_or(0, |(_, count)| count - 1);
        let begun = move |at: usize, begun: u64| at == first || begun <= moment;
        let states = self.all.iter().enumerate().skip(first);
        let states: Vec<_> = states
            .filter(|(at, (since, _))| begun(*at, *since))
            .map(|(_, (_, model))| model)
            .collect();
        states.into_iter().rev()
    }
}

/// How a pool differs from a model of its files, a line each.
pub(crate) fn differences(model: &PoolModel, test_pool: &TestPool) -> Vec<String> {
    pool_real::differences(model, test_pool).unwrap_or_else(|error| vec![error.to_string()])
}

impl History {
    /// Changes some files.
    pub(crate) fn change_files(&mut self, test_pool: &TestPool) {
        let heads: Vec<String> = self.model.heads().keys().cloned().collect();
        let head = self.random.pick(&heads).clone();
        let system = test_pool.system(&head);
        for _ in 0..=self.random.below(10) {
            let operation = self.chooser.next(&self.model.heads()[&head].tree);
            let begun = self.timeline.now();
            let wanted = self.in_parts(&head, &operation, begun);
            let found = real::apply(&system, &operation);
            assert_eq!(
                wanted,
                found.is_ok(),
                "{operation:?}: the file system says {found:?}"
            );
        }
    }

    /// Does to the model what an operation says, with all states on the way; whether it can be done.
    fn in_parts(&mut self, head: &str, operation: &Operation, begun: u64) -> bool {
        let mut whole = self.model.clone();
        let is_ok = whole.tree_mut(head).apply(operation).is_ok();
        let before = self.model.heads()[head].tree.clone();
        for part in operation.parts(&before) {
            if self.model.tree_mut(head).apply(&part).is_ok() {
                self.states.note(begun, &self.model);
            }
        }
        self.model = whole;
        self.states.note(begun, &self.model);
        is_ok
    }

    /// Changes datasets: snapshots and clones come and go, file systems are rolled back.
    pub(crate) fn change_datasets(&mut self, test_pool: &TestPool) {
        let Some(change) = self.draw_change() else {
            return;
        };
        let begun = self.timeline.now();
        let wanted = self.model.apply(&change);
        let found = pool_real::apply(test_pool, &change);
        assert_eq!(
            wanted.is_ok(),
            found.is_ok(),
            "{change:?}: the model says {wanted:?}, the pool {found:?}"
        );
        self.states.note(begun, &self.model);
    }

    fn draw_change(&mut self) -> Option<Change> {
        let mut chooser = ChangeChooser::new(self.random.draw());
        let path = chooser.head(&self.model);
        let number = self.random.draw() % 1000;
        let heads = self.model.heads();
        let head: &Head = &heads[&path];
        let short = |at: usize| head.snapshots[at].name.clone();
        let last = head.snapshots.len().checked_sub(1);
        let change = match self.random.below(6) {
            0 | 1 if head.snapshots.len() < SNAPSHOTS_MAX => {
                Change::Snapshot(vec![format!("{path}@s{number}")])
            }
            2 if last.is_some() && heads.len() < HEADS_MAX => {
                let at = self.random.below(head.snapshots.len());
                let origin = format!("{path}@{}", short(at));
                Change::Clone(origin, format!("{POOL}/c{number}"))
            }
            3 => Change::Rollback(path.clone(), short(last?)),
            4 if path != POOL => Change::Destroy(path.clone()),
            _ => {
                last?;
                let at = self.random.below(head.snapshots.len());
                Change::DestroySnapshots(vec![format!("{path}@{}", short(at))], false)
            }
        };
        Some(change)
    }

    pub(crate) fn sync(&mut self, test_pool: &TestPool) {
        test_pool.pool.sync().unwrap();
        self.states.synced(self.timeline.now());
    }

    pub(crate) fn same(&self, test_pool: &TestPool, when: &str) {
        let found = differences(&self.model, test_pool);
        assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
    }
}
