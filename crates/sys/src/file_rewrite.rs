//! Having blocks of a file written anew, as OpenZFS 2.4 has it.

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::os::fd::AsFd;

use crate::Errno;

/// `zfs_rewrite_args_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    offset: u64,
    length: u64,
    flags: u64,
    argument: u64,
}

/// `ZFS_IOC_REWRITE`.
const REWRITE: Opcode = opcode::write::<Arguments>(0x83, 3);

/// `ZFS_REWRITE_PHYSICAL`.
const PHYSICAL: u64 = 1;

/// How old blocks are that are written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RewriteBirths {
    /// Of now.
    New,
    /// As old as they were.
    Kept,
}

/// Has the blocks of a range of an open file written anew; with a length of 0 to its end.
///
/// # Errors
/// What the kernel says; ENOTTY where there is no such thing, EOPNOTSUPP where births cannot be kept.
#[allow(unsafe_code)]
pub fn rewrite_file(
    file: impl AsFd,
    (offset, length): (u64, u64),
    births: RewriteBirths,
) -> Result<(), Errno> {
    let arguments = Arguments {
        offset,
        length,
        flags: match births {
            RewriteBirths::New => 0,
            RewriteBirths::Kept => PHYSICAL,
        },
        argument: 0,
    };
    // SAFETY: ZFS_IOC_REWRITE reads one `zfs_rewrite_args_t`, which has this layout.
    unsafe { ioctl(file, Setter::<REWRITE, Arguments>::new(arguments)) }
}
