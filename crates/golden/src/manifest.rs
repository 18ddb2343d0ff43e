//! A manifest: what every entry of a dataset was when OpenZFS had it mounted.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One entry of a manifest. A field that is absent or null was not recorded, or may have any value.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Entry {
    /// The path from the dataset's root; the root itself is `.`.
    pub path: String,
    /// One letter: f d l p s b c.
    #[serde(rename = "type")]
    pub kind: String,
    /// Permission bits, octal.
    pub mode: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links.
    pub nlink: u32,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: Option<i64>,
    /// Size in bytes, of files and symbolic links.
    pub size: Option<u64>,
    /// Major and minor number, of device nodes.
    pub rdev: Option<[u32; 2]>,
    /// Target of a symbolic link.
    pub target: Option<String>,
    /// SHA-256 of a file's contents, hexadecimal.
    pub sha256: Option<String>,
    /// Extended attributes: name to the first 16 hexadecimal digits of the SHA-256 of the value.
    #[serde(default)]
    pub xattrs: BTreeMap<String, String>,
}

/// A whole manifest.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// Entries by path.
    pub entries: BTreeMap<String, Entry>,
}

impl Manifest {
    /// Reads a `.jsonl` file: one entry a line.
    ///
    /// # Panics
    /// If the file cannot be read or a line is no entry: the golden set itself is broken then.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let entries = text.lines().map(|line| {
            let entry: Entry = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()));
            (entry.path.clone(), entry)
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// A manifest of entries that a test gathered.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self {
            entries: entries
                .into_iter()
                .map(|entry| (entry.path.clone(), entry))
                .collect(),
        }
    }

    /// Every difference between this manifest (what is wanted) and another (what was found), a line each.
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (path, wanted) in &self.entries {
            match found.entries.get(path) {
                None => differences.push(format!("{path}: missing")),
                Some(entry) => compare(wanted, entry, &mut differences),
            }
        }
        for path in found
            .entries
            .keys()
            .filter(|path| !self.entries.contains_key(*path))
        {
            differences.push(format!("{path}: unexpected"));
        }
        differences
    }
}

fn compare(wanted: &Entry, found: &Entry, differences: &mut Vec<String>) {
    let path = &wanted.path;
    let mut check = |field: &str, wanted: String, found: String| {
        if wanted != found {
            differences.push(format!("{path}: {field}: want {wanted}, have {found}"));
        }
    };
    check("type", wanted.kind.clone(), found.kind.clone());
    check("mode", wanted.mode.clone(), found.mode.clone());
    check("uid", wanted.uid.to_string(), found.uid.to_string());
    check("gid", wanted.gid.to_string(), found.gid.to_string());
    check("nlink", wanted.nlink.to_string(), found.nlink.to_string());
    if wanted.mtime_ns.is_some() {
        check(
            "mtime_ns",
            format!("{:?}", wanted.mtime_ns),
            format!("{:?}", found.mtime_ns),
        );
    }
    check(
        "size",
        format!("{:?}", wanted.size),
        format!("{:?}", found.size),
    );
    check(
        "rdev",
        format!("{:?}", wanted.rdev),
        format!("{:?}", found.rdev),
    );
    check(
        "target",
        format!("{:?}", wanted.target),
        format!("{:?}", found.target),
    );
    check(
        "sha256",
        format!("{:?}", wanted.sha256),
        format!("{:?}", found.sha256),
    );
    check(
        "xattrs",
        format!("{:?}", wanted.xattrs),
        format!("{:?}", found.xattrs),
    );
}
