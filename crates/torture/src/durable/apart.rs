//! The rule for a medium that lost records of the log as well: what those were about stays as it was, and the rest goes
//! on, so that names are no moment of the history any more. Each is, by itself.

use super::{Commits, Demand, Found, Record, State};
use crate::model::{Kind, NodeId, Tree};
use std::collections::BTreeMap;

impl Record {
    /// Why what was found never was, name by name.
    pub(super) fn judge_apart(&self, found: &Found) -> Result<(), Vec<String>> {
        let mut names = BTreeMap::new();
        let is_whole = count_names(found, &mut names);
        let rule = Apart {
            record: self,
            names: is_whole.then_some(names),
        };
        match rule.differences(Tree::ROOT, found, "") {
            lines if lines.is_empty() => Ok(()),
            lines => Err(lines),
        }
    }

    /// The nodes that a name of a directory ever meant, and whether it was always there while the directory was.
    fn meanings(&self, directory: NodeId, name: &str) -> (Vec<NodeId>, bool) {
        let (mut nodes, mut always) = (Vec::new(), true);
        for (_, names) in &self.names {
            let Some(Kind::Directory(entries)) = names.get(directory).map(|node| &node.kind) else {
                continue;
            };
            match entries.get(name) {
                Some(node) if !nodes.contains(node) => nodes.push(*node),
                Some(_) => {}
                None => always = false,
            }
        }
        (nodes, always)
    }

    /// All names that a directory ever had.
    fn names_of(&self, directory: NodeId) -> Vec<String> {
        let kinds = self.names.iter().filter_map(|(_, names)| {
            let node = names.get(directory)?;
            match &node.kind {
                Kind::Directory(entries) => Some(entries.keys().cloned()),
                Kind::File(_) | Kind::Link(_) | Kind::Special(..) => None,
            }
        });
        let mut names: Vec<String> = kinds.flatten().collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Counts the names of each object; false: something could not be read.
fn count_names(found: &Found, names: &mut BTreeMap<u64, u64>) -> bool {
    let mut is_whole = found.problem.is_none();
    for below in found.entries.values() {
        *names.entry(below.object).or_default() += 1;
        is_whole &= count_names(below, names);
    }
    is_whole
}

struct Apart<'a> {
    record: &'a Record,
    /// How many names each object has, if all could be read.
    names: Option<BTreeMap<u64, u64>>,
}

impl Apart<'_> {
    /// Why what was found is no state of a node.
    fn differences(&self, node: NodeId, found: &Found, path: &str) -> Vec<String> {
        if found.problem.is_some() {
            return Vec::new();
        }
        let mut lines = self.differences_of_node(node, found, path);
        if !matches!(found.node.kind, Kind::Directory(_)) {
            return lines;
        }
        for (name, below) in &found.entries {
            let path = format!("{path}/{name}");
            let (meanings, _) = self.record.meanings(node, name);
            let attempts = meanings
                .iter()
                .map(|meaning| self.differences(*meaning, below, &path));
            match attempts.min_by_key(Vec::len) {
                None => lines.push(format!("{path}: never was there")),
                Some(nearest) => lines.extend(nearest),
            }
        }
        for name in self.record.names_of(node) {
            let (_, always) = self.record.meanings(node, &name);
            if always && !found.entries.contains_key(&name) {
                lines.push(format!("{path}/{name}: missing, and was always there"));
            }
        }
        lines
    }

    fn differences_of_node(&self, node: NodeId, found: &Found, path: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let known = |(_, names): &(usize, Tree)| names.get(node).is_some();
        let Some((_, names)) = self.record.names.iter().find(|state| known(state)) else {
            return vec![format!("{path}: not a node of the history")];
        };
        let state = State {
            record: self.record,
            names,
            files: &BTreeMap::new(),
            demand: Demand::AnythingTrue,
            commits: Commits::Others,
        };
        state.compare_contents(node, found, path, &mut lines);
        if let Some(names) = &self.names
            && !matches!(found.node.kind, Kind::Directory(_))
        {
            let count = names.get(&found.object).copied().unwrap_or(0);
            if count != found.links {
                lines.push(format!("{path}: {} links, and {count} names", found.links));
            }
        }
        lines
    }
}
