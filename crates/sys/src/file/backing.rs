//! The file that a loop device, or a partition of one, is another name of.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::{self, major, minor};

/// What a loop device stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The file.
    pub path: PathBuf,
    /// Which bytes of it; none: all.
    pub bytes: Option<Range<u64>>,
}

/// The file behind a loop device, or behind a partition of one; none of other devices, and where the file has no name
/// any more.
#[must_use]
pub fn backing_file(device: &Path) -> Option<Backing> {
    const SECTOR: u64 = 512;
    let number = fs::stat(device).ok()?.st_rdev;
    let known = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    // The directory of a partition lies in that of its disk.
    let known = std::fs::canonicalize(known).ok()?;
    let whole = match known.join("partition").exists() {
        true => known.parent()?,
        false => &known,
    };
    let text = |path: PathBuf| std::fs::read_to_string(path).ok();
    let figure = |path: PathBuf| text(path)?.trim_end().parse::<u64>().ok();
    let offset = figure(whole.join("loop/offset"))?;
    let limit = figure(whole.join("loop/sizelimit")).unwrap_or(0);
    let start = match whole == known {
        true => 0,
        false => figure(known.join("start"))?.checked_mul(SECTOR)?,
    };
    let size = figure(known.join("size"))?.checked_mul(SECTOR)?;
    let first = offset.checked_add(start)?;
    let is_all = whole == known && first == 0 && limit == 0;
    let path = PathBuf::from(text(whole.join("loop/backing_file"))?.trim_end_matches('\n'));
    let found = Backing {
        path,
        bytes: (!is_all).then(|| first..first.saturating_add(size)),
    };
    (found.path.is_absolute() && found.path.exists()).then_some(found)
}
