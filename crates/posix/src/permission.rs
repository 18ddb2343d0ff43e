//! Who may do what: mode bits, POSIX access lists, NFSv4 access lists, the sticky bit.

use format::acl::{Ace, flag, kind, mask};

use crate::posix_acl::PosixAcl;
use crate::{Access, Credentials, PosixError, Result};

/// Set-user-id.
pub(crate) const SET_UID: u32 = 0o4000;
/// Set-group-id.
pub(crate) const SET_GID: u32 = 0o2000;
/// Sticky.
pub(crate) const STICKY: u32 = 0o1000;

/// What a permission check looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) is_directory: bool,
    pub(crate) acl: Option<&'a PosixAcl>,
    /// The NFSv4 list, when it says more than the mode.
    pub(crate) entries: Option<&'a [Ace]>,
}

/// Whether `who` may do `access`.
pub(crate) fn check(who: &Credentials, subject: &Subject<'_>, access: Access) -> Result<()> {
    let granted = if who.privileged {
        // Root may all but execute what nobody may execute.
        !access.contains(Access::EXECUTE) || subject.is_directory || subject.mode & 0o111 != 0
    } else if let Some(entries) = subject.entries {
        by_entries(who, subject, entries, access)
    } else if let Some(acl) = subject.acl {
        acl.allows(who, (subject.uid, subject.gid), access)
    } else {
        by_mode(who, subject, access)
    };
    if granted {
        Ok(())
    } else {
        Err(PosixError::AccessDenied)
    }
}

fn by_mode(who: &Credentials, subject: &Subject<'_>, access: Access) -> bool {
    let class = if who.uid == subject.uid {
        6
    } else if who.is_in_group(subject.gid) {
        3
    } else {
        0
    };
    subject.mode >> class & access.0 == access.0
}

/// Entries are looked at in order; the first that speaks of a bit decides it.
fn by_entries(who: &Credentials, subject: &Subject<'_>, entries: &[Ace], access: Access) -> bool {
    let mut wanted = 0;
    for (bit, bits) in [
        (Access::READ, mask::READ_DATA),
        (Access::WRITE, mask::WRITE_DATA | mask::APPEND_DATA),
        (Access::EXECUTE, mask::EXECUTE),
    ] {
        if access.contains(bit) {
            wanted |= bits;
        }
    }
    for entry in entries {
        if entry.flags & flag::INHERIT_ONLY != 0 || !applies(who, subject, entry) {
            continue;
        }
        match entry.kind {
            kind::ALLOW => wanted &= !entry.mask,
            kind::DENY if wanted & entry.mask != 0 => return false,
            _ => {}
        }
    }
    wanted == 0
}

fn applies(who: &Credentials, subject: &Subject<'_>, entry: &Ace) -> bool {
    let group = entry.flags & flag::IDENTIFIER_GROUP != 0;
    match entry.flags & flag::ABSTRACT {
        flag::OWNER => who.uid == subject.uid,
        flag::GROUP => who.is_in_group(subject.gid),
        flag::EVERYONE => true,
        0 if group => u32::try_from(entry.who).is_ok_and(|gid| who.is_in_group(gid)),
        0 => entry.who == u64::from(who.uid),
        _ => false,
    }
}

/// In a sticky directory only the owner of the entry or of the directory removes or renames it.
pub(crate) fn check_sticky(
    who: &Credentials,
    directory_mode: u32,
    directory_uid: u32,
    entry_uid: u32,
) -> Result<()> {
    let free = directory_mode & STICKY == 0
        || who.privileged
        || who.uid == directory_uid
        || who.uid == entry_uid;
    if free {
        Ok(())
    } else {
        Err(PosixError::NotPermitted("the directory is sticky"))
    }
}

/// The mode without the set-id bits that a change by an ordinary user takes away.
pub(crate) fn without_set_id(mode: u32) -> u32 {
    let without = mode & !SET_UID;
    // Without group execution the bit does not mean set-group-id.
    if mode & 0o010 == 0 {
        without
    } else {
        without & !SET_GID
    }
}

#[cfg(test)]
mod tests;
