//! Which threads sync.

use std::cell::Cell;

base::sync::thread_local! {
    static SYNCING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as one that syncs, for as long as it lives. Such a thread cannot give
/// up a read: it waits for the device ([`Engine::suspend`](crate::Engine::suspend)).
#[must_use]
pub struct SyncContext {
    before: bool,
}

impl SyncContext {
    /// Marks the calling thread if `syncing` says so.
    pub fn enter(syncing: bool) -> Self {
        Self {
            before: SYNCING.with(|is| is.replace(syncing)),
        }
    }

    /// Whether the calling thread syncs.
    #[must_use]
    pub fn is_current() -> bool {
        SYNCING.with(Cell::get)
    }
}

impl Drop for SyncContext {
    fn drop(&mut self) {
        SYNCING.with(|is| is.set(self.before));
    }
}
