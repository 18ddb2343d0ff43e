//! Which files changed between two states of a file system: what `zfs diff` shows.
//!
//! Blocks of dnodes that are the same block of the pool in both states are passed over; the files
//! of the others are compared by generation, time of change, number of names, and path.

use std::collections::HashMap;
use std::sync::Arc;

use base::ObjectId;
use dmu::DmuError;
use format::ObjectType;

use crate::{Attributes, Credentials, FileSystem, FileType, PosixError, Result, Visit};

/// So many paths of directories are remembered.
const DIRECTORIES_MAX: usize = 4096;

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is gone.
    Removed,
    /// It is new.
    Created,
    /// It has another content, other attributes, or other entries.
    Modified,
    /// It has so many names more, or fewer.
    Linked(i64),
    /// It has another path: this one.
    Renamed(Vec<u8>),
}

/// A file that changed.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// What happened.
    pub changed: Changed,
    /// Its attributes afterwards; of a file that is gone, those it had.
    pub attributes: Attributes,
    /// Its path from the root, `/` first; of a renamed file, the old one. A file whose last name
    /// was removed and that remembers no other is shown as `/<0xNUMBER>`.
    pub path: Vec<u8>,
}

/// Compares two states of a file system: each item is what changed in one block of dnodes, by the
/// number of the object.
///
/// Both are compared as they last synced, the second one's names and attributes as they are.
#[derive(Debug)]
pub struct Comparison {
    old: State,
    new: State,
    /// The next block to look at; none: after a failure, or at the end.
    next: Option<u64>,
}

impl Comparison {
    /// A comparison of two states, the older one first.
    #[must_use]
    pub fn new(old: Arc<FileSystem>, new: Arc<FileSystem>) -> Self {
        Self {
            old: State::new(old),
            new: State::new(new),
            next: Some(0),
        }
    }

    fn changes_from(&mut self, from: u64) -> Result<Option<(u64, Vec<FileChange>)>> {
        let (old, new) = (self.old.files.objects(), self.new.files.objects());
        let Some(block) = old.next_different_block(new, from)? else {
            return Ok(None);
        };
        let mut objects = old.objects_in_block(block)?;
        objects.extend(new.objects_in_block(block)?);
        objects.sort_unstable();
        objects.dedup();
        let mut changes = Vec::new();
        for object in objects {
            self.compare(object, &mut changes)?;
        }
        Ok(Some((block, changes)))
    }

    fn compare(&mut self, object: ObjectId, changes: &mut Vec<FileChange>) -> Result<()> {
        let (before, after) = (self.old.file(object)?, self.new.file(object)?);
        if let (Some(before), Some(after)) = (&before, &after)
            && before.generation == after.generation
        {
            if before.ctime == after.ctime {
                return Ok(());
            }
            let (was, is) = (self.old.path(object)?, self.new.path(object)?);
            let more = i64::from(after.links) - i64::from(before.links);
            let is_directory = after.file_type == FileType::Directory;
            let (changed, path) = if more != 0 && !is_directory {
                (Changed::Linked(more), is)
            } else if was == is {
                (Changed::Modified, is)
            } else {
                (Changed::Renamed(is), was)
            };
            changes.push(FileChange {
                changed,
                attributes: *after,
                path,
            });
            return Ok(());
        }
        if let Some(attributes) = before {
            changes.push(FileChange {
                changed: Changed::Removed,
                attributes,
                path: self.old.path(object)?,
            });
        }
        if let Some(attributes) = after {
            changes.push(FileChange {
                changed: Changed::Created,
                attributes,
                path: self.new.path(object)?,
            });
        }
        Ok(())
    }
}

impl Iterator for Comparison {
    type Item = Result<Vec<FileChange>>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.next.take()?;
        match self.changes_from(from).transpose()? {
            Ok((block, changes)) => {
                self.next = Some(block + 1);
                Some(Ok(changes))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// One of the two states.
#[derive(Debug)]
struct State {
    files: Arc<FileSystem>,
    /// The names in the directory that was asked for last: files of one directory come together.
    listed: Option<(ObjectId, HashMap<ObjectId, Vec<u8>>)>,
    /// Paths of directories.
    directories: HashMap<ObjectId, Option<Vec<u8>>>,
}

impl State {
    fn new(files: Arc<FileSystem>) -> Self {
        Self {
            files,
            listed: None,
            directories: HashMap::new(),
        }
    }

    /// The file with this number; none if there is none, or one that has no name. Directories of
    /// extended attributes, and what is in them, are no files.
    fn file(&self, object: ObjectId) -> Result<Option<Attributes>> {
        let kind = match self.files.objects().object(object) {
            Ok(object) => object.info().bonus_type,
            Err(DmuError::NoSuchObject { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if kind != ObjectType::SYSTEM_ATTRIBUTES && kind != ObjectType::ZNODE {
            return Ok(None);
        }
        let found = match self.files.is_extended_attribute(object) {
            Ok(true) => return Ok(None),
            Ok(false) => self.files.getattr(object),
            Err(error) => Err(error),
        };
        match found {
            Ok(file) if file.links == 0 => Ok(None),
            Ok(file) => Ok(Some(file)),
            Err(PosixError::Stale | PosixError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path(&mut self, object: ObjectId) -> Result<Vec<u8>> {
        Ok(match self.path_in(object)? {
            Some(found) if found.is_empty() => b"/".to_vec(),
            Some(found) => found,
            None => format!("/<{:#x}>", object.0).into_bytes(),
        })
    }

    fn path_in(&mut self, object: ObjectId) -> Result<Option<Vec<u8>>> {
        if object == self.files.root() {
            return Ok(Some(Vec::new()));
        }
        let parent = match self.files.getattr(object) {
            Ok(file) => file.parent,
            Err(PosixError::Stale | PosixError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(name) = self.name_in(parent, object)? else {
            return Ok(None);
        };
        let above = match self.directories.get(&parent) {
            Some(known) => known.clone(),
            None => {
                let found = self.files.path_of(parent)?;
                if self.directories.len() >= DIRECTORIES_MAX {
                    self.directories.clear();
                }
                self.directories.insert(parent, found.clone());
                found
            }
        };
        Ok(above.map(|mut path| {
            path.push(b'/');
            path.extend(name);
            path
        }))
    }

    fn name_in(&mut self, directory: ObjectId, object: ObjectId) -> Result<Option<Vec<u8>>> {
        if self.listed.as_ref().is_none_or(|(of, _)| *of != directory) {
            let mut names = HashMap::new();
            let root = Credentials::root();
            let listed = self.files.readdir(&root, directory, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    // Of several names in one directory the first counts.
                    names
                        .entry(entry.object)
                        .or_insert_with(|| entry.name.to_vec());
                }
                Visit::Continue
            });
            match listed {
                Ok(()) => {}
                Err(PosixError::Stale | PosixError::NotFound | PosixError::NotDirectory) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
            self.listed = Some((directory, names));
        }
        let names = self.listed.as_ref().map(|(_, names)| names);
        Ok(names.and_then(|names| names.get(&object).cloned()))
    }
}
