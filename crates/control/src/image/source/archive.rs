//! A tar archive as the source of an image: its headers are read once into a tree, what is in its files is read where
//! it lies. It may come in any order, and an entry may stand for an earlier one.
//!
//! Invariant: nothing that the archive says is believed beyond its end. An archive that is cut off or damaged makes
//! no image; an entry that no file system can have is noted and left out.

mod access_list;
mod entries;
mod pax;
mod sparse;
mod spool;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use admin::{Failure, FailureKind};
use base::host_reason;
use rustix::io::Errno;

use super::{Attributes, Contents, Found, Source, is_portable};
use crate::image::request::{ImageReport, Watcher};
use entries::Entries;
use sparse::Extents;
use spool::Spool;
use tree::{Node, Tree};

/// An archive that is read.
pub(in crate::image) struct Archive {
    bytes: Spool,
    tree: Tree,
    problems: Vec<(Vec<u8>, String)>,
    /// How many there were.
    problem_count: u64,
}

/// Problems that are kept.
const PROBLEMS_MAX: usize = 100;

impl Archive {
    /// Reads the headers of an archive. One that comes from a pipe is kept in a file without a name beside the image.
    pub(super) fn read(input: &File, image: &Path, watcher: Watcher<'_>) -> Result<Self, Failure> {
        let bytes = Spool::of(input, image, watcher)?;
        let mut entries = Entries::of(&bytes);
        let mut tree = Tree::new();
        let (mut problems, mut problem_count) = (Vec::new(), 0);
        while let Some(entry) = entries.next().map_err(|error| refused(&bytes, &error))? {
            let path = entry.path.clone();
            if let Err(problem) = tree.add(entry) {
                problem_count += 1;
                if problems.len() < PROBLEMS_MAX {
                    problems.push((path, problem));
                }
            }
        }
        tree.end();
        Ok(Self {
            bytes,
            tree,
            problems,
            problem_count,
        })
    }

    fn node(&self, path: &Path) -> io::Result<&Node> {
        let node = self.tree.node(path.as_os_str().as_bytes());
        node.ok_or_else(|| Errno::NOENT.into())
    }
}

/// What is no archive, or not whole.
fn refused(bytes: &Spool, error: &io::Error) -> Failure {
    let text = format!("cannot read the archive: {}", host_reason(error));
    let failure = Failure::new(FailureKind::Invalid, text);
    let unpack = match bytes.start() {
        [0x1f, 0x8b, ..] => "gzip -dc",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd -dc",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz -dc",
        [b'B', b'Z', b'h', ..] => "bzip2 -dc",
        _ => return failure,
    };
    failure.advise(format!(
        "it is compressed; use '{unpack} ARCHIVE | millpond mkimage - IMAGE'"
    ))
}

impl Source for Archive {
    fn root(&self) -> &Path {
        Path::new("")
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let children = self.node(path)?.children.iter();
        Ok(children
            .map(|name| OsString::from_vec(name.clone()))
            .collect())
    }

    fn found(&self, path: &Path) -> io::Result<Found> {
        Ok(self.tree.found(self.node(path)?))
    }

    fn target(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.tree.inode(self.node(path)?).target.clone())
    }

    fn attributes(&self, path: &Path, portable: bool) -> Attributes {
        let Ok(node) = self.node(path) else {
            return Attributes::default();
        };
        let all = self.tree.inode(node).attributes.iter();
        let kept = all.filter(|(name, _)| !portable || is_portable(name));
        Attributes {
            list: kept.cloned().collect(),
            problem: None,
        }
    }

    fn open<'a>(&'a self, path: &Path) -> io::Result<Box<dyn Contents + 'a>> {
        let node = self.node(path)?;
        Ok(Box::new(Member {
            bytes: &self.bytes,
            found: self.tree.found(node),
            extents: &self.tree.inode(node).extents,
        }))
    }

    fn report(&self, report: &mut ImageReport) {
        for (path, problem) in &self.problems {
            report.note(Path::new(OsStr::from_bytes(path)), problem);
        }
        report.problem_count += self.problem_count - self.problems.len() as u64;
    }
}

/// A file in the archive.
struct Member<'a> {
    bytes: &'a Spool,
    found: Found,
    extents: &'a Extents,
}

impl Contents for Member<'_> {
    fn found(&self) -> io::Result<Found> {
        Ok(self.found.clone())
    }

    fn next_data(&self, from: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
        Ok(self.extents.next_data(from, size))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.extents.read(self.bytes, buffer, offset)
    }
}

#[cfg(test)]
mod tests;
