//! Pages that the kernel keeps for a file system and has not written yet: how many there may be, and their end.

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, fsync, makedev, open, openat2};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Lets the kernel keep at most so many bytes of unwritten pages of the file system with this device number; how many
/// it keeps then, which may be less. It takes the privilege of the system's owner.
///
/// # Errors
/// The system does not tell, or does not let us.
pub fn limit_dirty((major, minor): (u32, u32), bytes: u64) -> std::io::Result<u64> {
    let file = format!("/sys/class/bdi/{major}:{minor}/max_bytes");
    let number = |text: String| text.trim().parse().map_err(std::io::Error::other);
    let before: u64 = number(std::fs::read_to_string(&file)?)?;
    if before <= bytes {
        return Ok(before);
    }
    std::fs::write(&file, bytes.to_string())?;
    number(std::fs::read_to_string(&file)?)
}

/// The root of a mount, from which files in it are found.
#[derive(Debug)]
pub struct MountRoot(OwnedFd);

impl MountRoot {
    /// What is mounted at `path`, which has this device number.
    ///
    /// # Errors
    /// It cannot be opened, or something else is mounted there.
    pub fn open(path: &Path, (major, minor): (u32, u32)) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, flags, Mode::empty())?;
        if fstat(&root)?.st_dev != makedev(major, minor) {
            return Err(Errno::XDEV);
        }
        Ok(Self(root))
    }

    /// Has the kernel write what it has of the file with this inode number, and waits for it: contents, and times that
    /// it keeps.
    ///
    /// # Errors
    /// The file is not found there any more; what writing it came to is told to those who wrote.
    pub fn write_back(&self, path: &[u8], inode: u64) -> Result<(), Errno> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let path = Path::new(OsStr::from_bytes(path));
        let file = openat2(&self.0, path, flags, Mode::empty(), resolve)?;
        if fstat(&file)?.st_ino != inode {
            return Err(Errno::NOENT);
        }
        let _told = fsync(file);
        Ok(())
    }
}
