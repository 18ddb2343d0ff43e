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

/// Has the blocks of a range of an open file written anew; with a length of 0 to its end.
///
/// # Errors
/// What the kernel says; ENOTTY where there is no such thing.
#[allow(unsafe_code)]
pub fn rewrite_file(file: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    let arguments = Arguments {
        offset,
        length,
        flags: 0,
        argument: 0,
    };
    // SAFETY: ZFS_IOC_REWRITE reads one `zfs_rewrite_args_t`, which has this layout.
    unsafe { ioctl(file, Setter::<REWRITE, Arguments>::new(arguments)) }
}
