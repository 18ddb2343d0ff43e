//! What names are made of: entries, and how a rename or an attribute write treats what is there.

use crate::FileType;
use base::ObjectId;

/// One entry of a directory, as `readdir` meets it. Entries `.` and `..` come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Name, without a terminating zero.
    pub name: &'a [u8],
    /// The object it names.
    pub object: ObjectId,
    /// Its kind; `None` where old directories do not tell.
    pub file_type: Option<FileType>,
    /// Where to go on after this entry. Hash-based: stays valid while entries come and go, and
    /// across a remount. Below 2^63.
    pub next_cookie: u64,
}

/// What a visitor of entries wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The entry was taken: show the next one.
    Continue,
    /// The entry was *not* taken (no room); the listing goes on from it next time.
    Full,
}

/// How a rename treats an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    #[default]
    Replace,
    /// Fails when there is one (`RENAME_NOREPLACE`).
    NoReplace,
    /// Swaps both names (`RENAME_EXCHANGE`).
    Exchange,
    /// Leaves a whiteout device at the source (`RENAME_WHITEOUT`).
    Whiteout,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Created or replaced.
    #[default]
    Either,
    /// Fails when it exists (`XATTR_CREATE`).
    Create,
    /// Fails when it does not (`XATTR_REPLACE`).
    Replace,
}
