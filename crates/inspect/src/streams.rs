//! Looking into send streams without a pool: `stream ls`, `cp`, `verify` and `diff`.
//!
//! A stream is a list of records that say which objects there are and which bytes they have. Files are read whole and
//! checked first, and the streams that a place needs a second time; what stays in memory is where each range of bytes
//! is ([`index`]), not the bytes. An object set is made up of that ([`store`]) and mounted like that of a pool, so that
//! everything that lists and copies files works. A stream comes from anywhere: nothing of it is trusted but its
//! checksums, and these only as far as they tell damage.

mod chain;
mod diff;
mod extents;
mod files;
mod index;
mod store;
mod verify;

pub use diff::stream_diff;
pub use verify::{VerifiedFile, VerifiedStream, stream_verify};

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use base::ObjectSetId;
use dmu::{ObjectSet, OpenObjectSet};
use format::ObjectSetKind;

use crate::copy::{Copied, CopyOptions, Copying};
use crate::error::{InspectError, Result};
use crate::list::{List, ListOptions};
use crate::place::Named;
use crate::problems::Problems;
use crate::view::{LastLink, OBJECTS_MAX, View, VolumeView};
use chain::{Chain, Wanted};
use index::Index;
use store::Store;

/// Lists files of a stream, or of a chain of them: `FILE... [FILE:[DATASET][@SNAPSHOT][/PATH]]...`.
///
/// # Errors
/// The words make no sense, a file cannot be read, or `out` takes nothing more.
pub fn stream_ls(words: &[String], options: &ListOptions, out: &mut dyn Write) -> Result<Problems> {
    let mut problems = Problems::default();
    let (chain, places) = Chain::of(words)?;
    chain.note_damage(&mut problems);
    let headings = places.len() > 1 || options.recursive;
    let mut list = List::new(options, headings, out);
    list.begin().map_err(InspectError::Output)?;
    for place in &places {
        match chain.named(place, options.last_link(), &mut problems) {
            Ok(named) => list
                .named(&named, &mut problems)
                .map_err(InspectError::Output)?,
            Err(error) => problems.add(error),
        }
    }
    list.end().map_err(InspectError::Output)?;
    Ok(problems)
}

/// Copies files of a stream, or of a chain of them, to `destination`: into it if it is a directory, else under that
/// name.
///
/// # Errors
/// The words make no sense, a file cannot be read, or the destination cannot be.
pub fn stream_cp(words: &[String], destination: &Path, options: &CopyOptions) -> Result<Copied> {
    let mut problems = Problems::default();
    let (chain, places) = Chain::of(words)?;
    chain.note_damage(&mut problems);
    let is_directory = destination.is_dir();
    if places.len() > 1 && !is_directory {
        let destination = destination.display();
        return Err(InspectError::Usage(format!(
            "{destination} is not a directory"
        )));
    }
    let copying = Copying::new(options);
    for place in &places {
        let wanted = chain.wanted(place)?;
        if wanted.kind() == ObjectSetKind::Volume {
            match chain.volume(&wanted) {
                Ok(view) => copying.volume_to(&view, destination, is_directory, &mut problems)?,
                Err(error) => problems.add(error),
            }
            continue;
        }
        match chain.named(place, options.last_link(), &mut problems) {
            Ok(named) => copying.named_to(&named, destination, is_directory, &mut problems)?,
            Err(error) => problems.add(error),
        }
    }
    Ok(copying.finish(problems))
}

impl Chain {
    /// What a place names.
    fn named(&self, place: &str, last: LastLink, problems: &mut Problems) -> Result<Named> {
        let wanted = self.wanted(place)?;
        let view = Arc::new(self.view(&wanted)?);
        if !wanted.is_whole() {
            problems.note(
                &view.name,
                "the end of its stream is missing: what came is shown",
            );
        }
        if place.is_empty() {
            self.remark_others(&wanted, problems);
        }
        let is_directory = place.ends_with('/') || place.ends_with("/.");
        let last = if is_directory { LastLink::Follow } else { last };
        let path: Vec<&str> = wanted.path().collect();
        let attributes = view.resolve(&path, last)?;
        Ok(Named {
            origin: None,
            path: path.join("/").into_bytes(),
            view,
            attributes,
            place: place.to_owned(),
        })
    }

    fn view(&self, wanted: &Wanted<'_>) -> Result<View> {
        let index = self.index(wanted, wanted.parts.len())?;
        self.view_of(wanted.name(), index)
    }

    fn view_of(&self, name: String, index: Index) -> Result<View> {
        let identity = index.guid.0;
        if index.kind != ObjectSetKind::FileSystem {
            let problem = "it is not a file system";
            return Err(InspectError::WrongKind {
                path: name,
                problem,
            });
        }
        let objects = self.objects(&name, index)?;
        View::mount(name, objects, identity, None)
    }

    fn volume(&self, wanted: &Wanted<'_>) -> Result<VolumeView> {
        let index = self.index(wanted, wanted.parts.len())?;
        let objects = self.objects(&wanted.name(), index)?;
        VolumeView::of_objects(wanted.name(), &objects)
    }

    fn objects(&self, name: &str, index: Index) -> Result<Arc<ObjectSet>> {
        let open = OpenObjectSet {
            store: Arc::new(Store::new(Arc::clone(&self.files), index)),
            id: ObjectSetId(1),
            writable: false,
            objects_max: OBJECTS_MAX,
        };
        ObjectSet::open(open, &Store::root()).map_err(|source| InspectError::Files {
            path: name.to_owned(),
            source: source.into(),
        })
    }
}
