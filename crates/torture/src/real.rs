//! The same operations on a real file system, and reading one back as a model tree.

use crate::model::{Kind, Node, NodeId, Refusal, Tree};
use crate::operation::{Operation, Place};
use base::ObjectId;
use posix::{
    Credentials, Errno, FileSystem, FileType, NewNode, OpenOptions, PosixError, RenameMode,
    SetAttributes, Visit, WriteOptions, XattrMode,
};
use std::collections::BTreeMap;

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
            let options = OpenOptions {
                write: true,
                ..OpenOptions::default()
            };
            let node = new_node(FileType::Regular, *mode);
            system
                .create(&root, directory, place.name.as_bytes(), &node, options)
                .map(|_| ())
        }
        Operation::MakeDirectory(place, mode) => {
            let directory = directory(system, &place.directory)?;
            let node = new_node(FileType::Directory, *mode);
            system
                .mkdir(&root, directory, place.name.as_bytes(), &node)
                .map(|_| ())
        }
        Operation::MakePipe(place, mode) => {
            let directory = directory(system, &place.directory)?;
            let node = new_node(FileType::Fifo, *mode);
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
        Operation::Rename(old, new) => {
            let from = directory(system, &old.directory)?;
            let to = directory(system, &new.directory)?;
            let from = (from, old.name.as_bytes());
            let to = (to, new.name.as_bytes());
            system.rename(&root, from, to, RenameMode::Replace)
        }
        _ => apply_to_node(system, operation),
    }
}

fn apply_to_node(system: &FileSystem, operation: &Operation) -> RealResult {
    let root = Credentials::root();
    match operation {
        Operation::Write(place, offset, bytes) => {
            let options = OpenOptions {
                write: true,
                ..OpenOptions::default()
            };
            let file = system.open(&root, regular(system, place)?, options)?;
            let written = file.write(*offset as u64, bytes, WriteOptions::default())?;
            assert_eq!(written, bytes.len(), "a write was cut short");
            Ok(())
        }
        Operation::Truncate(place, length) => {
            let change = SetAttributes {
                size: Some(*length as u64),
                ..SetAttributes::default()
            };
            system
                .setattr(&root, regular(system, place)?, &change)
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
        Operation::SetXattr(place, name, value) => {
            let object = find(system, place)?;
            system.setxattr(&root, object, name.as_bytes(), value, XattrMode::Either)
        }
        Operation::RemoveXattr(place, name) => {
            system.removexattr(&root, find(system, place)?, name.as_bytes())
        }
        _ => unreachable!("handled by the caller"),
    }
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

/// Every difference between the model and the file system: names, kinds, contents, modes, owners, links and
/// extended attributes, a line each.
#[must_use]
pub fn differences(tree: &Tree, system: &FileSystem) -> Vec<String> {
    let mut found = Vec::new();
    compare(tree, Tree::ROOT, system, system.root(), "", &mut found);
    found
}

fn compare(
    tree: &Tree,
    node: NodeId,
    system: &FileSystem,
    object: ObjectId,
    path: &str,
    found: &mut Vec<String>,
) {
    if let Err(error) = compare_node(tree, node, system, object, path, found) {
        found.push(format!("{path}/: {error}"));
    }
    let Kind::Directory(names) = &tree.node(node).kind else {
        return;
    };
    let real = match entries(system, object) {
        Ok(real) => real,
        Err(error) => return found.push(format!("{path}/: cannot be listed: {error}")),
    };
    for (name, child) in names {
        match real.get(name) {
            Some(object) => {
                compare(
                    tree,
                    *child,
                    system,
                    *object,
                    &format!("{path}/{name}"),
                    found,
                );
            }
            None => found.push(format!("{path}/{name}: missing")),
        }
    }
    for name in real.keys().filter(|name| !names.contains_key(*name)) {
        found.push(format!("{path}/{name}: unexpected"));
    }
}

fn entries(system: &FileSystem, directory: ObjectId) -> RealResult<BTreeMap<String, ObjectId>> {
    let mut names = BTreeMap::new();
    system.readdir(&Credentials::root(), directory, 0, &mut |entry| {
        let name = String::from_utf8_lossy(entry.name).into_owned();
        if name != "." && name != ".." {
            names.insert(name, entry.object);
        }
        Visit::Continue
    })?;
    Ok(names)
}

fn compare_node(
    tree: &Tree,
    node: NodeId,
    system: &FileSystem,
    object: ObjectId,
    path: &str,
    found: &mut Vec<String>,
) -> RealResult {
    let wanted = tree.node(node);
    let attributes = system.getattr(object)?;
    let real = read_node(system, object, wanted)?;
    let mut check = |what: &str, same: bool| {
        if !same {
            found.push(format!("{path}/: {what} differs"));
        }
    };
    check("kind", file_type(&wanted.kind) == attributes.file_type);
    check("mode", wanted.mode == attributes.permissions);
    check(
        "owner",
        (wanted.uid, wanted.gid) == (attributes.uid, attributes.gid),
    );
    check("xattrs", wanted.xattrs == real.xattrs);
    match (&wanted.kind, &real.kind) {
        (Kind::File(left), Kind::File(right)) => {
            check("size", left.len() as u64 == attributes.size);
            check("contents", left == right);
        }
        (Kind::Link(left), Kind::Link(right)) => check("target", left == right),
        _ => {}
    }
    if !matches!(wanted.kind, Kind::Directory(_)) {
        check("links", tree.link_count(node) == attributes.links as usize);
    }
    Ok(())
}

fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File(_) => FileType::Regular,
        Kind::Directory(_) => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
        Kind::Pipe => FileType::Fifo,
    }
}

/// Reads a node back, as far as the model's node of the same kind has contents.
fn read_node(system: &FileSystem, object: ObjectId, like: &Node) -> RealResult<Node> {
    let root = Credentials::root();
    let kind = match &like.kind {
        Kind::File(_) => {
            let options = OpenOptions {
                read: true,
                ..OpenOptions::default()
            };
            let file = system.open(&root, object, options)?;
            let mut contents = vec![0; usize::try_from(file.attributes()?.size).unwrap_or(0)];
            let count = file.read(0, &mut contents)?;
            contents.truncate(count);
            Kind::File(contents)
        }
        Kind::Link(_) => {
            Kind::Link(String::from_utf8_lossy(&system.readlink(object)?).into_owned())
        }
        Kind::Directory(_) => Kind::Directory(BTreeMap::new()),
        Kind::Pipe => Kind::Pipe,
    };
    let mut node = Node::new(kind, like.mode);
    for name in system.listxattr(&root, object)? {
        let value = system.getxattr(&root, object, &name)?;
        node.xattrs
            .insert(String::from_utf8_lossy(&name).into_owned(), value);
    }
    Ok(node)
}
