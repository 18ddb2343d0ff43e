//! What changed between two states of a file system.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::SystemTime;

use admin::queries::Diff;
use admin::{DiffChange, DiffRecord};
use posix::Timestamp;

use super::metadata::time;
use super::{FileType, Pool, Result};

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// It is gone.
    Removed,
    /// It is new.
    Created,
    /// It has another content, other attributes, or other entries.
    Modified,
    /// It has so many names more, or fewer.
    Linked(i64),
    /// It has this path now.
    Renamed(PathBuf),
}

/// A file that is not what it was.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.snapshot(&["pond@one"])?;
/// pool.file_system("pond")?.write("new", b"")?;
/// let mut created = Vec::new();
/// pool.diff("pond@one", "pond", &mut |difference| {
///     if difference.kind == DifferenceKind::Created {
///         created.push(difference.path);
///     }
///     Ok(())
/// })?;
/// assert!(created[0].ends_with("new"));
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// What happened.
    pub kind: DifferenceKind,
    /// Its kind; none: one that this version does not know.
    pub file_type: Option<FileType>,
    /// When it was last changed.
    pub changed: SystemTime,
    /// Its path, which begins with a `/` and the name of the file system; of a renamed file, the old one.
    pub path: PathBuf,
}

impl Pool {
    /// Visits what changed between a snapshot (`"tank/home@monday"`) and a later one, the file system as it is now
    /// (`"tank/home"`), or a clone. The visitor ends it with an error.
    ///
    /// # Errors
    /// One of them is not there, they do not belong together, or one cannot be read.
    pub fn diff(
        &self,
        from: &str,
        to: &str,
        visit: &mut dyn FnMut(Difference) -> Result<()>,
    ) -> Result<()> {
        let query = Diff {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        self.ask_pages(query, &mut |records| {
            let mut records = records.into_iter();
            records.try_for_each(|record| visit(difference(record)))
        })
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn difference(record: DiffRecord) -> Difference {
    Difference {
        kind: match record.change {
            DiffChange::Removed => DifferenceKind::Removed,
            DiffChange::Created => DifferenceKind::Created,
            DiffChange::Modified => DifferenceKind::Modified,
            DiffChange::Linked(names) => DifferenceKind::Linked(names),
            DiffChange::Renamed(to) => DifferenceKind::Renamed(path(to)),
        },
        file_type: match record.kind {
            'F' => Some(FileType::Regular),
            '/' => Some(FileType::Directory),
            '@' => Some(FileType::Symlink),
            '|' => Some(FileType::Fifo),
            '=' => Some(FileType::Socket),
            'B' => Some(FileType::BlockDevice),
            'C' => Some(FileType::CharacterDevice),
            _ => None,
        },
        changed: time(Timestamp {
            seconds: record.time.0,
            nanoseconds: record.time.1,
        }),
        path: path(record.path),
    }
}
