//! The socket server: one thread a connection, requests one after the other on each.

use super::names::NameClaim;
use super::runtime::Place;
use super::signals::{Event, Signals};
use admin::{
    Caller, Failure, FailureKind, Handler, Request, Response, Sink, WireError, receive,
    receive_within, send,
};
use base::clock::real_now;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use sys::{Client, PassedDescriptor, PeerCredentials};

/// Connections at once; commands are short, and a monitor keeps one.
const CONNECTIONS_MAX: usize = 64;
/// As many of them may be other users', who must not keep the administrator out.
const FOREIGN_MAX: usize = 48;
/// As many may be one other user's, who must not keep the others out.
const FOREIGN_MAX_EACH: usize = 16;
/// Another user's request is no longer: nobody names more datasets than that.
const FOREIGN_LENGTH_MAX: usize = 64 << 10;
/// How long another user's request may take from its first byte to its last.
const FOREIGN_REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// How long another user may take to read an answer.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(30);

struct Shared {
    handler: Arc<dyn Handler>,
    events: SyncSender<Event>,
    guests: Guests,
    stopping: AtomicBool,
    /// True when the daemon has given up its place.
    left: Mutex<bool>,
    leaving: Condvar,
}

/// Whether the place was given up: nothing is held beside it.
static LEFT_CLASS: LockClass = LockClass::new("daemon.left", rank::FRONT_END + 3);
/// Who is connected: nothing is held beside it.
static CONNECTIONS_CLASS: LockClass = LockClass::new("daemon.connections", rank::FRONT_END + 3);

/// Connections at once, by user.
pub(super) struct Guests(Mutex<BTreeMap<u32, usize>>);

impl Guests {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&CONNECTIONS_CLASS, BTreeMap::new()))
    }

    /// Counts a user's connection; false when there are too many.
    pub(super) fn let_in(&self, uid: u32) -> bool {
        let mut connections = self.0.lock();
        let all: usize = connections.values().sum();
        let own = connections.get(&uid).copied().unwrap_or(0);
        let is_full = if is_foreign(uid) {
            all >= FOREIGN_MAX || own >= FOREIGN_MAX_EACH
        } else {
            all >= CONNECTIONS_MAX
        };
        if !is_full {
            connections.insert(uid, own + 1);
        }
        !is_full
    }

    pub(super) fn let_out(&self, uid: u32) {
        let mut connections = self.0.lock();
        if let Some(count) = connections.get_mut(&uid) {
            *count -= 1;
        }
        connections.retain(|_, count| *count > 0);
    }
}

impl Shared {
    fn set_left(&self) {
        *self.left.lock() = true;
        self.leaving.notify_all();
    }

    /// Returns when no other command finds this daemon any more.
    fn wait_left(&self) {
        let mut left = self.left.lock();
        while !*left {
            self.leaving.wait(&mut left);
        }
    }
}

/// A bound socket, ready to serve.
pub(super) struct Server {
    place: Place,
    /// The pool's name, where it is known before there is a pool.
    name: Option<NameClaim>,
    listener: UnixListener,
    handler: Arc<dyn Handler>,
}

impl Server {
    /// Takes the place of the pool's daemon, and keeps the pool's name as long.
    ///
    /// # Errors
    /// Another daemon has it, or the runtime directory cannot be used.
    pub(super) fn bind(name: NameClaim, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let server = Self::bind_in(name.directory(), handler)?;
        let name = Some(name);
        Ok(Self { name, ..server })
    }

    /// As [`Server::bind`], with the directory of sockets.
    pub(super) fn bind_in(directory: &Path, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let (pool, guid) = handler.identity();
        let (place, listener) = Place::take(directory, &pool, guid)?;
        Ok(Self {
            place,
            name: None,
            listener,
            handler,
        })
    }

    /// Answers from now on, on threads of its own.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub(super) fn start(self, signals: &Signals) -> Result<Serving, Failure> {
        let Self {
            place,
            name,
            listener,
            handler,
        } = self;
        let (events, wakes) = sync_channel(4);
        signals.deliver_to(events.clone());
        let shared = Arc::new(Shared {
            handler: Arc::clone(&handler),
            events,
            guests: Guests::new(),
            stopping: AtomicBool::new(false),
            left: Mutex::new(&LEFT_CLASS, false),
            leaving: Condvar::new(),
        });
        let for_accept = Arc::clone(&shared);
        let end = UnixStream::from(OwnedFd::from(listener.try_clone().map_err(failed)?));
        let accepting = thread::named("control", sys::thread::ORDINARY)
            .spawn(move || accept(&listener, &for_accept))
            .map_err(failed)?;
        Ok(Serving {
            place,
            name,
            handler,
            shared,
            wakes,
            early: None,
            accepting,
            end,
        })
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(FailureKind::Service, error.to_string())
}

/// A server that answers.
pub(super) struct Serving {
    place: Place,
    name: Option<NameClaim>,
    handler: Arc<dyn Handler>,
    shared: Arc<Shared>,
    wakes: Receiver<Event>,
    /// What woke it before it waited.
    early: Option<Event>,
    accepting: thread::JoinHandle<()>,
    end: UnixStream,
}

impl Serving {
    /// Returns when the handler has finished or a signal came.
    ///
    /// # Errors
    /// When a signal ended what could not be written out.
    pub(super) fn wait(self) -> Result<(), Failure> {
        self.wait_telling(&|| {})
    }

    /// Whether a signal has come that ends it.
    pub(super) fn is_told_to_end(&mut self) -> bool {
        if self.early.is_none() {
            self.early = self.wakes.try_recv().ok();
        }
        matches!(self.early, Some(Event::Signal))
    }

    /// As [`Serving::wait`]; `stopping` is called when a signal came, before anything ends.
    pub(super) fn wait_telling(mut self, stopping: &dyn Fn()) -> Result<(), Failure> {
        let early = self.early.take();
        let outcome = match early.map_or_else(|| self.wakes.recv(), Ok) {
            Ok(Event::Signal) => {
                stopping();
                self.handler.shut_down()
            }
            // There is always a sender: our own.
            Ok(Event::Finished) | Err(RecvError) => Ok(()),
        };
        self.leave()?;
        outcome
    }

    /// Ends though nobody asked: what could not be done after the pool was opened is to be told. `take_back` lets the
    /// pool go.
    pub(super) fn give_up(self, failure: Failure, take_back: &dyn Fn()) -> Failure {
        take_back();
        // The first failure is the one to be told.
        let _left = self.leave();
        failure
    }

    fn leave(self) -> Result<(), Failure> {
        self.shared.stopping.store(true, Ordering::SeqCst);
        drop(self.place);
        // Not before the socket is gone, where whoever gets the name looks for pools that have it.
        drop(self.name);
        self.shared.set_left();
        // Ends the accepting thread's wait, also when somebody has removed the socket's name.
        self.end.shutdown(Shutdown::Both).map_err(failed)?;
        let _ended = self.accepting.join();
        Ok(())
    }

    /// Where to log.
    pub(super) fn log(&self) -> &Path {
        self.place.log()
    }
}

/// Whether a user is another one, and not root.
fn is_foreign(uid: u32) -> bool {
    uid != 0 && uid != sys::user_id()
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        // Out of descriptors, or the peer is gone already: the next one may do better.
        let Ok(mut stream) = stream else {
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        };
        let Ok(peer) = sys::peer_credentials(&stream) else {
            continue;
        };
        if !shared.guests.let_in(peer.uid) {
            let busy = Failure::new(FailureKind::Busy, "too many connections to the daemon");
            // Nobody is waited for here.
            let _told = stream
                .set_nonblocking(true)
                .map(|()| send(&mut stream, &Response::Failed(busy)));
            continue;
        }
        let patience = is_foreign(peer.uid).then_some(FOREIGN_PATIENCE);
        let for_thread = Arc::clone(shared);
        let started = thread::named("control", sys::thread::ORDINARY).spawn(move || {
            if stream.set_write_timeout(patience).is_ok() {
                converse(&for_thread, peer, stream);
            }
            for_thread.guests.let_out(peer.uid);
        });
        if started.is_err() {
            shared.guests.let_out(peer.uid);
        }
    }
}

/// Reads a request, and keeps the descriptor that comes with it.
struct Carrying<'a> {
    stream: &'a UnixStream,
    passed: &'a mut Option<OwnedFd>,
}

impl Read for Carrying<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, descriptor) = sys::receive_descriptor(self.stream, buffer)?;
        if let Some(descriptor) = descriptor {
            // Of several, the last.
            *self.passed = Some(descriptor);
        }
        Ok(count)
    }
}

/// Another user's request, which has to come in time once it has begun.
struct InTime<'a> {
    stream: Carrying<'a>,
    patience: Duration,
    deadline: Option<Instant>,
}

impl Read for InTime<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(deadline) = self.deadline else {
            let count = self.stream.read(buffer)?;
            self.deadline = Some(real_now() + self.patience);
            return Ok(count);
        };
        let left = deadline.saturating_duration_since(real_now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.stream.set_read_timeout(Some(left))?;
        let count = self.stream.read(buffer);
        self.stream.stream.set_read_timeout(None)?;
        count
    }
}

/// The next request, and the descriptor that came with it.
fn next_request(
    stream: &UnixStream,
    passed: &mut Option<OwnedFd>,
    uid: u32,
) -> Result<Option<Request>, WireError> {
    if is_foreign(uid) {
        strangers_request(stream, passed, FOREIGN_REQUEST_PATIENCE)
    } else {
        receive(&mut Carrying { stream, passed })
    }
}

/// The next request, which is short and comes without dawdling.
pub(super) fn strangers_request(
    stream: &UnixStream,
    passed: &mut Option<OwnedFd>,
    patience: Duration,
) -> Result<Option<Request>, WireError> {
    let mut in_time = InTime {
        stream: Carrying { stream, passed },
        patience,
        deadline: None,
    };
    receive_within(&mut in_time, FOREIGN_LENGTH_MAX)
}

/// Requests and answers on one connection, until it ends or makes no sense any more.
fn converse(shared: &Shared, peer: PeerCredentials, mut stream: UnixStream) {
    let caller = Caller {
        uid: peer.uid,
        gid: peer.gid,
        pid: peer.pid,
    };
    loop {
        let mut passed = None;
        let request = match next_request(&stream, &mut passed, peer.uid) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                let failure = Failure::new(FailureKind::Usage, error.to_string());
                let _told = send(&mut stream, &Response::Failed(failure));
                return;
            }
        };
        let came = match came_with(&stream, &request, passed) {
            Ok(came) => came,
            Err(error) => {
                let _told = send(&mut stream, &Response::Failed(failed(error)));
                return;
            }
        };
        let mut answer =
            |response: Response| send(&mut stream, &response).map_err(io::Error::other);
        let handler = &shared.handler;
        let answered = match (&request, came) {
            (Request::Hello, _) => hello(&**handler, &mut answer),
            (request, Came::With(data)) => handler.handle_with(request, &caller, data, &mut answer),
            (request, Came::For(client)) => {
                handler.handle_for(request, &caller, client, &mut answer)
            }
            (request, Came::Alone) => handler.handle(request, &caller, &mut answer),
        };
        if shared.handler.finished() {
            // A full channel has an event in it that wakes as well.
            let _woken = shared.events.try_send(Event::Finished);
            // The end of the connection tells a command that waits for it that the place is free.
            shared.wait_left();
            return;
        }
        if answered.is_err() {
            return;
        }
    }
}

/// What a request needs besides its words.
enum Came {
    /// Nothing: it takes no descriptor, and is answered where there is none to be had.
    Alone,
    /// To know whether its client is there: a change may take long.
    For(Client),
    /// Its descriptor for data.
    With(PassedDescriptor),
}

fn came_with(stream: &UnixStream, request: &Request, passed: Option<OwnedFd>) -> io::Result<Came> {
    let connection = || stream.try_clone().map(OwnedFd::from);
    match passed {
        Some(passed) => PassedDescriptor::new(passed, connection()?).map(Came::With),
        None if matches!(request, Request::Change { .. }) => {
            Ok(Came::For(Client::new(connection()?)))
        }
        None => Ok(Came::Alone),
    }
}

pub(super) fn hello(handler: &dyn Handler, answer: Sink<'_>) -> io::Result<()> {
    let (pool, guid) = handler.identity();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    answer(Response::Hello {
        pool,
        guid,
        pid: std::process::id(),
        version,
    })?;
    answer(Response::Done)
}
