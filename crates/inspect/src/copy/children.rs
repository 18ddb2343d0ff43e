//! The datasets below one that is copied: each goes where its name says, below the copy.
//!
//! Names come from an image that nobody vouches for: every directory on the way is opened by itself, and no link that a
//! copy before has made is followed.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use base::ObjectId;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::{Copying, open_folder};
use crate::error::{InspectError, Result};
use crate::place::Named;
use crate::problems::Problems;
use crate::source::Source;
use crate::view::{LastLink, VolumeView};

/// A dataset whose children are to be copied.
struct Waiting {
    directory: ObjectId,
    name: String,
    /// Below the folder.
    made: Vec<String>,
}

/// Copies all below `top`, which itself was copied into `folder` as `name`, or right into it. Of a snapshot, the
/// snapshots of the same name.
pub(super) fn each(
    top: &Named,
    folder: (&OwnedFd, &Path),
    name: Option<&[u8]>,
    problems: &mut Problems,
    copying: &Copying,
) {
    let Some((source, dataset)) = &top.origin else {
        return;
    };
    let (head, snapshot) = match dataset.name.split_once('@') {
        Some((head, snapshot)) => (head, Some(snapshot)),
        None => (dataset.name.as_str(), None),
    };
    let directory = Source::directory_of(dataset);
    let made = name.map(|name| String::from_utf8_lossy(name).into_owned());
    let mut seen = HashSet::from([directory]);
    let mut waiting = vec![Waiting {
        directory,
        name: head.to_owned(),
        made: made.into_iter().collect(),
    }];
    while let Some(parent) = waiting.pop() {
        for (child, directory) in source.children(parent.directory, &parent.name, problems) {
            let name = format!("{}/{child}", parent.name);
            if !seen.insert(directory) || !is_plain(&child) {
                problems.note(&name, "not a dataset that can be below another");
                continue;
            }
            match named(source, directory, &name, snapshot) {
                Ok(Some(named)) => match folder_at(folder.0.as_fd(), &parent.made) {
                    Ok(at) => {
                        let path = folder.1.join(parent.made.join("/"));
                        note_log(&named, problems);
                        let place = (at.as_fd(), path.as_path(), Some(child.as_bytes()));
                        copying.files(&named, place, problems);
                    }
                    Err(error) => problems.note(&name, error),
                },
                Err(InspectError::WrongKind { .. })
                    if let Some(volume) = volume(source, directory, &name, snapshot, problems) =>
                {
                    match folder_at(folder.0.as_fd(), &parent.made) {
                        Ok(at) => {
                            let path = folder.1.join(parent.made.join("/"));
                            let place = (at.as_fd(), path.as_path(), child.as_bytes());
                            copying.volume(&volume, place, problems);
                        }
                        Err(error) => problems.note(&name, error),
                    }
                }
                // It was made later, or has been left out of that snapshot.
                Ok(None) => problems.remark(format_args!("{name} has no such snapshot")),
                Err(error) => problems.note(&name, format_args!("not copied: {error}")),
            }
            let made = parent.made.iter().cloned().chain([child]).collect();
            waiting.push(Waiting {
                directory,
                name,
                made,
            });
        }
    }
}

/// Whether it is one component of a path.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn note_log(named: &Named, problems: &mut Problems) {
    if named.view.has_log() {
        problems.remark(format_args!(
            "{}: changes of the last seconds are in the intent log and not shown",
            named.view.name
        ));
    }
}

/// The root of a dataset, or of its snapshot; none if there is no such snapshot.
fn named(
    source: &Arc<Source>,
    directory: ObjectId,
    name: &str,
    snapshot: Option<&str>,
) -> Result<Option<Named>> {
    let head = source.head(directory, name)?;
    let dataset = match snapshot {
        None => head,
        Some(snapshot) => match source.snapshot(&head, snapshot) {
            Err(InspectError::NoDataset(_)) => return Ok(None),
            found => found?,
        },
    };
    let view = Arc::new(source.view(&dataset)?);
    let attributes = view.resolve(&[], LastLink::Keep)?;
    Ok(Some(Named {
        place: dataset.name.clone(),
        origin: Some((Arc::clone(source), dataset)),
        view,
        attributes,
        path: Vec::new(),
    }))
}

/// A volume, or its snapshot; what is wrong with it goes to `problems`.
fn volume(
    source: &Arc<Source>,
    directory: ObjectId,
    name: &str,
    snapshot: Option<&str>,
    problems: &mut Problems,
) -> Option<VolumeView> {
    let open = || {
        let head = source.head(directory, name)?;
        let dataset = match snapshot {
            None => head,
            Some(snapshot) => source.snapshot(&head, snapshot)?,
        };
        source.volume(&dataset)
    };
    open().unwrap_or_else(|error| {
        problems.add(error);
        None
    })
}

/// The folder below another; what is not there yet is made, as it is where a parent could not be copied.
fn folder_at(base: BorrowedFd<'_>, below: &[String]) -> rustix::io::Result<OwnedFd> {
    let mut folder = open_folder(base, b".", true)?;
    for name in below {
        match rustix::fs::mkdirat(&folder, name.as_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        folder = open_folder(folder.as_fd(), name.as_bytes(), true)?;
    }
    Ok(folder)
}
