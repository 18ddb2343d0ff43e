//! Ending FUSE connections whose mounts are out of reach.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Where most systems show the control files.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Ends the connection of a FUSE file system by its device number: whoever waits for an answer, or asks anything
/// later, gets an error.
///
/// # Errors
/// There is none such, its control file cannot be reached, or it is another user's.
pub fn abort_fuse((major, minor): (u32, u32)) -> Result<(), Errno> {
    // File systems without a disk; the kernel names connections by both numbers in one.
    if major != 0 {
        return Err(Errno::NODEV);
    }
    let abort = |at: BorrowedFd<'_>, path: String| {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(at, path, flags, Mode::empty())?;
        rustix::io::write(file, b"1").map(drop)
    };
    match abort(CWD, format!("{CONNECTIONS}/{minor}/abort")) {
        Err(Errno::NOENT) => {
            let own = own_connections().ok_or(Errno::NOENT)?;
            abort(std::os::fd::AsFd::as_fd(own), format!("{minor}/abort"))
        }
        outcome => outcome,
    }
}

/// The control files, mounted nowhere: not all systems show them.
fn own_connections() -> Option<&'static OwnedFd> {
    static OWN: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = || -> Result<OwnedFd, Errno> {
        let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::empty(),
        )
    };
    OWN.get_or_init(|| mount().ok()).as_ref()
}
