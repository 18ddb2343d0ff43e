//! How the calling thread takes it when a reservation has to wait.
//!
//! A front end that keeps a thread free for requests has the request wait, not the thread: it runs an operation with
//! [`without_waiting`]. Where that would have to wait before it has changed anything, it ends with
//! [`TxgError::Postponed`], and the front end leaves the [`Postponed`] with the engine. When its turn has come, it runs
//! the operation again, from the start, with what was reserved for it ([`Admitted::run`]), on a thread that may wait.
//!
//! Once an operation holds a txg, it may have changed something, and waits like any other from then on.

use std::cell::RefCell;
use std::sync::Arc;

use crate::credit::Credit;
use crate::engine::Engine;
use crate::error::TxgError;

enum Manner {
    /// It sleeps.
    Waits,
    /// It must not sleep; nothing was changed yet.
    Hurries,
    /// It did not sleep.
    Gave(Postponed),
    /// It does not have to for what was reserved before.
    Brings(Admitted),
}

base::sync::thread_local! {
    static MANNER: RefCell<Manner> = const { RefCell::new(Manner::Waits) };
}

fn replace(manner: Manner) -> Manner {
    MANNER.with(|current| current.replace(manner))
}

/// Puts the thread's manner back, also after a panic.
struct Restore(Option<Manner>);

impl Drop for Restore {
    fn drop(&mut self) {
        drop(self.0.take().map(replace));
    }
}

/// What a postponed operation waits for.
pub(crate) enum Awaited {
    /// So much room.
    Room(u64),
    /// It has its room, and is delayed until a moment of [`base::clock::monotonic_ns`].
    Delay { credit: Credit, due_ns: u64 },
    /// Nothing that is reserved: a thread that may wait.
    Thread,
}

/// An operation that was not begun because it would have waited.
#[must_use]
pub struct Postponed {
    engine: Arc<Engine>,
    awaited: Awaited,
}

impl Postponed {
    /// Has `then` called when the operation may go on, soon or late, on a thread of the engine that must not be held
    /// up: it holds what others were given. It is called in any case: when the engine ends or stays suspended, the
    /// operation is to fail by itself.
    pub fn leave(self, then: impl FnOnce(Admitted) + Send + 'static) {
        self.engine.admit_later(self.awaited, Box::new(then));
    }
}

/// What was reserved for an operation that had been postponed, or why nothing was.
#[must_use]
pub struct Admitted {
    engine: Arc<Engine>,
    outcome: Result<Option<Credit>, TxgError>,
}

impl Admitted {
    pub(crate) fn new(engine: Arc<Engine>, outcome: Result<Option<Credit>, TxgError>) -> Self {
        Self { engine, outcome }
    }

    /// Runs the operation: its first reservation is this one. What it does not use goes back.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let _restore = Restore(Some(replace(Manner::Brings(self))));
        work()
    }
}

/// Runs an operation that must not wait as long as nothing was changed. With a [`Postponed`] the operation changed
/// nothing, if it failed; what it says otherwise is final.
pub fn without_waiting<R>(work: impl FnOnce() -> R) -> (R, Option<Postponed>) {
    let mut restore = Restore(Some(replace(Manner::Hurries)));
    let done = work();
    let before = restore.0.take().unwrap_or(Manner::Waits);
    match replace(before) {
        Manner::Gave(postponed) => (done, Some(postponed)),
        Manner::Waits | Manner::Hurries | Manner::Brings(_) => (done, None),
    }
}

/// Whether the calling thread must not wait.
pub(crate) fn hurries() -> bool {
    MANNER.with(|manner| match &*manner.borrow() {
        // Who was refused once is not to wait a moment later.
        Manner::Hurries | Manner::Gave(_) => true,
        Manner::Waits | Manner::Brings(_) => false,
    })
}

/// Notes what the calling thread would have waited for.
pub(crate) fn postpone(engine: &Arc<Engine>, awaited: Awaited) -> TxgError {
    let engine = Arc::clone(engine);
    drop(replace(Manner::Gave(Postponed { engine, awaited })));
    TxgError::Postponed
}

/// What was reserved before for the calling thread's operation; only the first to ask gets it.
pub(crate) fn brought(engine: &Arc<Engine>) -> Option<Result<Option<Credit>, TxgError>> {
    let is_brought = MANNER.with(|manner| match &*manner.borrow() {
        Manner::Brings(admitted) => Arc::ptr_eq(&admitted.engine, engine),
        Manner::Waits | Manner::Hurries | Manner::Gave(_) => false,
    });
    if !is_brought {
        return None;
    }
    match replace(Manner::Waits) {
        Manner::Brings(admitted) => Some(admitted.outcome),
        Manner::Waits | Manner::Hurries | Manner::Gave(_) => None,
    }
}

/// The calling thread's operation may change something from now on.
pub(crate) fn changes_begin() {
    MANNER.with(|manner| {
        let mut manner = manner.borrow_mut();
        match &*manner {
            Manner::Hurries => *manner = Manner::Waits,
            Manner::Waits | Manner::Gave(_) | Manner::Brings(_) => {}
        }
    });
}
