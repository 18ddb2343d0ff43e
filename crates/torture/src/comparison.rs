//! What changed between two trees as the model has it, against what `zfs diff` finds.

use crate::model::{Kind, Node, NodeId, Tree};
use crate::pool_model::PoolModel;
use crate::test_pool::{TestPool, mount};
use posix::{Changed, Comparison, FileChange, FileSystem, FileType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a path that is a number begins with.
const NUMBER: &str = "/<0x";

/// A node with what may be shown as its path.
struct Named<'a> {
    node: &'a Node,
    /// All of its paths.
    names: BTreeSet<String>,
    /// Its paths in the directory in which it got its newest name. When that name is gone and it has others elsewhere,
    /// none leads to it, and its number is shown.
    paths: BTreeSet<String>,
}

impl Named<'_> {
    fn is_shown_as(&self, path: &str) -> bool {
        let is_number = path.starts_with(NUMBER);
        match (self.paths.is_empty(), self.node.history.parent) {
            // It was found after a power loss: nobody knows which of its names was the newest.
            (_, 0) => self.paths.contains(path) || is_number,
            (true, _) => is_number,
            (false, _) => self.paths.contains(path),
        }
    }

    fn is_directory(&self) -> bool {
        matches!(self.node.kind, Kind::Directory(_))
    }

    fn file_type(&self) -> FileType {
        match &self.node.kind {
            Kind::File(_) => FileType::Regular,
            Kind::Directory(_) => FileType::Directory,
            Kind::Link(_) => FileType::Symlink,
            Kind::Special(kind, _) => *kind,
        }
    }
}

/// Nodes by when they were made.
type Nodes<'a> = BTreeMap<u64, Named<'a>>;

/// All nodes of a tree but those of directories of the root whose history nobody knows, and these.
fn named(tree: &Tree) -> (Nodes<'_>, BTreeSet<&str>) {
    let root = tree.node(Tree::ROOT);
    let mut nodes = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    let first = Named {
        node: root,
        names: BTreeSet::from(["/".to_owned()]),
        paths: BTreeSet::from(["/".to_owned()]),
    };
    nodes.insert(root.history.born, first);
    if let Kind::Directory(names) = &root.kind {
        for (name, id) in names {
            match tree.node(*id).history.born {
                0 => _ = unknown.insert(name.as_str()),
                _ => add(tree, (Tree::ROOT, *id), format!("/{name}"), &mut nodes),
            }
        }
    }
    (nodes, unknown)
}

fn add<'a>(tree: &'a Tree, (above, id): (NodeId, NodeId), path: String, nodes: &mut Nodes<'a>) {
    let node = tree.node(id);
    if let Kind::Directory(names) = &node.kind {
        for (name, below) in names {
            add(tree, (id, *below), format!("{path}/{name}"), nodes);
        }
    }
    let known = nodes.entry(node.history.born).or_insert_with(|| Named {
        node,
        names: BTreeSet::new(),
        paths: BTreeSet::new(),
    });
    known.names.insert(path.clone());
    if [0, tree.node(above).history.born].contains(&node.history.parent) {
        known.paths.insert(path);
    }
}

/// Whether a change that was found is what became of a node.
fn explains(found: &FileChange, before: Option<&Named<'_>>, after: Option<&Named<'_>>) -> bool {
    let is = |node: &Named<'_>, path: &[u8]| node.is_shown_as(&String::from_utf8_lossy(path));
    let Some(known) = after.or(before) else {
        return false;
    };
    if known.file_type() != found.attributes.file_type {
        return false;
    }
    match (before, after, &found.changed) {
        (Some(before), None, Changed::Removed) => is(before, &found.path),
        (None, Some(after), Changed::Created) => is(after, &found.path),
        (Some(before), Some(after), changed) => {
            let more = after.names.len() as i64 - before.names.len() as i64;
            match changed {
                Changed::Linked(found_more) => {
                    !after.is_directory() && *found_more == more && is(after, &found.path)
                }
                _ if more != 0 && !after.is_directory() => false,
                Changed::Modified => is(before, &found.path) && is(after, &found.path),
                Changed::Renamed(to) => {
                    is(before, &found.path) && is(after, to) && found.path != *to
                }
                Changed::Removed | Changed::Created => false,
            }
        }
        _ => false,
    }
}

/// In what the changes that were found between two states are not those of the model, a line each; none if the
/// model does not know how it came from the first to the second.
fn wrong(old: &Tree, new: &Tree, found: Vec<FileChange>) -> Option<Vec<String>> {
    let is_known = |tree: &Tree| tree.node(Tree::ROOT).history.born;
    if is_known(old) != is_known(new) {
        return None;
    }
    let ((old, mut unknown), (new, more)) = (named(old), named(new));
    unknown.extend(more);
    let is_unknown = |path: &str| {
        let first = path.trim_start_matches('/').split('/').next();
        first.is_some_and(|first| unknown.contains(first))
    };
    let mut lines = Vec::new();
    let mut found: Vec<Option<FileChange>> = found.into_iter().map(Some).collect();
    let all: BTreeSet<u64> = old.keys().chain(new.keys()).copied().collect();
    for born in all {
        let (before, after) = (old.get(&born), new.get(&born));
        let paths = || [before, after].into_iter().flatten();
        if paths().any(|node| node.names.iter().any(|path| is_unknown(path))) {
            continue;
        }
        if let (Some(before), Some(after)) = (before, after)
            && before.node.history.changed == after.node.history.changed
        {
            continue;
        }
        let is_it = |one: &Option<FileChange>, by_name: bool| {
            let one = one.as_ref();
            one.is_some_and(|one| {
                by_name != one.path.starts_with(NUMBER.as_bytes()) && explains(one, before, after)
            })
        };
        // One that may be shown by its number leaves the numbers to those that have no other choice.
        let shown = [true, false].into_iter().find_map(|by_name| {
            let shown = found.iter().position(|one| is_it(one, by_name))?;
            found[shown].take()
        });
        if shown.is_none() {
            let paths = |node: Option<&Named<'_>>| {
                node.map_or("nothing".to_owned(), |node| {
                    format!("{:?}, one of {:?}", node.names, node.paths)
                })
            };
            let (before, after) = (paths(before), paths(after));
            lines.push(format!("from {before} to {after}: not shown"));
        }
    }
    for change in found.into_iter().flatten() {
        let path = String::from_utf8_lossy(&change.path).into_owned();
        if !is_unknown(&path) && (unknown.is_empty() || !path.starts_with(NUMBER)) {
            lines.push(format!("{path}: shown as {:?}", change.changed));
        }
    }
    Some(lines)
}

fn compare(old: &Arc<FileSystem>, new: &Arc<FileSystem>) -> posix::Result<Vec<FileChange>> {
    let pages: Vec<_> =
        Comparison::new(Arc::clone(old), Arc::clone(new)).collect::<Result<_, _>>()?;
    Ok(pages.concat())
}

/// In what comparisons of snapshots with the next one, and of the newest with the file system, are not what the model
/// says, a line each; and how many were compared. The pool has synced, and nobody works.
///
/// # Panics
/// If a dataset cannot be read.
#[must_use]
pub fn differences(pool_model: &PoolModel, test_pool: &TestPool) -> (Vec<String>, usize) {
    let (mut lines, mut compared) = (Vec::new(), 0);
    for (path, head) in pool_model.heads() {
        let mut states: Vec<_> = head
            .snapshots
            .iter()
            .map(|one| (format!("{path}@{}", one.name), &one.tree))
            .collect();
        states.push((path.clone(), &head.tree));
        let open = |name: &str| match name.contains('@') {
            true => mount(&test_pool.pool, name, true),
            false => test_pool.system(name),
        };
        for pair in states.windows(2) {
            let [(from, old), (to, new)] = pair else {
                continue;
            };
            let found = compare(&open(from), &open(to)).expect("states are read");
            let Some(some) = wrong(old, new, found) else {
                continue;
            };
            compared += 1;
            let lines_of = some.into_iter();
            lines.extend(lines_of.map(|line| format!("changes from {from} to {to}: {line}")));
        }
    }
    (lines, compared)
}
