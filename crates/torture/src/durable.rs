//! What a crash may leave of a history with fsyncs: the rule, and whether a file system keeps it.
//!
//! Changes of names come back as a prefix of those that were done, no shorter than the last acknowledged fsync of
//! anything saw them; the contents and attributes of each file as they were at some moment, no earlier than its own
//! last acknowledged fsync.

mod apart;
mod found;

pub use found::Found;

use crate::model::{Kind, Node, NodeId, Tree};
use crate::operation::{Operation, Place};
use posix::AllocateMode;
use std::collections::BTreeMap;

/// A promise: from the moment `events` of the disk on, the operations before `operation` are durable.
#[derive(Clone, Copy, Debug)]
struct Promise {
    events: usize,
    operation: usize,
    /// The file whose contents are promised; none: everything.
    file: Option<NodeId>,
}

/// A node after an operation.
#[derive(Clone, Debug)]
struct Version {
    operation: usize,
    node: Node,
    /// Where it was written, when the operation was a write: one that nobody waited for may have come to the medium
    /// in part.
    written: Option<(usize, Vec<u8>)>,
}

/// Who else commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Nobody: a file is as after one of its operations.
    Own,
    /// Other threads, and with the names their commits take the data of renamed files: a write's bytes are looked up
    /// when the commit is written, and may be those of a later operation whose own record is not there. Each byte
    /// is as after some operation, and so are the size and the attributes.
    Others,
}

/// What one thread did in a directory of its own, and what it was promised.
#[derive(Clone, Debug)]
pub struct Record {
    /// The thread's directory; empty: the root.
    pub place: Vec<String>,
    /// The tree now.
    pub tree: Tree,
    /// How many operations there were.
    operations: usize,
    /// The names, links and kinds after an operation that changed them.
    names: Vec<(usize, Tree)>,
    /// Contents and attributes of each node after each operation that changed them.
    versions: BTreeMap<NodeId, Vec<Version>>,
    promises: Vec<Promise>,
}

/// How much must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// All that was promised until so many events of the disk.
    Promised(usize),
    /// The medium lost what it had: anything that ever was, or an error.
    AnythingTrue,
    /// The same, and records of the log were lost with what they would have changed, which was told: then each name
    /// and each file is as it ever was, by itself.
    Apart,
}

impl Record {
    /// Nothing was done yet in a directory that is there.
    #[must_use]
    pub fn new(place: Vec<String>) -> Self {
        Self::from(place, Tree::new())
    }

    /// Nothing was done yet in a directory that is there, with all below it.
    #[must_use]
    pub fn from(place: Vec<String>, tree: Tree) -> Self {
        let first = |(id, node): (NodeId, &Node)| {
            let version = Version {
                operation: 0,
                node: node.without_names(),
                written: None,
            };
            (id, vec![version])
        };
        Self {
            place,
            operations: 0,
            names: vec![(0, tree.skeleton())],
            versions: tree.nodes().map(first).collect(),
            tree,
            promises: Vec::new(),
        }
    }

    /// The operation as the file system is asked: below the thread's directory.
    #[must_use]
    pub fn below(&self, operation: &Operation) -> Operation {
        let mut operation = operation.clone();
        for place in operation.places_mut() {
            let inner = std::mem::take(&mut place.directory);
            place.directory = self.place.iter().cloned().chain(inner).collect();
        }
        operation
    }

    /// Notes an operation that was done.
    ///
    /// # Panics
    /// If the model refuses it: only operations that both did are noted.
    pub fn note(&mut self, operation: &Operation) {
        for part in operation.parts(&self.tree) {
            self.note_part(&part);
        }
    }

    fn note_part(&mut self, operation: &Operation) {
        self.operations += 1;
        let touched = operation.changed_node().map(|place| self.tree.find(place));
        self.tree
            .apply(operation)
            .expect("the model does it as well");
        match touched {
            Some(node) => {
                let node = node.expect("it was there");
                let version = Version {
                    operation: self.operations,
                    node: self.tree.node(node).clone(),
                    written: match operation {
                        Operation::Write(_, offset, bytes, _) => Some((*offset, bytes.clone())),
                        _ => None,
                    },
                };
                self.versions.entry(node).or_default().push(version);
            }
            None => {
                self.names.push((self.operations, self.tree.skeleton()));
                for (id, node) in self.tree.nodes() {
                    let first = || {
                        vec![Version {
                            operation: self.operations,
                            node: node.without_names(),
                            written: None,
                        }]
                    };
                    self.versions.entry(id).or_insert_with(first);
                }
            }
        }
    }

    /// Notes that an fsync of a file, or of everything, returned when the disk had seen so many events.
    pub fn promise(&mut self, file: Option<NodeId>, events: usize) {
        self.promise_until(self.operations, file, events);
    }

    /// The same of what was done when [`Self::operations`] gave that number.
    pub fn promise_until(&mut self, operation: usize, file: Option<NodeId>, events: usize) {
        self.promises.push(Promise {
            events,
            operation,
            file,
        });
    }

    /// How many operations there were.
    #[must_use]
    pub const fn operations(&self) -> usize {
        self.operations
    }

    /// How many operations are durable for names, and for each file's contents.
    fn floors(&self, demand: Demand) -> (usize, BTreeMap<NodeId, usize>) {
        let (mut names, mut files) = (0, BTreeMap::new());
        let Demand::Promised(events) = demand else {
            return (0, files);
        };
        for promise in self.promises.iter().filter(|one| one.events <= events) {
            names = names.max(promise.operation);
            let mut raise = |file: NodeId| {
                files.insert(file, promise.operation);
            };
            match promise.file {
                Some(file) => raise(file),
                None => self.versions.keys().copied().for_each(raise),
            }
        }
        (names, files)
    }

    /// Why what was found is nothing that a crash may leave.
    ///
    /// # Errors
    /// The differences to the states that come nearest, a line each.
    pub fn judge(
        &self,
        found: &Found,
        demand: Demand,
        commits: Commits,
    ) -> Result<(), Vec<String>> {
        if demand == Demand::Apart {
            return self.judge_apart(found);
        }
        let (floor, files) = self.floors(demand);
        let from = self
            .names
            .partition_point(|(operation, _)| *operation <= floor);
        let mut nearest: Vec<Vec<String>> = Vec::new();
        for (operation, names) in &self.names[from.saturating_sub(1)..] {
            let state = State {
                record: self,
                names,
                files: &files,
                demand,
                commits,
            };
            let mut lines = state.compare(found);
            if lines.is_empty() {
                return Ok(());
            }
            lines.insert(
                0,
                format!("names as after operation {operation}, at least {floor}:"),
            );
            nearest.push(lines);
        }
        nearest.sort_by_key(Vec::len);
        nearest.truncate(3);
        Err(nearest.concat())
    }
}

/// One state that the names may have.
struct State<'a> {
    record: &'a Record,
    names: &'a Tree,
    files: &'a BTreeMap<NodeId, usize>,
    demand: Demand,
    commits: Commits,
}

impl State<'_> {
    fn compare(&self, found: &Found) -> Vec<String> {
        let mut lines = Vec::new();
        let mut numbers = BTreeMap::new();
        self.compare_directory(Tree::ROOT, found, "", &mut numbers, &mut lines);
        lines
    }

    fn compare_directory(
        &self,
        directory: NodeId,
        found: &Found,
        path: &str,
        numbers: &mut BTreeMap<NodeId, u64>,
        lines: &mut Vec<String>,
    ) {
        self.compare_node(directory, found, path, lines);
        let Kind::Directory(wanted) = &self.names.node(directory).kind else {
            return;
        };
        for name in found
            .entries
            .keys()
            .filter(|name| !wanted.contains_key(*name))
        {
            lines.push(format!("{path}/{name}: unexpected"));
        }
        for (name, child) in wanted {
            let path = format!("{path}/{name}");
            let Some(below) = found.entries.get(name) else {
                if !self.is_forgiven(found) {
                    lines.push(format!("{path}: missing"));
                }
                continue;
            };
            if *numbers.entry(*child).or_insert(below.object) != below.object {
                lines.push(format!(
                    "{path}: not the file that another name of it names"
                ));
            }
            self.compare_directory(*child, below, &path, numbers, lines);
        }
    }

    /// What could not be read was told, and that is all that a damaged medium owes.
    fn is_forgiven(&self, found: &Found) -> bool {
        self.demand == Demand::AnythingTrue && found.problem.is_some()
    }

    fn compare_node(&self, node: NodeId, found: &Found, path: &str, lines: &mut Vec<String>) {
        if let Some(problem) = &found.problem {
            if !self.is_forgiven(found) {
                lines.push(format!("{path}: {problem}"));
            }
            return;
        }
        self.compare_contents(node, found, path, lines);
        let links = self.names.link_count(node) as u64;
        let is_directory = matches!(self.names.node(node).kind, Kind::Directory(_));
        if !is_directory && links != found.links {
            lines.push(format!("{path}: {} links, not {links}", found.links));
        }
    }

    /// The contents and attributes alone.
    fn compare_contents(&self, node: NodeId, found: &Found, path: &str, lines: &mut Vec<String>) {
        let versions = self
            .record
            .versions
            .get(&node)
            .map_or(&[][..], Vec::as_slice);
        let floor = self.files.get(&node).copied().unwrap_or(0);
        let from = versions.partition_point(|version| version.operation <= floor);
        let allowed = &versions[from.saturating_sub(1)..];
        let is_whole = allowed.iter().any(|version| found.is(&version.node));
        let is_between = || {
            let mut pairs = allowed.windows(2);
            pairs.any(|pair| found.is_partly(&pair[0].node, pair[1].written.as_ref()))
        };
        let is_mixed = || {
            let nodes: Vec<_> = allowed.iter().map(|version| &version.node).collect();
            self.commits == Commits::Others && found.is_mixed(&nodes)
        };
        if !is_whole && !is_between() && !is_mixed() {
            let states: Vec<_> = allowed
                .iter()
                .map(|version| {
                    let written = version.written.as_ref();
                    let written = written.map_or(String::new(), |(offset, bytes)| {
                        format!(" ({} bytes written at {offset})", bytes.len())
                    });
                    let difference = found.difference(&version.node);
                    format!("{}{written}: {difference}", version.operation)
                })
                .collect();
            lines.push(format!(
                "{path}: none of its {} states since operation {floor}; it differs from that after operation {}",
                allowed.len(),
                states.join("; from that after ")
            ));
        }
    }
}

impl Operation {
    /// The place of the node whose contents or attributes it changes; none when it changes names.
    #[must_use]
    pub fn changed_node(&self) -> Option<&Place> {
        match self {
            Self::Write(place, ..)
            | Self::Append(place, _)
            | Self::Truncate(place, _)
            | Self::Empty(place)
            | Self::Allocate(place, ..)
            | Self::CopyRange(_, (place, _), _)
            | Self::SetTime(place, _)
            | Self::Chmod(place, _)
            | Self::Chown(place, ..)
            | Self::SetXattr(place, ..)
            | Self::RemoveXattr(place, _) => Some(place),
            _ => None,
        }
    }

    /// The transactions of an operation on this tree: a crash or a snapshot may come between them.
    #[must_use]
    pub fn parts(&self, tree: &Tree) -> Vec<Self> {
        const PUNCH: AllocateMode = AllocateMode::PunchHole;
        const ZERO: AllocateMode = AllocateMode::ZeroRange { keep_size: false };
        /// Of how many bytes the blocks are that may be copied by one transaction and not by the next.
        const BLOCK: usize = 512;
        match self {
            Self::Allocate(place, ZERO, at, length) => {
                vec![
                    Self::Allocate(place.clone(), PUNCH, *at, *length),
                    self.clone(),
                ]
            }
            // Blocks that are stored are referred to in one transaction, what is not is written in another.
            Self::CopyRange((from, start), (place, offset), length) => {
                let source = tree.find(from).and_then(|from| tree.contents(from));
                let (Ok(source), Ok(())) = (source, tree.clone().apply(self)) else {
                    return vec![self.clone()];
                };
                let start = (*start).min(source.len());
                let end = (start + length).min(source.len());
                let write = |(block, bytes): (usize, &[u8])| {
                    Self::Write(place.clone(), offset + block * BLOCK, bytes.to_vec(), false)
                };
                let blocks = source[start..end].chunks(BLOCK).enumerate();
                blocks.map(write).collect()
            }
            _ => vec![self.clone()],
        }
    }

    fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Self::Link(old, new) | Self::Rename(old, new, _) => vec![old, new],
            Self::CopyRange((from, _), (to, _), _) => vec![from, to],
            Self::Create(place, _)
            | Self::MakeDirectory(place, _)
            | Self::MakeSpecial(place, ..)
            | Self::LinkUnnamed(place, ..)
            | Self::SymbolicLink(place, _)
            | Self::Unlink(place)
            | Self::RemoveDirectory(place)
            | Self::Write(place, ..)
            | Self::Append(place, _)
            | Self::Truncate(place, _)
            | Self::Empty(place)
            | Self::Allocate(place, ..)
            | Self::SetTime(place, _)
            | Self::Chmod(place, _)
            | Self::Chown(place, ..)
            | Self::SetXattr(place, ..)
            | Self::RemoveXattr(place, _) => vec![place],
        }
    }
}
