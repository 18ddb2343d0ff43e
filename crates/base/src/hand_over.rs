//! Who takes what arrives at one of many places: readers that all places have in common, as long as little arrives, and
//! readers of its own while much does.
//!
//! The common readers are told of a place by its *watch*, one of them at a time: whoever was told has the watch's part
//! until it asks for the place again, or gives that part up. Everybody who may take something there, or serves what
//! was taken, is a *user*: the watch, each reader of its own, and each common reader while it serves. The last user to
//! leave knows that the place is gone, and that all that came is done with.
//!
//! - Nobody joins a place that has ended: users join beside others ([`HandOver::join`] says whether there is one).
//! - Somebody looks at all times: readers of its own have joined before the watch leaves, and the watch has joined
//!   before they are sent away. In between both look, which harms nobody: each arrival is taken once.
//! - Readers of its own begin when those of the time before are gone.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub struct HandOver {
    users: AtomicUsize,
    has_own: AtomicBool,
}

impl HandOver {
    /// A place with one user, who makes others join.
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "it begins with a user, who is to leave"
    )]
    pub fn new() -> Self {
        Self {
            users: AtomicUsize::new(1),
            has_own: AtomicBool::new(false),
        }
    }

    /// One more user; false when the place has ended.
    #[must_use]
    pub fn join(&self) -> bool {
        let more = |users| (users > 0).then_some(users + 1);
        self.users
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    /// One user fewer; true: it was the last.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// The right to start readers of its own; false while somebody has it.
    #[must_use]
    pub fn begin_own(&self) -> bool {
        !self.has_own.swap(true, Ordering::SeqCst)
    }

    /// They are gone.
    pub fn end_own(&self) {
        self.has_own.store(false, Ordering::SeqCst);
    }

    /// Whether it has, or is about to have, readers of its own.
    #[must_use]
    pub fn has_own(&self) -> bool {
        self.has_own.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
