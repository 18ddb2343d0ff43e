//! Where datasets are mounted: the effective mount point, whether at all, how, and in which order.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use admin::{Setting, Source, Value};

use crate::MountOptions;

#[cfg(test)]
mod tests;

/// The mount point as shown and used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mountpoint {
    /// A directory, altroot included.
    Path(PathBuf),
    /// Mounted by hand.
    Legacy,
    /// Nowhere.
    None,
}

impl Mountpoint {
    /// From the stored value of `dataset` and its source: an inherited one is continued by the
    /// names between the ancestor and the dataset; without any, the pool's name is the root.
    pub(crate) fn effective(
        dataset: &str,
        setting: Option<&Setting>,
        altroot: Option<&Path>,
    ) -> Self {
        let (base, below) = match setting {
            None => ("/".to_owned(), dataset),
            Some(Setting { value, source, .. }) => {
                let Value::Text(text) = value else {
                    return Self::None;
                };
                match text.as_str() {
                    "none" => return Self::None,
                    "legacy" => return Self::Legacy,
                    _ => {}
                }
                let below = match source {
                    Source::Inherited(from) => {
                        dataset.strip_prefix(from.as_str()).unwrap_or_default()
                    }
                    Source::None
                    | Source::Default
                    | Source::Local
                    | Source::Received
                    | Source::Temporary => "",
                };
                (text.clone(), below)
            }
        };
        let mut path = PathBuf::from("/");
        if let Some(root) = altroot {
            path.push(root);
        }
        for part in base
            .split('/')
            .chain(below.split('/'))
            .filter(|part| !part.is_empty())
        {
            path.push(part);
        }
        Self::Path(path)
    }

    /// The text of the property.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Path(path) => path.to_string_lossy().into_owned(),
            Self::Legacy => "legacy".to_owned(),
            Self::None => "none".to_owned(),
        }
    }
}

/// What `zfs mount` was told besides the name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MountFlags<'a> {
    pub(crate) words: &'a [String],
    pub(crate) overlay: bool,
    /// Also what is redacted.
    pub(crate) redacted: bool,
    /// Where, if not at its own mount point.
    pub(crate) at: Option<&'a Path>,
}

/// Parents before children: component by component.
pub(crate) fn mount_order(a: &Path, b: &Path) -> Ordering {
    a.components().cmp(b.components())
}

/// Whether the words of `-o` change a mount that is there.
pub(crate) fn is_remount(words: &[String]) -> bool {
    let mut words = words.iter().flat_map(|words| words.split(','));
    words.any(|word| word == "remount")
}

/// Takes over the words of `-o`; an unknown one is returned as the error.
pub(crate) fn apply_words(options: &mut MountOptions, words: &[String]) -> Result<(), String> {
    for word in words.iter().flat_map(|words| words.split(',')) {
        match word {
            "ro" => options.readonly = true,
            "rw" => options.readonly = false,
            "atime" => options.atime = true,
            "noatime" => options.atime = false,
            "relatime" => options.relatime = true,
            "norelatime" | "strictatime" => options.relatime = false,
            "dev" | "devices" => options.devices = true,
            "nodev" | "nodevices" => options.devices = false,
            "exec" => options.exec = true,
            "noexec" => options.exec = false,
            "suid" | "setuid" => options.setuid = true,
            "nosuid" | "nosetuid" => options.setuid = false,
            "writeback" => options.write_back = Some(true),
            "nowriteback" => options.write_back = Some(false),
            "" | "defaults" | "zfsutil" | "remount" => {}
            unknown => return Err(unknown.to_owned()),
        }
    }
    Ok(())
}
