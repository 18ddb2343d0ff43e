//! The socket server: one thread a connection, requests one after the other on each.

use super::runtime::{Place, prepared_directory};
use admin::{Caller, Failure, FailureKind, Handler, Request, Response, Sink, receive, send};
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use sys::{SignalDescriptor, TerminationSignal};

/// Connections at once; commands are short, and a monitor keeps one.
const CONNECTIONS_MAX: usize = 64;
/// As many of them may be other users', who must not keep the administrator out.
const FOREIGN_MAX: usize = 48;
/// How long another user may take to read an answer.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(30);

/// Why the server's main thread wakes.
enum Event {
    Signal(TerminationSignal),
    Finished,
}

struct Shared {
    handler: Arc<dyn Handler>,
    events: SyncSender<Event>,
    connections: AtomicUsize,
    stopping: AtomicBool,
    /// True when the daemon has given up its place.
    left: Mutex<bool>,
    leaving: Condvar,
}

/// Whether the place was given up: nothing is held beside it.
static LEFT_CLASS: LockClass = LockClass::new("daemon.left", rank::FRONT_END + 3);

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
pub struct Server {
    place: Place,
    listener: UnixListener,
    handler: Arc<dyn Handler>,
}

impl Server {
    /// Takes the place of the pool's daemon.
    ///
    /// # Errors
    /// Another daemon has it, or the runtime directory cannot be used.
    pub fn bind(handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        Self::bind_in(&prepared_directory()?, handler)
    }

    /// As [`Server::bind`], with the directory of sockets.
    pub(super) fn bind_in(directory: &Path, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let (place, listener) = Place::take(directory, handler.identity().1)?;
        Ok(Self {
            place,
            listener,
            handler,
        })
    }

    /// Where to log.
    pub(super) fn log(&self) -> &Path {
        self.place.log()
    }

    /// Serves until the handler has finished or a signal comes. `survives_hang_up`: there is no
    /// terminal that could hang up.
    ///
    /// # Errors
    /// When threads cannot be started, or a signal ended what could not be written out.
    pub fn run(self, signals: SignalDescriptor, survives_hang_up: bool) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(FailureKind::Service, error.to_string());
        let (events, wakes) = sync_channel(4);
        let shared = Arc::new(Shared {
            handler: Arc::clone(&self.handler),
            events: events.clone(),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            left: Mutex::new(&LEFT_CLASS, false),
            leaving: Condvar::new(),
        });
        let for_signals = thread::named("signals", sys::thread::ORDINARY);
        for_signals
            .spawn(move || forward_signals(&signals, &events))
            .map_err(failed)?;
        let for_accept = Arc::clone(&shared);
        let end = UnixStream::from(OwnedFd::from(self.listener.try_clone().map_err(failed)?));
        let Self {
            place,
            listener,
            handler,
        } = self;
        let accepting = thread::named("control", sys::thread::ORDINARY)
            .spawn(move || accept(&listener, &for_accept))
            .map_err(failed)?;
        let mut outcome = Ok(());
        while let Ok(event) = wakes.recv() {
            match event {
                Event::Signal(TerminationSignal::HangUp) if survives_hang_up => {}
                Event::Signal(_) => {
                    outcome = handler.shut_down();
                    break;
                }
                Event::Finished => break,
            }
        }
        shared.stopping.store(true, Ordering::SeqCst);
        drop(place);
        shared.set_left();
        // Ends the accepting thread's wait, also when somebody has removed the socket's name.
        end.shutdown(Shutdown::Both).map_err(failed)?;
        let _ended = accepting.join();
        outcome
    }
}

fn forward_signals(signals: &SignalDescriptor, events: &SyncSender<Event>) {
    while let Ok(signal) = signals.wait() {
        match events.try_send(Event::Signal(signal)) {
            // Enough of them are on their way.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

/// Whether it is another user's, and not root's.
fn is_foreign(stream: &UnixStream) -> bool {
    sys::peer_credentials(stream).is_ok_and(|peer| peer.uid != 0 && peer.uid != sys::user_id())
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
        let foreign = is_foreign(&stream);
        let max = if foreign {
            FOREIGN_MAX
        } else {
            CONNECTIONS_MAX
        };
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= max {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            let busy = Failure::new(FailureKind::Busy, "too many connections to the daemon");
            let _told = send(&mut stream, &Response::Failed(busy));
            continue;
        }
        if foreign && stream.set_write_timeout(Some(FOREIGN_PATIENCE)).is_err() {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let for_thread = Arc::clone(shared);
        let started = thread::named("control", sys::thread::ORDINARY).spawn(move || {
            converse(&for_thread, stream);
            for_thread.connections.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Requests and answers on one connection, until it ends or makes no sense any more.
fn converse(shared: &Shared, mut stream: UnixStream) {
    let Ok(peer) = sys::peer_credentials(&stream) else {
        return;
    };
    let caller = Caller {
        uid: peer.uid,
        gid: peer.gid,
        pid: peer.pid,
    };
    loop {
        let request: Request = match receive(&mut stream) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                let failure = Failure::new(FailureKind::Usage, error.to_string());
                let _told = send(&mut stream, &Response::Failed(failure));
                return;
            }
        };
        let mut answer =
            |response: Response| send(&mut stream, &response).map_err(io::Error::other);
        let answered = if let Request::Hello = request {
            hello(&*shared.handler, &mut answer)
        } else {
            shared.handler.handle(&request, &caller, &mut answer)
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
