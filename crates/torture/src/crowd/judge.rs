//! What must hold when nobody works, and after a crash.

use super::{Director, Stage, directory};
use crate::durable::{Commits, Demand, Found};
use crate::model::Tree;
use crate::pool_model::PoolModel;
use crate::pool_model::real::dataset_differences;
use crate::test_pool::TestPool;
use std::time::{Duration, Instant};

/// Numbers of space that do not add up and stay so, a line each. What was unlinked is freed in the background: the
/// numbers, read one after the other, may be of the states before and after a sync.
///
/// # Errors
/// A dataset cannot be read.
///
/// # Panics
/// If the pool does not sync.
pub(super) fn lasting_sums(test_pool: &TestPool) -> dsl::Result<Vec<String>> {
    /// What is wrong for longer is wrong for ever.
    const PATIENCE: Duration = Duration::from_secs(20);
    let begun = Instant::now();
    loop {
        let lines = sums(test_pool)?;
        if lines.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(lines);
        }
        test_pool.pool.sync().expect("the pool syncs");
    }
}

/// Numbers of space that do not add up, a line each.
fn sums(test_pool: &TestPool) -> dsl::Result<Vec<String>> {
    let dsl = test_pool.pool.dsl();
    let mut lines = Vec::new();
    for head in dsl.heads_under(&dsl.root_directory()?)? {
        let path = head.name()?;
        let directory = head.directory();
        let space = directory.space()?;
        let mut check = |what: &str, left: u64, right: u64| {
            if left != right {
                lines.push(format!("{path}: {what}: {left}, not {right}"));
            }
        };
        let parts = [
            space.by_dataset,
            space.by_snapshots,
            space.by_children,
            space.by_ref_reservation,
        ];
        check("used and its parts", space.used, parts.iter().sum());
        let mut children = 0;
        for child in directory.children()? {
            let space = child.space()?;
            children += space.used.max(space.reserved);
        }
        // The root has the pool's own blocks as well.
        if path.contains('/') {
            check("used by children", space.by_children, children);
        }
        let own = head.space()?;
        if directory.origin()?.is_none() {
            check("used by dataset", space.by_dataset, own.referenced);
        }
        let reserved = head.ref_reservation()?.saturating_sub(own.unique);
        check("used by refreservation", space.by_ref_reservation, reserved);
        let unique = head
            .snapshots()?
            .iter()
            .map(|snapshot| Ok(snapshot.space()?.unique))
            .sum::<dsl::Result<u64>>()?;
        if unique > space.by_snapshots {
            let line = format!("{path}: snapshots have {unique} of {}", space.by_snapshots);
            lines.push(line);
        }
        if own.written > own.referenced || own.unique > own.referenced {
            let (written, unique) = (own.written, own.unique);
            let line = format!(
                "{path}: {written} written, {unique} unique, of {}",
                own.referenced
            );
            lines.push(line);
        }
    }
    Ok(lines)
}

impl Director {
    /// Compares what was imported after a power loss before an event of the disk with what the datasets were then.
    /// Returns the model of what is there.
    ///
    /// # Errors
    /// Why it is none of the states that may be there, a line each.
    pub fn judge(&self, found: &TestPool, events: usize) -> Result<PoolModel, Vec<String>> {
        let last = self.stages().partition_point(|stage| stage.done <= events);
        let Some(last) = last.checked_sub(1) else {
            return Err(vec!["before the first state".to_owned()]);
        };
        let next = self.stages().get(last + 1);
        let next = next.filter(|stage| stage.begun <= events);
        let mut lines = Vec::new();
        for stage in std::iter::once(&self.stages()[last]).chain(next) {
            match judge_stage(stage, found, events) {
                Ok(pool_model) => return Ok(pool_model),
                Err(some) => lines.extend(some),
            }
        }
        Err(lines)
    }
}

fn judge_stage(stage: &Stage, found: &TestPool, events: usize) -> Result<PoolModel, Vec<String>> {
    let error = |error: dsl::DslError| vec![error.to_string()];
    let mut lines = dataset_differences(&stage.pool_model, found).map_err(error)?;
    let mut pool_model = stage.pool_model.clone();
    for path in stage.pool_model.heads().keys() {
        if !lines.is_empty() {
            break;
        }
        let system = found.try_system(path).map_err(|problem| vec![problem])?;
        let mut tree = Tree::new();
        for worker in 0..stage.plots[path].patches.len() {
            let name = directory(worker);
            let seen = Found::read(&system, std::slice::from_ref(&name));
            // A change under way had not let workers in.
            if seen.problem.is_some() && stage.done > events {
                continue;
            }
            let record = &stage.plots[path].patch(worker).record;
            let judged = record.judge(&seen, Demand::Promised(events), Commits::Others);
            if let Err(some) = judged {
                lines.extend(
                    some.into_iter()
                        .map(|line| format!("{path}/{name}: {line}")),
                );
            }
            tree.graft(Tree::ROOT, &name, &seen.tree());
        }
        *pool_model.tree_mut(path) = tree;
    }
    if lines.is_empty() {
        Ok(pool_model)
    } else {
        Err(lines)
    }
}
