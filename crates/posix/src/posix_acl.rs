//! POSIX access control lists in the form Linux keeps in extended attributes: a little-endian
//! version word, then 8-byte entries (tag, permissions, id).
//!
//! A list is valid when it has exactly one owner, group and other entry, a mask when it names any
//! user or group, and no name twice. Only valid lists exist as a [`PosixAcl`].

use crate::{Access, Credentials, PosixError, Result};

/// Attribute that holds the access list.
pub(crate) const ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// Attribute that holds a directory's list for new entries.
pub(crate) const DEFAULT_NAME: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const HEADER_SIZE: usize = 4;
const ENTRY_SIZE: usize = 8;
const UNDEFINED_ID: u32 = u32::MAX;

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

impl Tag {
    fn from_wire(tag: u16, id: u32) -> Option<Self> {
        Some(match tag {
            0x01 => Self::Owner,
            0x02 => Self::User(id),
            0x04 => Self::OwningGroup,
            0x08 => Self::Group(id),
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }

    fn to_wire(self) -> (u16, u32) {
        match self {
            Self::Owner => (0x01, UNDEFINED_ID),
            Self::User(id) => (0x02, id),
            Self::OwningGroup => (0x04, UNDEFINED_ID),
            Self::Group(id) => (0x08, id),
            Self::Mask => (0x10, UNDEFINED_ID),
            Self::Other => (0x20, UNDEFINED_ID),
        }
    }
}

/// A valid list, its entries in canonical order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PosixAcl {
    entries: Vec<(Tag, u16)>,
}

impl PosixAcl {
    /// Decodes the attribute's value; an empty list (no entries) is `None`.
    pub(crate) fn decode(value: &[u8]) -> Result<Option<Self>> {
        const BAD: PosixError = PosixError::Invalid("malformed POSIX access control list");
        let (header, rest) = value.split_at_checked(HEADER_SIZE).ok_or(BAD)?;
        if header != VERSION.to_le_bytes() || !rest.len().is_multiple_of(ENTRY_SIZE) {
            return Err(BAD);
        }
        let mut entries = Vec::with_capacity(rest.len() / ENTRY_SIZE);
        for entry in rest.as_chunks::<ENTRY_SIZE>().0 {
            let [t0, t1, p0, p1, id @ ..] = *entry;
            let permissions = u16::from_le_bytes([p0, p1]);
            let tag = Tag::from_wire(u16::from_le_bytes([t0, t1]), u32::from_le_bytes(id));
            entries.push((tag.filter(|_| permissions <= 7).ok_or(BAD)?, permissions));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let acl = Self { entries };
        if acl.is_valid() {
            Ok(Some(acl.sorted()))
        } else {
            Err(BAD)
        }
    }

    /// The attribute's value.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_SIZE + self.entries.len() * ENTRY_SIZE);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for &(tag, permissions) in &self.entries {
            let (tag, id) = tag.to_wire();
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&permissions.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        out
    }

    /// Whether the list says no more than `rwxrwxrwx` can.
    pub(crate) fn is_mode_only(&self) -> bool {
        self.entries.len() == 3
    }

    /// The nine permission bits the list amounts to: the group part is the mask's.
    pub(crate) fn permissions(&self) -> u32 {
        let of = |tag| u32::from(self.find(tag).unwrap_or(0));
        let group = self
            .find(Tag::Mask)
            .map_or_else(|| of(Tag::OwningGroup), u32::from);
        of(Tag::Owner) << 6 | group << 3 | of(Tag::Other)
    }

    /// The list after `chmod` to these permission bits.
    pub(crate) fn with_permissions(mut self, permissions: u32) -> Self {
        let has_mask = self.find(Tag::Mask).is_some();
        for (tag, bits) in &mut self.entries {
            *bits = match tag {
                Tag::Owner => (permissions >> 6 & 7) as u16,
                Tag::OwningGroup if !has_mask => (permissions >> 3 & 7) as u16,
                Tag::Mask => (permissions >> 3 & 7) as u16,
                Tag::Other => (permissions & 7) as u16,
                Tag::User(_) | Tag::OwningGroup | Tag::Group(_) => *bits,
            };
        }
        self
    }

    /// The access list of a new entry made under this default list with `permissions` asked for:
    /// each class gets at most what was asked.
    pub(crate) fn inherit(&self, permissions: u32) -> Self {
        let has_mask = self.find(Tag::Mask).is_some();
        let mut new = self.clone();
        for (tag, bits) in &mut new.entries {
            match tag {
                Tag::Owner => *bits &= (permissions >> 6 & 7) as u16,
                Tag::OwningGroup if !has_mask => *bits &= (permissions >> 3 & 7) as u16,
                Tag::Mask => *bits &= (permissions >> 3 & 7) as u16,
                Tag::Other => *bits &= (permissions & 7) as u16,
                Tag::User(_) | Tag::OwningGroup | Tag::Group(_) => {}
            }
        }
        new
    }

    /// Whether the list lets `who` do `access` to a file of `uid` and `gid`.
    pub(crate) fn allows(&self, who: &Credentials, (uid, gid): (u32, u32), access: Access) -> bool {
        let grants = |bits: u16| u32::from(bits) & access.0 == access.0;
        if who.uid == uid {
            return self.find(Tag::Owner).is_some_and(grants);
        }
        let mask = self.find(Tag::Mask).unwrap_or(7);
        if let Some(bits) = self.find(Tag::User(who.uid)) {
            return grants(bits & mask);
        }
        let mut in_a_group = false;
        for &(tag, bits) in &self.entries {
            let group = match tag {
                Tag::OwningGroup => gid,
                Tag::Group(id) => id,
                Tag::Owner | Tag::User(_) | Tag::Mask | Tag::Other => continue,
            };
            if who.is_in_group(group) {
                if grants(bits & mask) {
                    return true;
                }
                in_a_group = true;
            }
        }
        !in_a_group && self.find(Tag::Other).is_some_and(grants)
    }

    fn find(&self, tag: Tag) -> Option<u16> {
        self.entries
            .iter()
            .find(|entry| entry.0 == tag)
            .map(|entry| entry.1)
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.0 == tag).count();
        let names = self
            .entries
            .iter()
            .any(|(tag, _)| matches!(tag, Tag::User(_) | Tag::Group(_)));
        let mut tags: Vec<Tag> = self.entries.iter().map(|entry| entry.0).collect();
        tags.sort_unstable();
        count(Tag::Owner) == 1
            && count(Tag::OwningGroup) == 1
            && count(Tag::Other) == 1
            && (!names || count(Tag::Mask) == 1)
            && tags.windows(2).all(|pair| pair[0] != pair[1])
    }

    fn sorted(mut self) -> Self {
        self.entries.sort_unstable_by_key(|entry| entry.0);
        self
    }
}

#[cfg(test)]
mod tests;
