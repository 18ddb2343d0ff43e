//! Legacy znodes: the fixed-form bonus of files of ZPL versions 1 to 4.

use base::{ByteOrder, ObjectId};

use crate::acl;
use crate::bits::bits;
use crate::record::{Plain, record};

/// Where the tail (symbolic link target, or scan stamp) begins.
pub const TAIL: usize = ZnodePhys::SIZE;
/// Bytes of access control entries that fit into a znode.
pub const INLINE_ACL_SIZE: usize = 72;

record! {
    /// The bonus of a file without system attributes. Its tail follows: a symbolic link's target, or a scan stamp.
    #[doc(alias = "znode_phys_t")]
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

bits! {
    /// The value of a directory's entry.
    pub struct DirectoryEntry [64] {
        /// The object.
        object: 48 = 0,
        /// The type of file; 0: the entry does not tell.
        kind: 4 = 60,
    }
}

/// The part of a znode that describes its access list, also an attribute of its own
/// (`ZPL_ZNODE_ACL`).
#[derive(Clone, Copy, Debug)]
pub struct ZnodeAcl;

impl ZnodeAcl {
    /// Where it begins.
    pub const OFFSET: usize = ZnodePhys::AT.acl_object.offset;
    /// Bytes of it.
    pub const SIZE: usize = ZnodePhys::SIZE - Self::OFFSET;
}

/// Swaps a legacy znode bonus to host order.
pub fn swap_bonus(bytes: &mut [u8]) {
    ZnodePhys::swap(bytes);
    let at = ZnodePhys::AT;
    let version = at.acl_version.get(bytes, ByteOrder::NATIVE);
    let Some(entries) = bytes.get_mut(at.acl_inline.offset..) else {
        return;
    };
    let (entries, _) = entries.split_at_mut(entries.len().min(INLINE_ACL_SIZE));
    if version == 0 {
        acl::swap_old(entries)
    } else {
        acl::swap(entries)
    }
}

#[cfg(test)]
mod tests;
