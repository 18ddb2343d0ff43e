//! Tasks that go on in the next txg.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millpond_dsl::{DslError, Task, TaskContext};

use crate::harness::Harness;

/// Counts how often it was checked and changed.
struct Slices {
    left: u32,
    checks: Arc<AtomicU32>,
    changes: Arc<AtomicU32>,
}

impl Task for Slices {
    type Output = ();

    fn check(&mut self, _: &TaskContext<'_>) -> Result<(), DslError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn apply(&mut self, _: &TaskContext<'_>) -> Result<(), DslError> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.left -= 1;
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn a_task_is_checked_once_while_no_other_runs() {
    let mut harness = Harness::new(1, &[]);
    let (checks, changes) = (Arc::default(), Arc::default());
    let task = Slices {
        left: 5,
        checks: Arc::clone(&checks),
        changes: Arc::clone(&changes),
    };
    harness.run(task).unwrap();
    assert_eq!(changes.load(Ordering::Relaxed), 5);
    assert_eq!(checks.load(Ordering::Relaxed), 1);
}
