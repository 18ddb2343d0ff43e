//! What a command line names: images, and a place inside their pool.
//!
//! `IMAGE... IMAGE:[POOL[/DATASET][@SNAPSHOT]][/PATH]`: images up to and including the one with the
//! colon hold the pool. Nothing after the colon, or a path at once, means the root dataset; `//`
//! ends the dataset's name where a directory is called like a child dataset.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::error::{InspectError, Result};

/// One place in one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Images, disks, or directories that hold them.
    pub(crate) images: Vec<PathBuf>,
    /// What follows the colon.
    pub(crate) place: String,
}

/// Reads the words of a command line. A word that starts with a colon means the same images as the
/// one before.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    let mut images = Vec::new();
    for word in words {
        let Some((image, place)) = split(word, &device::exists) else {
            images.push(PathBuf::from(word));
            continue;
        };
        if !image.is_empty() {
            images.push(PathBuf::from(image));
        } else if images.is_empty() {
            let Some(last) = targets.last() else {
                return Err(InspectError::Usage(format!("'{word}' names no image")));
            };
            images.clone_from(&last.images);
        }
        targets.push(Target {
            images: std::mem::take(&mut images),
            place: place.to_owned(),
        });
    }
    if let Some(image) = images.first() {
        let image = image.display();
        return Err(InspectError::Usage(if targets.is_empty() {
            format!("no place inside the pool is named; the root dataset is '{image}:'")
        } else {
            format!("'{image}' is followed by no place inside its pool")
        }));
    }
    Ok(targets)
}

/// The image and the place that a word names, if it names any: not if there is a file of that name.
#[must_use]
pub fn image_and_place(word: &str) -> Option<(&Path, &str)> {
    split(word, &device::exists).map(|(image, place)| (Path::new(image), place))
}

/// An image's name before a colon, and the rest. Names of images may have colons too: the first
/// split that gives a file counts, or else the first of all.
fn split<'a>(word: &'a str, exists: &dyn Fn(&Path) -> bool) -> Option<(&'a str, &'a str)> {
    if exists(Path::new(word)) {
        return None;
    }
    let mut splits = word
        .match_indices(':')
        .map(|(at, _)| (&word[..at], &word[at + 1..]));
    let existing = splits.clone().find(|(image, _)| exists(Path::new(image)));
    existing.or_else(|| splits.next())
}

impl Target {
    /// The pool that the place names, if it names one: it begins with the pool's name.
    pub(crate) fn pool(&self) -> Option<&str> {
        let Components { dataset, rest, .. } = Components::of(&self.place);
        let named = dataset.unwrap_or(rest);
        let first = named.first()?;
        Some(first.split_once('@').map_or(*first, |(pool, _)| pool))
    }
}

/// The components of a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Components<'a> {
    /// Up to here it is all dataset: `//` or the snapshot ended it.
    pub(crate) dataset: Option<Vec<&'a str>>,
    /// The snapshot that ended the dataset's name.
    pub(crate) snapshot: Option<&'a str>,
    /// The rest: components that start with a dataset's name when `dataset` is none.
    pub(crate) rest: Vec<&'a str>,
    /// Whether it ends in `/` or `/.`: the directory itself, never a link to it.
    pub(crate) is_directory: bool,
}

impl<'a> Components<'a> {
    /// Takes a place apart, as far as that goes without asking the pool.
    pub(crate) fn of(place: &'a str) -> Self {
        let is_directory = place.ends_with('/') || place.ends_with("/.");
        let components = |text: &'a str| -> Vec<&'a str> {
            text.split('/')
                .filter(|part| !part.is_empty() && *part != ".")
                .collect()
        };
        let (dataset, rest) = match place.split_once("//") {
            Some((dataset, rest)) => (Some(components(dataset)), components(rest)),
            None if place.starts_with('/') || place.is_empty() => {
                (Some(Vec::new()), components(place))
            }
            None => (None, components(place)),
        };
        let mut found = Self {
            dataset,
            snapshot: None,
            rest,
            is_directory,
        };
        found.take_snapshot();
        found
    }

    /// `DATASET@SNAPSHOT` where that is certain: at the end of an explicit dataset, or in the
    /// first component, the pool.
    fn take_snapshot(&mut self) {
        if let Some(dataset) = &mut self.dataset {
            if let Some((name, snapshot)) = dataset.last().and_then(|last| last.split_once('@')) {
                self.snapshot = Some(snapshot);
                dataset.pop();
                dataset.extend((!name.is_empty()).then_some(name));
            }
        } else if let Some((name, snapshot)) =
            self.rest.first().and_then(|first| first.split_once('@'))
        {
            self.snapshot = Some(snapshot);
            self.dataset = Some((!name.is_empty()).then_some(name).into_iter().collect());
            self.rest.remove(0);
        }
    }
}
