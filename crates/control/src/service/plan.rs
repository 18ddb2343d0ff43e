//! What a destroy must take along, and in which order.

use std::collections::BTreeSet;

use admin::Failure;

#[cfg(test)]
mod tests;

/// The tree as far as destroying needs to know it.
pub(crate) trait Family {
    /// The datasets directly below, by name.
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure>;
    /// The full names of a dataset's snapshots, oldest first.
    fn snapshots(&self, dataset: &str) -> Result<Vec<String>, Failure>;
    /// The clones of a snapshot.
    fn clones(&self, snapshot: &str) -> Result<Vec<String>, Failure>;
}

/// One thing to destroy; in the order in which it must happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Snapshots, in one go.
    Snapshots(Vec<String>),
    /// A file system or volume that has nothing left.
    Head(String),
}

/// A plan under construction.
pub(crate) struct Plan<'a> {
    family: &'a dyn Family,
    seen: BTreeSet<String>,
    steps: Vec<Step>,
}

impl<'a> Plan<'a> {
    pub(crate) const fn new(family: &'a dyn Family) -> Self {
        Self {
            family,
            seen: BTreeSet::new(),
            steps: Vec::new(),
        }
    }

    /// A dataset with all below, its snapshots and their clones wherever they are.
    pub(crate) fn head(&mut self, dataset: &str) -> Result<(), Failure> {
        if !self.seen.insert(dataset.to_owned()) {
            return Ok(());
        }
        for child in self.family.children(dataset)? {
            self.head(&child)?;
        }
        for snapshot in self.family.snapshots(dataset)? {
            self.snapshot(&snapshot)?;
        }
        self.steps.push(Step::Head(dataset.to_owned()));
        Ok(())
    }

    /// All that is in a pool but its root file system, which goes with the pool alone. A step for that means that it is
    /// a clone of something below.
    pub(crate) fn pool(&mut self, root: &str) -> Result<(), Failure> {
        for child in self.family.children(root)? {
            self.head(&child)?;
        }
        for snapshot in self.family.snapshots(root)? {
            self.snapshot(&snapshot)?;
        }
        Ok(())
    }

    /// A snapshot with its clones.
    pub(crate) fn snapshot(&mut self, snapshot: &str) -> Result<(), Failure> {
        if !self.seen.insert(snapshot.to_owned()) {
            return Ok(());
        }
        for clone in self.family.clones(snapshot)? {
            self.head(&clone)?;
        }
        match self.steps.last_mut() {
            Some(Step::Snapshots(names)) => names.push(snapshot.to_owned()),
            Some(Step::Head(_)) | None => {
                self.steps.push(Step::Snapshots(vec![snapshot.to_owned()]))
            }
        }
        Ok(())
    }

    /// The steps in order.
    pub(crate) fn steps(self) -> Vec<Step> {
        self.steps
    }
}

/// All names of a plan, in its order.
pub(crate) fn names(steps: &[Step]) -> Vec<&str> {
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Snapshots(names) => found.extend(names.iter().map(String::as_str)),
            Step::Head(name) => found.push(name.as_str()),
        }
    }
    found
}
