//! One dataset, mounted for reading past damage.

use std::sync::Arc;

use base::ObjectId;
use base::clock::SystemClock;
use dmu::{DmuError, Object, ObjectSet, OpenObjectSet, Zap};
use format::ObjectSetKind;
use format::znode::DirectoryEntry;
use pipeline::Pipeline;
use posix::{
    Attributes, Credentials, DatasetProperties, FileSystem, FileType, MountOptions, PosixError,
    Visit,
};

use crate::error::{InspectError, Result};
use crate::problems::Problems;
use crate::raw::{DatasetEntry, RawObjectSet, ZapKey};
use crate::source::Store;

/// Clean objects that stay in memory.
pub(crate) const OBJECTS_MAX: usize = 4096;
/// Files that stay in memory.
const FILES_MAX: usize = 4096;
/// As many links as Linux follows.
const LINKS_MAX: usize = 40;
/// A mounted dataset.
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) files: Arc<FileSystem>,
    /// The same without an engine, of a pool: for what is damaged.
    pub(crate) raw: Option<RawObjectSet>,
}

/// The objects of a volume: its data, and a table with its size.
const VOLUME_DATA: ObjectId = ObjectId(1);
const VOLUME_TABLE: ObjectId = ObjectId(2);

/// A volume, open for reading past damage.
pub(crate) struct VolumeView {
    pub(crate) name: String,
    pub(crate) data: Arc<Object>,
    pub(crate) raw: Option<RawObjectSet>,
    pub(crate) size: u64,
}

impl VolumeView {
    /// None if the dataset is no volume.
    pub(crate) fn open(
        pipeline: &Arc<Pipeline>,
        store: Arc<Store>,
        dataset: &DatasetEntry,
    ) -> Result<Option<Self>> {
        let root = &dataset.phys.block_pointer;
        if root.is_hole() {
            return Ok(None);
        }
        let id = base::ObjectSetId(dataset.id.0);
        let raw = RawObjectSet::open(pipeline, id, *root)?;
        if raw.phys.kind != ObjectSetKind::Volume {
            return Ok(None);
        }
        let size = raw.object(VOLUME_TABLE)?.zap_lookup(b"size")?;
        let size = size.and_then(|size| size.as_word());
        let size = size.ok_or_else(|| InspectError::WrongKind {
            path: dataset.name.clone(),
            problem: "the volume has no size",
        })?;
        let open = OpenObjectSet {
            store,
            id,
            writable: false,
            objects_max: OBJECTS_MAX,
        };
        let failed = |source: DmuError| InspectError::Files {
            path: dataset.name.clone(),
            source: source.into(),
        };
        let objects = ObjectSet::open(open, root).map_err(failed)?;
        Ok(Some(Self {
            name: dataset.name.clone(),
            data: objects.object(VOLUME_DATA).map_err(failed)?,
            raw: Some(raw),
            size,
        }))
    }

    /// A volume whose objects are somewhere.
    pub(crate) fn of_objects(name: String, objects: &Arc<ObjectSet>) -> Result<Self> {
        let failed = |source: DmuError| InspectError::Files {
            path: name.clone(),
            source: source.into(),
        };
        let table = objects
            .object(VOLUME_TABLE)
            .and_then(|table| Zap::open(&table));
        let size = table
            .and_then(|table| table.lookup(b"size"))
            .map_err(failed)?;
        let size = size.ok_or_else(|| InspectError::WrongKind {
            path: name.clone(),
            problem: "the volume has no size",
        })?;
        let data = objects.object(VOLUME_DATA).map_err(failed)?;
        Ok(Self {
            name,
            data,
            raw: None,
            size,
        })
    }

    /// Whether changes wait in its intent log, which is not replayed here.
    pub(crate) fn has_log(&self) -> bool {
        let raw = self.raw.as_ref();
        raw.is_some_and(|raw| !raw.phys.log_header.log.is_hole())
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) object: ObjectId,
}

/// What resolving a path does with a link at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    Keep,
}

impl View {
    pub(crate) fn open(
        pipeline: &Arc<Pipeline>,
        store: Arc<Store>,
        dataset: &DatasetEntry,
    ) -> Result<Self> {
        let root = &dataset.phys.block_pointer;
        let unsuitable = |problem| InspectError::WrongKind {
            path: dataset.name.clone(),
            problem,
        };
        if root.is_hole() {
            return Err(unsuitable("it is empty"));
        }
        let id = base::ObjectSetId(dataset.id.0);
        let raw = RawObjectSet::open(pipeline, id, *root)?;
        match raw.phys.kind {
            ObjectSetKind::FileSystem => {}
            ObjectSetKind::Volume => return Err(unsuitable("it is a volume and has no files")),
            ObjectSetKind::None | ObjectSetKind::Meta | ObjectSetKind::Other => {
                return Err(unsuitable("it is not a file system"));
            }
        }
        let open = OpenObjectSet {
            store,
            id,
            writable: false,
            objects_max: OBJECTS_MAX,
        };
        let objects = ObjectSet::open(open, root).map_err(|error| InspectError::Files {
            path: dataset.name.clone(),
            source: error.into(),
        })?;
        Self::mount(
            dataset.name.clone(),
            objects,
            dataset.phys.guid.0,
            Some(raw),
        )
    }

    /// Mounts a file system whose objects are somewhere.
    pub(crate) fn mount(
        name: String,
        objects: Arc<ObjectSet>,
        identity: u64,
        raw: Option<RawObjectSet>,
    ) -> Result<Self> {
        let source = posix::Source {
            objects,
            engine: None,
            log: None,
            space: None,
            clock: Arc::new(SystemClock),
            identity,
            properties: DatasetProperties::showing_all(),
        };
        let options = MountOptions {
            read_only: true,
            znodes_max: FILES_MAX,
            ..MountOptions::default()
        };
        match FileSystem::mount(source, options) {
            Ok(files) => Ok(Self { name, files, raw }),
            Err(source) => Err(InspectError::Files { path: name, source }),
        }
    }

    /// The path of something in this dataset, for people.
    pub(crate) fn path(&self, below: &[u8]) -> String {
        let below = String::from_utf8_lossy(below);
        let below = below.trim_start_matches('/');
        if below.is_empty() {
            return self.name.clone();
        }
        format!("{}/{below}", self.name)
    }

    /// Whether changes wait in the dataset's intent log, which is not replayed here.
    pub(crate) fn has_log(&self) -> bool {
        let raw = self.raw.as_ref();
        raw.is_some_and(|raw| !raw.phys.log_header.log.is_hole())
    }

    pub(crate) fn attributes(&self, object: ObjectId) -> posix::Result<Attributes> {
        self.files.getattr(object)
    }

    /// The entries of a directory, sorted, without `.` and `..`. Where the table is damaged, what
    /// can be read of it; the damage goes to `problems`.
    pub(crate) fn entries(
        &self,
        directory: ObjectId,
        path: &[u8],
        problems: &mut Problems,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        // Every directory is listed with these two, which are not stored.
        let (mut dots, mut own) = (0, 2);
        let listed = self
            .files
            .readdir(&Credentials::root(), directory, 0, &mut |entry| {
                entries.push(Entry {
                    name: entry.name.to_vec(),
                    object: entry.object,
                });
                Visit::Continue
            });
        if let Err(error) = listed {
            problems.note(
                self.path(path),
                format_args!("the directory is damaged: {error}"),
            );
            entries = self.remaining_entries(directory);
            own = 0;
        }
        entries.retain(|entry| {
            if entry.name == b"." || entry.name == b".." {
                dots += 1;
                return false;
            }
            let sane = !entry.name.is_empty() && !entry.name.iter().any(|c| matches!(c, 0 | b'/'));
            if !sane {
                problems.note(self.path(path), "an entry has an impossible name");
            }
            sane
        });
        if dots > own {
            problems.note(self.path(path), "an entry called '.' or '..' is left out");
        }
        entries.sort();
        entries
    }

    /// The entries of a damaged directory that are still there.
    fn remaining_entries(&self, directory: ObjectId) -> Vec<Entry> {
        let mut entries = Vec::new();
        let table = self.raw.as_ref().and_then(|raw| raw.object(directory).ok());
        if let Some(table) = table {
            table.zap_entries_past(&mut |_| {}, &mut |entry| {
                if let (ZapKey::Name(name), Some(word)) = (entry.key, entry.value.as_word()) {
                    let object = ObjectId(DirectoryEntry::AT.object.get(word));
                    entries.push(Entry { name, object });
                }
            });
        }
        entries
    }

    /// Finds a name in a directory, in a damaged one too.
    fn lookup(&self, directory: ObjectId, name: &[u8]) -> posix::Result<Attributes> {
        match self.files.lookup(&Credentials::root(), directory, name) {
            Err(PosixError::Storage(error)) => {
                let mut remaining = self.remaining_entries(directory).into_iter();
                match remaining.find(|entry| entry.name == name) {
                    Some(entry) => self.attributes(entry.object),
                    None => Err(PosixError::Storage(error)),
                }
            }
            found => found,
        }
    }

    /// The file at a path. Links are followed within the dataset, absolute ones from its root.
    pub(crate) fn resolve(&self, path: &[&str], last: LastLink) -> Result<Attributes> {
        let shown = || self.path(path.join("/").as_bytes());
        let failed = |source| InspectError::Files {
            path: shown(),
            source,
        };
        let mut waiting: Vec<Vec<u8>> = path
            .iter()
            .rev()
            .map(|part| part.as_bytes().to_vec())
            .collect();
        let mut found = self.attributes(self.files.root()).map_err(failed)?;
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            let from = found.object;
            found = self.lookup(from, &name).map_err(failed)?;
            if found.file_type != FileType::Symlink
                || (waiting.is_empty() && last == LastLink::Keep)
            {
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(InspectError::WrongKind {
                    path: shown(),
                    problem: "too many links",
                });
            }
            let target = self.files.readlink(found.object).map_err(failed)?;
            let start = if target.starts_with(b"/") {
                self.files.root()
            } else {
                from
            };
            found = self.attributes(start).map_err(failed)?;
            let parts = target.split(|byte| *byte == b'/').rev();
            let parts = parts.filter(|part| !part.is_empty() && *part != b".");
            waiting.extend(parts.map(<[u8]>::to_vec));
        }
        Ok(found)
    }
}
