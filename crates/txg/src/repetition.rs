//! Operations that are done again, from the start, when devices that are away are back.
//!
//! A front end that keeps its requests runs an operation with [`repeatable`]. Where that reads a block that no device
//! is there to give, the pool is suspended ([`Engine::await_devices`]), and the read fails, and the operation with it,
//! so that no thread waits and no lock is held. As long as it had changed nothing, the front end gets an
//! [`AwaitedDevices`], with which it hears when the operation is to be done again.

use std::cell::RefCell;
use std::sync::Arc;

use crate::engine::Engine;

enum Repetition {
    /// The operation is not done again.
    No,
    /// It can be: nothing was changed yet.
    Possible,
    /// It is to be.
    Wanted(AwaitedDevices),
}

base::sync::thread_local! {
    static REPETITION: RefCell<Repetition> = const { RefCell::new(Repetition::No) };
}

fn replace(repetition: Repetition) -> Repetition {
    REPETITION.with(|current| current.replace(repetition))
}

/// Puts back what was before, also after a panic.
struct Restore(Option<Repetition>);

impl Drop for Restore {
    fn drop(&mut self) {
        drop(self.0.take().map(replace));
    }
}

/// What becomes of a read of a block that no device is there to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The pool has gone on meanwhile: it is to be read again.
    Over,
    /// The read fails, and nobody waits.
    Fails,
    /// The read fails, and its operation waits for the devices.
    Awaited {
        /// Whether the pool was suspended just now, because of this read.
        is_news: bool,
    },
}

/// What an operation waits for that found devices away before it had changed anything.
#[must_use]
pub struct AwaitedDevices {
    engine: Arc<Engine>,
    /// How often the engine had been told to go on.
    resumptions: u64,
}

impl AwaitedDevices {
    pub(crate) fn new(engine: Arc<Engine>, resumptions: u64) -> Self {
        Self {
            engine,
            resumptions,
        }
    }

    /// Has `then` called when the pool goes on or has ended; at once, if it has. Of those left by one `who` the last is
    /// called alone. Others are called after it, so it must not take long.
    pub fn leave(self, who: u64, then: impl FnOnce() + Send + 'static) {
        self.engine
            .call_when_resumed(self.resumptions, who, Box::new(then));
    }
}

/// Runs an operation that can be done again. With an [`AwaitedDevices`] it changed nothing, if it failed, and is to be;
/// what it says otherwise is final.
pub fn repeatable<R>(work: impl FnOnce() -> R) -> (R, Option<AwaitedDevices>) {
    let mut restore = Restore(Some(replace(Repetition::Possible)));
    let done = work();
    let before = restore.0.take().unwrap_or(Repetition::No);
    match replace(before) {
        Repetition::Wanted(awaited) => (done, Some(awaited)),
        Repetition::No | Repetition::Possible => (done, None),
    }
}

/// Whether the calling thread's operation can be done again.
#[must_use]
pub fn is_repeatable() -> bool {
    REPETITION.with(|repetition| match &*repetition.borrow() {
        Repetition::Possible | Repetition::Wanted(_) => true,
        Repetition::No => false,
    })
}

/// The calling thread's operation is to be done again.
pub(crate) fn want(awaited: AwaitedDevices) {
    drop(replace(Repetition::Wanted(awaited)));
}

/// The calling thread's operation may change something from now on.
pub(crate) fn changes_begin() {
    drop(replace(Repetition::No));
}
