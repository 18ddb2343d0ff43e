//! Encoding of notifications: messages that we send without being asked.
//!
//! A notification has a reply's header with `unique` 0 and its number in place of the error.

use super::OUT_HEADER_LEN;

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const INC_EPOCH: i32 = 8;

fn notification(number: i32, parts: &[&[u8]]) -> Vec<u8> {
    let body_len: usize = parts.iter().map(|part| part.len()).sum();
    let len = OUT_HEADER_LEN.saturating_add(body_len);
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend_from_slice(&number.to_ne_bytes());
    message.extend_from_slice(&0_u64.to_ne_bytes());
    for part in parts {
        message.extend_from_slice(part);
    }
    message
}

/// Forget a node's attributes, and its cached pages in a range; a negative `offset` spares the
/// pages, a `length` of 0 or less means up to the end. Dirty pages of the range are written back
/// first: the sender waits for that.
#[must_use]
pub fn inval_inode_notification(node: u64, offset: i64, length: i64) -> Vec<u8> {
    notification(
        INVAL_INODE,
        &[
            &node.to_ne_bytes(),
            &offset.to_ne_bytes(),
            &length.to_ne_bytes(),
        ],
    )
}

/// Forget what a name in a directory means.
#[must_use]
pub fn inval_entry_notification(directory: u64, name: &[u8]) -> Vec<u8> {
    let name_len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    notification(
        INVAL_ENTRY,
        &[
            &directory.to_ne_bytes(),
            &name_len.to_ne_bytes(),
            &0_u32.to_ne_bytes(),
            name,
            &[0],
        ],
    )
}

/// Forget what every name of the mount means (kernels from protocol 7.44 on).
#[must_use]
pub fn invalidate_all_entries_notification() -> Vec<u8> {
    notification(INC_EPOCH, &[])
}
