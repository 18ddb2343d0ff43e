//! Access control lists as packed entries (ACEs), and the list that a mode amounts to.

use crate::FormatError;
use crate::host::{put_u16, put_u32, put_u64, swap_at, u16_at, u32_at, u64_at};

const HEADER_SIZE: usize = 8;
const ID_SIZE: usize = 16;
const OBJECT_SIZE: usize = 48;
/// Bytes of a version-0 entry.
pub const OLD_SIZE: usize = 12;

/// Entry types.
pub mod kind {
    /// Grants the mask.
    pub const ALLOW: u16 = 0;
    /// Refuses the mask.
    pub const DENY: u16 = 1;
}

/// Entry flags.
pub mod flag {
    /// New files inherit the entry.
    pub const FILE_INHERIT: u16 = 0x1;
    /// New directories inherit it.
    pub const DIRECTORY_INHERIT: u16 = 0x2;
    /// It does not count here, it is only inherited.
    pub const INHERIT_ONLY: u16 = 0x8;
    /// The id is a group's.
    pub const IDENTIFIER_GROUP: u16 = 0x40;
    /// `owner@`.
    pub const OWNER: u16 = 0x1000;
    /// `group@`, without [`IDENTIFIER_GROUP`].
    pub const GROUP: u16 = 0x2000;
    /// `everyone@`.
    pub const EVERYONE: u16 = 0x4000;
    /// The three kinds of entry that have no id.
    pub const ABSTRACT: u16 = OWNER | GROUP | EVERYONE;
}

/// Access mask bits.
pub mod mask {
    /// Read a file, list a directory.
    pub const READ_DATA: u32 = 0x1;
    /// Write a file, add a file to a directory.
    pub const WRITE_DATA: u32 = 0x2;
    /// Append to a file, add a subdirectory.
    pub const APPEND_DATA: u32 = 0x4;
    /// Read extended attributes.
    pub const READ_NAMED: u32 = 0x8;
    /// Write extended attributes.
    pub const WRITE_NAMED: u32 = 0x10;
    /// Execute a file, search a directory.
    pub const EXECUTE: u32 = 0x20;
    /// Delete an entry of a directory.
    pub const DELETE_CHILD: u32 = 0x40;
    /// Read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x80;
    /// Change attributes.
    pub const WRITE_ATTRIBUTES: u32 = 0x100;
    /// Delete the file itself.
    pub const DELETE: u32 = 0x1_0000;
    /// Read the list.
    pub const READ_ACL: u32 = 0x2_0000;
    /// Change the list.
    pub const WRITE_ACL: u32 = 0x4_0000;
    /// Change the owner.
    pub const WRITE_OWNER: u32 = 0x8_0000;
    /// Wait on the file.
    pub const SYNCHRONIZE: u32 = 0x10_0000;
    /// What the owner may always do by a mode.
    pub const OWNER_BASE: u32 = 0x001E_0198;
    /// What everybody may always do by a mode.
    pub const EVERYONE_BASE: u32 = 0x0012_0088;
}

/// One access control entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// Allow, deny, audit, alarm; 5 to 8 are the forms with two GUIDs.
    pub kind: u16,
    /// Whom and how it is inherited, see [`flag`].
    pub flags: u16,
    /// What it grants or refuses, see [`mask`].
    pub mask: u32,
    /// The user or group (FUID); 0 for the abstract three.
    pub who: u64,
}

/// Bytes of an entry of this kind and flags.
fn size(kind: u16, flags: u16) -> usize {
    match kind {
        0..=3 if flags & flag::ABSTRACT != 0 => HEADER_SIZE,
        5..=8 => OBJECT_SIZE,
        _ => ID_SIZE,
    }
}

/// Decodes packed entries in host order: at most `count`, as many as there are bytes for.
///
/// # Errors
/// When the bytes end in the middle of an entry.
pub fn decode(bytes: &[u8], count: u64) -> Result<Vec<Ace>, FormatError> {
    let mut aces = Vec::new();
    let mut rest = bytes;
    while (aces.len() as u64) < count {
        let (kind, flags) = (u16_at(rest, 0), u16_at(rest, 2));
        let size = size(kind, flags);
        let Some(tail) = rest.get(size..) else {
            let available = rest.len();
            return Err(FormatError::Truncated {
                what: "access list",
                needed: size,
                available,
            });
        };
        let who = if size == HEADER_SIZE {
            0
        } else {
            u64_at(rest, 8)
        };
        aces.push(Ace {
            kind,
            flags,
            mask: u32_at(rest, 4),
            who,
        });
        rest = tail;
    }
    Ok(aces)
}

/// Decodes an array of version-0 entries in host order.
///
/// # Errors
/// When there are fewer than `count`.
pub fn decode_old(bytes: &[u8], count: u64) -> Result<Vec<Ace>, FormatError> {
    let needed = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_mul(OLD_SIZE);
    crate::record::require("version 0 access list", bytes, needed)?;
    let entries = bytes.chunks_exact(OLD_SIZE).take(needed / OLD_SIZE);
    Ok(entries
        .map(|entry| {
            let flags = u16_at(entry, 8);
            let who = if flags & flag::ABSTRACT != 0 {
                0
            } else {
                u32_at(entry, 0).into()
            };
            Ace {
                kind: u16_at(entry, 10),
                flags,
                mask: u32_at(entry, 4),
                who,
            }
        })
        .collect())
}

/// Packs entries in host order. Entries with GUIDs lose them (they mean nothing to us).
#[must_use]
pub fn encode(aces: &[Ace]) -> Vec<u8> {
    let mut out = Vec::with_capacity(aces.len() * ID_SIZE);
    for ace in aces {
        let start = out.len();
        let size = size(ace.kind, ace.flags);
        out.resize(start + size, 0);
        put_u16(&mut out, start, ace.kind);
        put_u16(&mut out, start + 2, ace.flags);
        put_u32(&mut out, start + 4, ace.mask);
        if size > HEADER_SIZE {
            put_u64(&mut out, start + 8, ace.who);
        }
    }
    out
}

/// Packs version-0 entries in host order. They have no room for an id of a domain: that becomes nobody's.
#[must_use]
pub fn encode_old(aces: &[Ace]) -> Vec<u8> {
    const NOBODY: u32 = 65_534;
    let mut out = vec![0; aces.len() * OLD_SIZE];
    for (entry, ace) in out.chunks_exact_mut(OLD_SIZE).zip(aces) {
        put_u32(entry, 0, u32::try_from(ace.who).unwrap_or(NOBODY));
        put_u32(entry, 4, ace.mask);
        put_u16(entry, 8, ace.flags);
        put_u16(entry, 10, ace.kind);
    }
    out
}

/// The list that says exactly what the nine permission bits of `mode` say.
#[must_use]
pub fn trivial(mode: u32, is_directory: bool) -> Vec<Ace> {
    let bits = |class: u32| {
        let class = mode >> class & 7;
        let write = mask::WRITE_DATA
            | mask::APPEND_DATA
            | if is_directory { mask::DELETE_CHILD } else { 0 };
        (if class & 4 != 0 { mask::READ_DATA } else { 0 })
            | (if class & 2 != 0 { write } else { 0 })
            | (if class & 1 != 0 { mask::EXECUTE } else { 0 })
    };
    let (owner, group, other) = (bits(6), bits(3), bits(0));
    let ace = |kind, flags, mask| Ace {
        kind,
        flags,
        mask,
        who: 0,
    };
    let group_flags = flag::GROUP | flag::IDENTIFIER_GROUP;
    let exceptions = [
        ace(kind::ALLOW, flag::OWNER, owner & !group & other),
        ace(kind::DENY, flag::OWNER, !owner & (group | other)),
        ace(kind::DENY, group_flags, !group & other),
    ];
    let mut list: Vec<Ace> = exceptions.into_iter().filter(|ace| ace.mask != 0).collect();
    list.push(ace(kind::ALLOW, flag::OWNER, owner | mask::OWNER_BASE));
    list.push(ace(kind::ALLOW, group_flags, group | mask::EVERYONE_BASE));
    list.push(ace(
        kind::ALLOW,
        flag::EVERYONE,
        other | mask::EVERYONE_BASE,
    ));
    list
}

/// Swaps packed ACEs of variable size to host order.
pub fn swap(bytes: &mut [u8]) {
    let mut offset = 0;
    while offset + HEADER_SIZE <= bytes.len() {
        swap_at(bytes, offset, 2);
        swap_at(bytes, offset + 2, 2);
        swap_at(bytes, offset + 4, 4);
        let size = size(u16_at(bytes, offset), u16_at(bytes, offset + 2));
        if size > HEADER_SIZE {
            swap_at(bytes, offset + 8, 8);
        }
        offset += size;
    }
}

/// Swaps an array of version-0 ACEs to host order.
pub fn swap_old(bytes: &mut [u8]) {
    for entry in bytes.chunks_exact_mut(OLD_SIZE) {
        swap_at(entry, 0, 4);
        swap_at(entry, 4, 4);
        swap_at(entry, 8, 2);
        swap_at(entry, 10, 2);
    }
}

#[cfg(test)]
mod tests;
