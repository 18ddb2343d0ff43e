//! Listing directories.
//!
//! A cookie is 1 after `.`, 2 after `..`, and from 4 on the position in the table of entries,
//! which goes by hash: it stays valid while entries come and go and across a change of the table's
//! form.

use base::ObjectId;

use crate::core::Core;
use crate::names::unpack_entry;
use crate::{DirectoryEntry, FileType, Result, Visit};

const AFTER_DOT: u64 = 1;
pub(crate) const AFTER_DOT_DOT: u64 = 2;
const FIRST_ENTRY: u64 = 4;
/// Cookies stay below 2^63: the kernel's offsets are signed.
const LAST: u64 = i64::MAX as u64;

impl Core {
    /// Shows entries from `cookie` on until the end or until `visit` has no room.
    pub(crate) fn read_directory(
        &self,
        directory: ObjectId,
        cookie: u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> Visit,
    ) -> Result<()> {
        let znode = self.directory(directory)?;
        let parent = znode.state.read().parent;
        let dots = [
            (0, &b"."[..], directory, AFTER_DOT),
            (AFTER_DOT, &b".."[..], parent, AFTER_DOT_DOT),
        ];
        for (from, name, object, next_cookie) in dots {
            let file_type = Some(FileType::Directory);
            let entry = DirectoryEntry {
                name,
                object,
                file_type,
                next_cookie,
            };
            if cookie <= from && visit(&entry) == Visit::Full {
                return Ok(());
            }
        }
        let mut cursor = self
            .entries(&znode)?
            .cursor(cookie.saturating_sub(FIRST_ENTRY));
        let (mut noted, mut first) = (0, cookie <= AFTER_DOT_DOT);
        while let Some(entry) = cursor.next_entry()? {
            if noted == 0 {
                let values = cursor.pending().map(|entry| entry.value);
                let values = std::iter::once(entry.value).chain(values);
                noted = values.clone().count();
                let objects = values.map(|value| unpack_entry(value).0);
                self.listings.note(directory, first, objects);
                first = false;
            }
            noted -= 1;
            let (object, file_type) = unpack_entry(entry.value);
            let next_cookie = entry.cookie.saturating_add(FIRST_ENTRY).min(LAST);
            let shown = DirectoryEntry {
                name: &entry.name,
                object,
                file_type,
                next_cookie,
            };
            if visit(&shown) == Visit::Full {
                return Ok(());
            }
        }
        Ok(())
    }
}
