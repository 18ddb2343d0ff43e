//! Files of the host into a file system of a pool that is open, with all that belongs to them.

use std::path::Path;

use admin::{Failure, FailureKind};
use base::ObjectId;
use posix::FileSystem;

use super::fill::{Existing, Filler, Target};
use super::request::{CopyInOptions, ImageProgress, ImageReport, Watcher};
use super::source::{Directory, Source};
use crate::FileSource;

/// Copies a file, or a directory with everything below, into a directory of a file system: under a name, or (of a
/// directory) what is in it. What cannot be read or kept is left out, and told. `image` is for those who are told.
///
/// # Errors
/// There is no such file, or nothing more can be written. What was copied until then stays; of what did not come to
/// its end nothing is left.
pub fn copy_in(
    from: &Path,
    (files, directory, name): (&FileSystem, ObjectId, Option<&[u8]>),
    (source, image): (&FileSource, &Path),
    options: CopyInOptions,
    watcher: Watcher<'_>,
) -> Result<ImageReport, Failure> {
    let tree = Directory::any(from, options.recursive)?;
    if tree.is_directory() && !options.recursive {
        let text = format!("'{}' is a directory", from.display());
        return Err(Failure::new(FailureKind::Invalid, text).advise("use '-r'"));
    }
    if name.is_none() && !tree.is_directory() {
        let text = format!("'{}' is not a directory", from.display());
        return Err(Failure::new(FailureKind::Invalid, text));
    }
    let totals = count(&tree, watcher);
    let target = Target {
        pool: source.pool(),
        files,
        image,
        reproducible: None,
        existing: match options.replace {
            true => Existing::Replaced,
            false => Existing::Kept,
        },
    };
    Filler::new(target, &tree, totals, watcher).run_into(directory, name)
}

/// How much there is.
fn count(tree: &Directory, watcher: Watcher<'_>) -> ImageProgress {
    let mut found_all = ImageProgress::default();
    let mut waiting = vec![tree.root().to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(found) = tree.found(&path) else {
            continue;
        };
        found_all.entries_total += 1;
        if found.is_regular() {
            found_all.bytes_total = found_all.bytes_total.saturating_add(found.size);
        }
        if found.is_directory() {
            let names = tree.names(&path).unwrap_or_default();
            waiting.extend(names.into_iter().map(|name| path.join(name)));
        }
        watcher(&ImageProgress {
            entries: found_all.entries_total,
            ..ImageProgress::default()
        });
    }
    found_all
}
