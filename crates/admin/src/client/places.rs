//! Where daemons have their sockets, and where it is noted which pools there are.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the administrator's daemons have their sockets.
pub const SYSTEM_DIRECTORY: &str = "/run/millpond";

/// What the file beside a socket ends with that says who listens there: the process, and on the next line the pool.
pub const NOTE_EXTENSION: &str = "note";

/// Where the administrator's pools are noted: a reboot keeps it.
const SYSTEM_STATE: &str = "/var/lib/millpond";

/// A socket's path is no longer (`sun_path`, with its end).
const SOCKET_PATH_MAX: usize = 107;

/// A variable of the environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where daemons may have their sockets, the best place first: `$MILLPOND_RUN`, or places of the user's own. A logout
/// keeps the first of them, other than `$XDG_RUNTIME_DIR`: a daemon goes on, and must be found again.
#[must_use]
pub fn runtime_directories() -> Vec<PathBuf> {
    sockets_of(sys::user_id(), &environment)
}

/// Whether the administrator's pools are seen beside this user's own: not where `$MILLPOND_RUN` says where to look.
#[must_use]
pub fn sees_system() -> bool {
    std::env::var_os("MILLPOND_RUN").is_none()
}

/// Where the pools of this user are noted: `$MILLPOND_RUN`, or a place that logout and reboot keep; none without a
/// home.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    state_of(sys::user_id(), &environment)
}

/// The environment, in which every user who has a home says so: a service and a login must find the same places.
fn environment(name: &str) -> Option<OsString> {
    match name {
        "HOME" => home_directory().map(OsString::from),
        _ => std::env::var_os(name),
    }
}

/// `$HOME`, or else the home that the table of users has, where that is a directory of the user's own: many a service
/// has one that is not there, or that is everybody's.
#[must_use]
pub fn home_directory() -> Option<PathBuf> {
    let is_said = std::env::var_os("HOME").is_some_and(|home| !home.is_empty());
    let own = |home: &PathBuf| {
        let found = std::fs::metadata(home);
        found.is_ok_and(|found| found.is_dir() && found.uid() == sys::user_id())
    };
    std::env::home_dir().filter(|home| is_said || own(home))
}

pub(super) fn sockets_of(uid: u32, variable: Variable<'_>) -> Vec<PathBuf> {
    if let Some(directory) = variable("MILLPOND_RUN") {
        return vec![directory.into()];
    }
    if uid == 0 {
        return vec![SYSTEM_DIRECTORY.into()];
    }
    let fits = |directory: &PathBuf| socket_in(directory, 0).as_os_str().len() <= SOCKET_PATH_MAX;
    let lasting = state_of(uid, variable).filter(fits);
    let session = absolute(variable("XDG_RUNTIME_DIR")).map(|path| path.join("millpond"));
    let mut all: Vec<PathBuf> = lasting.into_iter().chain(session).collect();
    if all.is_empty() {
        all.push(format!("/tmp/millpond-{uid}").into());
    }
    all
}

pub(super) fn state_of(uid: u32, variable: Variable<'_>) -> Option<PathBuf> {
    if let Some(directory) = variable("MILLPOND_RUN") {
        return Some(directory.into());
    }
    if uid == 0 {
        return Some(SYSTEM_STATE.into());
    }
    let home = || absolute(variable("HOME")).map(|home| home.join(".local/state"));
    let state = absolute(variable("XDG_STATE_HOME")).or_else(home);
    state.map(|state| state.join("millpond"))
}

/// Relative paths in these variables do not count.
fn absolute(path: Option<OsString>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The socket of a pool's daemon in a directory.
pub(super) fn socket_in(directory: &Path, guid: u64) -> PathBuf {
    directory.join(format!("{guid:016x}.sock"))
}

/// The pool that a socket is of.
pub(super) fn guid_of(socket: &Path) -> Option<u64> {
    u64::from_str_radix(socket.file_stem()?.to_str()?, 16).ok()
}
