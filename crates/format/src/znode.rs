//! Legacy znodes: the fixed-form bonus of files of ZPL versions 1 to 4.

use base::ObjectId;

use crate::acl;
use crate::host::{swap_at, u16_at};
use crate::record::record;

/// Where the access list begins.
const ACL: usize = ZnodeAcl::OFFSET;
/// Where the tail (symbolic link target, or scan stamp) begins.
pub const TAIL: usize = ZnodePhys::SIZE;
/// Bytes of access control entries that fit into a znode.
pub const INLINE_ACL_SIZE: usize = 72;

record! {
    /// `znode_phys_t` without its tail.
    pub struct ZnodePhys [264] {
        /// Last access: seconds, nanoseconds.
        atime: [u64; 2] = 0,
        /// Last change of the data.
        mtime: [u64; 2] = 16,
        /// Last change of anything.
        ctime: [u64; 2] = 32,
        /// Creation.
        crtime: [u64; 2] = 48,
        /// Txg of creation.
        generation: u64 = 64,
        /// Type and permissions.
        mode: u64 = 72,
        /// Size in bytes; of a directory, entries + 2.
        size: u64 = 80,
        /// Directory last linked into.
        parent: ObjectId = 88,
        /// Link count.
        links: u64 = 96,
        /// Directory of extended attributes.
        xattr: ObjectId = 104,
        /// Device number.
        device: u64 = 112,
        /// Flags.
        flags: u64 = 120,
        /// Owner.
        uid: u64 = 128,
        /// Group.
        gid: u64 = 136,
        /// Unused.
        zap: u64 = 144,
        /// Unused.
        pad: [u64; 3] = 152,
        /// Object with the access list; none when it is inline.
        acl_object: ObjectId = 176,
        /// Bytes of the access list (version 0: entries).
        acl_size: u32 = 184,
        /// Form of the entries: 0 or 1.
        acl_version: u16 = 188,
        /// Number of entries (version 0: unused).
        acl_count: u16 = 190,
        /// Inline entries, in host order in a block that was swapped.
        acl_inline: [u8; INLINE_ACL_SIZE] = 192,
    }
}

/// The part of a znode that describes its access list, also an attribute of its own
/// (`ZPL_ZNODE_ACL`).
#[derive(Clone, Copy, Debug)]
pub struct ZnodeAcl;

impl ZnodeAcl {
    /// Where it begins.
    pub const OFFSET: usize = 176;
    /// Bytes of it.
    pub const SIZE: usize = 88;
}

/// Swaps a legacy znode bonus to host order.
pub fn swap_bonus(bytes: &mut [u8]) {
    for offset in (0..=ACL).step_by(8) {
        swap_at(bytes, offset, 8);
    }
    swap_at(bytes, ACL + 8, 4);
    swap_at(bytes, ACL + 12, 2);
    swap_at(bytes, ACL + 14, 2);
    let version = u16_at(bytes, ACL + 12);
    let Some(entries) = bytes.get_mut(ACL + 16..) else {
        return;
    };
    let length = entries.len().min(INLINE_ACL_SIZE);
    let entries = &mut entries[..length];
    if version == 0 {
        acl::swap_old(entries)
    } else {
        acl::swap(entries)
    }
}

#[cfg(test)]
mod tests;
