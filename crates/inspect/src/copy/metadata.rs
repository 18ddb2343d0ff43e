//! Owners, modes, times and extended attributes of what was copied.
//!
//! Order matters: a change of owner drops set-id bits and capabilities, so that it comes first;
//! an access list changes the mode, so that the mode comes after; times come last.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use posix::{Attributes, Credentials, FileType, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

use crate::problems::Problems;
use crate::view::View;

/// Sets an extended attribute: name, value.
type SetAttribute<'a> = &'a dyn Fn(&[u8], &[u8]) -> rustix::io::Result<()>;

/// Restores what the user that we are may.
pub(super) struct Restorer {
    user: u32,
    group: u32,
    /// Also what gives rights.
    trusted: bool,
}

impl Restorer {
    pub(super) fn new(trusted: bool) -> Self {
        Self {
            trusted,
            user: sys::user_id(),
            group: sys::group_id(),
        }
    }

    /// Restores everything about an open file or directory.
    pub(super) fn open(
        &self,
        view: &View,
        file: &impl AsFd,
        attributes: &Attributes,
        shown: &str,
        problems: &mut Problems,
    ) {
        let mut noted = Noted { shown, problems };
        if let Some((user, group)) = self.owner(attributes, &mut noted) {
            noted.result("owner", rustix::fs::fchown(file, Some(user), Some(group)));
        }
        self.xattrs(view, attributes, &mut noted, &|name, value| {
            rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())
        });
        let mode = self.mode(attributes, &mut noted);
        noted.result("mode", rustix::fs::fchmod(file, mode));
        noted.result("times", rustix::fs::futimens(file, &times(attributes)));
    }

    /// Restores everything about what cannot be opened: a link, a pipe, a socket, a device.
    pub(super) fn named(
        &self,
        view: &View,
        (folder, name): (BorrowedFd<'_>, &[u8]),
        attributes: &Attributes,
        shown: &str,
        problems: &mut Problems,
    ) {
        let mut noted = Noted { shown, problems };
        if let Some((user, group)) = self.owner(attributes, &mut noted) {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let owned = rustix::fs::chownat(folder, name, Some(user), Some(group), flags);
            noted.result("owner", owned);
        }
        // There is no call that takes a folder: the kernel's name for it does.
        let prefix = format!("/proc/self/fd/{}/", folder.as_raw_fd());
        let bytes = [prefix.as_bytes(), name].concat();
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
        self.xattrs(view, attributes, &mut noted, &|name, value| {
            rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty())
        });
        if attributes.file_type != FileType::Symlink {
            let mode = self.mode(attributes, &mut noted);
            noted.result(
                "mode",
                rustix::fs::chmodat(folder, name, mode, AtFlags::empty()),
            );
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let timed = rustix::fs::utimensat(folder, name, &times(attributes), flags);
        noted.result("times", timed);
    }

    /// The owner to set: only root gives files away.
    fn owner(&self, attributes: &Attributes, noted: &mut Noted<'_>) -> Option<(Uid, Gid)> {
        if self.user != 0 {
            return None;
        }
        if attributes.uid == u32::MAX || attributes.gid == u32::MAX {
            noted
                .problems
                .note(noted.shown, "its owner is nobody's number");
            return None;
        }
        Some((Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid)))
    }

    /// The mode to set: without set-id bits that would now give somebody else's rights.
    fn mode(&self, attributes: &Attributes, noted: &mut Noted<'_>) -> Mode {
        let mut mode = attributes.permissions & 0o7777;
        let is_directory = attributes.file_type == FileType::Directory;
        let given = if is_directory { 0o4000 } else { 0o6000 };
        if self.user == 0 && !self.trusted && mode & given != 0 {
            mode &= !given;
            noted.withheld("set-id bits");
        }
        if self.user != 0 {
            if attributes.uid != self.user {
                mode &= !0o4000;
            }
            if attributes.gid != self.group {
                mode &= !0o2000;
            }
        }
        Mode::from_raw_mode(mode)
    }

    fn xattrs(
        &self,
        view: &View,
        attributes: &Attributes,
        noted: &mut Noted<'_>,
        set: SetAttribute<'_>,
    ) {
        let who = Credentials::root();
        let names = match view.files.listxattr(&who, attributes.object) {
            Ok(names) => names,
            Err(error) => return noted.problem("extended attributes", &error),
        };
        for name in names {
            let privileged = name.starts_with(b"security.") || name.starts_with(b"trusted.");
            if privileged && self.user != 0 {
                continue;
            }
            if privileged && !self.trusted {
                noted.withheld("capabilities and other attributes of the system");
                continue;
            }
            let shown = String::from_utf8_lossy(&name);
            match view.files.getxattr(&who, attributes.object, &name) {
                Ok(value) => noted.result(&shown, set(&name, &value)),
                // Listed, but not offered on this kind of file.
                Err(posix::PosixError::NoAttribute | posix::PosixError::NotSupported(_)) => {}
                Err(error) => noted.problem(&shown, &error),
            }
        }
    }
}

/// Whose problems these are.
struct Noted<'a> {
    shown: &'a str,
    problems: &'a mut Problems,
}

impl Noted<'_> {
    /// Root is told once that something is left out: it may have been wanted.
    fn withheld(&mut self, what: &str) {
        self.problems
            .remark(format_args!("{what} are left out (--trust keeps them)"));
    }

    fn result(&mut self, what: &str, result: rustix::io::Result<()>) {
        if let Err(error) = result {
            self.problem(what, &error);
        }
    }

    fn problem(&mut self, what: &str, error: &dyn std::fmt::Display) {
        self.problems
            .note(self.shown, format_args!("cannot restore {what}: {error}"));
    }
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = |time: Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.min(999_999_999).into(),
    };
    Timestamps {
        last_access: time(attributes.atime),
        last_modification: time(attributes.mtime),
    }
}

/// The kernel's word for a kind of file.
pub(super) fn kind(file_type: FileType) -> rustix::fs::FileType {
    use rustix::fs::FileType as Kernel;
    match file_type {
        FileType::Fifo => Kernel::Fifo,
        FileType::CharacterDevice => Kernel::CharacterDevice,
        FileType::Directory => Kernel::Directory,
        FileType::BlockDevice => Kernel::BlockDevice,
        FileType::Regular => Kernel::RegularFile,
        FileType::Symlink => Kernel::Symlink,
        FileType::Socket => Kernel::Socket,
    }
}
