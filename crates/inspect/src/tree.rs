//! `tree`: datasets, snapshots and files as a drawing.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use base::ObjectId;
use posix::FileType;

use crate::error::{InspectError, Result};
use crate::keys::KeyRing;
use crate::list::{DEPTH_MAX, attributes, join, shown};
use crate::problems::Problems;
use crate::raw::DatasetEntry;
use crate::source::{Source, Sources};
use crate::target;
use crate::view::{LastLink, View};

/// How to draw.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// No files.
    pub datasets_only: bool,
    /// How many levels.
    pub depth: Option<usize>,
    /// The output is a terminal: control characters in names are replaced.
    pub terminal: bool,
    /// Who has keys of encrypted file systems.
    pub keys: KeyRing,
}

/// Draws what is below the named places.
///
/// # Errors
/// The words make no sense, or `out` takes nothing more.
pub fn tree(words: &[String], options: &TreeOptions, out: &mut dyn Write) -> Result<Problems> {
    let mut problems = Problems::default();
    let mut sources = Sources::new(options.keys.clone());
    for target in target::parse(words)? {
        let drawn = sources.get(&target, &mut problems).and_then(|source| {
            let mut drawing = Drawing {
                source: &source,
                options: options.clone(),
                problems: &mut problems,
                seen: HashSet::new(),
                out,
            };
            drawing.place(&target.place)
        });
        match drawn {
            Err(error @ InspectError::Output(_)) => return Err(error),
            Err(error) => problems.add(error),
            Ok(()) => {}
        }
    }
    out.flush().map_err(InspectError::Output)?;
    Ok(problems)
}

/// A line of the drawing, and what may be below it.
enum Item {
    Snapshot(String),
    Dataset {
        name: String,
        id: ObjectId,
    },
    File {
        view: Arc<View>,
        directory: Arc<[u8]>,
        name: Vec<u8>,
        object: ObjectId,
    },
}

struct Frame {
    items: std::vec::IntoIter<Item>,
    prefix: String,
    /// The dataset that its datasets are children of.
    parent: String,
}

struct Drawing<'a> {
    source: &'a Source,
    options: TreeOptions,
    problems: &'a mut Problems,
    seen: HashSet<(u64, ObjectId)>,
    out: &'a mut dyn Write,
}

impl Drawing<'_> {
    fn place(&mut self, place: &str) -> Result<()> {
        let found = self.source.find(place)?;
        let dataset = found.dataset;
        if found.path.is_empty() {
            self.line("", dataset.name.as_bytes())
                .map_err(InspectError::Output)?;
            let items = self.dataset_items(&dataset);
            return self.draw(items, dataset.name).map_err(InspectError::Output);
        }
        let view = Arc::new(self.source.view(&dataset)?);
        let path = found.path.join("/").into_bytes();
        let start = view.resolve(&found.path, LastLink::Follow)?;
        self.line("", view.path(&path).as_bytes())
            .map_err(InspectError::Output)?;
        if start.file_type != FileType::Directory {
            return Ok(());
        }
        let items = self.directory_items(&view, &path, start.object);
        self.draw(items, dataset.name).map_err(InspectError::Output)
    }

    fn draw(&mut self, items: Vec<Item>, parent: String) -> io::Result<()> {
        let mut frames = vec![Frame {
            items: items.into_iter(),
            prefix: String::new(),
            parent,
        }];
        let depth_max = self.options.depth.unwrap_or(DEPTH_MAX).min(DEPTH_MAX);
        while let Some(frame) = frames.last_mut() {
            let Some(item) = frame.items.next() else {
                frames.pop();
                continue;
            };
            let is_last = frame.items.len() == 0;
            let (branch, trunk) = if is_last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            let line = format!("{}{branch}", frame.prefix);
            let prefix = format!("{}{trunk}", frame.prefix);
            let parent = frame.parent.clone();
            let (below, parent) = self.item(item, &line, parent)?;
            if frames.len() < depth_max {
                frames.push(Frame {
                    items: below.into_iter(),
                    prefix,
                    parent,
                });
            }
        }
        Ok(())
    }

    /// Draws one item; what is below it, and the dataset that this belongs to.
    fn item(&mut self, item: Item, line: &str, parent: String) -> io::Result<(Vec<Item>, String)> {
        match item {
            Item::Snapshot(name) => {
                self.line(line, format!("@{name}").as_bytes())?;
                Ok((Vec::new(), parent))
            }
            Item::Dataset { name, id } => {
                let full = format!("{parent}/{name}");
                self.line(line, format!("{name} (dataset)").as_bytes())?;
                if !self.seen.insert((0, id)) {
                    return Ok((Vec::new(), parent));
                }
                let below = match self.source.head(id, &full) {
                    Ok(dataset) => self.dataset_items(&dataset),
                    Err(error) => {
                        self.problems.note(&full, error);
                        Vec::new()
                    }
                };
                Ok((below, full))
            }
            Item::File {
                view,
                directory,
                name,
                object,
            } => {
                let below = self.file(&view, &directory, &name, object, line)?;
                Ok((below, parent))
            }
        }
    }

    fn file(
        &mut self,
        view: &Arc<View>,
        directory: &[u8],
        name: &[u8],
        object: ObjectId,
        line: &str,
    ) -> io::Result<Vec<Item>> {
        let Some(file) = attributes(view, directory, name, object, self.problems) else {
            self.line(line, &[name, b" (unreadable)"].concat())?;
            return Ok(Vec::new());
        };
        match file.file_type {
            FileType::Directory => {
                self.line(line, &[name, b"/"].concat())?;
                let set = view.raw.as_ref().map_or(0, |raw| raw.id.0);
                if self.seen.insert((set, object)) {
                    return Ok(self.directory_items(view, &join(directory, name), object));
                }
            }
            FileType::Symlink => {
                let target = view.files.readlink(object).unwrap_or_else(|error| {
                    self.problems.note(view.path(&join(directory, name)), error);
                    b"?".to_vec()
                });
                self.line(line, &[name, b" -> ", &target].concat())?;
            }
            FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Regular
            | FileType::Socket => self.line(line, name)?,
        }
        Ok(Vec::new())
    }

    fn line(&mut self, prefix: &str, text: &[u8]) -> io::Result<()> {
        self.out.write_all(prefix.as_bytes())?;
        self.out.write_all(&shown(text, self.options.terminal))?;
        self.out.write_all(b"\n")
    }

    /// Snapshots, children, then files.
    fn dataset_items(&mut self, dataset: &DatasetEntry) -> Vec<Item> {
        let mut items = Vec::new();
        if !dataset.phys.is_snapshot() {
            let snapshots = self.source.snapshots(dataset, self.problems);
            items.extend(snapshots.into_iter().map(|(name, _)| Item::Snapshot(name)));
            let children =
                self.source
                    .children(dataset.phys.directory, &dataset.name, self.problems);
            items.extend(
                children
                    .into_iter()
                    .map(|(name, id)| Item::Dataset { name, id }),
            );
        }
        if self.options.datasets_only {
            return items;
        }
        match self.source.view(dataset) {
            Ok(view) => {
                let root = view.files.root();
                items.extend(self.directory_items(&Arc::new(view), &[], root));
            }
            Err(error @ InspectError::WrongKind { .. }) => self.problems.remark(error),
            Err(error) => self.problems.add(error),
        }
        items
    }

    fn directory_items(&mut self, view: &Arc<View>, path: &[u8], directory: ObjectId) -> Vec<Item> {
        let entries = view.entries(directory, path, self.problems);
        let path: Arc<[u8]> = path.into();
        let item = |entry: crate::view::Entry| Item::File {
            view: Arc::clone(view),
            directory: Arc::clone(&path),
            name: entry.name,
            object: entry.object,
        };
        entries.into_iter().map(item).collect()
    }
}
