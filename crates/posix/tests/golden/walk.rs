//! Describes a mounted file system as the manifests do.

use std::collections::BTreeMap;

use base::ObjectId;
use golden::{Entry, Manifest};
use millpond_posix::{Attributes, Credentials, FileSystem, FileType, OpenOptions, Visit};
use sha2::{Digest, Sha256};

pub(crate) fn describe(file_system: &FileSystem) -> Manifest {
    let root = file_system.root();
    let mut entries = Vec::new();
    let mut todo = vec![(Vec::new(), root)];
    while let Some((path, object)) = todo.pop() {
        let attributes = file_system.getattr(object).unwrap();
        if attributes.file_type == FileType::Directory {
            for (name, child) in list(file_system, object) {
                let found = file_system
                    .lookup(&Credentials::root(), object, &name)
                    .unwrap();
                assert_eq!(found.object, child);
                let below = if path.is_empty() {
                    name
                } else {
                    [&path, &b"/"[..], &name].concat()
                };
                todo.push((below, child));
            }
        }
        entries.push(entry(file_system, &path, &attributes));
    }
    Manifest::from_entries(entries)
}

/// Lists a directory in small steps, so that cookies are used.
fn list(file_system: &FileSystem, directory: ObjectId) -> Vec<(Vec<u8>, ObjectId)> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let mut taken = 0;
        let who = Credentials::root();
        file_system
            .readdir(&who, directory, cookie, &mut |entry| {
                if taken == 7 {
                    return Visit::Full;
                }
                taken += 1;
                cookie = entry.next_cookie;
                if entry.name != b"." && entry.name != b".." {
                    found.push((entry.name.to_vec(), entry.object));
                }
                Visit::Continue
            })
            .unwrap();
        if taken == 0 {
            return found;
        }
    }
}

fn entry(file_system: &FileSystem, path: &[u8], attributes: &Attributes) -> Entry {
    let who = Credentials::root();
    let object = attributes.object;
    let kind = match attributes.file_type {
        FileType::Regular => "f",
        FileType::Directory => "d",
        FileType::Symlink => "l",
        FileType::Fifo => "p",
        FileType::Socket => "s",
        FileType::BlockDevice => "b",
        FileType::CharacterDevice => "c",
    };
    let time = attributes.mtime;
    let mut xattrs = BTreeMap::new();
    for name in file_system.listxattr(&who, object).unwrap() {
        if name.starts_with(b"security.") || name.starts_with(b"trusted.") {
            continue;
        }
        let value = file_system.getxattr(&who, object, &name).unwrap();
        let digest = hex(&Sha256::digest(&value));
        xattrs.insert(text(&name), digest[..16].to_owned());
    }
    Entry {
        path: if path.is_empty() {
            ".".to_owned()
        } else {
            text(path)
        },
        kind: kind.to_owned(),
        mode: format!("{:o}", attributes.permissions),
        uid: attributes.uid,
        gid: attributes.gid,
        nlink: attributes.links,
        mtime_ns: Some(time.seconds * 1_000_000_000 + i64::from(time.nanoseconds)),
        size: matches!(kind, "f" | "l").then_some(attributes.size),
        rdev: matches!(kind, "b" | "c").then_some([attributes.device.0, attributes.device.1]),
        target: (kind == "l").then(|| text(&file_system.readlink(object).unwrap())),
        sha256: (kind == "f").then(|| digest(file_system, object, attributes.size)),
        xattrs,
    }
}

fn digest(file_system: &FileSystem, object: ObjectId, size: u64) -> String {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = file_system
        .open(&Credentials::root(), object, options)
        .unwrap();
    let mut hash = Sha256::new();
    let mut offset = 0;
    // An odd step, so that reads cross blocks.
    let mut buffer = vec![0; 200_001];
    loop {
        let read = file.read(offset, &mut buffer).unwrap();
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        offset += read as u64;
    }
    assert_eq!(offset, size);
    check_holes(&file, size);
    hex(&hash.finalize())
}

/// Data and holes alternate, and holes are zeros.
fn check_holes(file: &millpond_posix::OpenFile, size: u64) {
    let mut offset = 0;
    while let Ok(data) = file.seek_data(offset) {
        let mut hole = vec![0xff; (data - offset) as usize];
        assert_eq!(file.read(offset, &mut hole).unwrap(), hole.len());
        assert!(hole.iter().all(|&byte| byte == 0));
        offset = file.seek_hole(data).unwrap();
        assert!(offset > data && offset <= size);
        if offset == size {
            break;
        }
    }
}

/// Bytes as the manifests write them: UTF-8, with `\xNN` for what is none.
fn text(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
