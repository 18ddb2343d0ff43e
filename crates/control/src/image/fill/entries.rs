//! Entries by their kinds: each is made, gets what belongs to it, and then its name.

use std::path::Path;

use base::ObjectId;
use posix::{Credentials, FileType, NewNode, OpenFile, OpenOptions};

use super::room::{Made, Room};
use super::{Contents, Existing, Filler, Found, Trouble, owner, unread};

impl Filler<'_> {
    /// Makes one entry; a directory is returned, for what is in it.
    pub(super) fn entry(
        &mut self,
        parent: ObjectId,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<(Found, ObjectId)>, Trouble> {
        let found = self.source.found(path).map_err(unread)?;
        let who = owner(&found);
        if let Some(first) = found.identity.and_then(|id| self.linked.get(&id)) {
            return self.link(parent, name, *first, &who).map(|()| None);
        }
        let file_type = found
            .file_type
            .ok_or_else(|| Trouble::Entry("of no known kind".to_owned()))?;
        let node = NewNode {
            file_type,
            permissions: found.permissions,
            umask: 0,
            device: found.device,
        };
        match file_type {
            FileType::Regular => self.regular(parent, name, path, &node).map(|()| None),
            FileType::Directory => {
                let object = self.directory(parent, name, &node, &who)?;
                Ok(Some((found, object)))
            }
            FileType::Symlink
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Socket => {
                let special = self.special((parent, name), path, &node, &found);
                special.map(|()| None)
            }
        }
    }

    /// Another name of a file that was copied before.
    fn link(
        &self,
        parent: ObjectId,
        name: &[u8],
        first: ObjectId,
        who: &Credentials,
    ) -> Result<(), Trouble> {
        let room = self.room(parent, name)?;
        let linked = self.files.link(who, first, parent, room.name());
        linked.map_err(|error| self.failed(&error))?;
        self.finish(&room, Made::Other, Ok(()))
    }

    /// A directory, or the one that is there.
    fn directory(
        &self,
        parent: ObjectId,
        name: &[u8],
        node: &NewNode,
        who: &Credentials,
    ) -> Result<ObjectId, Trouble> {
        let there = self.there(parent, name)?;
        if let Some(there) = there.filter(|there| there.file_type == FileType::Directory) {
            return Ok(there.object);
        }
        let room = self.room(parent, name)?;
        let made = self.files.mkdir(who, parent, room.name(), node);
        let made = made.map_err(|error| self.failed(&error))?;
        self.finish(&room, Made::Directory, Ok(()))?;
        Ok(made.object)
    }

    /// A symbolic link, a pipe, a socket or a device.
    fn special(
        &mut self,
        (parent, name): (ObjectId, &[u8]),
        path: &Path,
        node: &NewNode,
        found: &Found,
    ) -> Result<(), Trouble> {
        let who = owner(found);
        let target = match node.file_type {
            FileType::Symlink => Some(self.source.target(path).map_err(unread)?),
            FileType::Regular
            | FileType::Directory
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Socket => None,
        };
        let room = self.room(parent, name)?;
        let made = match &target {
            Some(target) => self.files.symlink(&who, parent, room.name(), target),
            None => self.files.mknod(&who, parent, room.name(), node),
        };
        let object = made.map_err(|error| self.failed(&error))?.object;
        self.remember(found, object);
        let whole = self.attributes(path, object, found);
        self.keep(&room, found, whole)
    }

    fn remember(&mut self, found: &Found, object: ObjectId) {
        if let Some(identity) = found.identity {
            self.linked.insert(identity, object);
        }
    }

    /// Keeps what was made of a file, if it is whole; else there is nothing that other names could be of.
    fn keep(
        &mut self,
        room: &Room<'_>,
        found: &Found,
        made: Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let finished = self.finish(room, Made::Other, made);
        if let (Err(_), Some(identity)) = (&finished, found.identity)
            && self.target.existing != Existing::Nothing
        {
            self.linked.remove(&identity);
        }
        finished
    }

    /// A file.
    fn regular(
        &mut self,
        parent: ObjectId,
        name: &[u8],
        path: &Path,
        node: &NewNode,
    ) -> Result<(), Trouble> {
        // Opened first: what cannot be read leaves no empty file behind, and what it was to replace.
        let from = self.source.open(path).map_err(unread)?;
        let found = from.found().map_err(unread)?;
        if !found.is_regular() {
            return Err(Trouble::Entry("changed while it was read".to_owned()));
        }
        let room = self.room(parent, name)?;
        let options = OpenOptions {
            write: true,
            ..OpenOptions::default()
        };
        let (to, _) = self
            .files
            .create(&owner(&found), parent, room.name(), node, options)
            .map_err(|error| self.failed(&error))?;
        self.remember(&found, to.object());
        let copied = self.copied(&*from, &to, path, &found);
        self.keep(&room, &found, copied)?;
        let after = from.found().map_err(unread)?;
        if (after.size, after.modified) != (found.size, found.modified) {
            return Err(Trouble::Entry("changed while it was read".to_owned()));
        }
        Ok(())
    }

    /// Copies what a file has, and what belongs to it.
    fn copied(
        &mut self,
        from: &dyn Contents,
        to: &OpenFile,
        path: &Path,
        found: &Found,
    ) -> Result<(), Trouble> {
        let copied = self.contents(from, to, found.size);
        if matches!(copied, Err(Trouble::End(_))) {
            return copied;
        }
        self.attributes(path, to.object(), found)?;
        copied
    }
}
