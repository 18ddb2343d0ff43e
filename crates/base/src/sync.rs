//! Threads, atomic integers and thread-local values: those of the standard library. Built with `--cfg shuttle`, those
//! of the model checker, which decides who runs next at each of their operations.
//!
//! Protocols that are checked that way (`cargo xtask ci models`) take them from here, and their locks from
//! [`crate::lock`]. Counters that decide nothing are always the standard library's.

#[cfg(shuttle)]
pub use shuttle::{sync::atomic, thread_local};
#[cfg(not(shuttle))]
pub use std::{sync::atomic, thread_local};

/// Threads of the one or the other; those of schedules end and sleep in turn.
pub mod thread {
    pub use crate::thread::{JoinHandle, Scope, ScopedJoinHandle, scope, sleep};
    #[cfg(shuttle)]
    pub use shuttle::thread::*;
    #[cfg(not(shuttle))]
    pub use std::thread::*;

    /// A thread of a model.
    #[cfg(shuttle)]
    pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let start = crate::thread::named("model", crate::thread::Role::PART);
        start.spawn(body).expect("a model has threads")
    }
}

#[cfg(shuttle)]
mod models;
#[cfg(shuttle)]
pub use models::check;
