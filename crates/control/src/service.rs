//! Executes requests on one pool. The daemon owns one and calls it from any thread.
//!
//! Invariant: every request ends in exactly one `Done` or `Failed`; a change that fails has changed
//! nothing beyond what its text says. Front ends never reach below this.

mod history;
mod mountpoint;
mod pool_facts;
mod snapshots;
mod subject;
mod walk;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::{Caller, OpenRequest, Request, Response};
use crate::{Failure, FailureKind, Mounts};

/// Where the parts of an answer go.
pub type Sink<'a> = &'a mut dyn FnMut(Response) -> io::Result<()>;

/// A pool that was just created or imported, before anything is mounted.
#[derive(Debug)]
pub struct Opened {}

/// The admin service of one pool.
pub struct Service {
    mounts: Arc<dyn Mounts>,
    finished: AtomicBool,
}

impl Service {
    /// Creates or imports the pool. Called in the daemon, once.
    pub fn open(_request: &OpenRequest) -> Result<Opened, Failure> {
        Err(Failure::new(
            FailureKind::Unsupported,
            "the engine is not there yet",
        ))
    }

    /// Takes charge of the pool.
    #[must_use]
    pub fn new(_opened: Opened, mounts: Arc<dyn Mounts>) -> Arc<Self> {
        Arc::new(Self {
            mounts,
            finished: AtomicBool::new(false),
        })
    }

    /// True once the pool was exported or destroyed: the daemon answers and ends.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Does what the request says; the answer goes to `sink`, ended by `Done` or `Failed`. An error
    /// means that the sink failed: the asker is gone.
    pub fn handle(&self, request: &Request, _caller: &Caller, sink: Sink<'_>) -> io::Result<()> {
        match request {
            Request::Mounted => {
                sink(Response::Mounted(self.mounts.mounted()))?;
                sink(Response::Done)
            }
            _ => sink(Response::Failed(Failure::new(
                FailureKind::Unsupported,
                "the engine is not there yet",
            ))),
        }
    }
}
