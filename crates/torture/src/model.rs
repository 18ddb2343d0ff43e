//! A file system in memory that is simple enough to be right: what the real one is compared with.

mod node;

pub use node::{History, Kind, Node};

use posix::{AllocateMode, FileType, RenameMode, Timestamp, XattrMode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a node in a [`Tree`].
pub type NodeId = u64;

/// What replaces a name that an overlay file system takes for removed.
const WHITEOUT: Kind = Kind::Special(FileType::CharacterDevice, (0, 0));
/// Set-group-id: what is made in such a directory is of the directory's group.
const SET_GID: u32 = 0o2000;

/// One file system: nodes by number. The root is [`Tree::ROOT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    /// Every allocation counts as a change of data, also one that changes nothing: a kernel that owns times says so.
    allocations_count: bool,
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
            allocations_count: false,
        }
    }

    /// The same, on a mount whose kernel owns the times of files.
    #[must_use]
    pub fn with_kernel_times(self, owned: bool) -> Self {
        Self {
            allocations_count: owned,
            ..self
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
                Kind::File(_) => Kind::file(Vec::new()),
                kind => kind.clone(),
            };
            Node::new(kind, node.mode)
        };
        let nodes = self.nodes.iter().map(|(id, node)| (*id, bare(node)));
        Self {
            nodes: nodes.collect(),
            next: self.next,
            allocations_count: self.allocations_count,
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

    /// The same, if there is one.
    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("the node exists")
    }

    fn names(&self, directory: NodeId) -> Outcome<&BTreeMap<String, NodeId>> {
        match &self.node(directory).kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Refusal::NotDirectory),
        }
    }

    pub(crate) fn names_mut(&mut self, directory: NodeId) -> &mut BTreeMap<String, NodeId> {
        match &mut self.node_mut(directory).kind {
            Kind::Directory(names) => names,
            _ => unreachable!("checked to be a directory"),
        }
    }

    /// The names of a directory that is about to change.
    fn names_changing(&mut self, directory: NodeId) -> &mut BTreeMap<String, NodeId> {
        self.changing(directory).mtime = None;
        self.names_mut(directory)
    }

    /// A node that is about to change.
    fn changing(&mut self, id: NodeId) -> &mut Node {
        let node = self.node_mut(id);
        node.history.changed = History::now();
        node
    }

    /// A node that gets a name in a directory.
    fn gets_name(&mut self, id: NodeId, directory: NodeId) {
        let parent = self.node(directory).history.born;
        self.changing(id).history.parent = parent;
    }

    /// The same tree, of which nobody knows how it came to be.
    #[must_use]
    pub fn without_history(&self) -> Self {
        let mut tree = self.clone();
        for node in tree.nodes.values_mut() {
            node.history = History::default();
        }
        tree
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
    pub fn add(&mut self, directory: NodeId, name: &str, mut node: Node) -> Outcome<NodeId> {
        if self.names(directory)?.contains_key(name) {
            return Err(Refusal::Exists);
        }
        let parent = self.node(directory);
        if parent.mode & SET_GID != 0 {
            node.gid = parent.gid;
            if matches!(node.kind, Kind::Directory(_)) {
                node.mode |= SET_GID;
            }
        }
        let id = self.insert(node);
        self.gets_name(id, directory);
        self.names_changing(directory).insert(name.to_owned(), id);
        Ok(id)
    }

    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    /// Puts a whole tree under a name of a directory, in the place of what was there.
    ///
    /// # Panics
    /// If `directory` is none: the caller's bug.
    pub fn graft(&mut self, directory: NodeId, name: &str, other: &Self) {
        if let Ok(old) = self.lookup(directory, name) {
            self.prune(old);
        }
        let mut numbers = BTreeMap::new();
        let root = self.take_over(other, Self::ROOT, &mut numbers);
        self.names_mut(directory).insert(name.to_owned(), root);
    }

    /// What is below a directory as a tree of its own.
    #[must_use]
    pub fn cut(&self, directory: NodeId) -> Self {
        let mut own = Self::new();
        let root = own.take_over(self, directory, &mut BTreeMap::new());
        let node = own.nodes.remove(&root).expect("it was taken over");
        own.nodes.insert(Self::ROOT, node);
        own
    }

    fn take_over(
        &mut self,
        other: &Self,
        node: NodeId,
        numbers: &mut BTreeMap<NodeId, NodeId>,
    ) -> NodeId {
        if let Some(known) = numbers.get(&node) {
            return *known;
        }
        let mut copy = other.node(node).clone();
        if let Kind::Directory(names) = &mut copy.kind {
            for child in names.values_mut() {
                *child = self.take_over(other, *child, numbers);
            }
        }
        let id = self.insert(copy);
        numbers.insert(node, id);
        id
    }

    fn prune(&mut self, node: NodeId) {
        if let Some(Node {
            kind: Kind::Directory(names),
            ..
        }) = self.nodes.remove(&node)
        {
            names.values().for_each(|child| self.prune(*child));
        }
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
        self.gets_name(node, directory);
        self.names_changing(directory).insert(name.to_owned(), node);
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
        self.names_changing(directory).remove(name);
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
        self.names_changing(directory).remove(name);
        self.nodes.remove(&id);
        Ok(())
    }

    /// Moves a name, replacing what the new name named.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(
        &mut self,
        from: (NodeId, &str),
        to: (NodeId, &str),
        mode: RenameMode,
    ) -> Outcome {
        let moved = self.lookup(from.0, from.1)?;
        self.names(to.0)?;
        let old = self.lookup(to.0, to.1).ok();
        match (mode, old) {
            (RenameMode::Exchange, None) => return Err(Refusal::Missing),
            (RenameMode::NoReplace, Some(_)) => return Err(Refusal::Exists),
            (_, Some(old)) if old == moved => return Ok(()),
            _ => {}
        }
        let is_directory = matches!(self.node(moved).kind, Kind::Directory(_));
        if is_directory && self.is_below(to.0, moved) {
            return Err(Refusal::Invalid);
        }
        if let (RenameMode::Exchange, Some(old)) = (mode, old) {
            if self.is_below(from.0, old) {
                return Err(Refusal::Invalid);
            }
            self.names_changing(from.0).insert(from.1.to_owned(), old);
            self.names_changing(to.0).insert(to.1.to_owned(), moved);
            self.gets_name(old, from.0);
            self.gets_name(moved, to.0);
            return Ok(());
        }
        if let Some(old) = old {
            match (&self.node(old).kind, is_directory) {
                (Kind::Directory(names), true) if !names.is_empty() => {
                    return Err(Refusal::NotEmpty);
                }
                (Kind::Directory(_), true) => {}
                (Kind::Directory(_), false) => return Err(Refusal::IsDirectory),
                (_, true) => return Err(Refusal::NotDirectory),
                (_, false) => {}
            }
            self.names_changing(to.0).remove(to.1);
            self.forget_if_unnamed(old);
        }
        self.names_changing(from.0).remove(from.1);
        self.names_changing(to.0).insert(to.1.to_owned(), moved);
        self.gets_name(moved, to.0);
        if mode == RenameMode::Whiteout {
            let whiteout = self.insert(Node::new(WHITEOUT, 0));
            self.gets_name(whiteout, from.0);
            self.names_changing(from.0)
                .insert(from.1.to_owned(), whiteout);
        }
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

    /// After a name of it went.
    fn forget_if_unnamed(&mut self, id: NodeId) {
        self.changing(id);
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

    /// The bytes of a file that are about to change.
    fn contents_changing(&mut self, id: NodeId) -> Outcome<&mut Vec<u8>> {
        self.contents(id)?;
        let node = self.changing(id);
        let Kind::File(contents) = &mut node.kind else {
            return Err(Refusal::Invalid);
        };
        node.mtime = None;
        Ok(Arc::make_mut(contents))
    }

    /// Writes bytes at an offset, growing the file.
    ///
    /// # Errors
    /// It is no file.
    pub fn write(&mut self, id: NodeId, offset: usize, bytes: &[u8]) -> Outcome {
        if bytes.is_empty() {
            return self.contents(id).map(drop);
        }
        let contents = self.contents_changing(id)?;
        let end = offset + bytes.len();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// It is no file.
    pub fn contents(&self, id: NodeId) -> Outcome<&Arc<Vec<u8>>> {
        match &self.node(id).kind {
            Kind::File(contents) => Ok(contents),
            _ => Err(Refusal::Invalid),
        }
    }

    /// Sets a file's length.
    ///
    /// # Errors
    /// It is no file.
    pub fn truncate(&mut self, id: NodeId, length: usize) -> Outcome {
        self.contents_changing(id)?.resize(length, 0);
        Ok(())
    }

    /// `fallocate` of a range that is not empty.
    ///
    /// # Errors
    /// It is no file.
    pub fn allocate(
        &mut self,
        id: NodeId,
        mode: AllocateMode,
        (offset, length): (usize, usize),
    ) -> Outcome {
        let (size, end) = (self.contents(id)?.len(), offset + length);
        let extends = match mode {
            AllocateMode::Extend => true,
            AllocateMode::KeepSize | AllocateMode::PunchHole => false,
            AllocateMode::ZeroRange { keep_size } => !keep_size,
        };
        let zeros = matches!(
            mode,
            AllocateMode::PunchHole | AllocateMode::ZeroRange { .. }
        );
        if zeros && offset < size {
            self.contents_changing(id)?[offset..end.min(size)].fill(0);
        }
        if extends && end > size {
            self.contents_changing(id)?.resize(end, 0);
        }
        if self.allocations_count {
            self.contents_changing(id)?;
        }
        Ok(())
    }

    /// Copies a range of one file into another, or within one; what lies behind the end is not copied.
    ///
    /// # Errors
    /// One is no file, or both ranges are of one file and overlap.
    pub fn copy_range(
        &mut self,
        (from, start): (NodeId, usize),
        (to, offset): (NodeId, usize),
        length: usize,
    ) -> Outcome {
        let contents = self.contents(from)?;
        let start = start.min(contents.len());
        let end = (start + length).min(contents.len());
        let bytes = contents[start..end].to_vec();
        if from == to && offset < end && start < offset + bytes.len() {
            return Err(Refusal::Invalid);
        }
        self.write(to, offset, &bytes)
    }

    /// Sets permission bits.
    pub fn chmod(&mut self, id: NodeId, mode: u32) {
        self.changing(id).mode = mode;
    }

    /// Sets owner and group.
    pub fn chown(&mut self, id: NodeId, uid: u32, gid: u32) {
        let node = self.changing(id);
        (node.uid, node.gid) = (uid, gid);
        if !matches!(node.kind, Kind::Directory(_)) {
            node.mode &= if node.mode & 0o010 == 0 {
                !0o4000
            } else {
                !0o6000
            };
        }
    }

    /// Sets when its data changed last.
    pub fn set_mtime(&mut self, id: NodeId, mtime: Timestamp) {
        self.changing(id).mtime = Some(mtime);
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// It is there or is not, as the mode says.
    pub fn set_xattr(&mut self, id: NodeId, name: &str, value: &[u8], mode: XattrMode) -> Outcome {
        let xattrs = &self.node(id).xattrs;
        match (mode, xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Refusal::Exists),
            (XattrMode::Replace, false) => return Err(Refusal::NoAttribute),
            _ => {}
        }
        let xattrs = &mut self.changing(id).xattrs;
        xattrs.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn remove_xattr(&mut self, id: NodeId, name: &str) -> Outcome {
        if !self.node(id).xattrs.contains_key(name) {
            return Err(Refusal::NoAttribute);
        }
        self.changing(id).xattrs.remove(name);
        Ok(())
    }
}
