//! A node of the model: contents, attributes, and what it is known by.

use super::NodeId;
use posix::{FileType, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file, directory or link of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is, with its contents.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// When its data changed last, if that time was set and nothing changed it since.
    pub mtime: Option<Timestamp>,
    /// What it shares with itself in other copies of the tree, older ones too.
    pub history: History,
}

/// What a node is known by in every copy of its tree, and when it changed. Moments are numbers that count up; 0 is
/// unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When it was made: no other node was made then.
    pub born: u64,
    /// When anything of it changed last (`ctime`).
    pub changed: u64,
    /// When the directory was made in which it got its newest name.
    pub parent: u64,
}

impl History {
    fn new() -> Self {
        let born = Self::now();
        Self {
            born,
            changed: born,
            parent: 0,
        }
    }

    /// A moment that nobody else has.
    pub(super) fn now() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file and its bytes.
    File(Arc<Vec<u8>>),
    /// A directory and its names.
    Directory(BTreeMap<String, NodeId>),
    /// A symbolic link and its target.
    Link(String),
    /// A pipe, socket or device, and the device's numbers.
    Special(FileType, (u32, u32)),
}

impl Kind {
    /// A file with these bytes.
    #[must_use]
    pub fn file(bytes: Vec<u8>) -> Self {
        Self::File(Arc::new(bytes))
    }
}

impl Node {
    /// The same; of a directory without its entries.
    #[must_use]
    pub fn without_names(&self) -> Self {
        let mut node = self.clone();
        if let Kind::Directory(names) = &mut node.kind {
            names.clear();
        }
        node
    }

    /// In what a node that was found differs from this one of the model, as `wanted`.
    #[must_use]
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let mut words = Vec::new();
        match (&self.kind, &wanted.kind) {
            (Kind::Directory(_), Kind::Directory(_)) => {}
            (Kind::File(left), Kind::File(right)) if left != right => {
                let mut pairs = left.iter().zip(right.iter());
                let equal = pairs.position(|(left, right)| left != right);
                words.push(format!(
                    "contents ({} bytes, not {}; {} equal)",
                    left.len(),
                    right.len(),
                    equal.unwrap_or(left.len().min(right.len()))
                ));
            }
            (left, right) if left != right => words.push("kind or target".to_owned()),
            _ => {}
        }
        if self.mode != wanted.mode {
            words.push(format!("mode ({:o}, not {:o})", self.mode, wanted.mode));
        }
        if (self.uid, self.gid) != (wanted.uid, wanted.gid) {
            words.push("owner".to_owned());
        }
        if self.xattrs != wanted.xattrs {
            let list = |node: &Self| -> Vec<String> {
                let each = node.xattrs.iter();
                each.map(|(name, value)| format!("{name}: {} of {:?}", value.len(), value.first()))
                    .collect()
            };
            words.push(format!(
                "extended attributes ({:?}, not {:?})",
                list(self),
                list(wanted)
            ));
        }
        if wanted.mtime.is_some() && self.mtime != wanted.mtime {
            words.push(format!("mtime ({:?}, not {:?})", self.mtime, wanted.mtime));
        }
        words
    }

    /// A node of root's without extended attributes.
    #[must_use]
    pub fn new(kind: Kind, mode: u32) -> Self {
        Self {
            kind,
            mode,
            uid: 0,
            gid: 0,
            xattrs: BTreeMap::new(),
            mtime: None,
            history: History::new(),
        }
    }
}
