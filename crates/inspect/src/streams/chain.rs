//! Which streams lead to a snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Guid;
use format::ObjectSetKind;
use stream::Features;

use super::files::{Stream, StreamFile};
use super::index::Index;
use crate::error::{InspectError, Result};
use crate::problems::Problems;
use crate::target::image_and_place;

/// The files of a command line.
pub(super) struct Chain {
    pub(super) files: Arc<Vec<StreamFile>>,
}

/// A snapshot, the streams that lead to it, and a path in it.
pub(super) struct Wanted<'a> {
    /// Oldest first; several of a snapshot where one goes on with another.
    pub(super) parts: Vec<&'a Stream>,
    place: &'a str,
}

impl Wanted<'_> {
    pub(super) fn name(&self) -> String {
        self.parts
            .last()
            .map(|last| last.name())
            .unwrap_or_default()
    }

    pub(super) fn kind(&self) -> ObjectSetKind {
        self.parts
            .last()
            .map_or(ObjectSetKind::None, |last| last.kind)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.parts.last().is_some_and(|last| last.is_whole)
    }

    pub(super) fn path(&self) -> impl Iterator<Item = &str> {
        let parts = self.place.split('/');
        parts.filter(|part| !part.is_empty() && *part != ".")
    }
}

/// The files and the places in them that words name; no place: the newest snapshot.
fn parse(words: &[String]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut places): (Vec<PathBuf>, Vec<String>) = (Vec::new(), Vec::new());
    for word in words {
        let (file, place) = match image_and_place(word) {
            Some((file, place)) => (file, Some(place)),
            None => (Path::new(word), None),
        };
        if !file.as_os_str().is_empty() && !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
        places.extend(place.map(str::to_owned));
    }
    if places.is_empty() {
        places.push(String::new());
    }
    (files, places)
}

impl Chain {
    /// Opens the files that words name, and says which places in them.
    pub(super) fn of(words: &[String]) -> Result<(Self, Vec<String>)> {
        let (paths, places) = parse(words);
        if paths.is_empty() {
            return Err(InspectError::Usage(
                "no file with a stream is named".to_owned(),
            ));
        }
        let numbered = (0..).zip(&paths);
        let files: Result<Vec<_>> = numbered
            .map(|(number, path)| StreamFile::open(path, number))
            .collect();
        let files = Arc::new(files?);
        Ok((Self { files }, places))
    }

    pub(super) fn streams(&self) -> impl DoubleEndedIterator<Item = &Stream> {
        self.files.iter().flat_map(|file| &file.streams)
    }

    /// Tells of files that are not as they were sent.
    pub(super) fn note_damage(&self, problems: &mut Problems) {
        for file in self.files.iter() {
            if let Some(damage) = &file.damage {
                problems.note(file.path.display(), damage);
            }
        }
    }

    /// What a place names.
    pub(super) fn wanted<'a>(&'a self, place: &'a str) -> Result<Wanted<'a>> {
        let (stream, place) = self.stream(place)?;
        let mut parts: Vec<&Stream> = Vec::new();
        let (mut to, mut from) = (stream.to, stream.from);
        // Each stream counts once: what goes in circles ends.
        for _ in 0..=self.streams().count() {
            let group = self.group(to);
            from = group.first().map_or(from, |first| first.from);
            parts.splice(0..0, group);
            if from == Guid(0) {
                return Ok(Wanted { parts, place });
            }
            if self.group(from).is_empty() {
                break;
            }
            to = from;
        }
        let first = parts
            .first()
            .map_or_else(|| stream.name(), |first| first.name());
        Err(InspectError::Usage(format!(
            "the stream of {first} starts from the snapshot with the guid {}, whose stream is in none of these files",
            from.0
        )))
    }

    /// The streams of a snapshot: one that is whole, or parts that go on with each other.
    fn group(&self, to: Guid) -> Vec<&Stream> {
        let all = || self.streams().filter(|one| one.to == to);
        let is_alone = |one: &&Stream| one.is_whole && !one.features.contains(Features::RESUMING);
        match all().find(is_alone) {
            Some(whole) => vec![whole],
            None => all().collect(),
        }
    }

    /// The stream whose snapshot a place begins with, and the path in it.
    pub(super) fn stream<'a>(&'a self, place: &'a str) -> Result<(&'a Stream, &'a str)> {
        let Some(last) = self.files.last().and_then(|file| file.streams.first()) else {
            return Err(InspectError::Usage(
                "there is no stream in the last file".to_owned(),
            ));
        };
        let newest = |is: &dyn Fn(&Stream) -> bool| self.streams().rev().find(|one| is(one));
        let none = || InspectError::NoDataset(place.to_owned());
        if let Some(rest) = place.strip_prefix('@') {
            let (snapshot, path) = rest.split_once('/').unwrap_or((rest, ""));
            let found = newest(&|one| one.snapshot == snapshot && one.dataset == last.dataset);
            let found = found.or_else(|| newest(&|one| one.snapshot == snapshot));
            return Ok((found.ok_or_else(none)?, path));
        }
        let behind = |name: &str| {
            let rest = place.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let of = |one: &'a Stream| {
            let full = behind(&one.name()).map(|rest| (one, rest));
            full.or_else(|| behind(&one.dataset).map(|rest| (one, rest)))
        };
        // The longest name; of several streams of a dataset, the newest.
        let named = self.streams().filter_map(of).min_by_key(|(one, rest)| {
            let at = (one.begin.file, one.begin.at);
            (rest.len(), std::cmp::Reverse(at))
        });
        if let Some(found) = named {
            return Ok(found);
        }
        let found = newest(&|one| one.dataset == last.dataset);
        Ok((found.ok_or_else(none)?, place))
    }

    /// Has what the first parts bring.
    pub(super) fn index(&self, wanted: &Wanted<'_>, parts: usize) -> Result<Index> {
        let mut index = Index::new();
        for part in wanted.parts.iter().take(parts) {
            if let Some(file) = self.files.get(part.begin.file as usize) {
                index.apply(file, part)?;
            }
        }
        Ok(index)
    }

    /// Says what else there is, where nothing was named.
    pub(super) fn remark_others(&self, wanted: &Wanted<'_>, problems: &mut Problems) {
        let shown = wanted.name();
        let mut others: Vec<String> = self.streams().map(Stream::name).collect();
        others.retain(|name| *name != shown);
        if !others.is_empty() {
            let others = others.join(", ");
            problems.remark(format_args!(
                "this is {shown}; FILE:NAME shows another: {others}"
            ));
        }
    }
}
