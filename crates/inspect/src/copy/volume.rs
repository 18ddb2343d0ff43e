//! A volume as a raw file.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use base::host_reason;

use super::CopyOptions;
use super::progress::Progress;
use super::writer::{SparseFile, make};
use crate::contents;
use crate::problems::Problems;
use crate::view::VolumeView;

/// Copies a volume into a file of an open folder, whose path is for people.
pub(super) fn copy(
    volume: &VolumeView,
    (folder, path, name): (BorrowedFd<'_>, &Path, &[u8]),
    options: &CopyOptions,
    problems: &mut Problems,
    progress: &mut Progress,
) {
    if volume.has_log() {
        problems.remark(format_args!(
            "{}: changes of the last seconds are in the intent log and not shown",
            volume.name
        ));
    }
    match write(volume, (folder, name), options, problems, progress) {
        Ok(()) => progress.entry(),
        Err(error) => {
            let shown = path.join(std::ffi::OsStr::from_bytes(name));
            let shown = shown.display();
            if error.kind() == io::ErrorKind::AlreadyExists {
                problems.note(shown, "exists and is left as it is (-f replaces it)");
            } else {
                problems.note(shown, host_reason(&error));
            }
        }
    }
}

fn write(
    volume: &VolumeView,
    (folder, name): (BorrowedFd<'_>, &[u8]),
    options: &CopyOptions,
    problems: &mut Problems,
    progress: &mut Progress,
) -> io::Result<()> {
    make(folder, name, options.force, |file| {
        let mut file = SparseFile::new(file, progress);
        contents::read_volume(volume, problems, &mut file)?;
        file.finish(volume.size).map(drop)
    })
}
