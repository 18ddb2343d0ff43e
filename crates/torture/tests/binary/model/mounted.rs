//! The model's operations as system calls below a directory, and a directory read back.

use millpond_torture::durable::Found;
use millpond_torture::model::{Kind, Node};
use millpond_torture::operation::{Operation, Place};
use posix::{AllocateMode, FileType, RenameMode, Timestamp, XattrMode};
use rustix::fs::{
    self, AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The path of a place below a directory.
pub(super) fn path(root: &Path, place: &Place) -> PathBuf {
    let names = place.directory.iter().chain([&place.name]);
    names.fold(root.to_owned(), |path, name| path.join(name))
}

/// The operation with the modes that new files get: the kernel takes away what the mask of the process says, and of
/// a directory the set-id bits.
pub(super) fn masked(operation: Operation, umask: u32) -> Operation {
    let masked = |mode: u32| mode & !umask;
    match operation {
        Operation::Create(place, mode) => Operation::Create(place, masked(mode)),
        Operation::MakeDirectory(place, mode) => {
            Operation::MakeDirectory(place, masked(mode) & 0o1777)
        }
        Operation::MakeSpecial(place, kind, device, mode) => {
            Operation::MakeSpecial(place, kind, device, masked(mode))
        }
        Operation::LinkUnnamed(place, mode, bytes) => {
            Operation::LinkUnnamed(place, masked(mode), bytes)
        }
        other => other,
    }
}

/// Does below a directory what the operation says.
pub(super) fn apply(root: &Path, operation: &Operation) -> Result<()> {
    let at = |place: &Place| path(root, place);
    match operation {
        Operation::Create(place, mode) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            fs::open(at(place), flags, Mode::from_raw_mode(*mode)).map(drop)
        }
        Operation::MakeDirectory(place, mode) => fs::mkdir(at(place), Mode::from_raw_mode(*mode)),
        Operation::MakeSpecial(place, kind, (major, minor), mode) => {
            let kind = match kind {
                FileType::Fifo => fs::FileType::Fifo,
                FileType::Socket => fs::FileType::Socket,
                FileType::BlockDevice => fs::FileType::BlockDevice,
                _ => fs::FileType::CharacterDevice,
            };
            let device = fs::makedev(*major, *minor);
            fs::mknodat(fs::CWD, at(place), kind, Mode::from_raw_mode(*mode), device)
        }
        Operation::LinkUnnamed(place, mode, bytes) => link_unnamed(&at(place), *mode, bytes),
        Operation::SymbolicLink(place, target) => fs::symlink(target.as_str(), at(place)),
        Operation::Link(old, new) => {
            fs::linkat(fs::CWD, at(old), fs::CWD, at(new), AtFlags::empty())
        }
        Operation::Unlink(place) => fs::unlink(at(place)),
        Operation::RemoveDirectory(place) => fs::rmdir(at(place)),
        Operation::Rename(old, new, mode) => {
            let flags = match mode {
                RenameMode::Replace => RenameFlags::empty(),
                RenameMode::NoReplace => RenameFlags::NOREPLACE,
                RenameMode::Exchange => RenameFlags::EXCHANGE,
                RenameMode::Whiteout => RenameFlags::WHITEOUT,
            };
            fs::renameat_with(fs::CWD, at(old), fs::CWD, at(new), flags)
        }
        _ => apply_to_attributes(root, operation),
    }
}

fn apply_to_attributes(root: &Path, operation: &Operation) -> Result<()> {
    let at = |place: &Place| path(root, place);
    match operation {
        Operation::SetTime(place, time) => {
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: fs::UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: time.seconds,
                    tv_nsec: time.nanoseconds.into(),
                },
            };
            fs::utimensat(fs::CWD, at(place), &times, AtFlags::SYMLINK_NOFOLLOW)
        }
        Operation::Chmod(place, mode) => {
            let mode = Mode::from_raw_mode(*mode);
            fs::chmodat(fs::CWD, at(place), mode, AtFlags::empty())
        }
        Operation::Chown(place, uid, gid) => {
            let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            fs::chownat(fs::CWD, at(place), Some(uid), Some(gid), flags)
        }
        Operation::SetXattr(place, name, value, mode) => {
            let flags = match mode {
                XattrMode::Create => XattrFlags::CREATE,
                XattrMode::Replace => XattrFlags::REPLACE,
                XattrMode::Either => XattrFlags::empty(),
            };
            fs::lsetxattr(at(place), name.as_str(), value, flags)
        }
        Operation::RemoveXattr(place, name) => fs::lremovexattr(at(place), name.as_str()),
        _ => apply_to_contents(root, operation),
    }
}

fn apply_to_contents(root: &Path, operation: &Operation) -> Result<()> {
    let open = |place: &Place, flags| open_regular(&path(root, place), flags);
    match operation {
        Operation::Write(place, offset, bytes, sync) => {
            let flags = if *sync { OFlags::SYNC } else { OFlags::empty() };
            let file = File::from(open(place, OFlags::WRONLY | flags)?);
            written(file.write_all_at(bytes, *offset as u64))
        }
        Operation::Append(place, bytes) => {
            let file = open(place, OFlags::WRONLY | OFlags::APPEND)?;
            let count = rustix::io::write(&file, bytes)?;
            assert_eq!(count, bytes.len(), "a write was cut short");
            Ok(())
        }
        Operation::Truncate(place, length) => {
            fs::ftruncate(open(place, OFlags::WRONLY)?, *length as u64)
        }
        Operation::Empty(place) => open(place, OFlags::WRONLY | OFlags::TRUNC).map(drop),
        Operation::Allocate(place, mode, offset, length) => {
            let keep = FallocateFlags::KEEP_SIZE;
            let flags = match mode {
                AllocateMode::Extend => FallocateFlags::empty(),
                AllocateMode::KeepSize => keep,
                AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
                AllocateMode::ZeroRange { keep_size: true } => FallocateFlags::ZERO_RANGE | keep,
                AllocateMode::ZeroRange { keep_size: false } => FallocateFlags::ZERO_RANGE,
            };
            let file = open(place, OFlags::WRONLY)?;
            fs::fallocate(file, flags, *offset as u64, *length as u64)
        }
        Operation::CopyRange((from, start), (to, offset), length) => {
            let (from, to) = (open(from, OFlags::RDONLY)?, open(to, OFlags::WRONLY)?);
            let (mut start, mut offset) = (*start as u64, *offset as u64);
            // What the file has now: a copy within it may make it longer, and would go on with what it copied.
            let size = fs::fstat(&from)?.st_size as u64;
            let mut left = (*length).min(size.saturating_sub(start) as usize);
            while left > 0 {
                let (source, target) = (Some(&mut start), Some(&mut offset));
                match fs::copy_file_range(&from, source, &to, target, left)? {
                    0 => break,
                    count => left -= count,
                }
            }
            Ok(())
        }
        _ => unreachable!("handled by the callers"),
    }
}

fn written(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Opens what must be a regular file: pipes and devices would be opened themselves.
fn open_regular(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let found = fs::lstat(path)?;
    if fs::FileType::from_raw_mode(found.st_mode) != fs::FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    // Commands that tests beside this one start must not inherit it: they would keep the mount busy.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::open(path, flags, Mode::empty())
}

pub(super) fn open_for_reading(path: &Path) -> Result<File> {
    open_regular(path, OFlags::RDONLY).map(File::from)
}

fn link_unnamed(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().ok_or(Errno::INVAL)?;
    let mode = Mode::from_raw_mode(mode);
    let file = File::from(fs::open(
        directory,
        OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
        mode,
    )?);
    written(file.write_all_at(bytes, 0))?;
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::linkat(fs::CWD, own, fs::CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// Reads what is below a path.
pub(super) fn read(path: &Path) -> Found {
    try_read(path).unwrap_or_else(|error| Found::unreadable(0, &error))
}

fn try_read(path: &Path) -> std::io::Result<Found> {
    let stat = fs::lstat(path)?;
    let mut entries = BTreeMap::new();
    let device = (fs::major(stat.st_rdev), fs::minor(stat.st_rdev));
    let kind = match fs::FileType::from_raw_mode(stat.st_mode) {
        fs::FileType::Directory => {
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                entries.insert(name, read(&entry.path()));
            }
            Kind::Directory(BTreeMap::new())
        }
        fs::FileType::RegularFile => {
            let mut contents = Vec::new();
            open_for_reading(path)?.read_to_end(&mut contents)?;
            Kind::file(contents)
        }
        fs::FileType::Symlink => {
            let target = std::fs::read_link(path)?;
            Kind::Link(target.to_string_lossy().into_owned())
        }
        fs::FileType::Fifo => Kind::Special(FileType::Fifo, (0, 0)),
        fs::FileType::Socket => Kind::Special(FileType::Socket, (0, 0)),
        fs::FileType::BlockDevice => Kind::Special(FileType::BlockDevice, device),
        _ => Kind::Special(FileType::CharacterDevice, device),
    };
    let mut node = Node::new(kind, stat.st_mode & 0o7777);
    (node.uid, node.gid) = (stat.st_uid, stat.st_gid);
    node.mtime = Some(Timestamp {
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(u32::MAX),
    });
    for name in list(path)? {
        let mut value = vec![0; 1 << 16];
        let count = fs::lgetxattr(path, name.as_str(), &mut value[..])?;
        value.truncate(count);
        node.xattrs.insert(name, value);
    }
    Ok(Found {
        object: stat.st_ino,
        links: u64::from(stat.st_nlink as u32),
        problem: None,
        entries,
        node,
    })
}

/// The names of extended attributes.
fn list(path: &Path) -> std::io::Result<Vec<String>> {
    let mut names = vec![0; 1 << 16];
    let count = fs::llistxattr(path, &mut names[..])?;
    names.truncate(count);
    let names = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let text = |name: &[u8]| {
        std::ffi::OsStr::from_bytes(name)
            .to_string_lossy()
            .into_owned()
    };
    Ok(names.map(text).collect())
}
