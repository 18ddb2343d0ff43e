//! One caller of a commit: a thread parked on what it waits for and nothing else, or somebody who
//! is told when it ends.

use std::sync::Arc;

use base::ObjectId;
use base::clock::monotonic_ns;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread_pool::Job;

use crate::log::Log;

static WAITER: LockClass = LockClass::new("intent.waiter", rank::INTENT + 45);

/// Who is told that a commit has ended, instead of a thread that waits for it.
pub trait Completion: Send + Sync {
    /// `durable`: the log has made everything durable. If not, it could not, and a thread is to
    /// call [`Log::commit`], which waits for the txg then. Must not wait for anything: others are
    /// told after it.
    fn committed(&self, durable: bool);

    /// Whether the thread that asks may see a batch to the medium itself, which spares the waking of
    /// another. Asked when it would be the only one.
    fn may_lead(&self) -> bool {
        false
    }
}

/// What a commit shall make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// One object, and all names.
    Object(ObjectId),
    /// All of it.
    Everything,
}

/// What a waiting caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// To lead a batch, then wait on.
    Lead,
    /// Done; whether it is durable.
    Done(bool),
}

/// A caller without a thread.
pub(crate) struct AsyncCaller {
    log: Arc<Log>,
    completion: Arc<dyn Completion>,
}

impl AsyncCaller {
    pub(crate) fn new(log: &Arc<Log>, completion: Arc<dyn Completion>) -> Self {
        Self {
            log: Arc::clone(log),
            completion,
        }
    }

    /// To lead in its place.
    pub(crate) fn lead(&self) -> Job {
        let log = Arc::clone(&self.log);
        Box::new(move || log.lead())
    }
}

enum Caller {
    Parked {
        notices: Mutex<(bool, Option<bool>)>,
        told: Condvar,
    },
    AsyncCaller(AsyncCaller),
}

/// See the module.
pub(crate) struct Waiter {
    pub(crate) want: Want,
    pub(crate) arrived_ns: u64,
    caller: Caller,
}

impl Waiter {
    pub(crate) fn parked(want: Want) -> Arc<Self> {
        Self::new(
            want,
            Caller::Parked {
                notices: Mutex::new(&WAITER, (false, None)),
                told: Condvar::new(),
            },
        )
    }

    pub(crate) fn asynchronous(want: Want, async_caller: AsyncCaller) -> Arc<Self> {
        Self::new(want, Caller::AsyncCaller(async_caller))
    }

    fn new(want: Want, caller: Caller) -> Arc<Self> {
        Arc::new(Self {
            want,
            arrived_ns: monotonic_ns(),
            caller,
        })
    }

    pub(crate) fn async_caller(&self) -> Option<&AsyncCaller> {
        match &self.caller {
            Caller::Parked { .. } => None,
            Caller::AsyncCaller(async_caller) => Some(async_caller),
        }
    }

    pub(crate) fn tell(&self, notice: Notice) {
        match (&self.caller, notice) {
            (Caller::Parked { notices, told }, notice) => {
                let mut notices = notices.lock();
                match notice {
                    Notice::Lead => notices.0 = true,
                    Notice::Done(durable) => notices.1 = Some(durable),
                }
                drop(notices);
                told.notify_one();
            }
            (Caller::AsyncCaller(async_caller), Notice::Done(durable)) => {
                async_caller.log.meters.ended(self.arrived_ns);
                async_caller.completion.committed(durable);
            }
            // It is led for by the thread_pool: see `Log::appoint`.
            (Caller::AsyncCaller(_), Notice::Lead) => {}
        }
    }

    /// The next notice; that one leads comes first, for others wait for the place.
    pub(crate) fn wait(&self) -> Notice {
        let Caller::Parked { notices, told } = &self.caller else {
            return Notice::Done(false);
        };
        let mut notices = notices.lock();
        loop {
            if std::mem::take(&mut notices.0) {
                return Notice::Lead;
            }
            if let Some(durable) = notices.1 {
                return Notice::Done(durable);
            }
            told.wait(&mut notices);
        }
    }
}
