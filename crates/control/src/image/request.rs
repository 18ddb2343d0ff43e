//! What image is asked for, and what is told of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{CreateRequest, Failure, FailureKind};
use posix::Timestamp;

/// Lines of problems that are kept.
const PROBLEMS_MAX: usize = 100;

/// What image to make.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    /// What the root file system gets.
    pub source: ImageSource,
    /// The image.
    pub image: PathBuf,
    /// The pool; without vdevs. Its `file_size` is the image's, `force` replaces an image that is there.
    pub pool: CreateRequest,
    /// About as small as the contents allow, in place of `file_size`.
    pub smallest: bool,
    /// The same bytes for the same contents and options.
    pub reproducible: Option<Reproducible>,
}

/// What an image is made of.
#[derive(Debug, Clone)]
pub enum ImageSource {
    /// The contents of a directory.
    Directory(PathBuf),
    /// A tar archive: a file from its position on, or a pipe.
    Archive(Arc<File>),
}

/// How an image is made reproducible.
#[derive(Debug, Clone, Copy)]
pub struct Reproducible {
    /// The time of the image, in seconds since 1970; no file is younger (`SOURCE_DATE_EPOCH`). None: the
    /// youngest file's.
    pub epoch_s: Option<u64>,
}

/// How files are copied into a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyInOptions {
    /// Directories with everything below.
    pub recursive: bool,
    /// Replace files that are there.
    pub replace: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageProgress {
    /// Files, directories and so on so far.
    pub entries: u64,
    /// And in all; 0 while they are counted, or while an archive is read.
    pub entries_total: u64,
    /// Bytes of files so far.
    pub bytes: u64,
    /// And in all.
    pub bytes_total: u64,
}

/// What was made.
#[derive(Debug, Default)]
pub struct ImageReport {
    /// How far it came.
    pub progress: ImageProgress,
    /// The size of the image in bytes.
    pub size: u64,
    /// What could not be read or kept, a line each, up to a bound.
    pub problems: Vec<String>,
    /// How many such lines there were.
    pub problem_count: u64,
}

impl ImageReport {
    pub(super) fn note(&mut self, path: &Path, problem: impl std::fmt::Display) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(format!("{}: {problem}", path.display()));
        }
    }
}

/// Who is told how far it is.
pub type Watcher<'a> = &'a mut dyn FnMut(&ImageProgress);

/// A file's time, as the image has it.
pub(super) fn clamped(reproducible: Option<Reproducible>, time: Timestamp) -> Timestamp {
    let latest = reproducible.and_then(|how| how.epoch_s);
    match latest.and_then(|epoch_s| i64::try_from(epoch_s).ok()) {
        Some(seconds) => time.min(Timestamp {
            seconds,
            nanoseconds: 0,
        }),
        None => time,
    }
}

pub(super) fn cannot_copy(
    kind: FailureKind,
    image: &Path,
    reason: impl std::fmt::Display,
) -> Failure {
    Failure::cannot(kind, "copy to", &image.display().to_string(), reason)
}

pub(super) fn cannot_make(
    kind: FailureKind,
    image: &Path,
    reason: impl std::fmt::Display,
) -> Failure {
    Failure::cannot(kind, "make", &image.display().to_string(), reason)
}
