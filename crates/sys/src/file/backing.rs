//! The file that a loop device is another name of.

use std::path::{Path, PathBuf};

use rustix::fs::{self, major, minor};

/// The file behind a loop device or a partition of one; none of other devices, and where the file has no name any more.
#[must_use]
pub fn backing_file(device: &Path) -> Option<PathBuf> {
    let number = fs::stat(device).ok()?.st_rdev;
    let known = PathBuf::from(format!(
        "/sys/dev/block/{}:{}",
        major(number),
        minor(number)
    ));
    // A partition's folder is in that of its disk.
    let found = ["loop/backing_file", "../loop/backing_file"];
    let mut texts = found
        .iter()
        .filter_map(|at| std::fs::read_to_string(known.join(at)).ok());
    let path = PathBuf::from(texts.next()?.trim_end_matches('\n'));
    path.is_absolute()
        .then_some(path)
        .filter(|path| path.exists())
}
