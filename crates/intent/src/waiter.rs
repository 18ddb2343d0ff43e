//! One caller of a commit, parked on what it waits for and nothing else.

use std::sync::Arc;

use base::ObjectId;
use base::lock::{Condvar, LockClass, Mutex, rank};

static WAITER: LockClass = LockClass::new("intent.waiter", rank::INTENT + 45);

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

/// See the module.
pub(crate) struct Waiter {
    pub(crate) want: Want,
    notices: Mutex<(bool, Option<bool>)>,
    told: Condvar,
}

impl Waiter {
    pub(crate) fn new(want: Want) -> Arc<Self> {
        Arc::new(Self {
            want,
            notices: Mutex::new(&WAITER, (false, None)),
            told: Condvar::new(),
        })
    }

    pub(crate) fn tell(&self, notice: Notice) {
        let mut notices = self.notices.lock();
        match notice {
            Notice::Lead => notices.0 = true,
            Notice::Done(durable) => notices.1 = Some(durable),
        }
        drop(notices);
        self.told.notify_one();
    }

    /// The next notice; that one leads comes first, for others wait for the place.
    pub(crate) fn wait(&self) -> Notice {
        let mut notices = self.notices.lock();
        loop {
            if std::mem::take(&mut notices.0) {
                return Notice::Lead;
            }
            if let Some(durable) = notices.1 {
                return Notice::Done(durable);
            }
            self.told.wait(&mut notices);
        }
    }
}
