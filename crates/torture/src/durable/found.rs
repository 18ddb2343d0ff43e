//! A file system as it was found, read whole.

use crate::model::{Kind, Node, NodeId, Tree};
use base::ObjectId;
use posix::{Credentials, FileSystem, FileType, OpenOptions, PosixError, Visit};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// A file or directory as it was found, with all below it.
#[derive(Debug)]
pub struct Found {
    /// Its number.
    pub object: u64,
    /// How many names it has.
    pub links: u64,
    /// Why it could not be read.
    pub problem: Option<String>,
    /// A directory's entries.
    pub entries: BTreeMap<String, Self>,
    /// Its contents and attributes.
    pub node: Node,
}

impl Found {
    /// Reads what is below a path.
    #[must_use]
    pub fn read(system: &FileSystem, path: &[String]) -> Self {
        let root = Credentials::root();
        let object = path.iter().try_fold(system.root(), |directory, name| {
            let found = system.lookup(&root, directory, name.as_bytes());
            found.map(|found| found.object)
        });
        match object {
            Ok(object) => Self::read_object(system, object),
            Err(error) => Self::unreadable(0, &error),
        }
    }

    /// One that could not be read.
    pub fn unreadable(object: u64, error: &impl Display) -> Self {
        Self {
            object,
            links: 0,
            problem: Some(error.to_string()),
            entries: BTreeMap::new(),
            node: Node::new(Kind::Special(FileType::Fifo, (0, 0)), 0),
        }
    }

    fn read_object(system: &FileSystem, object: ObjectId) -> Self {
        Self::try_read(system, object).unwrap_or_else(|error| Self::unreadable(object.0, &error))
    }

    fn try_read(system: &FileSystem, object: ObjectId) -> Result<Self, PosixError> {
        let root = Credentials::root();
        let attributes = system.getattr(object)?;
        let mut entries = BTreeMap::new();
        let kind = match attributes.file_type {
            FileType::Directory => {
                let mut names = Vec::new();
                system.readdir(&root, object, 0, &mut |entry| {
                    names.push((
                        String::from_utf8_lossy(entry.name).into_owned(),
                        entry.object,
                    ));
                    Visit::Continue
                })?;
                names.retain(|(name, _)| name != "." && name != "..");
                for (name, object) in names {
                    entries.insert(name, Self::read_object(system, object));
                }
                Kind::Directory(BTreeMap::new())
            }
            FileType::Regular => {
                let options = OpenOptions {
                    read: true,
                    ..OpenOptions::default()
                };
                let file = system.open(&root, object, options)?;
                let mut contents = vec![0; usize::try_from(attributes.size).unwrap_or(0)];
                let count = file.read(0, &mut contents)?;
                contents.truncate(count);
                Kind::file(contents)
            }
            FileType::Symlink => {
                Kind::Link(String::from_utf8_lossy(&system.readlink(object)?).into_owned())
            }
            kind => Kind::Special(kind, attributes.device),
        };
        let mut node = Node::new(kind, attributes.permissions);
        (node.uid, node.gid) = (attributes.uid, attributes.gid);
        node.mtime = Some(attributes.mtime);
        for name in system.listxattr(&root, object)? {
            let value = system.getxattr(&root, object, &name)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            node.xattrs.insert(name, value);
        }
        Ok(Self {
            object: object.0,
            links: u64::from(attributes.links),
            problem: None,
            entries,
            node,
        })
    }

    /// What was found as a tree of the model.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        *tree.node_mut(Tree::ROOT) = self.node.clone();
        self.add_to(&mut tree, Tree::ROOT, &mut BTreeMap::new());
        tree
    }

    fn add_to(&self, tree: &mut Tree, directory: NodeId, known: &mut BTreeMap<u64, NodeId>) {
        for (name, below) in &self.entries {
            let id = known.get(&below.object).copied();
            let id = id.unwrap_or_else(|| tree.insert(below.node.clone()));
            known.insert(below.object, id);
            tree.names_mut(directory).insert(name.clone(), id);
            below.add_to(tree, id, known);
        }
    }

    /// Whether its contents and attributes are those of a node of the model.
    pub(super) fn is(&self, version: &Node) -> bool {
        self.difference(version).is_empty()
    }

    /// Whether it is a node of the model with the first part of a write.
    pub(super) fn is_partly(&self, before: &Node, written: Option<&(usize, Vec<u8>)>) -> bool {
        let (Some((offset, bytes)), Kind::File(own)) = (written, &self.node.kind) else {
            return false;
        };
        let there = own.get(*offset..).unwrap_or_default();
        let equal = bytes
            .iter()
            .zip(there)
            .take_while(|(left, right)| left == right);
        let count = equal.count();
        let mut expected = before.clone();
        if let Kind::File(contents) = &mut expected.kind {
            let end = offset + count;
            let contents = Arc::make_mut(contents);
            if count > 0 && contents.len() < end {
                contents.resize(end, 0);
            }
            if count > 0 {
                contents[*offset..end].copy_from_slice(&bytes[..count]);
                expected.mtime = None;
            }
        }
        self.is(&expected)
    }

    /// Whether its size, its attributes and each of its bytes are those of some of these nodes; what lies behind a
    /// file's end is zeros.
    pub(super) fn is_mixed(&self, versions: &[&Node]) -> bool {
        let Kind::File(own) = &self.node.kind else {
            return false;
        };
        let contents: Vec<&[u8]> = versions
            .iter()
            .filter_map(|version| match &version.kind {
                Kind::File(contents) => Some(contents.as_slice()),
                _ => None,
            })
            .collect();
        let is_attribute = versions.iter().any(|version| {
            let (own, version) = (&self.node, *version);
            (own.mode, own.uid, own.gid) == (version.mode, version.uid, version.gid)
                && own.xattrs == version.xattrs
        });
        let is_size = contents.iter().any(|one| one.len() == own.len());
        let is_byte = |(at, byte): (usize, &u8)| {
            contents
                .iter()
                .any(|one| one.get(at).copied().unwrap_or(0) == *byte)
        };
        is_attribute && is_size && own.iter().enumerate().all(is_byte)
    }

    /// In what its contents and attributes differ from those of a node of the model.
    pub(super) fn difference(&self, version: &Node) -> String {
        let mut version = version.clone();
        // The times of directories change with their names, which come back on their own.
        if matches!(version.kind, Kind::Directory(_)) {
            version.mtime = None;
        }
        self.node.differences(&version).join(", ")
    }
}
