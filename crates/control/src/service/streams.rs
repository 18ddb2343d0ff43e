//! Requests whose data goes through a descriptor of the command's: `zfs send`, `zfs receive`, and clients of NBD.
//!
//! The data is read or written on the thread that answers the command. While any of it is under way, or another change
//! that goes in steps, the pool cannot be exported; a forced export ends it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use admin::queries::SizesOfSend;
use admin::{Caller, Failure, FailureKind, Response, SendProgress, Sink, StreamRequest};
use base::lock::{Condvar, LockClass, Mutex, MutexGuard, rank};
use dsl::Actor;
use sys::PassedDescriptor;

use super::Service;
use super::answers::whole;
use super::reporter::Reporter;
use progress::Sending;

mod package;
mod progress;
mod receive;
mod sending;
mod serving;
#[cfg(test)]
mod tests;

/// Held with nothing beside it.
static RUNNING: LockClass = LockClass::new("control.streams", rank::FRONT_END + 41);

/// How often it is looked whether it is the turn of something that waits no longer than it is wanted.
const TURN_PAUSE: Duration = Duration::from_millis(2);

/// What is sent and received now, and other changes that go in steps.
pub(super) struct Streams {
    state: Mutex<State>,
    ended: Condvar,
    sending: Sending,
}

#[derive(Default)]
struct State {
    /// What each is, and what to set for it to end.
    running: Vec<(&'static str, Arc<AtomicBool>)>,
    /// None may begin: the pool is about to be closed.
    is_closed: bool,
}

/// One of them, until it is dropped.
pub(super) struct Running<'a> {
    streams: &'a Streams,
    stop: Arc<AtomicBool>,
}

/// While it lives, none begins and none is under way.
pub(super) struct Closed<'a> {
    streams: &'a Streams,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(&RUNNING, State::default()),
            ended: Condvar::new(),
            sending: Sending::new(),
        }
    }

    /// Begins one, which ends soon once `stop` is set.
    ///
    /// # Errors
    /// The pool is about to be closed.
    pub(super) fn begin(
        &self,
        what: &'static str,
        stop: Arc<AtomicBool>,
    ) -> Result<Running<'_>, Failure> {
        let mut state = self.state.lock();
        if state.is_closed {
            let text = "the pool is about to be closed";
            return Err(Failure::new(FailureKind::Busy, text));
        }
        state.running.push((what, Arc::clone(&stop)));
        Ok(Running {
            streams: self,
            stop,
        })
    }

    /// How far a send is, by the number that its request gave.
    pub(super) fn progress(&self, number: u64) -> Option<SendProgress> {
        self.sending.progress(number)
    }

    /// Lets none begin any more. With `force` those under way are ended.
    ///
    /// # Errors
    /// One is under way, or somebody else is closing the pool.
    pub(super) fn close(&self, force: bool) -> Result<Closed<'_>, Failure> {
        let mut state = self.state.lock();
        let under_way = state.running.first().map(|(what, _)| *what);
        if state.is_closed || (!force && under_way.is_some()) {
            let text = under_way.unwrap_or("the pool is about to be closed");
            return Err(Failure::new(FailureKind::Busy, text));
        }
        state.is_closed = true;
        for (_, stop) in &state.running {
            stop.store(true, Ordering::Release);
        }
        while !state.running.is_empty() {
            self.ended.wait(&mut state);
        }
        Ok(Closed { streams: self })
    }
}

impl Closed<'_> {
    /// The pool is gone: none begins ever.
    pub(super) fn for_good(self) {
        std::mem::forget(self);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.streams.state.lock().is_closed = false;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.streams.state.lock();
        let stop = &self.stop;
        state.running.retain(|(_, one)| !Arc::ptr_eq(one, stop));
        self.streams.ended.notify_all();
    }
}

impl Service {
    /// Waits for the turn to change the pool on somebody's behalf, as long as `wanted` says that there is anything to
    /// do.
    pub(super) fn turn_while<E>(
        &self,
        actor: &Actor,
        wanted: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<MutexGuard<'_, ()>, E> {
        loop {
            wanted()?;
            if let Some(turn) = self.changes.try_lock() {
                *self.acting.lock() = actor.clone();
                return Ok(turn);
            }
            std::thread::sleep(TURN_PAUSE);
        }
    }

    /// Answers a request whose data goes through a descriptor.
    pub(super) fn stream(
        &self,
        request: &StreamRequest,
        caller: &Caller,
        data: Option<PassedDescriptor>,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        match (request, data) {
            (StreamRequest::Send(request), None) => {
                let asked = SizesOfSend(request.clone());
                whole(&asked, self.sizes(request, caller), sink)
            }
            (request, data) => {
                let mut reporter = Reporter::new(&mut *sink);
                match self.stream_data(request, caller, data, &mut reporter) {
                    Ok(()) => sink(Response::Done),
                    Err(failure) => sink(Response::Failed(failure)),
                }
            }
        }
    }

    fn stream_data(
        &self,
        request: &StreamRequest,
        caller: &Caller,
        data: Option<PassedDescriptor>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        let data = data.ok_or_else(|| {
            let text = "the request came without the descriptor for its data";
            Failure::new(FailureKind::Usage, text)
        })?;
        let what = "a stream is sent or received";
        let _running = self.streams.begin(what, data.stop())?;
        match request {
            StreamRequest::Send(request) => self.send(request, caller, data),
            StreamRequest::Receive(request) => self.receive(request, caller, data, reporter),
            StreamRequest::Serve(request) => self.serve_volumes(request, caller, data),
        }
    }
}
