//! `ls`: what is in directories.

mod rows;

use std::collections::HashSet;
use std::io::{self, Write};

use base::ObjectId;
use posix::{Attributes, FileType};

use crate::error::{InspectError, Result};
use crate::keys::KeyRing;
use crate::place::{self, Named};
use crate::problems::Problems;
use crate::view::{Entry, LastLink, View};
use rows::Row;
pub(crate) use rows::shown;
pub use rows::{printable, printable_lines};

/// Directories nested deeper are left alone: nobody makes them, damage might.
pub(crate) const DEPTH_MAX: usize = 4096;

/// How to list.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct ListOptions {
    /// Everything about each entry (`-l`).
    pub long: bool,
    /// `.` and `..` too (`-a`); names that start with a dot are always shown.
    pub all: bool,
    /// Directories below as well (`-R`).
    pub recursive: bool,
    /// Sizes for people (`-h`).
    pub human: bool,
    /// One JSON array of everything (`-j`).
    pub json: bool,
    /// The output is a terminal: control characters in names are replaced.
    pub terminal: bool,
    /// Who has keys of encrypted file systems.
    pub keys: KeyRing,
}

/// Lists the named files and directories.
///
/// # Errors
/// The words make no sense, or `out` takes nothing more.
pub fn ls(words: &[String], options: &ListOptions, out: &mut dyn Write) -> Result<Problems> {
    let mut problems = Problems::default();
    let last = options.last_link();
    let headings = words.iter().filter(|word| word.contains(':')).count() > 1 || options.recursive;
    let mut list = List::new(options, headings, out);
    list.begin().map_err(InspectError::Output)?;
    let words = (words, &options.keys);
    place::for_each(words, last, &mut problems, &mut |named, problems| {
        list.named(&named, problems).map_err(InspectError::Output)
    })?;
    list.end().map_err(InspectError::Output)?;
    Ok(problems)
}

impl ListOptions {
    /// What becomes of a link that is named.
    pub(crate) const fn last_link(&self) -> LastLink {
        if self.long {
            LastLink::Keep
        } else {
            LastLink::Follow
        }
    }
}

/// A list that is being printed.
pub(crate) struct List<'a> {
    options: ListOptions,
    headings: bool,
    /// Directories or rows so far.
    shown: usize,
    out: &'a mut dyn Write,
}

impl<'a> List<'a> {
    pub(crate) fn new(options: &ListOptions, headings: bool, out: &'a mut dyn Write) -> Self {
        Self {
            options: options.clone(),
            headings,
            shown: 0,
            out,
        }
    }
}

impl List<'_> {
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if self.options.json {
            self.out.write_all(b"[")?;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.options.json {
            self.out.write_all(b"\n]\n")?;
        }
        self.out.flush()
    }

    pub(crate) fn named(&mut self, named: &Named, problems: &mut Problems) -> io::Result<()> {
        let view = &named.view;
        if named.attributes.file_type != FileType::Directory {
            let name = view.path(&named.path).into_bytes();
            let rows = [Row::new(view, name, Some(named.attributes), problems)];
            return self.rows(&rows, view, &[]);
        }
        let mut seen = HashSet::from([named.attributes.object]);
        let mut waiting = vec![(named.path.clone(), named.attributes, 0)];
        while let Some((path, directory, depth)) = waiting.pop() {
            let below = self.directory(view, &path, &directory, problems)?;
            if let Some((source, dataset)) = &named.origin
                && let Some(dataset) = source.dataset_at(dataset, &path)
            {
                problems.remark(format_args!(
                    "{}: a mount point; what is in the dataset is listed as IMAGE:{dataset}",
                    view.path(&path)
                ));
            }
            if !self.options.recursive {
                continue;
            }
            // A stack: the last one in is listed first.
            for (name, attributes) in below.into_iter().rev() {
                let path = join(&path, &name);
                if depth >= DEPTH_MAX || !seen.insert(attributes.object) {
                    problems.note(view.path(&path), "directories are nested too deeply");
                    continue;
                }
                waiting.push((path, attributes, depth + 1));
            }
        }
        Ok(())
    }

    /// Lists one directory; the directories in it.
    fn directory(
        &mut self,
        view: &View,
        path: &[u8],
        directory: &Attributes,
        problems: &mut Problems,
    ) -> io::Result<Vec<(Vec<u8>, Attributes)>> {
        if self.headings && !self.options.json {
            let line = if self.shown > 0 { "\n" } else { "" };
            let heading = view.path(path);
            let heading = shown(heading.as_bytes(), self.options.terminal);
            self.out.write_all(line.as_bytes())?;
            self.out.write_all(&heading)?;
            self.out.write_all(b":\n")?;
        }
        let mut entries = view.entries(directory.object, path, problems);
        if self.options.all {
            let dots = [(&b"."[..], directory.object), (b"..", directory.parent)];
            let dots = dots.map(|(name, object)| Entry {
                name: name.to_vec(),
                object,
            });
            entries.splice(0..0, dots);
        }
        let needs_attributes = self.options.long || self.options.json || self.options.recursive;
        let mut rows = Vec::with_capacity(entries.len());
        let mut below = Vec::new();
        for Entry { name, object } in entries {
            let attributes = needs_attributes
                .then(|| attributes(view, path, &name, object, problems))
                .flatten();
            if let Some(attributes) = attributes
                && attributes.file_type == FileType::Directory
                && name != b"."
                && name != b".."
            {
                below.push((name.clone(), attributes));
            }
            rows.push(Row::new(view, name, attributes, problems));
        }
        self.rows(&rows, view, path)?;
        Ok(below)
    }

    fn rows(&mut self, rows: &[Row], view: &View, path: &[u8]) -> io::Result<()> {
        if self.options.json {
            for row in rows {
                let separator = if self.shown > 0 { ",\n" } else { "\n" };
                self.shown += 1;
                let object = row.json(&view.path(path));
                write!(self.out, "{separator}{object}")?;
            }
            return Ok(());
        }
        self.shown += 1;
        if self.options.long {
            return rows::write_long(rows, &self.options, self.out);
        }
        for row in rows {
            self.out
                .write_all(&rows::shown(&row.name, self.options.terminal))?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// The attributes of an entry; damage goes to `problems`.
pub(crate) fn attributes(
    view: &View,
    path: &[u8],
    name: &[u8],
    object: ObjectId,
    problems: &mut Problems,
) -> Option<Attributes> {
    match view.attributes(object) {
        Ok(attributes) => Some(attributes),
        Err(error) => {
            problems.note(view.path(&join(path, name)), error);
            None
        }
    }
}

/// A path below a path.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return name.to_vec();
    }
    [path, b"/", name].concat()
}
