//! Which threads sync, and what they do when a device does not answer.

use std::cell::Cell;

/// How a thread syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncing {
    /// Not at all.
    No,
    /// What it reads the txg cannot do without.
    Patiently,
    /// For a change that is undone alone when it fails.
    ForTask,
}

base::sync::thread_local! {
    static SYNCING: Cell<Syncing> = const { Cell::new(Syncing::No) };
}

/// Marks the calling thread as one that syncs, for as long as it lives. Such a thread cannot give
/// up a read: it waits for the device ([`Engine::suspend`](crate::Engine::suspend)), unless it is at work for a task,
/// which fails alone.
#[must_use]
pub struct SyncContext {
    before: Syncing,
}

impl SyncContext {
    /// Marks the calling thread if `syncing` says so.
    pub fn enter(syncing: bool) -> Self {
        Self::replace(if syncing {
            Syncing::Patiently
        } else {
            Syncing::No
        })
    }

    /// Marks the calling thread, which syncs, as at work for a task: what is not there now it does without.
    pub fn enter_task() -> Self {
        Self::replace(Syncing::ForTask)
    }

    /// Has threads that help the calling one sync as it does.
    pub fn for_helpers() -> impl Fn() -> Self + Sync {
        let syncing = SYNCING.with(Cell::get);
        move || Self::replace(syncing)
    }

    fn replace(syncing: Syncing) -> Self {
        Self {
            before: SYNCING.with(|is| is.replace(syncing)),
        }
    }

    /// Whether the calling thread syncs.
    #[must_use]
    pub fn is_current() -> bool {
        SYNCING.with(Cell::get) != Syncing::No
    }

    /// Whether the calling thread waits for devices that do not answer.
    #[must_use]
    pub fn waits_for_devices() -> bool {
        SYNCING.with(Cell::get) == Syncing::Patiently
    }
}

impl Drop for SyncContext {
    fn drop(&mut self) {
        SYNCING.with(|is| is.set(self.before));
    }
}
