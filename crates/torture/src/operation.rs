//! Random operations on names, contents and attributes.

use crate::model::{Kind, Node, NodeId, Refusal, Tree};
use crate::random::Random;

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
    /// A new pipe.
    MakePipe(Place, u32),
    /// A new symbolic link and its target.
    SymbolicLink(Place, String),
    /// A second name (the second place) for what the first names.
    Link(Place, Place),
    /// Remove a name of anything but a directory.
    Unlink(Place),
    /// Remove a directory.
    RemoveDirectory(Place),
    /// Move a name.
    Rename(Place, Place),
    /// Write bytes at an offset.
    Write(Place, usize, Vec<u8>),
    /// Set a file's length.
    Truncate(Place, usize),
    /// Set permissions.
    Chmod(Place, u32),
    /// Set owner and group.
    Chown(Place, u32, u32),
    /// Set an extended attribute.
    SetXattr(Place, String, Vec<u8>),
    /// Remove an extended attribute.
    RemoveXattr(Place, String),
}

/// The largest file that operations make, bytes.
const FILE_SIZE_MAX: usize = 600_000;

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
            Operation::Create(place, mode) => add(place, Kind::File(Vec::new()), *mode),
            Operation::MakeDirectory(place, mode) => {
                add(place, Kind::Directory(Default::default()), *mode)
            }
            Operation::MakePipe(place, mode) => add(place, Kind::Pipe, *mode),
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
            Operation::Rename(old, new) => {
                let from = (self.directory(&old.directory)?, old.name.as_str());
                let to = (self.directory(&new.directory)?, new.name.as_str());
                self.rename(from, to)
            }
            _ => self.apply_to_node(operation),
        }
    }

    /// The node at a place, if it may have `user.` attributes: links and pipes may not.
    fn xattr_holder(&self, place: &Place) -> Result<NodeId, Refusal> {
        let node = self.find(place)?;
        match self.node(node).kind {
            Kind::File(_) | Kind::Directory(_) => Ok(node),
            _ => Err(Refusal::Forbidden),
        }
    }

    fn apply_to_node(&mut self, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Write(place, offset, bytes) => self.write(self.find(place)?, *offset, bytes),
            Operation::Truncate(place, length) => self.truncate(self.find(place)?, *length),
            Operation::Chmod(place, mode) => {
                self.chmod(self.find(place)?, *mode);
                Ok(())
            }
            Operation::Chown(place, uid, gid) => {
                self.chown(self.find(place)?, *uid, *gid);
                Ok(())
            }
            Operation::SetXattr(place, name, value) => {
                self.set_xattr(self.xattr_holder(place)?, name, value);
                Ok(())
            }
            Operation::RemoveXattr(place, name) => {
                self.remove_xattr(self.xattr_holder(place)?, name)
            }
            _ => Err(Refusal::Invalid),
        }
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

/// Chooses operations that mostly succeed on `tree`.
#[derive(Clone, Debug)]
pub struct Chooser {
    random: Random,
}

impl Chooser {
    /// A chooser of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
        }
    }

    /// The next operation.
    pub fn next(&mut self, tree: &Tree) -> Operation {
        let places = tree.places();
        match self.random.below(100) {
            0..20 => Operation::Create(self.new_place(tree, &places), self.mode()),
            20..27 => Operation::MakeDirectory(self.new_place(tree, &places), self.mode()),
            27..29 => Operation::MakePipe(self.new_place(tree, &places), self.mode()),
            29..33 => {
                let length = if self.random.one_in(5) { 900 } else { 20 };
                let target = self.word(length);
                Operation::SymbolicLink(self.new_place(tree, &places), target)
            }
            33..37 => Operation::Link(self.old_place(&places), self.new_place(tree, &places)),
            37..47 => Operation::Unlink(self.old_place(&places)),
            47..50 => Operation::RemoveDirectory(self.old_place(&places)),
            50..58 => {
                let to = if self.random.one_in(3) {
                    self.old_place(&places)
                } else {
                    self.new_place(tree, &places)
                };
                Operation::Rename(self.old_place(&places), to)
            }
            58..80 => self.write(&places),
            80..86 => {
                Operation::Truncate(self.old_place(&places), self.random.below(FILE_SIZE_MAX))
            }
            86..89 => Operation::Chmod(self.old_place(&places), self.mode()),
            89..92 => {
                let (uid, gid) = (self.random.below(5000), self.random.below(5000));
                Operation::Chown(self.old_place(&places), uid as u32, gid as u32)
            }
            92..97 => self.set_xattr(&places),
            _ => Operation::RemoveXattr(self.old_place(&places), self.xattr_name()),
        }
    }

    fn write(&mut self, places: &[(Place, NodeId)]) -> Operation {
        let length = match self.random.below(10) {
            0..5 => self.random.below(5_000),
            5..9 => self.random.below(70_000),
            _ => self.random.below(FILE_SIZE_MAX / 2),
        };
        let offset = if self.random.one_in(2) {
            0
        } else {
            self.random.below(FILE_SIZE_MAX / 2)
        };
        let bytes = self.random.bytes(length);
        Operation::Write(self.old_place(places), offset, bytes)
    }

    fn set_xattr(&mut self, places: &[(Place, NodeId)]) -> Operation {
        let length = if self.random.one_in(4) { 3_000 } else { 40 };
        let length = self.random.below(length);
        let value = self.random.bytes(length);
        Operation::SetXattr(self.old_place(places), self.xattr_name(), value)
    }

    fn xattr_name(&mut self) -> String {
        format!("user.{}", self.random.below(4))
    }

    fn mode(&mut self) -> u32 {
        *self
            .random
            .pick(&[0o644, 0o600, 0o755, 0o777, 0o400, 0o7, 0o640])
    }

    fn word(&mut self, length_max: usize) -> String {
        let length = 1 + self.random.below(length_max);
        (0..length)
            .map(|_| char::from(b'a' + self.random.below(26) as u8))
            .collect()
    }

    fn old_place(&mut self, places: &[(Place, NodeId)]) -> Place {
        if places.is_empty() || self.random.one_in(40) {
            return Place {
                directory: Vec::new(),
                name: self.word(8),
            };
        }
        self.random.pick(places).0.clone()
    }

    fn new_place(&mut self, tree: &Tree, places: &[(Place, NodeId)]) -> Place {
        let directories: Vec<&Place> = places
            .iter()
            .filter(|(_, node)| matches!(tree.node(*node).kind, Kind::Directory(_)))
            .map(|(place, _)| place)
            .collect();
        let mut directory = Vec::new();
        if !directories.is_empty() && !self.random.one_in(4) {
            let parent = self.random.pick(&directories);
            directory.clone_from(&parent.directory);
            directory.push(parent.name.clone());
        }
        let length = if self.random.one_in(20) { 200 } else { 12 };
        Place {
            directory,
            name: self.word(length),
        }
    }
}
