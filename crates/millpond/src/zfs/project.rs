//! `zfs project`: works on the files themselves, by ioctl(2); no daemon is asked.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use admin::{Failure, FailureKind};
use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use sys::{Errno, FileProject, file_project, set_file_project};

use super::flags::RECURSIVE;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, print_bytes, usage};

/// `zfs project`.
pub(super) const COMMAND: Command = Command {
    name: "project",
    aliases: &[],
    summary: "Show, check or set the projects of files.",
    forms: &["file|directory ..."],
    flags: &[
        switch(
            "c",
            "check: list files whose id differs from that of -p or of the operand",
        ),
        switch("C", "clear the project and its inheritance"),
        switch("s", "set: new files here inherit the project"),
        option("p", "id", "the project"),
        RECURSIVE,
        switch("d", "a directory itself, not its contents"),
        switch("k", "with -C: keep the project"),
        switch("0", "with -c: names only, each ended by a NUL"),
    ],
    operands: Operands::at_least(1, "missing file or directory"),
    run: project,
};

/// The number that no project has.
const INVALID: u32 = u32::MAX;

/// What is done with each file.
#[derive(Clone, Copy)]
enum Action {
    List,
    Check { id: Option<u32>, bare: bool },
    Clear { keep: bool },
    Set { id: Option<u32>, inherit: bool },
}

/// How far it goes below a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Itself,
    Entries,
    Everything,
}

fn project(call: &Invocation) -> Outcome {
    let action = action(call)?;
    let reach = reach(call, action)?;
    call.operands()
        .iter()
        .try_for_each(|operand| walk(Path::new(operand), action, reach))
}

fn action(call: &Invocation) -> Result<Action, Stop> {
    let [check, clear, inherit, keep, bare] = ["c", "C", "s", "k", "0"].map(|flag| call.has(flag));
    let id = call.value("p").map(number).transpose()?;
    if usize::from(check) + usize::from(clear) + usize::from(inherit) > 1 {
        return Err(usage("cannot specify '-C' '-c' '-s' together"));
    }
    for (given, flag, with, fits) in [(keep, 'k', 'C', clear), (bare, '0', 'c', check)] {
        if given && !fits {
            let message = format!("'-{flag}' is only valid together with '-{with}'");
            return Err(usage(message));
        }
    }
    Ok(match (check, clear) {
        (true, _) => Action::Check { id, bare },
        (_, true) if id.is_some() => return Err(usage("cannot specify '-C' '-p' together")),
        (_, true) => Action::Clear { keep },
        _ if inherit || id.is_some() => Action::Set { id, inherit },
        _ => Action::List,
    })
}

fn number(word: &str) -> Result<u32, Stop> {
    match word.parse::<u32>() {
        Ok(INVALID) => Err(usage("invalid project ID")),
        Ok(id) => Ok(id),
        Err(_) => Err(usage(format!("project ID must be less than {INVALID}"))),
    }
}

fn reach(call: &Invocation, action: Action) -> Result<Reach, Stop> {
    let looks = matches!(action, Action::List | Action::Check { .. });
    match (call.has("d"), call.has("r")) {
        (true, true) => Err(usage("cannot specify '-d' '-r' together")),
        (true, false) if !looks => Err(usage("'-d' is only valid with '-c' or alone")),
        (false, true) => Ok(Reach::Everything),
        (false, false) if looks => Ok(Reach::Entries),
        _ => Ok(Reach::Itself),
    }
}

fn failed(what: &str, path: &Path, error: Errno) -> Stop {
    let reason = base::host_reason(&error.into());
    let message = format!("failed to {what} {}: {reason}", path.display());
    Failure::new(FailureKind::Invalid, message).into()
}

/// Goes through `top` and what is below it, a directory's entries before what is in them.
fn walk(top: &Path, action: Action, reach: Reach) -> Outcome {
    stat(top).map_err(|error| failed("stat", top, error))?;
    let mut action = action;
    let mut level = vec![top.to_owned()];
    let mut is_top = true;
    while !level.is_empty() {
        let mut next = Vec::new();
        for path in level {
            let Some((file, is_directory)) = open_one(&path, is_top)? else {
                continue;
            };
            let now = file_project(&file).map_err(|error| failed("get xattr for", &path, error))?;
            if is_top {
                action = action.settled(now, reach);
            }
            print_bytes(&action.report(&path, now))?;
            if let Some(new) = action.change(now).filter(|new| *new != now) {
                set_file_project(&file, new)
                    .map_err(|error| failed("set xattr for", &path, error))?;
            }
            let descends = reach == Reach::Everything || reach == Reach::Entries && is_top;
            if is_directory && descends {
                next.extend(entries(&path)?);
            }
        }
        is_top = false;
        level = next;
    }
    Ok(())
}

/// Opens a file or directory, and says which it is; none when it went meanwhile.
fn open_one(path: &Path, is_top: bool) -> Result<Option<(OwnedFd, bool)>, Stop> {
    let mut flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    if !is_top {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) if !is_top => return Ok(None),
        opened => opened.map_err(|error| failed("open", path, error))?,
    };
    let found = fstat(&file).map_err(|error| failed("stat", path, error))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Some((file, false))),
        FileType::Directory => Ok(Some((file, true))),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            let message = "only support project quota on regular file or directory";
            let message = format!("{}: {message}", path.display());
            Err(Failure::new(FailureKind::Invalid, message).into())
        }
    }
}

/// The files and directories in a directory; others have no project.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, Stop> {
    let failed = |error: std::io::Error| {
        let number = error.raw_os_error().unwrap_or(0);
        failed("opendir", directory, Errno::from_raw_os_error(number))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_file() || kind.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

impl Action {
    /// With the project of the operand, where none was told: files are compared with it, and what is
    /// below a directory that is to hand down its project gets it.
    fn settled(self, top: FileProject, reach: Reach) -> Self {
        match self {
            Self::Check { id, bare } => Self::Check {
                id: Some(id.unwrap_or(top.id)),
                bare,
            },
            Self::Set { id: None, inherit } if reach == Reach::Everything => Self::Set {
                id: Some(top.id),
                inherit,
            },
            Self::List | Self::Clear { .. } | Self::Set { .. } => self,
        }
    }

    /// What is said about a file.
    fn report(self, path: &Path, now: FileProject) -> Vec<u8> {
        let name = path.as_os_str().as_bytes();
        let mut text = Vec::new();
        match self {
            Self::List => {
                let mark = if now.inherits { 'P' } else { '-' };
                text.extend(format!("{:5} {mark} ", now.id).into_bytes());
                text.extend([name, b"\n"].concat());
            }
            Self::Check { id, bare } => {
                let wanted = id.unwrap_or(now.id);
                if bare {
                    if now.id != wanted || !now.inherits {
                        text.extend([name, b"\0"].concat());
                    }
                    return text;
                }
                if now.id != wanted {
                    let wrong =
                        format!(" - project ID is not set properly ({}/{wanted})\n", now.id);
                    text.extend([name, wrong.as_bytes()].concat());
                }
                if !now.inherits {
                    text.extend([name, b" - project inherit flag is not set\n"].concat());
                }
            }
            Self::Clear { .. } | Self::Set { .. } => {}
        }
        text
    }

    /// What a file gets.
    fn change(self, now: FileProject) -> Option<FileProject> {
        match self {
            Self::List | Self::Check { .. } => None,
            Self::Clear { keep } => Some(FileProject {
                id: if keep { now.id } else { 0 },
                inherits: false,
            }),
            Self::Set { id, inherit } => Some(FileProject {
                id: id.unwrap_or(now.id),
                inherits: now.inherits || inherit,
            }),
        }
    }
}
