//! The same operations on a real file system, and reading one back as a model tree.

use crate::durable::Found;
use crate::model::{Refusal, Tree};
use crate::operation::{Operation, Place};
use crate::picture::Picture;
use base::ObjectId;
use posix::{
    Credentials, Errno, FileSystem, FileType, NewNode, OpenFile, OpenOptions, PosixError,
    SetAttributes, SetTime, WriteOptions,
};

/// What a real operation ended with.
pub type RealResult<T = ()> = Result<T, PosixError>;

/// Does to a real file system what the operation says, as root.
///
/// # Errors
/// The file system's.
pub fn apply(system: &FileSystem, operation: &Operation) -> RealResult {
    let root = Credentials::root();
    match operation {
        Operation::Create(place, mode) => {
            let directory = directory(system, &place.directory)?;
            let node = new_node(FileType::Regular, *mode);
            system
                .create(&root, directory, place.name.as_bytes(), &node, WRITING)
                .map(|_| ())
        }
        Operation::MakeDirectory(place, mode) => {
            let directory = directory(system, &place.directory)?;
            let node = new_node(FileType::Directory, *mode);
            system
                .mkdir(&root, directory, place.name.as_bytes(), &node)
                .map(|_| ())
        }
        Operation::LinkUnnamed(place, mode, bytes) => link_unnamed(system, place, *mode, bytes),
        Operation::MakeSpecial(place, kind, device, mode) => {
            let directory = directory(system, &place.directory)?;
            let node = NewNode {
                device: *device,
                ..new_node(*kind, *mode)
            };
            system
                .mknod(&root, directory, place.name.as_bytes(), &node)
                .map(|_| ())
        }
        Operation::SymbolicLink(place, target) => {
            let directory = directory(system, &place.directory)?;
            let (name, target) = (place.name.as_bytes(), target.as_bytes());
            system.symlink(&root, directory, name, target).map(|_| ())
        }
        Operation::Link(old, new) => {
            let object = find(system, old)?;
            let directory = directory(system, &new.directory)?;
            system
                .link(&root, object, directory, new.name.as_bytes())
                .map(|_| ())
        }
        Operation::Unlink(place) => {
            let directory = directory(system, &place.directory)?;
            system
                .unlink(&root, directory, place.name.as_bytes())
                .map(|_| ())
        }
        Operation::RemoveDirectory(place) => {
            let directory = directory(system, &place.directory)?;
            system
                .rmdir(&root, directory, place.name.as_bytes())
                .map(|_| ())
        }
        Operation::Rename(old, new, mode) => {
            let from = directory(system, &old.directory)?;
            let to = directory(system, &new.directory)?;
            let from = (from, old.name.as_bytes());
            let to = (to, new.name.as_bytes());
            system.rename(&root, from, to, *mode).map(drop)
        }
        _ => apply_to_node(system, operation),
    }
}

fn apply_to_node(system: &FileSystem, operation: &Operation) -> RealResult {
    let root = Credentials::root();
    match operation {
        Operation::Truncate(place, length) => {
            let change = SetAttributes {
                size: Some(*length as u64),
                ..SetAttributes::default()
            };
            system
                .setattr(&root, regular(system, place)?, &change)
                .map(|_| ())
        }
        Operation::SetTime(place, time) => {
            let change = SetAttributes {
                mtime: Some(SetTime::At(*time)),
                ..SetAttributes::default()
            };
            system
                .setattr(&root, find(system, place)?, &change)
                .map(|_| ())
        }
        Operation::Chmod(place, mode) => {
            let change = SetAttributes {
                permissions: Some(*mode),
                ..SetAttributes::default()
            };
            system
                .setattr(&root, find(system, place)?, &change)
                .map(|_| ())
        }
        Operation::Chown(place, uid, gid) => {
            let change = SetAttributes {
                uid: Some(*uid),
                gid: Some(*gid),
                ..SetAttributes::default()
            };
            system
                .setattr(&root, find(system, place)?, &change)
                .map(|_| ())
        }
        Operation::SetXattr(place, name, value, mode) => {
            let object = find(system, place)?;
            system.setxattr(&root, object, name.as_bytes(), value, *mode)
        }
        Operation::RemoveXattr(place, name) => {
            system.removexattr(&root, find(system, place)?, name.as_bytes())
        }
        _ => apply_to_contents(system, operation),
    }
}

fn apply_to_contents(system: &FileSystem, operation: &Operation) -> RealResult {
    let write = |place: &Place, offset: usize, bytes: &[u8], options: OpenOptions| {
        let file = open(system, place, options)?;
        let written = file.write(offset as u64, bytes, WriteOptions::default())?;
        assert_eq!(written, bytes.len(), "a write was cut short");
        Ok(())
    };
    match operation {
        Operation::Write(place, offset, bytes, sync) => {
            let options = OpenOptions {
                sync: *sync,
                ..WRITING
            };
            write(place, *offset, bytes, options)
        }
        Operation::Append(place, bytes) => {
            let options = OpenOptions {
                append: true,
                ..WRITING
            };
            // Where it goes is not the caller's to say.
            write(place, 1, bytes, options)
        }
        Operation::Empty(place) => {
            let options = OpenOptions {
                truncate: true,
                ..WRITING
            };
            open(system, place, options).map(drop)
        }
        Operation::Allocate(place, mode, offset, length) => {
            let range = *offset as u64..(offset + length) as u64;
            open(system, place, WRITING)?.allocate(*mode, range)
        }
        Operation::CopyRange((from, start), (to, offset), length) => {
            let from = open(system, from, READING)?;
            let to = open(system, to, WRITING)?;
            let range = *start as u64..(start + length) as u64;
            let wanted = from.attributes()?.size.min(range.end);
            let wanted = wanted.saturating_sub(range.start);
            let copied = to.copy_from(&from, range, *offset as u64, WriteOptions::default())?;
            assert_eq!(copied, wanted, "a copy was cut short");
            Ok(())
        }
        _ => unreachable!("handled by the callers"),
    }
}

const READING: OpenOptions = OpenOptions {
    read: true,
    write: false,
    append: false,
    truncate: false,
    sync: false,
    keep_access_time: false,
    execute: false,
};
const WRITING: OpenOptions = OpenOptions {
    read: false,
    write: true,
    ..READING
};

fn open(system: &FileSystem, place: &Place, options: OpenOptions) -> RealResult<OpenFile> {
    system.open(&Credentials::root(), regular(system, place)?, options)
}

fn link_unnamed(system: &FileSystem, place: &Place, mode: u32, bytes: &[u8]) -> RealResult {
    let root = Credentials::root();
    let directory = directory(system, &place.directory)?;
    let node = new_node(FileType::Regular, mode);
    let (file, _) = system.create_unnamed(&root, directory, &node, WRITING)?;
    let written = file.write(0, bytes, WriteOptions::default())?;
    assert_eq!(written, bytes.len(), "a write was cut short");
    let linked = system.link(&root, file.object(), directory, place.name.as_bytes());
    linked.map(drop)
}

/// Makes a file in a directory, as the administrator.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn new_file(system: &FileSystem, directory: ObjectId, name: &[u8]) -> OpenFile {
    let options = OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    };
    let node = new_node(FileType::Regular, 0o644);
    let made = system.create(&Credentials::root(), directory, name, &node, options);
    made.expect("the file is made").0
}

/// A node of this type and mode, whatever the umask.
#[must_use]
pub fn new_node(file_type: FileType, permissions: u32) -> NewNode {
    NewNode {
        file_type,
        permissions,
        umask: 0,
        device: (0, 0),
    }
}

fn directory(system: &FileSystem, path: &[String]) -> RealResult<ObjectId> {
    let root = Credentials::root();
    path.iter().try_fold(system.root(), |directory, name| {
        Ok(system.lookup(&root, directory, name.as_bytes())?.object)
    })
}

fn find(system: &FileSystem, place: &Place) -> RealResult<ObjectId> {
    let directory = directory(system, &place.directory)?;
    let found = system.lookup(&Credentials::root(), directory, place.name.as_bytes())?;
    Ok(found.object)
}

/// A regular file; the kernel refuses write and truncate on anything else before we hear of it.
fn regular(system: &FileSystem, place: &Place) -> RealResult<ObjectId> {
    let directory = directory(system, &place.directory)?;
    let found = system.lookup(&Credentials::root(), directory, place.name.as_bytes())?;
    if found.file_type == FileType::Regular {
        Ok(found.object)
    } else {
        Err(PosixError::Invalid("not a regular file"))
    }
}

/// The errno that a refusal of the model stands for.
#[must_use]
pub fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Missing => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotDirectory => Errno::ENOTDIR,
        Refusal::IsDirectory => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::Invalid => Errno::EINVAL,
        Refusal::Forbidden => Errno::EPERM,
        Refusal::NoAttribute => Errno::ENODATA,
    }
}

/// Every difference between the model and the file system: names, kinds, contents, modes, owners, links, times that
/// were set, and extended attributes, a line each.
#[must_use]
pub fn differences(tree: &Tree, system: &FileSystem) -> Vec<String> {
    let found = Picture::found(&Found::read(system, &[]));
    Picture::of(tree).differences(&found)
}
