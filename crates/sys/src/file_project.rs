//! The project of a file, as `ioctl_xfs_fsgetxattr(2)` has it.

use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::os::fd::AsFd;

use crate::Errno;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extended {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

const GET: Opcode = opcode::read::<Extended>(b'X', 31);
const SET: Opcode = opcode::write::<Extended>(b'X', 32);
/// New entries take the project of this directory.
const PROJECT_INHERIT: u32 = 0x200;

/// The project of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileProject {
    /// Its number; 0 is the default one.
    pub id: u32,
    /// What is made in the directory gets the same.
    pub inherits: bool,
}

/// The project of an open file.
///
/// # Errors
/// What the kernel says; ENOTTY where files have no projects.
pub fn file_project(file: impl AsFd) -> Result<FileProject, Errno> {
    let found = read(file)?;
    Ok(FileProject {
        id: found.project,
        inherits: found.flags & PROJECT_INHERIT != 0,
    })
}

/// Changes the project of an open file; its other flags stay.
///
/// # Errors
/// What the kernel says.
#[allow(unsafe_code)]
pub fn set_file_project(file: impl AsFd, project: FileProject) -> Result<(), Errno> {
    let mut new = read(file.as_fd())?;
    new.project = project.id;
    new.flags &= !PROJECT_INHERIT;
    if project.inherits {
        new.flags |= PROJECT_INHERIT;
    }
    // SAFETY: FS_IOC_FSSETXATTR reads one `struct fsxattr`, which has this layout.
    unsafe { ioctl(file, Setter::<SET, Extended>::new(new)) }
}

#[allow(unsafe_code)]
fn read(file: impl AsFd) -> Result<Extended, Errno> {
    // SAFETY: FS_IOC_FSGETXATTR writes one `struct fsxattr`, which has this layout; every value of
    // its bytes is one.
    unsafe { ioctl(file, Getter::<GET, Extended>::new()) }
}
