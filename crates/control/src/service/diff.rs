//! Which files changed between two states of a file system: `zfs diff`.
//!
//! Blocks of dnodes that are the same block of the pool in both states are passed over; the files
//! of the others are compared by generation, time of change, number of names, and path.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use base::ObjectId;
use dmu::{DmuError, ObjectSet};
use dsl::Dataset;
use format::ObjectType;
use posix::{Attributes, Credentials, FileSystem, FileType, MountOptions, PosixError, Visit};

use super::source::PoolSource;
use super::{PAGE, Service, Sink};
use crate::message::Response;
use crate::property::Types;
use crate::report::{DiffChange, DiffRecord};
use crate::{Failure, FailureKind, name};

/// A path goes up through so many directories at most.
const DEPTH_MAX: usize = 4096;

/// Why a comparison ends early.
enum Stop {
    /// Something cannot be read.
    Unreadable(String),
    /// Nobody takes the answer.
    Broken(io::Error),
}

impl From<PosixError> for Stop {
    fn from(error: PosixError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<DmuError> for Stop {
    fn from(error: DmuError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl Service {
    /// Answers with what changed from the first to the second, by the number of the object.
    pub(super) fn diff(&self, from: &str, to: &str, sink: Sink<'_>) -> io::Result<()> {
        let (mut old, mut new) = match self.both_states(from, to) {
            Ok(both) => both,
            Err(failure) => return sink(Response::Failed(failure)),
        };
        match compare(&mut old, &mut new, &self.shown_root(to), sink) {
            Ok(()) => sink(Response::Done),
            Err(Stop::Broken(error)) => Err(error),
            Err(Stop::Unreadable(text)) => {
                let failure = Failure::new(FailureKind::Medium, unable(&text));
                sink(Response::Failed(failure))
            }
        }
    }

    fn both_states(&self, from: &str, to: &str) -> Result<(State, State), Failure> {
        let older = self.file_system(from, Types::SNAPSHOT)?;
        let newer = self.file_system(to, Types::FILESYSTEM.with(Types::SNAPSHOT))?;
        let is_before = older.is_before(&newer).map_err(super::unreadable)?;
        if !is_before {
            let text = unable("not an earlier snapshot from the same fs");
            return Err(Failure::new(FailureKind::Invalid, text));
        }
        if !newer.is_snapshot() {
            if let Some(reason) = self.pool.suspended() {
                let text = unable("pool I/O is currently suspended");
                return Err(Failure::new(FailureKind::Medium, text).advise(reason));
            }
            // What programs wrote is to be in the blocks that are compared.
            self.mounts().barrier(to);
            if !self.readonly {
                self.pool.sync().map_err(super::unreadable)?;
            }
        }
        Ok((self.state(&older)?, self.state(&newer)?))
    }

    fn state(&self, dataset: &Arc<Dataset>) -> Result<State, Failure> {
        let name = dataset.name().map_err(super::unreadable)?;
        let objects = dataset.object_set().map_err(super::unreadable)?;
        let mounted = self.mounts().file_system(&name);
        let files = match mounted.filter(|_| !dataset.is_snapshot()) {
            Some(files) => files,
            None => {
                let source = PoolSource {
                    pool: Arc::clone(&self.pool),
                };
                let options = MountOptions {
                    read_only: true,
                    ..MountOptions::default()
                };
                FileSystem::mount(source.look(dataset)?, options).map_err(super::unreadable)?
            }
        };
        Ok(State {
            objects,
            files,
            listed: None,
            directories: HashMap::new(),
        })
    }

    /// What stands before the paths: where the file system is mounted, else its name.
    fn shown_root(&self, to: &str) -> Vec<u8> {
        let name = name::dataset_of(to);
        let mounted = self.mounts().mounted();
        match mounted.iter().find(|mount| mount.dataset == name) {
            Some(mount) => {
                let path = mount.path.as_os_str().as_bytes();
                path.strip_suffix(b"/").unwrap_or(path).to_vec()
            }
            None => format!("{name}:").into_bytes(),
        }
    }
}

fn unable(text: &str) -> String {
    format!("Unable to obtain diffs: {text}")
}

fn compare(old: &mut State, new: &mut State, root: &[u8], sink: Sink<'_>) -> Result<(), Stop> {
    let mut records = Vec::new();
    let mut from = 0;
    while let Some(block) = old.objects.next_different_block(&new.objects, from)? {
        let mut objects = old.objects.objects_in_block(block)?;
        objects.extend(new.objects.objects_in_block(block)?);
        objects.sort_unstable();
        objects.dedup();
        for object in objects {
            compare_object(old, new, object, root, &mut records)?;
        }
        if records.len() >= PAGE {
            let page = Response::Diff(std::mem::take(&mut records));
            sink(page).map_err(Stop::Broken)?;
        }
        from = block + 1;
    }
    sink(Response::Diff(records)).map_err(Stop::Broken)
}

fn compare_object(
    old: &mut State,
    new: &mut State,
    object: ObjectId,
    root: &[u8],
    records: &mut Vec<DiffRecord>,
) -> Result<(), Stop> {
    let (before, after) = (old.file(object)?, new.file(object)?);
    if let (Some(before), Some(after)) = (&before, &after)
        && before.generation == after.generation
    {
        if before.ctime == after.ctime {
            return Ok(());
        }
        let (was, is) = (old.path(object, root)?, new.path(object, root)?);
        let more = i64::from(after.links) - i64::from(before.links);
        let is_directory = after.file_type == FileType::Directory;
        let (change, path) = if more != 0 && !is_directory {
            (DiffChange::Linked(more), is)
        } else if was == is {
            (DiffChange::Modified, is)
        } else {
            (DiffChange::Renamed(is), was)
        };
        records.push(record(change, after, path));
        return Ok(());
    }
    if let Some(before) = &before {
        let path = old.path(object, root)?;
        records.push(record(DiffChange::Removed, before, path));
    }
    if let Some(after) = &after {
        let path = new.path(object, root)?;
        records.push(record(DiffChange::Created, after, path));
    }
    Ok(())
}

fn record(change: DiffChange, file: &Attributes, path: Vec<u8>) -> DiffRecord {
    DiffRecord {
        change,
        kind: match file.file_type {
            FileType::Fifo => '|',
            FileType::CharacterDevice => 'C',
            FileType::Directory => '/',
            FileType::BlockDevice => 'B',
            FileType::Regular => 'F',
            FileType::Symlink => '@',
            FileType::Socket => '=',
        },
        time: (file.ctime.seconds, file.ctime.nanoseconds),
        path,
    }
}

/// One of the two states.
struct State {
    objects: Arc<ObjectSet>,
    files: Arc<FileSystem>,
    /// The names in the directory that was asked for last: files of one directory come together.
    listed: Option<(ObjectId, HashMap<ObjectId, Vec<u8>>)>,
    /// Paths of directories.
    directories: HashMap<ObjectId, Option<Vec<u8>>>,
}

impl State {
    /// The file with this number; none if there is none, or one that has no name. Directories of
    /// extended attributes, and what is in them, are no files.
    fn file(&self, object: ObjectId) -> Result<Option<Attributes>, Stop> {
        let kind = match self.objects.object(object) {
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
            Err(error) => Err(error.into()),
        }
    }

    /// The path of a file below what stands before all paths.
    fn path(&mut self, object: ObjectId, root: &[u8]) -> Result<Vec<u8>, Stop> {
        let mut path = root.to_vec();
        match self.path_in(object)? {
            Some(found) if found.is_empty() => path.push(b'/'),
            Some(found) => path.extend(found),
            // Its last name was removed, and it remembers no other.
            None => path.extend(format!("/<{:#x}>", object.0).into_bytes()),
        }
        Ok(path)
    }

    fn path_in(&mut self, object: ObjectId) -> Result<Option<Vec<u8>>, Stop> {
        if object == self.files.root() {
            return Ok(Some(Vec::new()));
        }
        let parent = match self.files.getattr(object) {
            Ok(file) => file.parent,
            Err(PosixError::Stale | PosixError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(name) = self.name_in(parent, object)? else {
            return Ok(None);
        };
        let above = match self.directories.get(&parent) {
            Some(known) => known.clone(),
            None => {
                let found = self.files.path_of(parent)?;
                if self.directories.len() >= DEPTH_MAX {
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

    fn name_in(&mut self, directory: ObjectId, object: ObjectId) -> Result<Option<Vec<u8>>, Stop> {
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
                Err(error) => return Err(error.into()),
            }
            self.listed = Some((directory, names));
        }
        let names = self.listed.as_ref().map(|(_, names)| names);
        Ok(names.and_then(|names| names.get(&object).cloned()))
    }
}
