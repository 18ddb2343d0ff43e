//! From the words of a command line to something in a mounted dataset.

use std::sync::Arc;

use posix::Attributes;

use crate::error::{InspectError, Result};
use crate::keys::KeyRing;
use crate::problems::Problems;
use crate::raw::DatasetEntry;
use crate::source::{Source, Sources};
use crate::target::{self, Target};
use crate::view::{LastLink, View, VolumeView};

/// Something that a command line names.
pub(crate) struct Named {
    /// The pool, and the dataset there; none: it is in a stream.
    pub(crate) origin: Option<(Arc<Source>, DatasetEntry)>,
    pub(crate) view: Arc<View>,
    pub(crate) attributes: Attributes,
    /// From the dataset's root.
    pub(crate) path: Vec<u8>,
    /// What follows the colon, as it was typed.
    pub(crate) place: String,
}

impl Named {
    /// Whether it is the root of its dataset.
    pub(crate) fn is_root(&self) -> bool {
        self.path.is_empty()
    }
}

/// Finds each target and hands it on. What cannot be found goes to `problems`, and the rest goes on.
pub(crate) fn for_each(
    (words, keys): (&[String], &KeyRing),
    last: LastLink,
    problems: &mut Problems,
    visit: &mut dyn FnMut(Named, &mut Problems) -> Result<()>,
) -> Result<()> {
    for_each_dataset((words, keys), last, problems, visit, &mut |_, _| Ok(false))
}

/// [`for_each`]; volumes are handed to `visit_volume`, which says whether it took them.
pub(crate) fn for_each_dataset(
    (words, keys): (&[String], &KeyRing),
    last: LastLink,
    problems: &mut Problems,
    visit: &mut dyn FnMut(Named, &mut Problems) -> Result<()>,
    visit_volume: &mut dyn FnMut(&VolumeView, &mut Problems) -> Result<bool>,
) -> Result<()> {
    let mut sources = Sources::new(keys.clone());
    for target in target::parse(words)? {
        match find(&mut sources, &target, last, problems) {
            Ok(named) => visit(named, problems)?,
            Err(error @ InspectError::WrongKind { .. }) => {
                let volume = volume(&mut sources, &target, problems)?;
                let is_taken = match volume {
                    Some(volume) => visit_volume(&volume, problems)?,
                    None => false,
                };
                if !is_taken {
                    problems.add(error);
                }
            }
            Err(error) => problems.add(error),
        }
    }
    Ok(())
}

/// The volume that a target names, if it is one.
fn volume(
    sources: &mut Sources,
    target: &Target,
    problems: &mut Problems,
) -> Result<Option<VolumeView>> {
    let source = sources.get(target, problems)?;
    match source.find(&target.place) {
        Ok(found) if found.path.is_empty() => {
            Ok(source.volume(&found.dataset).unwrap_or_else(|error| {
                problems.add(error);
                None
            }))
        }
        Ok(_) | Err(_) => Ok(None),
    }
}

fn find(
    sources: &mut Sources,
    target: &Target,
    last: LastLink,
    problems: &mut Problems,
) -> Result<Named> {
    let source = sources.get(target, problems)?;
    let found = source.find(&target.place)?;
    let view = Arc::new(source.view(&found.dataset)?);
    if view.has_log() {
        problems.remark(format_args!(
            "{}: changes of the last seconds are in the intent log and not shown",
            view.name
        ));
    }
    let last = if found.is_directory {
        LastLink::Follow
    } else {
        last
    };
    let attributes = view.resolve(&found.path, last)?;
    Ok(Named {
        path: found.path.join("/").into_bytes(),
        origin: Some((source, found.dataset)),
        view,
        attributes,
        place: target.place.clone(),
    })
}
