//! Operations on names, contents and attributes.

mod choose;

pub use choose::{Chooser, Limits};

use crate::model::{Kind, Node, NodeId, Refusal, Tree};
use crate::random::Random;
use posix::{AllocateMode, FileType, RenameMode, Timestamp, XattrMode};

/// Where a name is: the path of its directory from the root, and the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory's path, a name each; empty for the root.
    pub directory: Vec<String>,
    /// The name in it.
    pub name: String,
}

/// One operation. It names things by path, so that it means the same to the model and to a real file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new empty file.
    Create(Place, u32),
    /// A new directory.
    MakeDirectory(Place, u32),
    /// A new pipe, socket or device, with the device's numbers.
    MakeSpecial(Place, FileType, (u32, u32), u32),
    /// A new file that is written before it gets its name.
    LinkUnnamed(Place, u32, Vec<u8>),
    /// A new symbolic link and its target.
    SymbolicLink(Place, String),
    /// A second name (the second place) for what the first names.
    Link(Place, Place),
    /// Remove a name of anything but a directory.
    Unlink(Place),
    /// Remove a directory.
    RemoveDirectory(Place),
    /// Move a name.
    Rename(Place, Place, RenameMode),
    /// Write bytes at an offset; (true) they are durable then.
    Write(Place, usize, Vec<u8>, bool),
    /// Write bytes at the end.
    Append(Place, Vec<u8>),
    /// Set a file's length.
    Truncate(Place, usize),
    /// Open a file so that it is emptied.
    Empty(Place),
    /// `fallocate` of an offset and a length.
    Allocate(Place, AllocateMode, usize, usize),
    /// Copy a length from an offset of one file to an offset of another.
    CopyRange((Place, usize), (Place, usize), usize),
    /// Set when the data changed last.
    SetTime(Place, Timestamp),
    /// Set permissions.
    Chmod(Place, u32),
    /// Set owner and group.
    Chown(Place, u32, u32),
    /// Set an extended attribute.
    SetXattr(Place, String, Vec<u8>, XattrMode),
    /// Remove an extended attribute.
    RemoveXattr(Place, String),
}

impl Tree {
    fn directory(&self, path: &[String]) -> Result<NodeId, Refusal> {
        path.iter()
            .try_fold(Self::ROOT, |directory, name| self.lookup(directory, name))
    }

    /// The node at a place.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, place: &Place) -> Result<NodeId, Refusal> {
        self.lookup(self.directory(&place.directory)?, &place.name)
    }

    /// Does to the model what the operation says.
    ///
    /// # Errors
    /// As the real call would fail.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Refusal> {
        let mut add = |place: &Place, kind, mode| {
            let directory = self.directory(&place.directory)?;
            self.add(directory, &place.name, Node::new(kind, mode))
                .map(|_| ())
        };
        match operation {
            Operation::Create(place, mode) => add(place, Kind::file(Vec::new()), *mode),
            Operation::LinkUnnamed(place, mode, bytes) => {
                add(place, Kind::file(bytes.clone()), *mode)
            }
            Operation::MakeDirectory(place, mode) => {
                add(place, Kind::Directory(Default::default()), *mode)
            }
            Operation::MakeSpecial(place, kind, device, mode) => {
                add(place, Kind::Special(*kind, *device), *mode)
            }
            Operation::SymbolicLink(place, target) => add(place, Kind::Link(target.clone()), 0o777),
            Operation::Link(old, new) => {
                let node = self.find(old)?;
                let directory = self.directory(&new.directory)?;
                self.link(node, directory, &new.name)
            }
            Operation::Unlink(place) => self.unlink(self.directory(&place.directory)?, &place.name),
            Operation::RemoveDirectory(place) => {
                self.rmdir(self.directory(&place.directory)?, &place.name)
            }
            Operation::Rename(old, new, mode) => {
                let from = (self.directory(&old.directory)?, old.name.as_str());
                let to = (self.directory(&new.directory)?, new.name.as_str());
                self.rename(from, to, *mode)
            }
            _ => self.apply_to_node(operation),
        }
    }

    /// The node at a place, if it may have an attribute of that name: links and pipes have none of `user.`.
    fn xattr_holder(&self, place: &Place, name: &str) -> Result<NodeId, Refusal> {
        let node = self.find(place)?;
        match self.node(node).kind {
            Kind::File(_) | Kind::Directory(_) => Ok(node),
            _ if !name.starts_with("user.") => Ok(node),
            _ => Err(Refusal::Forbidden),
        }
    }

    fn apply_to_node(&mut self, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Write(place, offset, bytes, _) => {
                self.write(self.find(place)?, *offset, bytes)
            }
            Operation::Append(place, bytes) => {
                let node = self.find(place)?;
                let end = self.contents(node)?.len();
                self.write(node, end, bytes)
            }
            Operation::Empty(place) => self.truncate(self.find(place)?, 0),
            Operation::Allocate(place, mode, offset, length) => {
                self.allocate(self.find(place)?, *mode, (*offset, *length))
            }
            Operation::CopyRange((from, start), (to, offset), length) => {
                let from = self.find(from)?;
                self.contents(from)?;
                let to = self.find(to)?;
                self.copy_range((from, *start), (to, *offset), *length)
            }
            Operation::SetTime(place, time) => {
                self.set_mtime(self.find(place)?, *time);
                Ok(())
            }
            Operation::Truncate(place, length) => self.truncate(self.find(place)?, *length),
            Operation::Chmod(place, mode) => {
                self.chmod(self.find(place)?, *mode);
                Ok(())
            }
            Operation::Chown(place, uid, gid) => {
                self.chown(self.find(place)?, *uid, *gid);
                Ok(())
            }
            Operation::SetXattr(place, name, value, mode) => {
                self.set_xattr(self.xattr_holder(place, name)?, name, value, *mode)
            }
            Operation::RemoveXattr(place, name) => {
                self.remove_xattr(self.xattr_holder(place, name)?, name)
            }
            _ => Err(Refusal::Invalid),
        }
    }

    /// One of its regular files, by one of its names.
    pub fn pick_file(&self, random: &mut Random) -> Option<(Place, NodeId)> {
        let mut files = self.places();
        files.retain(|(_, node)| matches!(self.node(*node).kind, Kind::File(_)));
        (!files.is_empty()).then(|| random.pick(&files).clone())
    }

    /// Every name with its place.
    #[must_use]
    pub fn places(&self) -> Vec<(Place, NodeId)> {
        let mut found = Vec::new();
        let mut waiting = vec![(Vec::new(), Self::ROOT)];
        while let Some((path, directory)) = waiting.pop() {
            let Kind::Directory(names) = &self.node(directory).kind else {
                continue;
            };
            for (name, child) in names {
                let place = Place {
                    directory: path.clone(),
                    name: name.clone(),
                };
                if matches!(self.node(*child).kind, Kind::Directory(_)) {
                    let mut below = path.clone();
                    below.push(name.clone());
                    waiting.push((below, *child));
                }
                found.push((place, *child));
            }
        }
        found
    }
}
