//! The directory that a file system is mounted on: whether it may be, and making it.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use admin::{Failure, FailureKind};
use control::MountRequest;
use sys::{MountDirectory, MountWayError};

#[cfg(test)]
mod tests;

/// Of no pool that was not made here, nor anything in them: programs of the system and its configuration.
const SYSTEM_TREES: [&str; 14] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin",
    "sys", "usr",
];
/// Those have things of the system in them, and places for mounts as well.
const SYSTEM_DIRECTORIES: [&str; 14] = [
    "",
    "home",
    "media",
    "mnt",
    "opt",
    "srv",
    "tmp",
    "var",
    "var/cache",
    "var/lib",
    "var/log",
    "var/mail",
    "var/spool",
    "var/tmp",
];

/// Makes the mount point of a request if it is absent, and sees whether it may be mounted over. `is_in_pool`: it lies
/// in a file system of the same pool. Answers the directory itself where names on the way to it may be anybody's.
pub(super) fn prepare(
    request: &MountRequest,
    is_in_pool: bool,
) -> Result<Option<MountDirectory>, Failure> {
    let path = &request.path;
    if path.components().any(|part| part == Component::ParentDir) {
        let text = format!("mountpoint leads through '..': {}", path.display());
        return Err(Failure::new(FailureKind::Invalid, text));
    }
    if let Some(stranger) = &request.of_stranger
        && request.beneath.is_none()
        && let Some(what) = taken_by_system(path)
    {
        return Err(refused(request, stranger, &what));
    }
    fuse::remove_dead_mounts(path);
    let failed = |error: std::io::Error| failed_to_create(path, &error);
    let root = match (&request.beneath, &request.of_stranger) {
        (Some(root), _) => Some(root.as_path()),
        (None, Some(_)) => Some(Path::new("/")),
        (None, None) => None,
    };
    let Some(root) = root else {
        std::fs::create_dir_all(path).map_err(failed)?;
        let mut entries = std::fs::read_dir(path).map_err(failed)?;
        check_empty(request, entries.next().is_none(), is_in_pool)?;
        return Ok(None);
    };
    std::fs::create_dir_all(root).map_err(failed)?;
    let below = path.strip_prefix(root).map_err(|_| {
        let text = format!(
            "mountpoint is not below the alternate root: {}",
            path.display()
        );
        Failure::new(FailureKind::Invalid, text)
    })?;
    let found = MountDirectory::below(root, below).map_err(|error| way_failure(path, &error))?;
    let is_empty = found.entries().map_err(failed)?.next().is_none();
    check_empty(request, is_empty, is_in_pool)?;
    Ok(Some(found))
}

fn check_empty(request: &MountRequest, is_empty: bool, is_in_pool: bool) -> Result<(), Failure> {
    if is_empty {
        return Ok(());
    }
    if !request.options.overlay {
        return Err(Failure::new(FailureKind::Exists, "directory is not empty"));
    }
    match &request.of_stranger {
        Some(stranger) if !is_in_pool => {
            let what = format!("{} is not empty", request.path.display());
            Err(refused(request, stranger, &what))
        }
        Some(_) | None => Ok(()),
    }
}

/// Nobody has said that the pool of somebody else may have this directory.
fn refused(request: &MountRequest, stranger: &str, what: &str) -> Failure {
    let text = format!("{what}, and the pool {stranger}");
    Failure::new(FailureKind::Exists, text).advise(format!(
        "use 'zfs mount -O {}' to mount it there all the same, or import the pool with '-R'",
        request.dataset
    ))
}

/// What of this system a directory is.
fn taken_by_system(path: &Path) -> Option<String> {
    let shown = path.display();
    let below = path.strip_prefix("/").unwrap_or(path);
    // What is plugged in is mounted in the one, and the other is for users' own things.
    let is_free = below.starts_with("run/media") || below.starts_with("dev/shm");
    let is_tree = |tree: &str| below.starts_with(tree) && !is_free;
    if SYSTEM_TREES.into_iter().any(is_tree)
        || SYSTEM_DIRECTORIES
            .into_iter()
            .any(|it| below == Path::new(it))
    {
        return Some(format!("{shown} is a directory of the system"));
    }
    let is_home = homes().any(|home| home == path) || path.parent() == Some(Path::new("/home"));
    is_home.then(|| format!("{shown} is somebody's home"))
}

/// The homes of the users of this system, but for those that have the root for one.
fn homes() -> impl Iterator<Item = PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let homes: Vec<PathBuf> = users
        .lines()
        .filter_map(|line| line.split(':').nth(5))
        .map(PathBuf::from)
        .collect();
    homes.into_iter()
}

fn way_failure(path: &Path, error: &MountWayError) -> Failure {
    match error {
        MountWayError::Link { .. } => Failure::new(FailureKind::Invalid, error.to_string()),
        MountWayError::Part { error, .. } => failed_to_create(path, &(*error).into()),
    }
}

fn failed_to_create(path: &Path, error: &std::io::Error) -> Failure {
    let is = |kind: ErrorKind| error.kind() == kind;
    let kind = if is(ErrorKind::PermissionDenied) {
        FailureKind::Permission
    } else if is(ErrorKind::ReadOnlyFilesystem) {
        FailureKind::ReadOnly
    } else {
        FailureKind::Invalid
    };
    Failure::new(
        kind,
        format!(
            "failed to create mountpoint: {}: {}",
            path.display(),
            base::host_reason(error)
        ),
    )
}
