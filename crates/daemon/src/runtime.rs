//! The runtime directory: sockets, locks and logs of the daemons of one user.

use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use admin::client::{NOTE_EXTENSION, SYSTEM_DIRECTORY, runtime_directories};
use admin::{Failure, FailureKind};

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Service, format!("{}: {error}", path.display()))
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    failed(path, base::host_reason(error))
}

/// The first directory that can be used, made if need be.
pub(super) fn prepared_directory() -> Result<PathBuf, Failure> {
    let mut refused = None;
    let mut found = None;
    for path in runtime_directories() {
        match prepare(&path) {
            Ok(()) => {
                found = Some(path);
                break;
            }
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    let nowhere = || Failure::new(FailureKind::Service, "there is no place for sockets");
    let path = found.ok_or_else(|| refused.unwrap_or_else(nowhere))?;
    if path == Path::new(SYSTEM_DIRECTORY) {
        // Everybody may ask; what they may do the daemon decides.
        let to_all = Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, to_all).map_err(|error| failed(&path, error))?;
    }
    Ok(path)
}

/// Makes the directory, ours alone; one that somebody else made or may write to is refused: it
/// could hold a socket of theirs.
pub(super) fn prepare(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| refused(path, &error))?;
    let metadata = std::fs::symlink_metadata(path).map_err(|error| refused(path, &error))?;
    if !metadata.is_dir() {
        return Err(failed(path, "is no directory"));
    }
    if metadata.uid() != sys::user_id() || metadata.mode() & 0o022 != 0 {
        let failure = failed(path, "belongs to another user, or others may write to it");
        return Err(failure.advise("Remove it, or set MILLPOND_RUN to a directory of your own."));
    }
    Ok(())
}

/// Takes the lock in a file, which is made if need be; nothing while another process has it.
pub(super) fn locked(path: &Path) -> Result<Option<File>, Failure> {
    loop {
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            // Who can open it could take the lock.
            .mode(0o600)
            .open(path);
        let lock = opened.map_err(|error| refused(path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(refused(path, &error)),
        }
        // A daemon that has just ended removes its file: the lock in that one is worth nothing.
        let ours = lock
            .metadata()
            .map_err(|error| refused(path, &error))?
            .ino();
        if std::fs::metadata(path).is_ok_and(|there| there.ino() == ours) {
            return Ok(Some(lock));
        }
    }
}

/// Writes what everybody may read who comes as far as the socket; who could read the lock's file could take the lock.
/// Whoever reads meanwhile finds the old note or the new one, whole.
fn write_note(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("note.new");
    std::fs::write(&new, text)?;
    std::fs::set_permissions(&new, Permissions::from_mode(0o644))?;
    std::fs::rename(&new, path)
}

/// The place of one pool's daemon: whoever holds the lock is it. The socket is removed at the end;
/// the lock falls with the process, however that ends.
#[derive(Debug)]
pub(super) struct Place {
    _lock: File,
    lock_path: PathBuf,
    note: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Place {
    /// Takes the place; refused while another daemon has it.
    pub(super) fn take(
        directory: &Path,
        pool: &str,
        guid: u64,
    ) -> Result<(Self, UnixListener), Failure> {
        let lock_path = directory.join(format!("{guid:016x}.lock"));
        let served = || Failure::new(FailureKind::Busy, "a daemon serves this pool already");
        let mut lock = locked(&lock_path)?.ok_or_else(served)?;
        // These are for who waits for an answer in vain; the lock is what counts.
        let text = format!("{}\n{pool}\n", std::process::id());
        let noted = lock
            .set_len(0)
            .and_then(|()| lock.write_all(text.as_bytes()));
        noted.map_err(|error| failed(&lock_path, error))?;
        let note = directory.join(format!("{guid:016x}.{NOTE_EXTENSION}"));
        write_note(&note, &text).map_err(|error| failed(&note, error))?;
        let socket = directory.join(format!("{guid:016x}.sock"));
        match std::fs::remove_file(&socket) {
            // Left by a daemon that was killed: its lock is ours now.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&socket, error)),
        }
        let listener = UnixListener::bind(&socket).map_err(|error| failed(&socket, error))?;
        // The directory says who comes as far as here.
        let to_all = Permissions::from_mode(0o666);
        std::fs::set_permissions(&socket, to_all).map_err(|error| failed(&socket, error))?;
        let log = directory.join(format!("{guid:016x}.log"));
        Ok((
            Self {
                _lock: lock,
                lock_path,
                note,
                socket,
                log,
            },
            listener,
        ))
    }

    /// Where a daemon without a terminal writes what it would have said there.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Gone already is as good. A log in which something is written stays to be read.
        let _removed = std::fs::remove_file(&self.socket);
        if std::fs::metadata(&self.log).is_ok_and(|metadata| metadata.len() == 0) {
            let _removed = std::fs::remove_file(&self.log);
        }
        let _removed = std::fs::remove_file(&self.note);
        let _removed = std::fs::remove_file(&self.lock_path);
    }
}
