//! The commands' side of the socket: which daemons run, and how to ask them.
//!
//! A daemon listens on `GUID.sock` (hexadecimal, for pool names do not fit a socket's path) in the
//! runtime directory. Sockets nobody listens on are passed over. Beside it, `GUID.note` tells whoever can reach the
//! socket which process serves which pool, for when that process does not answer.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::message::{Request, Response};
use crate::queries::{Heard, Listing, Single, answer_of, pages_of};
use crate::wire::{WireError, receive, send};
use crate::{Failure, FailureKind};

mod places;
mod running;
#[cfg(test)]
mod tests;

pub use places::{
    NOTE_EXTENSION, SYSTEM_DIRECTORY, home_directory, runtime_directories, sees_system,
    state_directory,
};
pub use running::{Running, Silent, connect, running, running_beside, running_own};

/// How long a daemon may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a daemon may take to give up its place, when its pool is written out and closed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the daemon of one pool.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    pool: String,
    guid: u64,
    pid: u32,
}

/// A daemon that was asked who it is.
#[derive(Debug)]
struct Knock {
    socket: PathBuf,
    stream: UnixStream,
}

impl Knock {
    /// Asks at a socket, without waiting; nothing if nobody listens.
    fn at(socket: &Path) -> Result<Option<Self>, Failure> {
        let address = SocketAddrUnix::new(socket).map_err(|error| broken(socket, &error))?;
        // One that has stopped taking connections must not hold us up.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|error| broken(socket, &error))?;
        match rustix::net::connect(&stream, &address) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(Errno::AGAIN) => return Err(unanswered(socket)),
            Err(error) => return Err(broken(socket, &error)),
        }
        check_peer(socket, &stream)?;
        let mut stream = UnixStream::from(stream);
        let blocking = stream.set_nonblocking(false);
        blocking.map_err(|error| broken(socket, &error))?;
        match send(&mut stream, &Request::Hello) {
            Ok(()) => Ok(Some(Self {
                socket: socket.to_owned(),
                stream,
            })),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(broken(socket, &error)),
        }
    }

    fn unanswered(&self) -> Failure {
        unanswered(&self.socket)
    }

    /// The answer; nothing if the daemon was just ending.
    fn answer(self) -> Result<Option<Connection>, Failure> {
        let Self { socket, stream } = self;
        let failed = |error: io::Error| broken(&socket, &error);
        stream
            .set_read_timeout(Some(HELLO_TIMEOUT))
            .map_err(failed)?;
        let mut found = Connection {
            stream,
            pool: String::new(),
            guid: 0,
            pid: 0,
        };
        let mut hello = None;
        let heard = found.hear(&mut |part| {
            hello = Some(part);
            Ok(())
        });
        match heard {
            Ok(()) => {}
            // It was ending when we connected: whoever still waits for an answer then gets none.
            Err(Broken::Wire(error)) if has_ended(&error) => return Ok(None),
            Err(Broken::Wire(error)) if is_late(&error) => return Err(unanswered(&socket)),
            Err(error) => return Err(broken(&socket, &error.failure())),
        }
        let Some(Response::Hello {
            pool, guid, pid, ..
        }) = hello
        else {
            return Err(broken(&socket, &"it does not say which pool it serves"));
        };
        found.stream.set_read_timeout(None).map_err(failed)?;
        Ok(Some(Connection {
            pool,
            guid,
            pid,
            ..found
        }))
    }
}

/// Refuses a listener that is neither ours, nor the administrator's, nor of whoever owns the directory.
fn check_peer(socket: &Path, stream: impl std::os::fd::AsFd) -> Result<(), Failure> {
    let peer = sys::peer_credentials(stream).map_err(|error| broken(socket, &error))?;
    let directory = socket.parent().and_then(|path| path.metadata().ok());
    let owner = directory.map(|directory| directory.uid());
    if peer.uid == 0 || peer.uid == sys::user_id() || Some(peer.uid) == owner {
        return Ok(());
    }
    let text = format!("user {} listens there, whom nobody trusts", peer.uid);
    Err(broken(socket, &text))
}

fn broken(socket: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("cannot reach {}: {error}", socket.display());
    Failure::new(FailureKind::Service, text)
}

/// A daemon that is there and says nothing.
fn unanswered(socket: &Path) -> Failure {
    let noted = running::noted(socket);
    let whose = match noted.pool {
        Some(pool) => format!("the daemon of pool '{pool}'"),
        None => format!("the daemon at {}", socket.display()),
    };
    let failed = |who: String| Failure::new(FailureKind::Service, who);
    match noted.pid {
        Some(pid) => failed(format!("{whose} (pid {pid}) does not answer")).advise(format!(
            "If it was stopped, 'kill -CONT {pid}' lets it go on; 'kill -KILL {pid}' ends it as a crash would."
        )),
        None => failed(format!("{whose} does not answer")),
    }
}

impl Connection {
    /// Connects to the daemon of a pool that this user serves; nothing if there is none.
    ///
    /// # Errors
    /// Somebody listens there who does not answer as a daemon does.
    pub fn to(guid: u64) -> Result<Option<Self>, Failure> {
        for directory in runtime_directories() {
            let found = Self::open(&places::socket_in(&directory, guid))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Connects to a socket and learns whose it is; nothing if nobody listens.
    ///
    /// # Errors
    /// Somebody listens there who does not answer as a daemon does.
    pub fn open(socket: &Path) -> Result<Option<Self>, Failure> {
        match Knock::at(socket)? {
            Some(knock) => knock.answer(),
            None => Ok(None),
        }
    }

    /// The pool's name.
    #[must_use]
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The pool's guid.
    #[must_use]
    pub const fn guid(&self) -> u64 {
        self.guid
    }

    /// The daemon's process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks, hands every part of the answer to `part`, and returns how it ended. A failure of
    /// `part` ends the conversation: the connection is then of no more use.
    pub fn call(
        &mut self,
        request: &Request,
        part: &mut dyn FnMut(Response) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.converse(request, part).map_err(Broken::failure)
    }

    /// Asks; the answer.
    ///
    /// # Errors
    /// It was refused, or the connection failed.
    pub fn ask<Q: Single>(&mut self, query: Q) -> Result<Q::Answer, Failure> {
        answer_of(query, |request, part| self.call(request, part))
    }

    /// Asks for a list; its pages and warnings as they come. A failure of `hear` ends the conversation.
    ///
    /// # Errors
    /// It was refused, the connection failed, or `hear` did.
    pub fn ask_pages<Q: Listing>(
        &mut self,
        query: Q,
        hear: &mut dyn FnMut(Heard<Q::Row>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        pages_of(query, |request, part| self.call(request, part), hear)
    }

    /// Asks for a list; all of it.
    ///
    /// # Errors
    /// It was refused, the connection failed, or something of it could not be listed.
    pub fn ask_all<Q: Listing>(&mut self, query: Q) -> Result<Vec<Q::Row>, Failure> {
        let mut found = Vec::new();
        self.ask_pages(query, &mut |heard| match heard {
            Heard::Page(page) => {
                found.extend(page);
                Ok(())
            }
            Heard::Warning(failure) => Err(failure),
        })?;
        Ok(found)
    }

    /// As [`Connection::call`], with a descriptor through which the daemon reads or writes the data of the request by
    /// itself, until the answer is there. The daemon ends that when this connection ends.
    pub fn call_with(
        &mut self,
        request: &Request,
        data: BorrowedFd<'_>,
        part: &mut dyn FnMut(Response) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut beside = Beside {
            stream: &mut self.stream,
            descriptor: Some(data),
        };
        let sent = send(&mut beside, request);
        sent.map_err(|error| Broken::Wire(error).failure())?;
        self.hear(part).map_err(Broken::failure)
    }

    /// Waits until the daemon has given up its place, after it was told to: from then on nobody
    /// finds it, and the pool can be imported again.
    pub fn wait_for_end(mut self) {
        let patience = self.stream.set_read_timeout(Some(END_TIMEOUT));
        // However the conversation ends, it is over.
        let _ended = patience.map(|()| receive::<Response>(&mut self.stream));
    }

    fn converse(
        &mut self,
        request: &Request,
        part: &mut dyn FnMut(Response) -> Result<(), Failure>,
    ) -> Result<(), Broken> {
        send(&mut self.stream, request)?;
        self.hear(part)
    }

    /// Hears the parts of an answer until its end.
    fn hear(
        &mut self,
        part: &mut dyn FnMut(Response) -> Result<(), Failure>,
    ) -> Result<(), Broken> {
        loop {
            match receive::<Response>(&mut self.stream)? {
                Some(Response::Done) => return Ok(()),
                Some(Response::Failed(failure)) => return Err(Broken::Told(failure)),
                Some(response) => part(response).map_err(Broken::Told)?,
                None => {
                    let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(Broken::Wire(ended.into()));
                }
            }
        }
    }
}

/// Sends a descriptor beside the first bytes.
struct Beside<'a> {
    stream: &'a mut UnixStream,
    descriptor: Option<BorrowedFd<'a>>,
}

impl Write for Beside<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.descriptor.take() {
            Some(descriptor) => sys::send_descriptor(&*self.stream, bytes, descriptor),
            None => self.stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Why a conversation did not end well.
enum Broken {
    /// In the words of the daemon, or of whoever took its answer.
    Told(Failure),
    /// There is nobody on the other side, or nobody who speaks as we do.
    Wire(WireError),
}

impl From<WireError> for Broken {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl Broken {
    fn failure(self) -> Failure {
        match self {
            Self::Told(failure) => failure,
            Self::Wire(error) => Failure::new(
                FailureKind::Service,
                format!("the daemon broke off: {error}"),
            ),
        }
    }
}

fn has_ended(error: &WireError) -> bool {
    let WireError::Stream(error) = error else {
        return false;
    };
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}

fn is_late(error: &WireError) -> bool {
    let WireError::Stream(error) = error else {
        return false;
    };
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
