//! Describing a mounted tree as a manifest does.

use crate::{Entry, Manifest};
use rustix::fs::{AtFlags, CWD, FileType, Stat, StatxFlags};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Describes the tree at `root`: does not cross into other mounts and skips `.zfs` at the top.
///
/// # Panics
/// If an entry cannot be read: the test that asked has failed then.
#[must_use]
pub fn describe_tree(root: &Path) -> Manifest {
    let device = stat(root).st_dev;
    let mut entries = Vec::new();
    let mut waiting = vec![".".to_owned()];
    while let Some(relative) = waiting.pop() {
        let path = root.join(&relative);
        let status = stat(&path);
        let entry = describe(&path, &relative, &status);
        if entry.kind == "d" && status.st_dev == device {
            for child in std::fs::read_dir(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            {
                let name = child
                    .expect("a directory entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned();
                match relative.as_str() {
                    "." if name == ".zfs" => {}
                    "." => waiting.push(name),
                    parent => waiting.push(format!("{parent}/{name}")),
                }
            }
        }
        entries.push(entry);
    }
    Manifest::from_entries(entries)
}

fn stat(path: &Path) -> Stat {
    rustix::fs::lstat(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn describe(path: &Path, relative: &str, status: &Stat) -> Entry {
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => "f",
        FileType::Directory => "d",
        FileType::Symlink => "l",
        FileType::Fifo => "p",
        FileType::Socket => "s",
        FileType::BlockDevice => "b",
        _ => "c",
    };
    let nanoseconds = modification_time_ns(path);
    Entry {
        path: relative.to_owned(),
        kind: kind.to_owned(),
        mode: format!("{:o}", status.st_mode & 0o7777),
        uid: status.st_uid,
        gid: status.st_gid,
        nlink: u32::try_from(status.st_nlink).unwrap_or(u32::MAX),
        mtime_ns: Some(nanoseconds),
        size: "fl"
            .contains(kind)
            .then_some(u64::try_from(status.st_size).unwrap_or(0)),
        rdev: "bc".contains(kind).then(|| {
            [
                rustix::fs::major(status.st_rdev),
                rustix::fs::minor(status.st_rdev),
            ]
        }),
        target: (kind == "l").then(|| {
            let target = std::fs::read_link(path).expect("a link has a target");
            target.to_string_lossy().into_owned()
        }),
        sha256: (kind == "f").then(|| hash_file(path)),
        xattrs: attributes(path),
    }
}

fn modification_time_ns(path: &Path) -> i64 {
    let status = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MTIME)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    status.stx_mtime.tv_sec * 1_000_000_000 + i64::from(status.stx_mtime.tv_nsec)
}

fn hash_file(path: &Path) -> String {
    let mut file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file
            .read(&mut buffer)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if count == 0 {
            return hexadecimal(&hash.finalize());
        }
        hash.update(&buffer[..count]);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(path: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0_u8; 65536];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names[..]) else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with("security.") || name.starts_with("trusted.") {
            continue;
        }
        let mut value = vec![0_u8; 65536];
        if let Ok(length) = rustix::fs::lgetxattr(path, &*name, &mut value[..]) {
            let digest = hexadecimal(&Sha256::digest(&value[..length]));
            found.insert(name, digest[..16].to_owned());
        }
    }
    found
}
