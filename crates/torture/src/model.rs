//! A file system in memory that is simple enough to be right: what the real one is compared with.

use std::collections::BTreeMap;

/// The number of a node in a [`Tree`].
pub type NodeId = u64;

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
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file and its bytes.
    File(Vec<u8>),
    /// A directory and its names.
    Directory(BTreeMap<String, NodeId>),
    /// A symbolic link and its target.
    Link(String),
    /// A pipe.
    Pipe,
}

/// One file system: nodes by number. The root is [`Tree::ROOT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
}

/// Why the model refuses an operation, as POSIX names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// ENOENT
    Missing,
    /// EEXIST
    Exists,
    /// ENOTDIR
    NotDirectory,
    /// EISDIR
    IsDirectory,
    /// ENOTEMPTY
    NotEmpty,
    /// EINVAL
    Invalid,
    /// EPERM
    Forbidden,
    /// ENODATA
    NoAttribute,
}

type Outcome<T = ()> = Result<T, Refusal>;

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    /// The root directory.
    pub const ROOT: NodeId = 1;

    /// An empty tree, its root 0755 root:root.
    #[must_use]
    pub fn new() -> Self {
        let root = Node::new(Kind::Directory(BTreeMap::new()), 0o755);
        Self {
            nodes: BTreeMap::from([(Self::ROOT, root)]),
            next: Self::ROOT + 1,
        }
    }

    /// Every node by its number.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// The same names, without contents and attributes.
    #[must_use]
    pub fn skeleton(&self) -> Self {
        let bare = |node: &Node| {
            let kind = match &node.kind {
                Kind::File(_) => Kind::File(Vec::new()),
                kind => kind.clone(),
            };
            Node::new(kind, node.mode)
        };
        let nodes = self.nodes.iter().map(|(id, node)| (*id, bare(node)));
        Self {
            nodes: nodes.collect(),
            next: self.next,
        }
    }

    /// A node.
    ///
    /// # Panics
    /// If there is no such node: the caller's bug.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("the node exists")
    }

    fn names(&self, directory: NodeId) -> Outcome<&BTreeMap<String, NodeId>> {
        match &self.node(directory).kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Refusal::NotDirectory),
        }
    }

    fn names_mut(&mut self, directory: NodeId) -> &mut BTreeMap<String, NodeId> {
        match &mut self.node_mut(directory).kind {
            Kind::Directory(names) => names,
            _ => unreachable!("checked to be a directory"),
        }
    }

    /// The node of a name.
    ///
    /// # Errors
    /// The name is missing, or `directory` is none.
    pub fn lookup(&self, directory: NodeId, name: &str) -> Outcome<NodeId> {
        self.names(directory)?
            .get(name)
            .copied()
            .ok_or(Refusal::Missing)
    }

    /// Every directory, in order.
    #[must_use]
    pub fn directories(&self) -> Vec<NodeId> {
        self.reachable(|node| matches!(node.kind, Kind::Directory(_)))
    }

    /// Every regular file, in order.
    #[must_use]
    pub fn files(&self) -> Vec<NodeId> {
        self.reachable(|node| matches!(node.kind, Kind::File(_)))
    }

    fn reachable(&self, wanted: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        self.nodes
            .iter()
            .filter(|(_, node)| wanted(node))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Adds a node under a new name.
    ///
    /// # Errors
    /// The name exists, or `directory` is none.
    pub fn add(&mut self, directory: NodeId, name: &str, node: Node) -> Outcome<NodeId> {
        if self.names(directory)?.contains_key(name) {
            return Err(Refusal::Exists);
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.names_mut(directory).insert(name.to_owned(), id);
        Ok(id)
    }

    /// Gives a node another name.
    ///
    /// # Errors
    /// The name exists, or the node is a directory.
    pub fn link(&mut self, node: NodeId, directory: NodeId, name: &str) -> Outcome {
        if matches!(self.node(node).kind, Kind::Directory(_)) {
            return Err(Refusal::Forbidden);
        }
        if self.names(directory)?.contains_key(name) {
            return Err(Refusal::Exists);
        }
        self.names_mut(directory).insert(name.to_owned(), node);
        Ok(())
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// The name is missing or names a directory.
    pub fn unlink(&mut self, directory: NodeId, name: &str) -> Outcome {
        let id = self.lookup(directory, name)?;
        if matches!(self.node(id).kind, Kind::Directory(_)) {
            return Err(Refusal::IsDirectory);
        }
        self.names_mut(directory).remove(name);
        self.forget_if_unnamed(id);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The name is missing, is no directory, or is not empty.
    pub fn rmdir(&mut self, directory: NodeId, name: &str) -> Outcome {
        let id = self.lookup(directory, name)?;
        if !self.names(id)?.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        self.names_mut(directory).remove(name);
        self.nodes.remove(&id);
        Ok(())
    }

    /// Moves a name, replacing what the new name named.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&mut self, from: (NodeId, &str), to: (NodeId, &str)) -> Outcome {
        let moved = self.lookup(from.0, from.1)?;
        let is_directory = matches!(self.node(moved).kind, Kind::Directory(_));
        if is_directory && self.is_below(to.0, moved) {
            return Err(Refusal::Invalid);
        }
        if let Ok(old) = self.lookup(to.0, to.1) {
            if old == moved {
                return Ok(());
            }
            match (&self.node(old).kind, is_directory) {
                (Kind::Directory(names), true) if !names.is_empty() => {
                    return Err(Refusal::NotEmpty);
                }
                (Kind::Directory(_), true) => {}
                (Kind::Directory(_), false) => return Err(Refusal::IsDirectory),
                (_, true) => return Err(Refusal::NotDirectory),
                (_, false) => {}
            }
            self.names_mut(to.0).remove(to.1);
            self.forget_if_unnamed(old);
        } else {
            self.names(to.0)?;
        }
        self.names_mut(from.0).remove(from.1);
        self.names_mut(to.0).insert(to.1.to_owned(), moved);
        Ok(())
    }

    /// Whether `node` is `above` or lies below it.
    fn is_below(&self, node: NodeId, above: NodeId) -> bool {
        if node == above {
            return true;
        }
        match &self.node(above).kind {
            Kind::Directory(names) => names.values().any(|child| self.is_below(node, *child)),
            _ => false,
        }
    }

    fn forget_if_unnamed(&mut self, id: NodeId) {
        if self.link_count(id) == 0 {
            self.nodes.remove(&id);
        }
    }

    /// How many names a node has.
    #[must_use]
    pub fn link_count(&self, id: NodeId) -> usize {
        let named = |node: &Node| match &node.kind {
            Kind::Directory(names) => names.values().filter(|child| **child == id).count(),
            _ => 0,
        };
        self.nodes.values().map(named).sum()
    }

    /// Writes bytes at an offset, growing the file.
    ///
    /// # Errors
    /// It is no file.
    pub fn write(&mut self, id: NodeId, offset: usize, bytes: &[u8]) -> Outcome {
        let Kind::File(contents) = &mut self.node_mut(id).kind else {
            return Err(Refusal::Invalid);
        };
        let end = offset + bytes.len();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Sets a file's length.
    ///
    /// # Errors
    /// It is no file.
    pub fn truncate(&mut self, id: NodeId, length: usize) -> Outcome {
        let Kind::File(contents) = &mut self.node_mut(id).kind else {
            return Err(Refusal::Invalid);
        };
        contents.resize(length, 0);
        Ok(())
    }

    /// Sets permission bits.
    pub fn chmod(&mut self, id: NodeId, mode: u32) {
        self.node_mut(id).mode = mode;
    }

    /// Sets owner and group.
    pub fn chown(&mut self, id: NodeId, uid: u32, gid: u32) {
        let node = self.node_mut(id);
        (node.uid, node.gid) = (uid, gid);
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&mut self, id: NodeId, name: &str, value: &[u8]) {
        self.node_mut(id)
            .xattrs
            .insert(name.to_owned(), value.to_vec());
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn remove_xattr(&mut self, id: NodeId, name: &str) -> Outcome {
        self.node_mut(id)
            .xattrs
            .remove(name)
            .map(|_| ())
            .ok_or(Refusal::NoAttribute)
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

    /// A node of root's without extended attributes.
    #[must_use]
    pub fn new(kind: Kind, mode: u32) -> Self {
        Self {
            kind,
            mode,
            uid: 0,
            gid: 0,
            xattrs: BTreeMap::new(),
        }
    }
}
