//! Mounts whose server has died: they say ENOTCONN to everyone, until somebody unmounts them.

use base::clock::real_now;
use base::thread;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sys::{MountedEntry, UnmountMode};

/// How long it may take to find out whether a mount is dead. One whose server is there and does not answer is not.
const LOOK: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(1);

/// Removes mounts at `path` whose server has died.
pub fn remove_dead_mounts(path: &Path) {
    // One lies upon the other when several servers died; the limit is for a mount that does not
    // go, which the mounting that follows reports.
    for _ in 0..16 {
        if !sys::is_dead_mount(path) || sys::unmount_fuse(path, UnmountMode::Detach).is_err() {
            return;
        }
    }
}

/// Removes all mounts of a pool whose server has died, with the empty directories that they were on. Answers those
/// that are dead and could not be removed.
///
/// # Errors
/// When the mount table cannot be read, or no thread is to be had.
pub fn remove_dead_mounts_of(pool: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = mounts_of(pool)?;
    // What lies in another one first.
    found.reverse();
    found.retain(|path| is_dead(path));
    for path in &found {
        // One in a dead mount cannot be reached: it goes with that one.
        let _gone = sys::unmount_fuse(path, UnmountMode::Detach);
    }
    let left = mounts_of(pool)?;
    for path in found.iter().filter(|path| !left.contains(path)) {
        // It was made for the mount.
        let _gone = std::fs::remove_dir(path);
    }
    found.retain(|path| left.contains(path));
    Ok(found)
}

/// Where a pool's datasets are mounted, oldest first.
fn mounts_of(pool: &str) -> std::io::Result<Vec<PathBuf>> {
    let is_ours = |entry: &MountedEntry| {
        let below = entry.source.strip_prefix(pool.as_bytes());
        entry.kind == crate::mount::MOUNT_KIND && below.is_some_and(is_end_of_pool)
    };
    let entries = sys::mounted_entries()?.into_iter();
    Ok(entries.filter(is_ours).map(|entry| entry.path).collect())
}

/// Whether a pool's name may end where this follows.
fn is_end_of_pool(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'/' | b'@'))
}

/// As [`sys::is_dead_mount`], which asks the server: one that has been stopped is not waited for.
fn is_dead(path: &Path) -> bool {
    let answer = Arc::new(OnceLock::new());
    let (for_thread, path) = (Arc::clone(&answer), path.to_owned());
    let look = move || {
        let _first = for_thread.set(sys::is_dead_mount(&path));
    };
    let looks = thread::named("dead-mount", sys::thread::ORDINARY).spawn(look);
    let begun = real_now();
    while looks.is_ok() && answer.get().is_none() && begun.elapsed() < LOOK {
        std::thread::sleep(STEP);
    }
    answer.get().copied().unwrap_or(false)
}
