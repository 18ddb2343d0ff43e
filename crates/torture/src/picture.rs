//! All of a tree at a glance: what the model has and what was found, in one form.

use crate::durable::Found;
use crate::model::{Kind, Node, NodeId, Tree};
use std::collections::BTreeMap;

/// What a path leads to.
#[derive(Clone, Debug)]
struct Seen {
    /// Contents and attributes, without names.
    node: Node,
    links: u64,
    /// The first path that leads to the same file.
    first: String,
    problem: Option<String>,
}

/// What each path leads to; the root's is empty.
#[derive(Clone, Debug)]
pub struct Picture {
    paths: BTreeMap<String, Seen>,
}

impl Picture {
    /// A tree of the model.
    #[must_use]
    pub fn of(tree: &Tree) -> Self {
        let mut links = BTreeMap::new();
        for (_, node) in tree.nodes() {
            if let Kind::Directory(names) = &node.kind {
                for child in names.values() {
                    *links.entry(*child).or_insert(0) += 1;
                }
            }
        }
        let mut picture = Self {
            paths: BTreeMap::new(),
        };
        let mut firsts = BTreeMap::new();
        picture.add(tree, Tree::ROOT, String::new(), (&links, &mut firsts));
        picture
    }

    fn add(
        &mut self,
        tree: &Tree,
        id: NodeId,
        path: String,
        (links, firsts): (&BTreeMap<NodeId, u64>, &mut BTreeMap<NodeId, String>),
    ) {
        let node = tree.node(id);
        let first = firsts.entry(id).or_insert_with(|| path.clone()).clone();
        let mut count = links.get(&id).copied().unwrap_or(0);
        if let Kind::Directory(names) = &node.kind {
            let is_directory =
                |child: &&NodeId| matches!(tree.node(**child).kind, Kind::Directory(_));
            count = 2 + names.values().filter(is_directory).count() as u64;
            for (name, child) in names {
                self.add(tree, *child, format!("{path}/{name}"), (links, firsts));
            }
        }
        let seen = Seen {
            node: node.without_names(),
            links: count,
            first,
            problem: None,
        };
        self.paths.insert(path, seen);
    }

    /// A file system as it was found.
    #[must_use]
    pub fn found(found: &Found) -> Self {
        let mut picture = Self {
            paths: BTreeMap::new(),
        };
        picture.add_found(found, String::new(), &mut BTreeMap::new());
        picture
    }

    fn add_found(&mut self, found: &Found, path: String, firsts: &mut BTreeMap<u64, String>) {
        let first = firsts.entry(found.object).or_insert_with(|| path.clone());
        let seen = Seen {
            node: found.node.clone(),
            links: found.links,
            first: first.clone(),
            problem: found.problem.clone(),
        };
        for (name, below) in &found.entries {
            self.add_found(below, format!("{path}/{name}"), firsts);
        }
        self.paths.insert(path, seen);
    }

    /// In what the picture of something found differs from this one of the model, a line each.
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for path in found
            .paths
            .keys()
            .filter(|path| !self.paths.contains_key(*path))
        {
            lines.push(format!("{path}: unexpected"));
        }
        for (path, wanted) in &self.paths {
            let Some(seen) = found.paths.get(path) else {
                lines.push(format!("{path}: missing"));
                continue;
            };
            if let Some(problem) = &seen.problem {
                lines.push(format!("{path}: {problem}"));
                continue;
            }
            let mut words = seen.node.differences(&wanted.node);
            if wanted.links != seen.links {
                words.push(format!("links ({}, not {})", seen.links, wanted.links));
            }
            if wanted.first != seen.first {
                words.push("not the file that another name of it names".to_owned());
            }
            if !words.is_empty() {
                lines.push(format!("{path}: {}", words.join(", ")));
            }
        }
        lines
    }
}
