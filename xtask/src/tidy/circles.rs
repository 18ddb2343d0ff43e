//! Circles of files: files of a crate that name each other, directly or through others, can only be understood
//! together.
//!
//! A file names another by a path that begins with `crate`, `super`, `self` or a module of its own. What an index
//! exports counts as the file that has it, and that it exports what its own folder has does not count.

use crate::run::{TaskError, TaskResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// No crate has a circle of more files.
const FILES_MAX: usize = 4;

/// Of files by their names in a crate, from `src` on.
type Texts = BTreeMap<String, String>;
/// The names from the root of a crate on: `["scan", "work"]`.
type Module = Vec<String>;

/// Faults of the sources in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let mut crates: BTreeMap<String, Texts> = BTreeMap::new();
    for file in files {
        let name = file.to_string_lossy();
        let Some((owner, inner)) = place(&name) else {
            continue;
        };
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))?;
        let texts = crates.entry(owner.to_owned()).or_default();
        texts.insert(inner.to_owned(), text);
    }
    let mut faults = Vec::new();
    for (name, texts) in &crates {
        let roots = ["lib.rs", "main.rs"].map(|root| circles(texts, root));
        let largest = roots.into_iter().flatten().max_by_key(Vec::len);
        let largest = largest.unwrap_or_default();
        faults.extend(judge(name, &largest, FILES_MAX));
    }
    Ok(faults)
}

/// The crate and the name in it of a file that counts: tests may name whatever they like.
fn place(name: &str) -> Option<(&str, &str)> {
    let (owner, inner) = name.strip_prefix("crates/")?.split_once("/src/")?;
    let is_test = inner.ends_with("tests.rs") || format!("/{inner}").contains("/tests/");
    let counts = inner.ends_with(".rs") && !is_test && !inner.starts_with("bin/");
    counts.then_some((owner, inner))
}

fn judge(name: &str, largest: &[String], limit: usize) -> Option<String> {
    let (count, files) = (largest.len(), largest.join(", "));
    (count > limit).then(|| {
        format!(
            "crates/{name}: {count} files name each other in a circle, at most {limit} may: {files}"
        )
    })
}

/// The circles among the files of a library or program that begins with `root`: of each the files. None if there is no
/// such file.
fn circles(texts: &Texts, root: &str) -> Vec<Vec<String>> {
    if !texts.contains_key(root) {
        return Vec::new();
    }
    let graph = Graph::read(texts, root);
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = graph
        .names
        .keys()
        .map(|from| (from, graph.reached_from(from)))
        .collect();
    let mut found = BTreeSet::new();
    for (from, to) in &reached {
        let mutual = to.iter().filter(|to| reached[**to].contains(from));
        let circle: Vec<String> = mutual.map(|to| graph.names[*to].clone()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// Which file names which.
struct Graph {
    /// The file of each module.
    names: BTreeMap<Module, String>,
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn read(texts: &Texts, root: &str) -> Self {
        let mut names = BTreeMap::new();
        let mut paths = BTreeMap::new();
        for (name, text) in texts {
            let module = module_of(name);
            if module.is_empty() && name != root {
                continue;
            }
            paths.insert(module.clone(), paths_in(&tokens(text)));
            names.insert(module, name.clone());
        }
        let mut exports = BTreeMap::new();
        for (module, paths) in &paths {
            for path in paths.iter().filter(|path| path.exported) {
                if let Some(target) = absolute(module, &path.names, &names) {
                    exports.insert((module.clone(), path.known_as.clone()), target);
                }
            }
        }
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, paths) in &paths {
            let to = edges.entry(module.clone()).or_default();
            for path in paths {
                let Some(target) = absolute(module, &path.names, &names) else {
                    continue;
                };
                let target = file_of(target, &names, &exports);
                let is_index = path.exported && target.starts_with(module);
                if target != *module && !is_index {
                    to.insert(target);
                }
            }
        }
        Self { names, edges }
    }

    fn reached_from(&self, from: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&Module> = self.edges[from].iter().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(&self.edges[module]);
            }
        }
        reached
    }
}

fn module_of(name: &str) -> Module {
    match name.trim_end_matches(".rs").trim_end_matches("/mod") {
        "lib" | "main" => Vec::new(),
        inner => inner.split('/').map(str::to_owned).collect(),
    }
}

/// A path from the root of the crate on; nothing when it leads to another crate.
fn absolute(module: &Module, path: &[String], names: &BTreeMap<Module, String>) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let ups = path.iter().take_while(|name| *name == "super").count();
    let of_parent = |ups: usize| module[..module.len().saturating_sub(ups)].to_vec();
    let (mut base, rest) = match first.as_str() {
        "crate" => (Vec::new(), rest),
        "self" => (module.clone(), rest),
        "super" => (of_parent(ups), &path[ups..]),
        _ => {
            let child = [module.as_slice(), std::slice::from_ref(first)].concat();
            return names
                .contains_key(&child)
                .then(|| [module.as_slice(), path].concat());
        }
    };
    base.extend_from_slice(rest);
    Some(base)
}

/// The module that has what a path names.
fn file_of(
    mut path: Module,
    names: &BTreeMap<Module, String>,
    exports: &BTreeMap<(Module, String), Module>,
) -> Module {
    // Of an export of an export.
    for _ in 0..8 {
        let known = (0..=path.len())
            .rev()
            .find(|len| names.contains_key(&path[..*len]));
        let (module, rest) = path.split_at(known.unwrap_or(0));
        let Some((name, rest)) = rest.split_first() else {
            break;
        };
        let Some(target) = exports.get(&(module.to_vec(), name.clone())) else {
            return module.to_vec();
        };
        path = [target.as_slice(), rest].concat();
    }
    path
}

/// A path in a text.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    names: Vec<String>,
    /// What it is called from then on.
    known_as: String,
    /// It is exported there (`pub use`).
    exported: bool,
}

/// All paths of more than one name, with trees of imports taken apart.
fn paths_in(tokens: &[String]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let after_path = at > 0 && tokens[at - 1] == "::";
        if is_name(&tokens[at]) && !after_path {
            if tokens[at..].starts_with(&["mod".into(), "tests".into(), "{".into()]) {
                break;
            }
            let exported = is_exported(&tokens[..at]);
            at = read_path(tokens, at, &[], exported, &mut found).max(at + 1);
        } else {
            at += 1;
        }
    }
    found.retain(|path| path.names.len() > 1);
    found
}

/// Whether what comes next is exported: `pub use` or `pub(…) use` stands before it.
fn is_exported(before: &[String]) -> bool {
    let Some(("use", before)) = before
        .split_last()
        .map(|(last, rest)| (last.as_str(), rest))
    else {
        return false;
    };
    match before.last().map(String::as_str) {
        Some("pub") => true,
        Some(")") => {
            let open = before.iter().rposition(|token| token == "(").unwrap_or(0);
            open > 0 && before[open - 1] == "pub"
        }
        _ => false,
    }
}

/// Reads one path, or a tree of them; answers where the text goes on.
fn read_path(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    exported: bool,
    found: &mut Vec<Named>,
) -> usize {
    let mut names = before.to_owned();
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    loop {
        if token(at) == "{" {
            at += 1;
            while !matches!(token(at), "}" | "") {
                at = read_path(tokens, at, &names, exported, found).max(at + 1);
                if token(at) == "," {
                    at += 1;
                }
            }
            return at + 1;
        }
        if !is_name(token(at)) {
            break;
        }
        // In a tree, `self` is what the tree hangs on.
        if token(at) != "self" || names.is_empty() {
            names.push(token(at).to_owned());
        }
        at += 1;
        if token(at) != "::" || !(is_name(token(at + 1)) || token(at + 1) == "{") {
            break;
        }
        at += 1;
    }
    let mut known_as = names.last().cloned().unwrap_or_default();
    if token(at) == "as" {
        known_as = token(at + 1).to_owned();
        at += 2;
    }
    found.push(Named {
        names,
        known_as,
        exported,
    });
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Names, `::` and single signs of a text; comments, texts and characters are left out.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if let Some(len) = ignored(rest) {
            len
        } else if is_part(first) {
            let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            found.push(rest[..len].to_owned());
            len
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    found
}

/// The bytes of a comment, a text or a character at the start.
fn ignored(rest: &str) -> Option<usize> {
    let end = |from: usize, what: &str| {
        let found = rest[from..].find(what);
        found.map_or(rest.len(), |at| from + at + what.len())
    };
    if rest.starts_with("//") {
        return Some(end(2, "\n"));
    }
    if rest.starts_with("/*") {
        return Some(end(2, "*/"));
    }
    if let Some(raw) = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br")) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let from = rest.len() - raw.len() + hashes + 1;
            return Some(end(from, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    let mut signs = rest.char_indices();
    match signs.next()?.1 {
        '"' => {
            while let Some((at, sign)) = signs.next() {
                match sign {
                    '\\' => {
                        signs.next();
                    }
                    '"' => return Some(at + 1),
                    _ => {}
                }
            }
            Some(rest.len())
        }
        // A character; a lifetime has no second quote.
        '\'' if rest[1..].starts_with('\\') => Some(end(3, "'")),
        '\'' => {
            signs.next()?;
            signs
                .next()
                .filter(|(_, sign)| *sign == '\'')
                .map(|(at, _)| at + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
