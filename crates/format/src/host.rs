//! Access to numbers in blocks that are in host order: bytes that are missing read as zero and are
//! not written, so that no hostile offset can panic.

use base::ByteOrder;

use crate::record::{get_at, put_at};

/// The byte order that this machine does not have.
pub(crate) const FOREIGN: ByteOrder = match ByteOrder::NATIVE {
    ByteOrder::Little => ByteOrder::Big,
    ByteOrder::Big => ByteOrder::Little,
};

/// Reverses the `width` bytes at `offset`, when they are there.
pub(crate) fn swap_at(bytes: &mut [u8], offset: usize, width: usize) {
    if let Some(word) = bytes
        .get_mut(offset..)
        .and_then(|rest| rest.get_mut(..width))
    {
        word.reverse();
    }
}

/// Reads a host-order u16 of a block that was or will be swapped.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    get_at(bytes, offset, ByteOrder::NATIVE)
}

/// Reads a host-order u32.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    get_at(bytes, offset, ByteOrder::NATIVE)
}

/// Reads a host-order u64.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    get_at(bytes, offset, ByteOrder::NATIVE)
}

/// Writes a host-order u16.
pub(crate) fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    put_at(bytes, offset, &value, ByteOrder::NATIVE);
}

/// Writes a host-order u32.
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    put_at(bytes, offset, &value, ByteOrder::NATIVE);
}

/// Writes a host-order u64.
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    put_at(bytes, offset, &value, ByteOrder::NATIVE);
}
