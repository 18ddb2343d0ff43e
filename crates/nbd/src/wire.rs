//! The numbers of the protocol, and reading and writing it. All is big-endian.

use std::io::{self, Read};

use sys::{Buffer, BufferMut};

/// `NBDMAGIC`.
pub(crate) const MAGIC: u64 = 0x4E42_444D_4147_4943;
/// `IHAVEOPT`.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668E_33EF;

/// Flags of the handshake.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

/// Options.
pub(crate) const OPTION_EXPORT_NAME: u32 = 1;
pub(crate) const OPTION_ABORT: u32 = 2;
pub(crate) const OPTION_LIST: u32 = 3;
pub(crate) const OPTION_STARTTLS: u32 = 5;
pub(crate) const OPTION_INFO: u32 = 6;
pub(crate) const OPTION_GO: u32 = 7;
pub(crate) const OPTION_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPTION_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPTION_SET_META_CONTEXT: u32 = 10;

/// Replies to options.
pub(crate) const REPLY_ACK: u32 = 1;
pub(crate) const REPLY_SERVER: u32 = 2;
pub(crate) const REPLY_INFO: u32 = 3;
pub(crate) const REPLY_META_CONTEXT: u32 = 4;
pub(crate) const ERROR_UNSUPPORTED: u32 = 0x8000_0001;
pub(crate) const ERROR_INVALID: u32 = 0x8000_0003;
pub(crate) const ERROR_TLS_REQUIRED: u32 = 0x8000_0005;
pub(crate) const ERROR_UNKNOWN: u32 = 0x8000_0006;
pub(crate) const ERROR_TOO_BIG: u32 = 0x8000_0009;

/// Kinds of information about an export.
pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

/// Flags of an export.
pub(crate) const HAS_FLAGS: u16 = 1;
pub(crate) const READ_ONLY: u16 = 1 << 1;
pub(crate) const SEND_FLUSH: u16 = 1 << 2;
pub(crate) const SEND_FUA: u16 = 1 << 3;
pub(crate) const SEND_TRIM: u16 = 1 << 5;
pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(crate) const SEND_DF: u16 = 1 << 7;
pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
pub(crate) const SEND_CACHE: u16 = 1 << 10;

/// Requests.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

/// Flags of requests.
pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 1 << 1;
pub(crate) const DONT_FRAGMENT: u16 = 1 << 2;
pub(crate) const REQUEST_ONE: u16 = 1 << 3;

/// Chunks of structured replies.
pub(crate) const CHUNK_DONE: u16 = 1;
pub(crate) const CHUNK_NONE: u16 = 0;
pub(crate) const CHUNK_DATA: u16 = 1;
pub(crate) const CHUNK_HOLE: u16 = 2;
pub(crate) const CHUNK_BLOCK_STATUS: u16 = 5;
pub(crate) const CHUNK_ERROR: u16 = 0x8001;

/// `base:allocation`.
pub(crate) const ALLOCATION: &str = "base:allocation";
/// The number that it has here.
pub(crate) const ALLOCATION_ID: u32 = 1;
/// It is a hole, and reads as zeroes.
pub(crate) const STATE_HOLE_ZERO: u32 = 3;

/// Errors of requests.
pub(crate) const EPERM: u32 = 1;
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const ESHUTDOWN: u32 = 108;

/// Reads a fixed number of bytes.
pub(crate) fn bytes<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn u16_of(input: &mut impl Read) -> io::Result<u16> {
    bytes(input).map(u16::from_be_bytes)
}

pub(crate) fn u32_of(input: &mut impl Read) -> io::Result<u32> {
    bytes(input).map(u32::from_be_bytes)
}

pub(crate) fn u64_of(input: &mut impl Read) -> io::Result<u64> {
    bytes(input).map(u64::from_be_bytes)
}

/// Memory for what somebody announces doubles as it comes, from the first of these to steps of the second.
const GROWTH_MIN: usize = 32 << 10;
const GROWTH_MAX: usize = 1 << 20;

/// Reads `length` bytes; memory is taken only as they come.
pub(crate) fn payload(input: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut found = Vec::new();
    while found.len() < length {
        let begin = found.len();
        let piece = (length - begin).min(begin.clamp(GROWTH_MIN, GROWTH_MAX));
        found.resize(begin + piece, 0);
        input.read_exact(found.get_mut(begin..).unwrap_or_default())?;
    }
    Ok(found)
}

/// Reads `length` bytes that are to be written at `offset` into buffers that end where blocks do. Memory is taken only
/// as they come.
pub(crate) fn buffers(
    input: &mut impl Read,
    (offset, length): (u64, u32),
    block_size: u32,
) -> io::Result<Vec<Buffer>> {
    let block = u64::from(block_size.clamp(512, 16 << 20));
    let mut left = u64::from(length);
    let mut at = offset;
    let mut found = Vec::new();
    while left > 0 {
        let piece = left.min(block - at % block);
        let mut buffer = BufferMut::scratch(usize::try_from(piece).unwrap_or(0));
        input.read_exact(&mut buffer)?;
        found.push(buffer.freeze());
        // What leads beyond all disks is refused once it is read.
        at = at.wrapping_add(piece);
        left -= piece;
    }
    Ok(found)
}

/// Reads text with its length before it.
pub(crate) fn text(input: &mut &[u8]) -> Option<String> {
    let length = u32_of(input).ok()?;
    let (text, rest) = input.split_at_checked(usize::try_from(length).ok()?)?;
    *input = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// A number of bytes as the protocol has it.
pub(crate) fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
