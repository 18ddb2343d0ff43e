//! Bytes of blocks, and numbers among them in host order or in the one that this machine does not have.
//!
//! What is missing reads as zero and is not written, so that no hostile offset can panic.

use base::ByteOrder;

/// The byte order that this machine does not have.
pub(crate) const FOREIGN: ByteOrder = match ByteOrder::NATIVE {
    ByteOrder::Little => ByteOrder::Big,
    ByteOrder::Big => ByteOrder::Little,
};

/// The first `N` bytes, zero filled when there are fewer.
#[inline]
pub(crate) fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    // Nearly always there: one load, where the loop below goes byte by byte.
    match bytes.first_chunk() {
        Some(whole) => *whole,
        None => padded(bytes),
    }
}

#[cold]
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

/// Puts a value at the head of `bytes`; what has no room is left out.
#[inline]
pub(crate) fn store(bytes: &mut [u8], value: &[u8]) {
    if let Some(whole) = bytes.get_mut(..value.len()) {
        whole.copy_from_slice(value);
        return;
    }
    for (to, from) in bytes.iter_mut().zip(value) {
        *to = *from;
    }
}

#[inline]
fn at(bytes: &[u8], offset: usize) -> &[u8] {
    bytes.get(offset..).unwrap_or(&[])
}

fn store_at(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(rest) = bytes.get_mut(offset..) {
        store(rest, value);
    }
}

/// Reads a host-order u16 of a block that was or will be swapped.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes(head(at(bytes, offset)))
}

/// Reads a host-order u32.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(head(at(bytes, offset)))
}

/// Reads a host-order u64.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(head(at(bytes, offset)))
}

/// Writes a host-order u16.
pub(crate) fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    store_at(bytes, offset, &value.to_ne_bytes());
}

/// Writes a host-order u32.
pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
    store_at(bytes, offset, &value.to_ne_bytes());
}

/// Writes a host-order u64.
pub(crate) fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    store_at(bytes, offset, &value.to_ne_bytes());
}

/// Reverses the `width` bytes at `offset`, when they are there.
pub(crate) fn swap_at(bytes: &mut [u8], offset: usize, width: usize) {
    if let Some(word) = bytes
        .get_mut(offset..)
        .and_then(|rest| rest.get_mut(..width))
    {
        word.reverse();
    }
}

/// Reverses the bytes of each u16.
pub(crate) fn swap_u16(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(2) {
        word.reverse();
    }
}

/// Reverses the bytes of each u32.
pub(crate) fn swap_u32(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(4) {
        word.reverse();
    }
}

/// Reverses the bytes of each u64.
pub(crate) fn swap_u64(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(8) {
        word.reverse();
    }
}
