//! Who answers requests: the service of a pool; in tests, a fake.

use std::io;

use sys::{Client, PassedDescriptor};

use crate::Failure;
use crate::message::{Caller, Request, Response};

/// Where the parts of an answer go.
pub type Sink<'a> = &'a mut dyn FnMut(Response) -> io::Result<()>;

/// What answers the requests to one pool: a daemon serves it, and a program may have it in its own
/// process.
pub trait Handler: Send + Sync {
    /// The pool's name and guid.
    fn identity(&self) -> (String, u64);
    /// Does what a request says, and hands on the parts of the answer: exactly one
    /// [`Response::Done`] or [`Response::Failed`] is the last.
    fn handle(&self, request: &Request, caller: &Caller, sink: Sink<'_>) -> io::Result<()>;
    /// As [`Handler::handle`], for a client that may go. What takes long looks whether it is there.
    fn handle_for(
        &self,
        request: &Request,
        caller: &Caller,
        client: Client,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        drop(client);
        self.handle(request, caller, sink)
    }
    /// As [`Handler::handle`], of a request that came with a descriptor for its data. Those that have no data leave it
    /// alone.
    fn handle_with(
        &self,
        request: &Request,
        caller: &Caller,
        data: PassedDescriptor,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        drop(data);
        self.handle(request, caller, sink)
    }
    /// True once there is nothing left to serve.
    fn finished(&self) -> bool;
    /// The process is asked to end: unmounts all, writes everything out, exports.
    ///
    /// # Errors
    /// What could not be written: the process ends all the same.
    fn shut_down(&self) -> Result<(), Failure>;
}
