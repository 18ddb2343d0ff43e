//! Replies on their way to the kernel.

use super::counters::counters;
use crate::errno;
use crate::wire::out_header;
use posix::Errno;
use std::io::IoSlice;
use sys::FuseDevice;

/// Sends a reply. A failure is not ours to handle: the caller was killed (ENOENT) or the mount is
/// gone, which the next read says.
pub(super) fn send(device: &FuseDevice, unique: u64, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum();
    let header = out_header(unique, 0, len);
    let written = match parts {
        [] => device.write(&[IoSlice::new(&header)]),
        [one] => device.write(&[IoSlice::new(&header), IoSlice::new(one)]),
        many => {
            let slices: Vec<_> = std::iter::once(&header[..])
                .chain(many.iter().copied())
                .map(IoSlice::new)
                .collect();
            device.write(&slices)
        }
    };
    let _ = written;
}

pub(super) fn send_error(device: &FuseDevice, unique: u64, error: Errno) {
    if error != errno::ENOSYS {
        counters().errors.increment();
    }
    let _ = device.write(&[IoSlice::new(&out_header(unique, error.0, 0))]);
}
