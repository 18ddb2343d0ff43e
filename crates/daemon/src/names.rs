//! The claim of a pool's name: one daemon of a run directory has it, from before it makes or opens anything until its
//! place is free again.
//!
//! A lock of a file `NAME.name` in the directory of sockets. A crash lets go of it; the file that is left then is
//! worth nothing. An ordinary user's pool gets no name of one of the administrator's, whose locks everybody can see;
//! the other way round nobody is asked, for what users call their pools must not keep the administrator from anything.

use super::runtime::{locked, prepared_directory};
use admin::client::{SYSTEM_DIRECTORY, connect, sees_system};
use admin::{Failure, FailureKind, OpenRequest, check_pool};
use base::clock::real_now;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the end of a daemon is waited for that has the name and does not answer any more: it was killed, and its
/// memory is being freed.
const WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// What a request does, and to which pool, by the name that the request gives it.
pub(super) fn asked(request: &OpenRequest) -> (&'static str, &str) {
    match request {
        OpenRequest::Create(request) => ("create", &request.name),
        OpenRequest::Import(request) => ("import", &request.name),
    }
}

/// `cannot VERB 'NAME': REASON` of what fails in the daemon itself.
pub(super) fn framed(request: &OpenRequest, failure: Failure) -> Failure {
    let (verb, name) = asked(request);
    Failure {
        message: format!("cannot {verb} '{name}': {}", failure.message),
        name: Some(name.to_owned()),
        ..failure
    }
}

/// The name that the pool will have here.
fn name_here(request: &OpenRequest) -> &str {
    match request {
        OpenRequest::Create(request) => request.temporary_name.as_ref().unwrap_or(&request.name),
        OpenRequest::Import(request) => request.new_name.as_ref().unwrap_or(&request.name),
    }
}

/// In the words of the commands.
fn taken(request: &OpenRequest) -> Failure {
    let name = name_here(request);
    let (verb, _) = asked(request);
    let cannot = |reason: &str| Failure::cannot(FailureKind::Exists, verb, name, reason);
    match request {
        OpenRequest::Create(_) => cannot("pool already exists"),
        OpenRequest::Import(_) => cannot("a pool with that name already exists")
            .advise("use the form 'zpool import <pool | id> <newpool>' to give it a new name"),
    }
}

/// A name that no other daemon of this user has, nor one of the administrator.
#[derive(Debug)]
pub(super) struct NameClaim {
    directory: PathBuf,
    path: PathBuf,
    _lock: File,
}

impl NameClaim {
    /// Claims the name that the request is about, in the directory of sockets, which is made if need be.
    ///
    /// # Errors
    /// Another pool has the name, or the directory cannot be used.
    pub(super) fn take(request: &OpenRequest) -> Result<Self, Failure> {
        let directory = prepared_directory().map_err(|failure| framed(request, failure))?;
        let (verb, name) = (asked(request).0, name_here(request));
        // It becomes a file's name, and may be from a label.
        check_pool(name)
            .map_err(|error| Failure::cannot(FailureKind::Invalid, verb, name, error))?;
        let is_served = || -> Result<bool, Failure> {
            let found = connect(name)?;
            Ok(found.is_some() || is_claimed_by_system(&directory, name))
        };
        let claim = Self::take_in(&directory, name, &is_served);
        let claim = claim.map_err(|failure| framed(request, failure))?;
        claim.ok_or_else(|| taken(request))
    }

    /// Claims a name in a directory; nothing if it is taken. `is_served` tells whether a pool of that name answers.
    pub(super) fn take_in(
        directory: &Path,
        name: &str,
        is_served: &dyn Fn() -> Result<bool, Failure>,
    ) -> Result<Option<Self>, Failure> {
        let path = claim_in(directory, name);
        let begin = real_now();
        let lock = loop {
            if let Some(lock) = locked(&path)? {
                break lock;
            }
            if is_served()? || begin.elapsed() >= WAIT {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        };
        let claim = Self {
            directory: directory.to_owned(),
            path,
            _lock: lock,
        };
        // The lock says nothing of pools that are served from another directory.
        Ok((!is_served()?).then_some(claim))
    }

    /// Where the pool's socket belongs.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Where the claim of a name is.
fn claim_in(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.name"))
}

/// Whether a daemon of the administrator, whose pools everybody sees, has the name: perhaps its socket is still to
/// come.
fn is_claimed_by_system(own: &Path, name: &str) -> bool {
    let system = Path::new(SYSTEM_DIRECTORY);
    sees_system() && own != system && sys::is_locked(&claim_in(system, name), None)
}

impl Drop for NameClaim {
    fn drop(&mut self) {
        // Gone already is as good. The lock is held until the file is closed: whoever gets it then finds out that the
        // file is another one.
        let _removed = std::fs::remove_file(&self.path);
    }
}
