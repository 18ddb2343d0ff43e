//! All daemons at once: who runs, and who does not answer.
//!
//! Everybody is asked before anybody's answer is waited for, so that one daemon that is stuck costs a command
//! [`HELLO_TIMEOUT`] at most, one that is stopped [`MOMENT`], and those who ask for another pool nothing.

use super::places::{NOTE_EXTENSION, SYSTEM_DIRECTORY, guid_of, runtime_directories, sees_system};
use super::{Connection, HELLO_TIMEOUT, Knock};
use crate::{Failure, FailureKind};
use base::clock::real_now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long those have who are not waited for: far longer than an answer takes where CPUs are not short.
const MOMENT: Duration = Duration::from_millis(200);

/// The daemons of this user and of the administrator.
#[derive(Debug, Default)]
pub struct Running {
    /// Those that answered, by pool name.
    pub connections: Vec<Connection>,
    /// Those that did not.
    pub silent: Vec<Silent>,
}

/// A daemon that does not answer.
#[derive(Debug)]
pub struct Silent {
    /// The pool that its socket is named after.
    pub guid: Option<u64>,
    /// The name of that pool, if it can be known.
    pub pool: Option<String>,
    /// What is wrong.
    pub failure: Failure,
}

impl Silent {
    fn at(socket: &Path, failure: Failure) -> Self {
        Self {
            guid: guid_of(socket),
            pool: noted(socket).pool,
            failure,
        }
    }
}

/// Connections to all daemons, and who did not answer in time.
///
/// # Errors
/// A directory of sockets cannot be read, or belongs to somebody who could lead us astray.
pub fn running() -> Result<Running, Failure> {
    ask(Whom::All)
}

/// As [`running`], for who is about to open the named pool (by its name or guid): daemons of others have a moment to
/// answer, and are not waited for.
///
/// # Errors
/// As [`running`].
pub fn running_beside(pool: &str) -> Result<Running, Failure> {
    ask(Whom::Foremost(pool))
}

/// As [`running`], of the daemons that this user may tell what to do: for root all, for others their own. Nobody else
/// is asked.
///
/// # Errors
/// As [`running`].
pub fn running_own() -> Result<Running, Failure> {
    ask(Whom::Own)
}

/// Whose answers are waited for.
#[derive(Clone, Copy, Debug)]
enum Whom<'a> {
    /// Everybody's.
    All,
    /// Those of this user's daemons, which for root are all; nobody else is asked.
    Own,
    /// The daemon's of this pool; nobody else is asked, but those of whom it is not known which pool is theirs.
    Only(&'a str),
    /// The daemon's of this pool; others have [`MOMENT`].
    Foremost(&'a str),
}

impl Whom<'_> {
    /// Whether somebody is waited for who listens there.
    fn waits_for(self, socket: &Path) -> bool {
        match self {
            Self::All => true,
            Self::Own => is_own(socket),
            Self::Only(wanted) => noted(socket).pool.is_none_or(|name| name == wanted),
            Self::Foremost(wanted) => {
                let guid = wanted.parse().ok();
                Self::Only(wanted).waits_for(socket) || guid.is_some() && guid == guid_of(socket)
            }
        }
    }

    /// Whether who listens there is asked.
    fn asks(self, socket: &Path) -> bool {
        match self {
            Self::All | Self::Foremost(_) => true,
            Self::Own | Self::Only(_) => self.waits_for(socket),
        }
    }

    /// Whether an answer from there is waited for that can come.
    fn is_owed(self, socket: &Path) -> bool {
        self.waits_for(socket) && !noted(socket).pid.is_some_and(is_stopped)
    }
}

/// Whether a socket is of a daemon that this user may tell what to do.
fn is_own(socket: &Path) -> bool {
    let user = sys::user_id();
    user == 0 || std::fs::symlink_metadata(socket).is_ok_and(|found| found.uid() == user)
}

/// Whether a process is stopped: nobody knows when it goes on.
fn is_stopped(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the state may have anything in it.
    let state = text.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with('T'))
}

/// A connection to the daemon of the named pool, this user's own before the administrator's; nobody else's answer is
/// waited for.
///
/// # Errors
/// As [`running`]; and the pool's daemon, or one of an unknown pool, does not answer.
pub fn connect(pool: &str) -> Result<Option<Connection>, Failure> {
    for sockets in [own_sockets()?, system_sockets()?] {
        let found = ask_at(&sockets, Whom::Only(pool))?;
        let mut connections = found.connections.into_iter();
        if let Some(connection) = connections.find(|connection| connection.pool == pool) {
            return Ok(Some(connection));
        }
        if let Some(silent) = found.silent.into_iter().next() {
            return Err(silent.failure);
        }
    }
    Ok(None)
}

fn ask(whom: Whom<'_>) -> Result<Running, Failure> {
    let sockets = [own_sockets()?, system_sockets()?].concat();
    ask_at(&sockets, whom)
}

/// The sockets of this user's daemons.
fn own_sockets() -> Result<Vec<PathBuf>, Failure> {
    let mut sockets = Vec::new();
    for directory in runtime_directories() {
        sockets.extend(sockets_in(&directory, false)?);
    }
    Ok(sockets)
}

/// Those of the administrator's, where these are others and are seen.
fn system_sockets() -> Result<Vec<PathBuf>, Failure> {
    let system = Path::new(SYSTEM_DIRECTORY);
    let is_own = || runtime_directories().iter().any(|own| own == system);
    match sees_system() && !is_own() {
        true => sockets_in(system, true),
        false => Ok(Vec::new()),
    }
}

fn ask_at(sockets: &[PathBuf], whom: Whom<'_>) -> Result<Running, Failure> {
    let mut found = Running::default();
    let mut waiting = Vec::new();
    for socket in sockets {
        if !whom.asks(socket) {
            continue;
        }
        match Knock::at(socket) {
            Ok(knock) => waiting.extend(knock),
            Err(failure) => found.silent.push(Silent::at(socket, failure)),
        }
    }
    gather(waiting, whom, &mut found)?;
    found.connections.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(found)
}

/// Takes answers as they come, until all have answered, the wanted one has, or time is up.
fn gather(mut waiting: Vec<Knock>, whom: Whom<'_>, found: &mut Running) -> Result<(), Failure> {
    let begin = real_now();
    while !waiting.is_empty() {
        let owed = waiting.iter().any(|knock| whom.is_owed(&knock.socket));
        let deadline = begin + if owed { HELLO_TIMEOUT } else { MOMENT };
        let ready = readable(&waiting, deadline).map_err(|error| {
            Failure::new(
                FailureKind::Service,
                format!("waiting for daemons: {error}"),
            )
        })?;
        if ready.is_empty() {
            break;
        }
        let mut rest = Vec::new();
        for (at, knock) in std::mem::take(&mut waiting).into_iter().enumerate() {
            if !ready.contains(&at) {
                rest.push(knock);
                continue;
            }
            let socket = knock.socket.clone();
            match knock.answer() {
                Ok(connection) => found.connections.extend(connection),
                Err(failure) => found.silent.push(Silent::at(&socket, failure)),
            }
        }
        waiting = rest;
        if let Whom::Only(wanted) = whom
            && found.connections.iter().any(|it| it.pool == wanted)
        {
            return Ok(());
        }
    }
    let late = waiting.iter();
    let late = late.map(|knock| Silent::at(&knock.socket, knock.unanswered()));
    found.silent.extend(late);
    Ok(())
}

/// The places of those who have said something; none when time is up.
fn readable(waiting: &[Knock], deadline: Instant) -> io::Result<Vec<usize>> {
    let mut asked: Vec<PollFd<'_>> = waiting
        .iter()
        .map(|knock| PollFd::new(&knock.stream, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.saturating_duration_since(real_now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut asked, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let said = asked.iter().enumerate();
    let said = said.filter(|(_, one)| !one.revents().is_empty());
    Ok(said.map(|(at, _)| at).collect())
}

/// The sockets of a directory; somebody else's may be closed to us.
fn sockets_in(directory: &Path, foreign: bool) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let text = format!("cannot read {}: {error}", directory.display());
        Failure::new(FailureKind::Service, text)
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if foreign || error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
    };
    let owner = std::fs::metadata(directory).map_err(|error| failed(&error))?;
    // Who may write to it could put a socket of theirs there, and answer in a pool's name.
    if owner.mode() & 0o022 != 0 {
        return Err(failed(&"others than its owner may write to it")
            .advise("Remove it, or set MILLPOND_RUN to a directory of your own."));
    }
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .collect())
}

/// What a daemon has noted beside its socket.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) pid: Option<u32>,
    pub(super) pool: Option<String>,
}

pub(super) fn noted(socket: &Path) -> Noted {
    let read = |extension| std::fs::read_to_string(socket.with_extension(extension));
    // Daemons of versions without a note have it in their lock, which only their own user can read.
    let text = read(NOTE_EXTENSION).or_else(|_| read("lock"));
    let text = text.unwrap_or_default();
    let mut lines = text.lines();
    Noted {
        pid: lines.next().and_then(|line| line.parse().ok()),
        pool: lines.next().map(str::to_owned),
    }
}
