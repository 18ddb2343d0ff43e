//! Vdevs as they are typed to be made: words into a tree, and the tree as it is shown.

use std::path::{Path, PathBuf};

use admin::{Failure, FailureKind, VdevClass, VdevShape, VdevSpec};

use crate::grammar::Invocation;
use crate::output::{Stop, usage};

/// The vdev grammar: single files and disks and `mirror A B …`, for data; after `log`, `special` or
/// `dedup` for that.
pub(super) fn vdevs(words: &[String]) -> Result<Vec<VdevSpec>, Failure> {
    let invalid = |reason: &str| {
        Failure::new(
            FailureKind::Invalid,
            format!("invalid vdev specification: {reason}"),
        )
    };
    let mut found = Vec::new();
    let mut class = VdevClass::Normal;
    let mut mirror: Option<Vec<PathBuf>> = None;
    let close = |class, mirror: Option<Vec<PathBuf>>, found: &mut Vec<VdevSpec>| match mirror {
        Some(paths) if paths.len() < 2 => Err(invalid("mirror requires at least 2 devices")),
        Some(paths) => {
            let shape = VdevShape::Mirror(paths);
            found.push(VdevSpec { class, shape });
            Ok(())
        }
        None => Ok(()),
    };
    for word in words {
        if word == "mirror" {
            close(class, mirror.take(), &mut found)?;
            mirror = Some(Vec::new());
        } else if let Some(next) = class_word(word) {
            close(class, mirror.take(), &mut found)?;
            if next == VdevClass::Log && found.iter().any(|vdev| vdev.class == next) {
                return Err(invalid("'log' can be specified only once"));
            }
            class = next;
        } else if let Some(reason) = not_yet(word) {
            return Err(invalid(&reason));
        } else {
            let path = device_path(word);
            match &mut mirror {
                Some(paths) => paths.push(path),
                None => {
                    let shape = VdevShape::Leaf(path);
                    found.push(VdevSpec { class, shape });
                }
            }
        }
    }
    close(class, mirror.take(), &mut found)?;
    let mut all: Vec<&PathBuf> = found.iter().flat_map(VdevSpec::leaves).collect();
    all.sort();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        let path = pair[0].display();
        return Err(invalid(&format!(
            "one or more vdevs refer to the same device ({path})"
        )));
    }
    Ok(found)
}

/// What the vdevs after a word are for.
fn class_word(word: &str) -> Option<VdevClass> {
    match word {
        "log" => Some(VdevClass::Log),
        "special" => Some(VdevClass::Special),
        "dedup" => Some(VdevClass::Dedup),
        _ => None,
    }
}

/// Kinds of vdev that are read but not yet made.
fn not_yet(word: &str) -> Option<String> {
    let kind = word.split(':').next().unwrap_or(word);
    let numbered = |name: &str| {
        kind.strip_prefix(name)
            .is_some_and(|rest| matches!(rest, "" | "1" | "2" | "3"))
    };
    if word.contains('/') || Path::new(word).exists() {
        return None;
    }
    let known = numbered("raidz") || numbered("draid") || matches!(word, "cache" | "spare");
    known.then(|| {
        format!("'{word}' vdevs cannot be made by this version; use files, disks or 'mirror'")
    })
}

/// A bare word is a disk in /dev, unless a file of that name is here.
fn device_path(word: &str) -> PathBuf {
    let path = Path::new(word);
    if path.is_absolute() {
        return path.to_owned();
    }
    let device = Path::new("/dev").join(path);
    if !word.contains('/') && !path.exists() && device.exists() {
        return device;
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses files that are neither there nor to be made.
pub(super) fn check_files(vdevs: &[VdevSpec], file_size: Option<u64>) -> Result<(), Failure> {
    for path in vdevs.iter().flat_map(VdevSpec::leaves) {
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let text = format!("cannot use '{shown}': must be a block device or regular file");
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if file_size.is_none() {
                    let text = format!("cannot open '{shown}': no such file or device");
                    return Err(Failure::new(FailureKind::Missing, text)
                        .advise("use '--size SIZE' to have a file made"));
                }
            }
            Err(error) => {
                let text = format!("cannot open '{shown}': {error}");
                return Err(Failure::new(FailureKind::Permission, text));
            }
        }
    }
    Ok(())
}

/// The size of files that are to be made.
pub(super) fn file_size(call: &Invocation) -> Result<Option<u64>, Stop> {
    let parse = |text: &str| {
        admin::parse_size(text).map_err(|error| usage(format!("bad size '{text}': {error}")))
    };
    call.value("size").map(parse).transpose()
}

/// Vdevs as a tree, those of other classes under a heading.
pub(super) fn tree(vdevs: &[VdevSpec]) -> String {
    const HEADS: [(VdevClass, &str); 4] = [
        (VdevClass::Normal, ""),
        (VdevClass::Dedup, "\tdedup\n"),
        (VdevClass::Special, "\tspecial\n"),
        (VdevClass::Log, "\tlogs\n"),
    ];
    let mut out = String::new();
    for (class, head) in HEADS {
        let mut group = vdevs.iter().filter(|vdev| vdev.class == class).peekable();
        if group.peek().is_some() {
            out += head;
        }
        for vdev in group {
            match &vdev.shape {
                VdevShape::Leaf(path) => out += &format!("\t  {}\n", path.display()),
                VdevShape::Mirror(paths) => {
                    out += "\t  mirror\n";
                    for path in paths {
                        out += &format!("\t    {}\n", path.display());
                    }
                }
            }
        }
    }
    out
}
