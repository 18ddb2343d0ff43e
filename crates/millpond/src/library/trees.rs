//! Files and directories of the host, copied into a file system with all that belongs to them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::paths::{Lost, Walk};
use super::{Error, FileSystem, Result};

/// How files of the host are copied in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyInOptions {
    recursive: bool,
    replace: bool,
}

impl CopyInOptions {
    /// Single files, where nothing is yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Directories with everything below; of a symbolic link, the link itself.
    #[must_use]
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Files that are there are replaced.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Files, directories and so on so far.
    pub entries: u64,
    /// And in all; 0 while they are counted.
    pub entries_total: u64,
    /// Bytes of files so far.
    pub bytes: u64,
    /// And in all.
    pub bytes_total: u64,
}

impl From<&control::ImageProgress> for CopyProgress {
    fn from(now: &control::ImageProgress) -> Self {
        Self {
            entries: now.entries,
            entries_total: now.entries_total,
            bytes: now.bytes,
            bytes_total: now.bytes_total,
        }
    }
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Files, directories and so on.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// What could not be read or kept, a line each, up to a bound.
    pub problems: Vec<String>,
    /// How many such lines there were.
    pub problem_count: u64,
}

impl FileSystem {
    /// Copies a file of the host, or a directory with everything below, with owners, modes, times, extended attributes,
    /// holes, links and devices. If `to` is a directory, it is copied into it under its own name (of a path that ends
    /// in `/.`: what is in it), else it is called `to`. What cannot be read or kept is left out and in the report.
    ///
    /// The administrator does it, whomever this handle acts as.
    ///
    /// # Errors
    /// There is no such file, it is a directory and the options do not say recursive, or there is no space; what was
    /// copied until then stays. Of a file that did not come to its end nothing is left, and what it was to replace is
    /// as it was.
    pub fn copy_in(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyInOptions,
        progress: &mut dyn FnMut(&CopyProgress),
    ) -> Result<CopyReport> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let contents = from.as_os_str().as_bytes().ends_with(b"/.");
        let own = from.file_name().map(OsStrExt::as_bytes);
        let place = self.with(to, |walk| place(walk, to, own.filter(|_| !contents)))?;
        let held = self.open.use_it()?;
        let Some(present) = held.present() else {
            return Err(Error::Stale(
                format!("{}: it is not open", self.name()).into(),
            ));
        };
        let source = self.pool().shared.opened.source();
        let shown = self.shown(to);
        let report = control::copy_in(
            from,
            (&present.files, place.0, place.1.as_deref()),
            (source, Path::new(&shown)),
            control::CopyInOptions {
                recursive: options.recursive,
                replace: options.replace,
            },
            &mut |now| progress(&CopyProgress::from(now)),
        )?;
        Ok(CopyReport {
            entries: report.progress.entries,
            bytes: report.progress.bytes,
            problems: report.problems,
            problem_count: report.problem_count,
        })
    }
}

/// The directory and the name that something gets that is copied to a path.
fn place(
    walk: &Walk<'_>,
    to: &Path,
    own: Option<&[u8]>,
) -> std::result::Result<(base::ObjectId, Option<Vec<u8>>), Lost> {
    match walk.find(to, true) {
        Ok(found) if found.file_type == posix::FileType::Directory => {
            Ok((found.object, own.map(ToOwned::to_owned)))
        }
        Ok(_) | Err(Lost::Posix(posix::PosixError::NotFound)) => {
            let (parent, name) = walk.parent(to)?;
            Ok((parent, Some(name.to_owned())))
        }
        Err(lost) => Err(lost),
    }
}
