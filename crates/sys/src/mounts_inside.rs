//! Mounts that lie inside of another one, over a change of everything that the kernel knows of that one.
//!
//! When the kernel forgets a name on which something is mounted, it takes the mount away with it. A copy of the
//! mount that is not in the tree of names is not touched by that, and what it shows is the same: open files stay
//! open, and a FUSE file system goes on with its session.

use crate::fuse_device::{MountedEntry, mounted_entries, resolved};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Copies of the mounts inside of one.
#[derive(Debug, Default)]
pub struct MountsInside {
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
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = open_tree(CWD, &entry.path, flags).ok()?;
            Some((entry.path.clone(), tree))
        };
        let inside = entries.iter().filter(|entry| entry.parent == outer.id);
        Self {
            kept: inside.filter_map(copy).collect(),
        }
    }

    /// Mounts them where they were, in place of what may be left of them; directories that are absent are made.
    /// Answers where that failed.
    pub fn restore(self) -> Vec<PathBuf> {
        let mut failed = Vec::new();
        for (path, tree) in self.kept {
            // Walking there makes the kernel look again at the names, so what is left is known afterwards.
            let _none_left = rustix::mount::unmount(&path, UnmountFlags::DETACH);
            let made = std::fs::create_dir_all(&path).is_ok();
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            if !made || move_mount(&tree, "", CWD, &path, flags).is_err() {
                failed.push(path);
            }
        }
        failed
    }
}
