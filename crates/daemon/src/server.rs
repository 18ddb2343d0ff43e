//! The socket server: one thread a connection, requests one after the other on each.

use super::runtime::{Place, prepared_directory};
use super::signals::{Event, Signals};
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
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::time::Duration;

/// Connections at once; commands are short, and a monitor keeps one.
const CONNECTIONS_MAX: usize = 64;
/// As many of them may be other users', who must not keep the administrator out.
const FOREIGN_MAX: usize = 48;
/// How long another user may take to read an answer.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(30);

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
pub(super) struct Server {
    place: Place,
    listener: UnixListener,
    handler: Arc<dyn Handler>,
}

impl Server {
    /// Takes the place of the pool's daemon.
    ///
    /// # Errors
    /// Another daemon has it, or the runtime directory cannot be used.
    pub(super) fn bind(handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        Self::bind_in(&prepared_directory()?, handler)
    }

    /// As [`Server::bind`], with the directory of sockets.
    pub(super) fn bind_in(directory: &Path, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let (pool, guid) = handler.identity();
        let (place, listener) = Place::take(directory, &pool, guid)?;
        Ok(Self {
            place,
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
            listener,
            handler,
        } = self;
        let (events, wakes) = sync_channel(4);
        signals.deliver_to(events.clone());
        let shared = Arc::new(Shared {
            handler: Arc::clone(&handler),
            events,
            connections: AtomicUsize::new(0),
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
            handler,
            shared,
            wakes,
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
    handler: Arc<dyn Handler>,
    shared: Arc<Shared>,
    wakes: Receiver<Event>,
    accepting: thread::JoinHandle<()>,
    end: UnixStream,
}

impl Serving {
    /// Returns when the handler has finished or a signal came.
    ///
    /// # Errors
    /// When a signal ended what could not be written out.
    pub(super) fn wait(self) -> Result<(), Failure> {
        let outcome = match self.wakes.recv() {
            Ok(Event::Signal) => self.handler.shut_down(),
            // There is always a sender: our own.
            Ok(Event::Finished) | Err(RecvError) => Ok(()),
        };
        self.leave()?;
        outcome
    }

    /// Ends though nobody asked: what could not be done after the pool was opened is to be told.
    pub(super) fn give_up(self, failure: Failure) -> Failure {
        // The first failure is the one to be told.
        let _ended = self.handler.shut_down();
        let _left = self.leave();
        failure
    }

    fn leave(self) -> Result<(), Failure> {
        self.shared.stopping.store(true, Ordering::SeqCst);
        drop(self.place);
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
