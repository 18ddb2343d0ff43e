//! Where an entry is made in a file system that has something already: what it replaces keeps its name until the entry
//! is whole, and of one that did not come to its end nothing is left.

use std::borrow::Cow;

use base::ObjectId;
use posix::{Attributes, Credentials, FileType, PosixError, RenameMode};

use super::{Existing, Filler, Trouble};

/// More names for entries that are not whole are not tried.
const NAMES_MAX: u32 = 1000;

/// Where an entry is made.
pub(super) struct Room<'n> {
    parent: ObjectId,
    /// The name that it gets.
    name: &'n [u8],
    /// The name that it has until it is whole; another one where it replaces something.
    made: Cow<'n, [u8]>,
}

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Directory,
    /// Everything else.
    Other,
}

impl Room<'_> {
    /// The name to make it under.
    pub(super) fn name(&self) -> &[u8] {
        &self.made
    }

    fn replaces(&self) -> bool {
        matches!(self.made, Cow::Owned(_))
    }
}

impl Filler<'_> {
    /// What has a name already.
    pub(super) fn there(
        &self,
        parent: ObjectId,
        name: &[u8],
    ) -> Result<Option<Attributes>, Trouble> {
        if self.target.existing == Existing::Nothing {
            return Ok(None);
        }
        match self.files.lookup(&Credentials::root(), parent, name) {
            Ok(there) => Ok(Some(there)),
            Err(PosixError::NotFound) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Where an entry is made, other than a directory that is filled further.
    pub(super) fn room<'n>(&self, parent: ObjectId, name: &'n [u8]) -> Result<Room<'n>, Trouble> {
        let made = match (self.there(parent, name)?, self.target.existing) {
            (None, _) => Cow::Borrowed(name),
            (Some(there), _) if there.file_type == FileType::Directory => {
                return Err(Trouble::Entry("a directory is there already".to_owned()));
            }
            (Some(_), Existing::Replaced) => Cow::Owned(self.unused_name(parent)?),
            (Some(_), Existing::Kept | Existing::Nothing) => {
                return Err(Trouble::Entry("it is there already; use '-f'".to_owned()));
            }
        };
        Ok(Room { parent, name, made })
    }

    fn unused_name(&self, parent: ObjectId) -> Result<Vec<u8>, Trouble> {
        for number in 0..NAMES_MAX {
            let name = format!(".millpond-cp-{}-{number}", std::process::id()).into_bytes();
            if self.there(parent, &name)?.is_none() {
                return Ok(name);
            }
        }
        Err(Trouble::Entry("no other name is free meanwhile".to_owned()))
    }

    /// Gives an entry its name when it was made, or takes away what was made of it. A new image keeps all.
    pub(super) fn finish(
        &self,
        room: &Room<'_>,
        what: Made,
        made: Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        if self.target.existing == Existing::Nothing {
            return made;
        }
        let finished = made.and_then(|()| {
            let named = self.give_name(room, what);
            named.map_err(|error| self.failed(&error))
        });
        if finished.is_err() {
            // Why it could not be made is told already.
            let root = Credentials::root();
            let _gone = match what {
                Made::Directory => self.files.rmdir(&root, room.parent, room.name()),
                Made::Other => self.files.unlink(&root, room.parent, room.name()),
            };
        }
        finished
    }

    fn give_name(&self, room: &Room<'_>, what: Made) -> posix::Result<()> {
        if !room.replaces() {
            return Ok(());
        }
        let root = Credentials::root();
        if what == Made::Directory {
            // A directory takes the place of nothing else.
            drop(self.files.unlink(&root, room.parent, room.name)?);
        }
        let (from, to) = ((room.parent, room.name()), (room.parent, room.name));
        drop(self.files.rename(&root, from, to, RenameMode::Replace)?);
        Ok(())
    }
}
