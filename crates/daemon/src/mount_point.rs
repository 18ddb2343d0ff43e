//! The directory that a file system is mounted on: whether it may be, and making it.

use std::io::ErrorKind;
use std::path::{Component, Path};

use admin::{Failure, FailureKind};
use control::MountRequest;

#[cfg(test)]
mod tests;

/// Makes the mount point of a request if it is absent, and sees whether it may be mounted over.
pub(super) fn prepare(request: &MountRequest) -> Result<(), Failure> {
    let path = &request.path;
    check_way(path, request.beneath.as_deref())?;
    fuse::remove_dead_mounts(path);
    let failed = |error: std::io::Error| failed_to_create(path, &error);
    std::fs::create_dir_all(path).map_err(failed)?;
    let mut entries = std::fs::read_dir(path).map_err(failed)?;
    if !request.options.overlay && entries.next().is_some() {
        return Err(Failure::new(FailureKind::Exists, "directory is not empty"));
    }
    Ok(())
}

/// Refuses a path that may lead elsewhere than it says: whose pool it is may be a stranger's. Below an alternate root
/// it leads through no symbolic link that leaves it, be it of this system or of a file system of the pool.
fn check_way(path: &Path, beneath: Option<&Path>) -> Result<(), Failure> {
    let refuse = |text: String| Err(Failure::new(FailureKind::Invalid, text));
    if path.components().any(|part| part == Component::ParentDir) {
        return refuse(format!("mountpoint leads through '..': {}", path.display()));
    }
    let Some(root) = beneath else {
        return Ok(());
    };
    let there = path
        .ancestors()
        .find(|ancestor| ancestor.symlink_metadata().is_ok());
    let (Some(there), Ok(root)) = (there, root.canonicalize()) else {
        // Nothing of it is there yet, and so no link either.
        return Ok(());
    };
    match there.canonicalize() {
        Ok(real) if real.starts_with(&root) => Ok(()),
        Ok(real) => refuse(format!(
            "mountpoint leaves the alternate root by a symbolic link: {} is {}",
            there.display(),
            real.display()
        )),
        Err(error) => Err(failed_to_create(path, &error)),
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
        format!("failed to create mountpoint: {}: {error}", path.display()),
    )
}
