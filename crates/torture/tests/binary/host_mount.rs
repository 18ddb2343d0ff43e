//! File systems of the host that tests mount for their images: unmounted when they go away.

use crate::patience::until;
use crate::session::path;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount of the host's.
pub(crate) struct HostMount {
    folder: PathBuf,
}

impl HostMount {
    /// A file system in memory; none, and a line that says so, where nothing can be mounted.
    pub(crate) fn memory(folder: &Path, megabytes: u32) -> Option<Self> {
        Self::mount("tmpfs", &format!("size={megabytes}m"), folder)
    }

    /// The files of `lower`, with what is changed of them in `upper`; `work` lies beside `upper`.
    pub(crate) fn overlay([lower, upper, work]: [&Path; 3], folder: &Path) -> Option<Self> {
        let [lower, upper, work] = [path(lower), path(upper), path(work)];
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        Self::mount("overlay", &options, folder)
    }

    fn mount(kind: &str, options: &str, folder: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, kind, path(folder)]);
        if !mount.status().is_ok_and(|status| status.success()) {
            println!("skipped: nothing can be mounted here ({kind})");
            return None;
        }
        Some(Self {
            folder: folder.to_owned(),
        })
    }

    /// With other options of the mount's or the file system's.
    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        succeeds(Command::new("mount").args(["-o", &options, path(&self.folder)]));
    }

    /// Unmounted, which asserts that nothing has a file of it open.
    pub(crate) fn unmount(self) {
        succeeds(Command::new("umount").arg(&self.folder));
    }
}

/// A daemon that has just answered "exported" has files open until its process has ended.
fn succeeds(command: &mut Command) {
    let what = format!("{command:?}");
    until(&what, || command.status().expect("it runs").success());
}

impl Drop for HostMount {
    /// Where a test has failed, something may still have files of it open; after [`Self::unmount`] it does nothing.
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-lq").arg(&self.folder).status();
    }
}
