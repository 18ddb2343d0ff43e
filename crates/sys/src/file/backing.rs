//! The file that a loop device is another name of.

use std::path::{Path, PathBuf};

use rustix::fs::{self, major, minor};

/// The file behind a loop device that stands for it from its beginning; none of other devices, and where the file has
/// no name any more.
///
/// Partitions of a loop device, and loop devices that begin elsewhere, are other bytes: several of them may be used at
/// a time.
#[must_use]
pub fn backing_file(device: &Path) -> Option<PathBuf> {
    let number = fs::stat(device).ok()?.st_rdev;
    let known = PathBuf::from(format!(
        "/sys/dev/block/{}:{}/loop",
        major(number),
        minor(number)
    ));
    let text = |name: &str| std::fs::read_to_string(known.join(name)).ok();
    if text("offset")?.trim_end() != "0" {
        return None;
    }
    let path = PathBuf::from(text("backing_file")?.trim_end_matches('\n'));
    path.is_absolute()
        .then_some(path)
        .filter(|path| path.exists())
}
