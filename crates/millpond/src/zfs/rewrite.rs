//! `zfs rewrite`: has blocks of files written anew, by ioctl(2); no daemon is asked.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use admin::{Failure, FailureKind};
use base::host_reason;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use sys::{Errno, RewriteBirths, rewrite_file};

use super::flags::RECURSIVE;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print_bytes, usage};

/// `zfs rewrite`.
pub(super) const COMMAND: Command = Command {
    name: "rewrite",
    aliases: &[],
    summary: "Write blocks of files anew as they are, with the compression, checksum and copies of now.",
    forms: &["file|directory ..."],
    flags: &[
        switch(
            "P",
            "keep the times of birth: no increment sends the blocks again",
        ),
        RECURSIVE,
        switch("v", "print the names of the files that were rewritten"),
        switch("x", "with -r: stay in the file system of the operand"),
        option("l", "length", "at most so many bytes of each file"),
        option("o", "offset", "from this offset on"),
    ],
    operands: Operands::at_least(1, "missing file or directory target(s)"),
    run: rewrite,
};

/// What one call rewrites: a signal is heeded after it.
const STEP_BYTES: u64 = 16 << 20;

/// What is asked of each file.
struct Wanted {
    offset: u64,
    /// 0: to the end.
    length: u64,
    recursive: bool,
    one_file_system: bool,
    verbose: bool,
    births: RewriteBirths,
}

fn rewrite(call: &Invocation) -> Outcome {
    let bytes = |flag: &str, what: &str| -> Result<u64, Stop> {
        let Some(text) = call.value(flag) else {
            return Ok(0);
        };
        let number = text.parse::<u64>();
        number.map_err(|_| usage(format!("invalid {what} '{text}'")))
    };
    let wanted = Wanted {
        offset: bytes("o", "offset")?,
        length: bytes("l", "length")?,
        recursive: call.has("r"),
        one_file_system: call.has("x"),
        verbose: call.has("v"),
        births: match call.has("P") {
            true => RewriteBirths::Kept,
            false => RewriteBirths::New,
        },
    };
    let mut complete = true;
    for operand in call.operands() {
        complete &= wanted.walk(Path::new(operand))?;
    }
    crate::daemons::ended(complete)
}

/// Says what could not be done with a file; the others are gone through.
fn told(what: &str, path: &Path, error: &std::io::Error) -> bool {
    let reason = host_reason(error);
    let message = format!("failed to {what} {}: {reason}", path.display());
    complain(&Failure::new(FailureKind::Invalid, message));
    false
}

impl Wanted {
    /// Rewrites what the operand names; whether all of it was.
    fn walk(&self, top: &Path) -> Result<bool, Stop> {
        let metadata = match std::fs::metadata(top) {
            Ok(metadata) => metadata,
            Err(error) => return Ok(told("stat", top, &error)),
        };
        if metadata.is_dir() && !self.recursive {
            let error = std::io::Error::from(Errno::ISDIR);
            return Ok(told("rewrite", top, &error));
        }
        let mut complete = true;
        let mut waiting = vec![top.to_owned()];
        while let Some(path) = waiting.pop() {
            let found = match path == top {
                true => std::fs::metadata(&path),
                false => std::fs::symlink_metadata(&path),
            };
            match found {
                Ok(found) if self.one_file_system && found.dev() != metadata.dev() => {}
                Ok(found) if found.is_dir() => match entries(&path) {
                    Ok(below) => waiting.extend(below),
                    Err(error) => complete = told("open", &path, &error),
                },
                Ok(found) if found.is_file() => complete &= self.file(&path)?,
                // Nothing else has blocks.
                Ok(_) => {}
                Err(error) => complete = told("stat", &path, &error),
            }
        }
        Ok(complete)
    }

    fn file(&self, path: &Path) -> Result<bool, Stop> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = match open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(error) => return Ok(told("open", path, &error.into())),
        };
        let found = match fstat(&file) {
            Ok(found) => found,
            Err(error) => return Ok(told("stat", path, &error.into())),
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(true);
        }
        let size = u64::try_from(found.st_size).unwrap_or(0);
        let end = match self.length {
            0 => size,
            length => size.min(self.offset.saturating_add(length)),
        };
        let mut at = self.offset;
        while at < end {
            let length = STEP_BYTES.min(end - at);
            if let Err(error) = rewrite_file(&file, (at, length), self.births) {
                return Ok(self.not_rewritten(path, error));
            }
            at += length;
        }
        if self.verbose {
            print_bytes(&[path.as_os_str().as_bytes(), b"\n"].concat())?;
        }
        Ok(true)
    }

    fn not_rewritten(&self, path: &Path, error: Errno) -> bool {
        if self.births == RewriteBirths::Kept && error == Errno::OPNOTSUPP {
            let message = format!(
                "failed to rewrite {}: physical rewrite needs the feature 'physical_rewrite', which its pool has not \
                 enabled",
                path.display()
            );
            complain(&Failure::new(FailureKind::Unsupported, message));
            return false;
        }
        told("rewrite", path, &error.into())
    }
}

fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    // The last is taken first.
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}
