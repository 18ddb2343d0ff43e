//! Filling the root file system: one thread, entries in the order of their names.
//!
//! A directory gets its attributes after all that is in it: its access list would be inherited, and its times moved.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use admin::{Failure, FailureKind};
use base::ObjectId;
use base::host_reason;
use pool::Pool;
use posix::{
    Credentials, FileSystem, OpenFile, PosixError, SetAttributes, SetTime, WriteOptions, XattrMode,
};

use super::request::{
    ImageProgress, ImageReport, Reproducible, Watcher, cannot_copy, cannot_make, clamped,
};
use super::source::{self, Contents, Found, Source};
use crate::service::refusal::kind_of;

mod entries;
mod room;

/// Bytes that are read at once, unless a record has more.
const PIECE: u64 = 1 << 20;
/// What is written or done between two syncs of a reproducible image.
const SYNC_BYTES: u64 = 32 << 20;
const SYNC_CHANGES: u64 = 8192;

/// Why an entry is not, or not wholly, in the image.
enum Trouble {
    /// Only this entry.
    Entry(String),
    /// Nothing more can be written.
    End(Failure),
}

/// What is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// Nothing: the image is new.
    Nothing,
    /// It stays; directories are filled further.
    Kept,
    /// Files are replaced; directories are filled further.
    Replaced,
}

/// What is filled.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) pool: &'a Pool,
    pub(super) files: &'a FileSystem,
    /// Its image, for those who are told.
    pub(super) image: &'a Path,
    pub(super) reproducible: Option<Reproducible>,
    pub(super) existing: Existing,
}

impl Target<'_> {
    fn cannot(&self, kind: FailureKind, reason: impl std::fmt::Display) -> Failure {
        match self.existing {
            Existing::Nothing => cannot_make(kind, self.image, reason),
            Existing::Kept | Existing::Replaced => cannot_copy(kind, self.image, reason),
        }
    }
}

/// What is under way.
pub(super) struct Filler<'a> {
    target: Target<'a>,
    source: &'a dyn Source,
    files: &'a FileSystem,
    watcher: Watcher<'a>,
    report: ImageReport,
    /// Files with several names: where the first came to.
    linked: HashMap<(u64, u64), ObjectId>,
    buffer: Vec<u8>,
    record: u64,
    /// Since the last sync.
    bytes: u64,
    changes: u64,
}

/// A directory whose entries are under way.
struct Folder {
    path: PathBuf,
    found: Found,
    object: ObjectId,
    rest: std::vec::IntoIter<OsString>,
}

impl<'a> Filler<'a> {
    /// `totals`: how much there is.
    pub(super) fn new(
        target: Target<'a>,
        source: &'a dyn Source,
        totals: ImageProgress,
        watcher: Watcher<'a>,
    ) -> Self {
        let files = target.files;
        let record = u64::from(files.properties().record_size).max(512);
        Self {
            target,
            source,
            files,
            watcher,
            report: ImageReport {
                progress: totals,
                ..ImageReport::default()
            },
            linked: HashMap::new(),
            buffer: vec![0; usize::try_from(PIECE.max(record)).unwrap_or(0)],
            record,
            bytes: 0,
            changes: 0,
        }
    }

    /// Copies everything into the root.
    pub(super) fn run(self) -> Result<ImageReport, Failure> {
        let root = self.files.root();
        self.run_into(root, None)
    }

    /// Copies everything into a directory: the root of the source under a name, or what is in it.
    pub(super) fn run_into(
        mut self,
        directory: ObjectId,
        name: Option<&[u8]>,
    ) -> Result<ImageReport, Failure> {
        let path = self.source.root().to_owned();
        self.source.report(&mut self.report);
        let mut folders = Vec::new();
        if let Some(name) = name {
            let made = self.entry(directory, name, &path);
            if let Some((found, object)) = self.judge(&path, made)?.flatten() {
                folders.push(self.folder(path, found, object));
            }
        } else {
            let found = self.source.found(&path).map_err(|error| {
                let text = format!("cannot open '{}': {}", path.display(), host_reason(&error));
                Failure::new(FailureKind::Missing, text)
            })?;
            folders.push(self.folder(path, found, directory));
        }
        while let Some(folder) = folders.last_mut() {
            let Some(name) = folder.rest.next() else {
                if let Some(done) = folders.pop() {
                    let outcome = self.attributes(&done.path, done.object, &done.found);
                    self.judge(&done.path, outcome)?;
                }
                continue;
            };
            let path = folder.path.join(&name);
            let parent = folder.object;
            let made = self.entry(parent, source::bytes(&name), &path);
            if let Some((found, object)) = self.judge(&path, made)?.flatten() {
                let folder = self.folder(path, found, object);
                folders.push(folder);
            }
        }
        Ok(self.report)
    }

    /// What went wrong with one entry is noted.
    fn judge<T>(&mut self, path: &Path, outcome: Result<T, Trouble>) -> Result<Option<T>, Failure> {
        self.report.progress.entries += 1;
        let outcome = match outcome {
            Ok(value) => Some(value),
            Err(Trouble::Entry(problem)) => {
                self.report.note(path, problem);
                None
            }
            Err(Trouble::End(failure)) => {
                return Err(match self.target.existing {
                    Existing::Nothing => failure,
                    // What was copied stays; of this entry there is nothing.
                    Existing::Kept | Existing::Replaced => {
                        failure.because(format!("the copy ended at '{}'", path.display()))
                    }
                });
            }
        };
        (self.watcher)(&self.report.progress);
        self.step(0)?;
        Ok(outcome)
    }

    fn folder(&mut self, path: PathBuf, found: Found, object: ObjectId) -> Folder {
        // It is counted when it is done.
        self.report.progress.entries = self.report.progress.entries.saturating_sub(1);
        let names = self.source.names(&path).unwrap_or_else(|error| {
            self.report.note(&path, host_reason(&error));
            Vec::new()
        });
        Folder {
            path,
            found,
            object,
            rest: names.into_iter(),
        }
    }

    /// Counts a change, and `bytes` written. A reproducible image is synced at places that follow from these.
    fn step(&mut self, bytes: u64) -> Result<(), Failure> {
        self.bytes += bytes;
        self.changes += 1;
        let due = self.bytes >= SYNC_BYTES || self.changes >= SYNC_CHANGES;
        if self.target.reproducible.is_some() && due {
            (self.bytes, self.changes) = (0, 0);
            self.target
                .pool
                .sync()
                .map_err(|error| self.target.cannot(kind_of(&error), error))?;
        }
        Ok(())
    }

    /// An error of the new file system.
    fn failed(&self, error: &PosixError) -> Trouble {
        use PosixError as Posix;
        match error {
            Posix::NoSpace | Posix::QuotaExceeded => {
                let failure = self.target.cannot(FailureKind::Space, error);
                Trouble::End(match self.target.existing {
                    Existing::Nothing => failure.advise("make it larger with '--size SIZE'"),
                    Existing::Kept | Existing::Replaced => failure,
                })
            }
            Posix::Stopped(_) => {
                let failure = self.target.cannot(FailureKind::Medium, error);
                Trouble::End(match self.target.existing {
                    Existing::Nothing => {
                        failure.advise("nothing is left of it; make it again then")
                    }
                    Existing::Kept | Existing::Replaced => failure,
                })
            }
            Posix::Storage(_)
            | Posix::Log(_)
            | Posix::Corrupt { .. }
            | Posix::Unwritten
            | Posix::ReadOnly
            | Posix::Stale
            | Posix::NotFound => Trouble::End(self.target.cannot(FailureKind::Medium, error)),
            Posix::Exists
            | Posix::NotDirectory
            | Posix::IsDirectory
            | Posix::NotEmpty
            | Posix::AccessDenied
            | Posix::NotPermitted(_)
            | Posix::NameTooLong
            | Posix::InvalidName
            | Posix::Invalid(_)
            | Posix::TooManyLinks
            | Posix::CrossDevice
            | Posix::FileTooLarge
            | Posix::NoAttribute
            | Posix::AttributeTooLarge
            | Posix::OutOfRange
            | Posix::NotSupported(_)
            | Posix::Busy
            | Posix::NoSuchOffset
            | Posix::BadHandle => Trouble::Entry(error.to_string()),
        }
    }

    /// Copies what is in a file: whole records, so that the same contents give the same blocks however the source
    /// keeps its holes.
    fn contents(&mut self, from: &dyn Contents, to: &OpenFile, size: u64) -> Result<(), Trouble> {
        let piece = self.buffer.len() as u64;
        let mut at = 0;
        let copied = loop {
            let next = match source::next_records(from, at, size, self.record) {
                Ok(next) => next,
                Err(error) => break Err(unread(error)),
            };
            let holes_count = self.target.reproducible.is_some();
            let Some((start, end)) = next else {
                self.passed(if holes_count { size - at } else { 0 });
                break Ok(());
            };
            self.passed(if holes_count { start - at } else { 0 });
            // Pieces lie on a grid: where one ends does not depend on where the data begin.
            at = end.min(start - start % piece + piece);
            if let Err(trouble) = self.piece(from, to, start, at) {
                break Err(trouble);
            }
            self.passed(at - start);
        };
        if matches!(copied, Err(Trouble::End(_))) {
            return copied;
        }
        let is = to.attributes().map_err(|error| self.failed(&error))?.size;
        if is < size {
            let change = SetAttributes {
                size: Some(size),
                by_open_handle: true,
                ..SetAttributes::default()
            };
            self.files
                .setattr(&Credentials::root(), to.object(), &change)
                .map_err(|error| self.failed(&error))?;
        }
        copied
    }

    /// The holes of a few files are more than any number, where holes count.
    fn passed(&mut self, bytes: u64) {
        let progress = &mut self.report.progress;
        progress.bytes = progress.bytes.saturating_add(bytes);
        (self.watcher)(&self.report.progress);
    }

    /// Copies a range of at most one buffer. Records of zeros are holes where the image is to be reproducible.
    fn piece(
        &mut self,
        from: &dyn Contents,
        to: &OpenFile,
        start: u64,
        end: u64,
    ) -> Result<(), Trouble> {
        let length = usize::try_from(end - start).unwrap_or(0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = match from.read_exact_at(&mut buffer[..length], start) {
            Ok(()) => self.records(to, start, &buffer[..length]),
            Err(error) => Err(unread(error)),
        };
        self.buffer = buffer;
        outcome
    }

    fn records(&mut self, to: &OpenFile, start: u64, data: &[u8]) -> Result<(), Trouble> {
        if self.target.reproducible.is_none() {
            return self.write(to, start, data);
        }
        let record = usize::try_from(self.record).unwrap_or(usize::MAX);
        let mut run = 0..0;
        for (index, part) in data.chunks(record).enumerate() {
            let from = index * record;
            if !is_zero(part) {
                run = if run.end == from { run.start } else { from }..from + part.len();
                if run.end < data.len() {
                    continue;
                }
            }
            if !run.is_empty() {
                self.write(to, start + run.start as u64, &data[run.clone()])?;
            }
            run = 0..0;
        }
        Ok(())
    }

    fn write(&mut self, to: &OpenFile, offset: u64, data: &[u8]) -> Result<(), Trouble> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let written = to.write(at, &data[done..], WriteOptions::default());
            done += written.map_err(|error| self.failed(&error))?;
        }
        self.step(data.len() as u64).map_err(Trouble::End)
    }

    /// Extended attributes, owner, mode and times.
    fn attributes(&mut self, path: &Path, object: ObjectId, found: &Found) -> Result<(), Trouble> {
        let portable = self.target.reproducible.is_some();
        let attributes = self.source.attributes(path, portable);
        if let Some(problem) = attributes.problem {
            self.report.note(path, problem);
        }
        let root = Credentials::root();
        for (name, value) in &attributes.list {
            let set = self
                .files
                .setxattr(&root, object, name, value, XattrMode::default());
            match set.map_err(|error| self.failed(&error)) {
                Ok(()) => self.step(value.len() as u64).map_err(Trouble::End)?,
                Err(Trouble::Entry(problem)) => {
                    let name = String::from_utf8_lossy(name);
                    self.report
                        .note(path, format_args!("cannot set {name}: {problem}"));
                }
                Err(end) => return Err(end),
            }
        }
        let modified = clamped(self.target.reproducible, found.modified);
        let accessed = match portable {
            // Reading moves it.
            true => modified,
            false => found.accessed,
        };
        let change = SetAttributes {
            permissions: (!found.is_symlink()).then_some(found.permissions),
            uid: Some(found.uid),
            gid: Some(found.gid),
            atime: Some(SetTime::At(accessed)),
            mtime: Some(SetTime::At(modified)),
            ..SetAttributes::default()
        };
        self.files
            .setattr(&root, object, &change)
            .map(drop)
            .map_err(|error| self.failed(&error))
    }
}

/// The owner of an entry, who may do everything.
fn owner(of: &Found) -> Credentials {
    Credentials {
        privileged: true,
        ..Credentials::new(of.uid, of.gid)
    }
}

fn unread(error: std::io::Error) -> Trouble {
    Trouble::Entry(host_reason(&error))
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words
        .iter()
        .all(|word| word.iter().fold(0, |all, byte| all | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}
