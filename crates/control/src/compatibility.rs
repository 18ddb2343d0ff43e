//! The pool property `compatibility`: files that list the features a pool is limited to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use format::features::{self, Feature};

#[cfg(test)]
mod tests;

/// Where files of a name are looked for; in the first, every feature must be known.
const FOLDERS: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// No file of features is longer.
const SIZE_MAX: u64 = 16 << 10;

/// The features that a pool may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Compatibility {
    /// All.
    Off,
    /// None, and none are to be enabled later.
    Legacy,
    /// Those of these names.
    Only(BTreeSet<String>),
}

impl Compatibility {
    /// What a value of the property means.
    ///
    /// # Errors
    /// Which file is wrong, and how.
    pub(crate) fn read(value: &str) -> Result<Self, String> {
        Self::read_in(value, &FOLDERS.map(PathBuf::from))
    }

    fn read_in(value: &str, folders: &[PathBuf]) -> Result<Self, String> {
        match value {
            "" | "off" => return Ok(Self::Off),
            "legacy" => return Ok(Self::Legacy),
            _ => {}
        }
        let mut common: Option<BTreeSet<String>> = None;
        for name in value.split(',') {
            let path = find(name, folders)?;
            let is_strict = path.parent() == folders.first().map(PathBuf::as_path);
            let listed = features_of(&path, is_strict)?;
            common = Some(match common {
                Some(common) => common.intersection(&listed).cloned().collect(),
                None => listed,
            });
        }
        Ok(Self::Only(common.unwrap_or_default()))
    }

    /// Whether a pool may have the feature.
    pub(crate) fn allows(&self, feature: &str) -> bool {
        match self {
            Self::Off => true,
            Self::Legacy => false,
            Self::Only(names) => names.contains(feature),
        }
    }

    /// Whether a pool may have one of these features.
    pub(crate) fn allows_any(&self, features: &[&Feature]) -> bool {
        features.iter().any(|feature| self.allows(feature.name))
    }
}

fn find(name: &str, folders: &[PathBuf]) -> Result<PathBuf, String> {
    if name.starts_with('/') {
        return Ok(PathBuf::from(name));
    }
    let plain = !name.is_empty() && !name.contains('/');
    let mut places = folders.iter().map(|folder| folder.join(name));
    let found = places.find(|path| plain && path.is_file());
    found.ok_or_else(|| {
        format!(
            "compatibility file '{name}' is not in {} or {}; enable features by name with \
             '-d -o feature@NAME=enabled'",
            FOLDERS[0], FOLDERS[1]
        )
    })
}

/// The names in a file: words between blanks and commas, without what follows a `#`.
fn features_of(path: &Path, is_strict: bool) -> Result<BTreeSet<String>, String> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .map_err(|error| format!("compatibility file '{shown}': {error}"))?
        .len();
    if size == 0 || size > SIZE_MAX {
        return Err(format!(
            "compatibility file '{shown}' must have 1 to {SIZE_MAX} bytes"
        ));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("compatibility file '{shown}': {error}"))?;
    if !text.ends_with('\n') {
        return Err(format!(
            "compatibility file '{shown}' must end with a newline"
        ));
    }
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ','));
    let mut found = BTreeSet::new();
    for word in words.filter(|word| !word.is_empty()) {
        if features::by_name(word).is_some() {
            found.insert(word.to_owned());
        } else if is_strict {
            return Err(format!(
                "compatibility file '{shown}' names an unknown feature '{word}'"
            ));
        }
    }
    Ok(found)
}
