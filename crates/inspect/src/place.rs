//! From the words of a command line to something in a mounted dataset.

use std::sync::Arc;

use posix::Attributes;

use crate::error::Result;
use crate::problems::Problems;
use crate::raw::DatasetEntry;
use crate::source::{Source, Sources};
use crate::target::{self, Target};
use crate::view::{LastLink, View};

/// Something that a command line names.
pub(crate) struct Named {
    pub(crate) source: Arc<Source>,
    pub(crate) dataset: DatasetEntry,
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
    words: &[String],
    last: LastLink,
    problems: &mut Problems,
    visit: &mut dyn FnMut(Named, &mut Problems) -> Result<()>,
) -> Result<()> {
    let mut sources = Sources::default();
    for target in target::parse(words)? {
        match find(&mut sources, &target, last, problems) {
            Ok(named) => visit(named, problems)?,
            Err(error) => problems.add(error),
        }
    }
    Ok(())
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
        dataset: found.dataset,
        source,
        view,
        attributes,
        place: target.place.clone(),
    })
}
