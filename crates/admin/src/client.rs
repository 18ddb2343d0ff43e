//! The commands' side of the socket: which daemons run, and how to ask them.
//!
//! A daemon listens on `GUID.sock` (hexadecimal, for pool names do not fit a socket's path) in the
//! runtime directory. Sockets nobody listens on are passed over.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use crate::message::{Request, Response};
use crate::wire::{WireError, receive, send};
use crate::{Failure, FailureKind};

#[cfg(test)]
mod tests;

/// How long a daemon may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a daemon may take to give up its place, when its pool is written out and closed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the administrator's daemons have their sockets.
pub const SYSTEM_DIRECTORY: &str = "/run/millpond";

/// Where daemons have their sockets: `$MILLPOND_RUN`, or a place of the user's own.
#[must_use]
pub fn runtime_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("MILLPOND_RUN") {
        return directory.into();
    }
    let uid = geteuid();
    if uid.is_root() {
        return SYSTEM_DIRECTORY.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => Path::new(&directory).join("millpond"),
        None => format!("/tmp/millpond-{}", uid.as_raw()).into(),
    }
}

/// The socket of a pool's daemon.
#[must_use]
pub fn socket_path(guid: u64) -> PathBuf {
    runtime_directory().join(format!("{guid:016x}.sock"))
}

/// A connection to the daemon of one pool.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    pool: String,
    guid: u64,
    pid: u32,
}

impl Connection {
    /// Connects to a socket and learns whose it is; nothing if nobody listens.
    pub fn open(socket: &Path) -> Result<Option<Self>, Failure> {
        let broken = |error: &dyn std::fmt::Display| {
            Failure::new(
                FailureKind::Service,
                format!("cannot reach {}: {error}", socket.display()),
            )
        };
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(broken(&error)),
        };
        stream
            .set_read_timeout(Some(HELLO_TIMEOUT))
            .map_err(|error| broken(&error))?;
        let mut found = Self {
            stream,
            pool: String::new(),
            guid: 0,
            pid: 0,
        };
        let mut hello = None;
        let asked = found.converse(&Request::Hello, &mut |part| {
            hello = Some(part);
            Ok(())
        });
        match asked {
            Ok(()) => {}
            // It was ending when we connected: whoever still waits for an answer then gets none.
            Err(Broken::Wire(error)) if has_ended(&error) => return Ok(None),
            Err(error) => return Err(broken(&error.failure())),
        }
        let Some(Response::Hello {
            pool, guid, pid, ..
        }) = hello
        else {
            return Err(broken(&"it does not say which pool it serves"));
        };
        found
            .stream
            .set_read_timeout(None)
            .map_err(|error| broken(&error))?;
        Ok(Some(Self {
            pool,
            guid,
            pid,
            ..found
        }))
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

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Connections to all daemons of this user and of the administrator, by pool name.
pub fn running() -> Result<Vec<Connection>, Failure> {
    let own = runtime_directory();
    let mut found = running_in(&own, false)?;
    let system = Path::new(SYSTEM_DIRECTORY);
    if std::env::var_os("MILLPOND_RUN").is_none() && own != system {
        found.extend(running_in(system, true)?);
    }
    found.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(found)
}

/// The daemons of a directory; of somebody else's only those that answer.
fn running_in(directory: &Path, foreign: bool) -> Result<Vec<Connection>, Failure> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if foreign || error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let text = format!("cannot read {}: {error}", directory.display());
            return Err(Failure::new(FailureKind::Service, text));
        }
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "sock")
        {
            match Connection::open(&path) {
                Ok(connection) => found.extend(connection),
                Err(_) if foreign => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(found)
}

/// A connection to the daemon of the named pool.
pub fn connect(pool: &str) -> Result<Option<Connection>, Failure> {
    Ok(running()?
        .into_iter()
        .find(|connection| connection.pool == pool))
}
