//! The tree that an archive describes. Later entries stand for earlier ones of the same path; names of one file share
//! what is known of it.

use std::collections::{BTreeSet, HashMap};

use posix::{FileType, Timestamp};

use super::entries::{Entry, Kind};
use super::sparse::Extents;
use crate::image::source::Found;

/// What all names of a file have in common.
#[derive(Debug)]
pub(super) struct Inode {
    /// Without its identity.
    pub(super) found: Found,
    pub(super) names: u64,
    pub(super) target: Vec<u8>,
    pub(super) extents: Extents,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A name.
#[derive(Debug)]
pub(super) struct Node {
    inode: usize,
    /// Of a directory: the names in it.
    pub(super) children: BTreeSet<Vec<u8>>,
}

/// All of them, by their paths; the root's is empty.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<Vec<u8>, Node>,
    inodes: Vec<Inode>,
    youngest: Timestamp,
}

/// A directory that the archive has not.
fn unnamed_directory() -> Inode {
    Inode {
        found: Found {
            file_type: Some(FileType::Directory),
            permissions: 0o755,
            uid: 0,
            gid: 0,
            device: (0, 0),
            size: 0,
            modified: NO_TIME,
            accessed: NO_TIME,
            identity: None,
        },
        names: 0,
        target: Vec::new(),
        extents: Extents::default(),
        attributes: Vec::new(),
    }
}

const NO_TIME: Timestamp = Timestamp {
    seconds: i64::MIN,
    nanoseconds: 0,
};

impl Tree {
    /// The root alone.
    pub(super) fn new() -> Self {
        let mut tree = Self {
            nodes: HashMap::new(),
            inodes: Vec::new(),
            youngest: Timestamp {
                seconds: 0,
                nanoseconds: 0,
            },
        };
        tree.insert(Vec::new(), unnamed_directory());
        tree
    }

    pub(super) fn node(&self, path: &[u8]) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(super) fn inode(&self, node: &Node) -> &Inode {
        &self.inodes[node.inode]
    }

    pub(super) fn found(&self, node: &Node) -> Found {
        let inode = self.inode(node);
        let mut found = inode.found.clone();
        found.identity = (inode.names > 1).then_some((0, node.inode as u64));
        found
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// It cannot be, or a part of it cannot be kept; says why.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), String> {
        let path = path_of(&entry.path)?;
        let time = entry.inode.found.modified;
        match entry.kind {
            Kind::Unknown(kind) => {
                let kind = char::from(kind).escape_default();
                return Err(format!("an entry of the unknown type '{kind}'"));
            }
            Kind::Link(target) => {
                let shown = String::from_utf8_lossy(&target).into_owned();
                let target = path_of(&target)?;
                let found = self.nodes.get(&target).map(|node| node.inode);
                let found = found.filter(|inode| !self.inodes[*inode].found.is_directory());
                let inode =
                    found.ok_or_else(|| format!("a link to '{shown}', which is not there"))?;
                if target != path {
                    self.make_room(&path, false)?;
                    self.insert_name(path, inode);
                }
            }
            Kind::Node(file_type) => {
                let is_directory = file_type == FileType::Directory;
                match self.make_room(&path, is_directory)? {
                    Some(at) => {
                        self.inodes[at] = Inode {
                            names: self.inodes[at].names,
                            ..entry.inode
                        }
                    }
                    None => self.insert(path, entry.inode),
                }
            }
        }
        self.youngest = self.youngest.max(time);
        match entry.problem {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// The directories that the archive does not have itself are as young as the youngest that it has.
    pub(super) fn end(&mut self) {
        let youngest = self.youngest;
        for found in self.inodes.iter_mut().map(|inode| &mut inode.found) {
            if found.modified == NO_TIME {
                (found.modified, found.accessed) = (youngest, youngest);
            }
        }
    }

    /// Takes away what is at a path, and makes the directories that lead to it. Says which inode stays where a
    /// directory stands for a directory.
    fn make_room(&mut self, path: &[u8], is_directory: bool) -> Result<Option<usize>, String> {
        self.make_parents(path)?;
        let Some(node) = self.nodes.get(path) else {
            return Ok(None);
        };
        let inode = node.inode;
        let was_directory = self.inodes[inode].found.is_directory();
        match (was_directory, is_directory) {
            (true, true) => return Ok(Some(inode)),
            (true, false) if path.is_empty() => return Err("the root is a directory".to_owned()),
            (true, false) if !node.children.is_empty() => {
                return Err("there is a directory with entries already".to_owned());
            }
            (true | false, _) => {}
        }
        self.nodes.remove(path);
        self.inodes[inode].names -= 1;
        Ok(None)
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), String> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            let parent = &path[..end];
            match self.nodes.get(parent) {
                None => self.insert(parent.to_vec(), unnamed_directory()),
                Some(node) if self.inodes[node.inode].found.is_directory() => {}
                Some(_) => {
                    let parent = String::from_utf8_lossy(parent);
                    return Err(format!("'{parent}' is not a directory"));
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: Vec<u8>, inode: Inode) {
        self.inodes.push(inode);
        self.insert_name(path, self.inodes.len() - 1);
    }

    fn insert_name(&mut self, path: Vec<u8>, inode: usize) {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match slash {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], &path[..]),
        };
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.insert(name.to_vec());
        }
        self.inodes[inode].names += 1;
        let children = BTreeSet::new();
        self.nodes.insert(path, Node { inode, children });
    }
}

/// The longest path that is believed, as on Linux: each of its directories is kept under its own path.
const PATH_BYTES_MAX: usize = 4095;

/// A path from the root on, without what means nothing.
fn path_of(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let parts = bytes.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts
        .filter(|part| !part.is_empty() && *part != b".")
        .collect();
    if parts.iter().any(|part| *part == b"..") {
        return Err("it leads out of the archive".to_owned());
    }
    if parts.iter().any(|part| part.contains(&0)) {
        return Err("its name has a byte of zero".to_owned());
    }
    let path = parts.join(&b'/');
    if path.len() > PATH_BYTES_MAX {
        return Err("its path is too long".to_owned());
    }
    Ok(path)
}
