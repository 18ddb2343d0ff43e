//! Mounts that lie inside of another one, over a change of everything that the kernel knows of that one.
//!
//! When the kernel forgets a name on which something is mounted, it takes the mount away with it. A copy of the
//! mount that is not in the tree of names is not touched by that, and what it shows is the same: open files stay
//! open, and a FUSE file system goes on with its session.
//!
//! The names may mean something else afterwards. No symbolic link is followed on the way to them, so nothing is
//! ever mounted or unmounted outside of the outer mount.

use crate::fuse_device::{MountedEntry, mounted_entries, resolved};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, open, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies of the mounts inside of one.
#[derive(Debug, Default)]
pub struct MountsInside {
    /// The outer mount's root.
    outer: Option<OwnedFd>,
    /// Where they are in it, and the copies.
    kept: Vec<(PathBuf, OwnedFd)>,
}

impl MountsInside {
    /// Those that lie directly in the mount at `path`, each with all inside of it. None where the system refuses:
    /// it takes the privilege to mount. The mount must answer: paths through it are walked.
    #[must_use]
    pub fn keep(path: &Path) -> Self {
        let entries = mounted_entries().unwrap_or_default();
        let path = resolved(path);
        let Some(outer) = entries.iter().rev().find(|entry| entry.path == path) else {
            return Self::default();
        };
        let copy = |entry: &MountedEntry| {
            let inside = entry.path.strip_prefix(&path).ok()?.to_owned();
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            Some((inside, open_tree(CWD, &entry.path, flags).ok()?))
        };
        let inside = entries.iter().filter(|entry| entry.parent == outer.id);
        Self {
            kept: inside.filter_map(copy).collect(),
            outer: open(&path, DIRECTORY, Mode::empty()).ok(),
        }
    }

    /// The names in the outer mount's root through which they are reached.
    #[must_use]
    pub fn names(&self) -> BTreeSet<OsString> {
        let first = |(path, _): &(PathBuf, OwnedFd)| Some(path.iter().next()?.to_owned());
        self.kept.iter().filter_map(first).collect()
    }

    /// Mounts them where they were, in place of what may be left of them; directories that are absent are made.
    /// Answers where in the outer mount that failed.
    pub fn restore(self) -> Vec<PathBuf> {
        let Some(outer) = &self.outer else {
            return Vec::new();
        };
        let failed =
            |(path, tree): (PathBuf, OwnedFd)| put_back(outer, &path, &tree).err().map(|_| path);
        self.kept.into_iter().filter_map(failed).collect()
    }
}

fn put_back(outer: &OwnedFd, path: &Path, tree: &OwnedFd) -> Result<(), Errno> {
    // Walking there makes the kernel look at the names again, so what is left of the mount is known afterwards.
    let left = directory(outer, path)?;
    let by_number = format!("/proc/self/fd/{}", left.as_raw_fd());
    // Most often nothing is left, and this is no mount.
    let _none = unmount(by_number, UnmountFlags::DETACH);
    drop(left);
    let onto = directory(outer, path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", &onto, "", flags)
}

/// A directory inside of another one, made if it is absent.
fn directory(outer: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let step = |at: &OwnedFd, name: &Path| openat2(at, name, DIRECTORY, Mode::empty(), resolve);
    let mut at = step(outer, Path::new("."))?;
    for name in path {
        let name = Path::new(name);
        at = match step(&at, name) {
            Err(Errno::NOENT) => {
                mkdirat(&at, name, Mode::from_raw_mode(0o755))?;
                step(&at, name)?
            }
            found => found?,
        };
    }
    Ok(at)
}
