//! The datasets of a pool as walks and properties see them.
//!
//! Listing reads the pool's own object set only; of a head also its root block, once, to know
//! whether it is a file system or a volume. Its contents are opened for `volsize`, `version` and
//! what else is stored inside, and only when these are asked for.

mod figures;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use admin::{Failure, RowText, Setting, Source, Types, Value};
use base::ObjectId;
use base::lock::{LockClass, RwLock, rank};
use dmu::ObjectSet;
use dsl::property::{Figure, MountOption, Row, dataset};
use dsl::{Bookmark, Dataset, DatasetSpace, Directory, Dsl, DslError, PropertyValue};
use format::ObjectSetKind;
use format::dsl::DatasetPhys;

use super::mountpoint::Mountpoint;
use super::owners::OwnerProperty;
use super::property_source::PropertySource;
use super::refusal::unreadable;
use super::walk::{DatasetIndex, Stop};
use crate::MountOptions;
use crate::mounts::Mounts;

static KINDS: LockClass = LockClass::new("control.kinds", rank::LAST + 3);

/// Kinds of heads, which never change: by the dataset's object, for as long as it exists.
pub(crate) struct Kinds {
    known: RwLock<BTreeMap<ObjectId, Types>>,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        Self {
            known: RwLock::new(&KINDS, BTreeMap::new()),
        }
    }

    /// Forgets an object that may become another dataset.
    pub(crate) fn forget_all(&self) {
        self.known.write().clear();
    }
}

/// A pool's datasets.
pub(crate) struct PoolDatasetIndex<'a> {
    pub(crate) dsl: &'a Arc<Dsl>,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) altroot: Option<&'a std::path::Path>,
    pub(crate) kinds: &'a Kinds,
}

impl PoolDatasetIndex<'_> {
    /// Whether a dataset is a file system or a volume.
    pub(crate) fn kind_of(&self, dataset: &Arc<Dataset>) -> Result<Types, Failure> {
        if let Some(kind) = self.kinds.known.read().get(&dataset.id()) {
            return Ok(*kind);
        }
        let stamp = self.dsl.stamp();
        let root = dataset.root().map_err(unreadable)?;
        let kind = if root.is_some_and(|root| root.kind == ObjectSetKind::Volume) {
            Types::VOLUME
        } else {
            Types::FILESYSTEM
        };
        let mut known = self.kinds.known.write();
        // The number may be another dataset's since.
        if self.dsl.stamp() == stamp {
            known.insert(dataset.id(), kind);
        }
        Ok(kind)
    }

    /// A head or snapshot as its properties are asked for.
    pub(crate) fn head(
        &self,
        name: String,
        dataset: Arc<Dataset>,
    ) -> Result<DatasetSource<'_>, Failure> {
        let facts = self.facts(&dataset)?;
        Ok(self.with(facts, name, dataset))
    }

    /// The kind of a dataset's head, and its record.
    fn facts(&self, dataset: &Arc<Dataset>) -> Result<(Types, DatasetPhys), Failure> {
        let head_kind = if dataset.is_snapshot() {
            match dataset.directory().head().map_err(unreadable)? {
                Some(head) => self.kind_of(&head)?,
                None => Types::FILESYSTEM,
            }
        } else {
            self.kind_of(dataset)?
        };
        Ok((head_kind, dataset.phys().map_err(unreadable)?))
    }

    fn with(
        &self,
        (head_kind, phys): (Types, DatasetPhys),
        name: String,
        dataset: Arc<Dataset>,
    ) -> DatasetSource<'_> {
        DatasetSource {
            dataset_index: self,
            name,
            head_kind,
            directory: dataset.directory(),
            dataset,
            phys,
            space: OnceLock::new(),
            received: OnceLock::new(),
            contents: OnceLock::new(),
        }
    }

    /// What was found under a name, as its properties are asked for; none if it went meanwhile.
    fn source(
        &self,
        name: String,
        dataset: Arc<Dataset>,
    ) -> Result<Option<DatasetSource<'_>>, Failure> {
        if let Ok(facts) = self.facts(&dataset) {
            return Ok(Some(self.with(facts, name, dataset)));
        }
        let again = || match missing_is_none(self.dsl.dataset(&name))? {
            None => Ok(None),
            Some(dataset) => self.head(name.clone(), dataset).map(Some),
        };
        self.dsl.settled(again)
    }
}

impl DatasetIndex for PoolDatasetIndex<'_> {
    fn root(&self) -> String {
        self.dsl.pool_name()
    }

    fn stamp(&self) -> u64 {
        self.dsl.stamp()
    }

    fn settle(&self) {
        drop(self.dsl.quiet());
    }

    fn find(&self, full_name: &str) -> Result<Option<Box<dyn PropertySource + '_>>, Failure> {
        if let Some((head, short)) = full_name.split_once('#') {
            let look = || {
                let head = self.dsl.head(head)?;
                let found = head.bookmark(short)?;
                Ok(found.map(|bookmark| (head, bookmark)))
            };
            let found = missing_is_none(self.dsl.settled(look))?.flatten();
            return Ok(found.map(|(head, bookmark)| {
                Box::new(BookmarkSource {
                    name: full_name.to_owned(),
                    head,
                    bookmark,
                }) as Box<_>
            }));
        }
        match missing_is_none(self.dsl.settled(|| self.dsl.dataset(full_name)))? {
            None => Ok(None),
            Some(dataset) => {
                let source = self.source(full_name.to_owned(), dataset)?;
                Ok(source.map(|source| Box::new(source) as Box<_>))
            }
        }
    }

    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let look = || self.dsl.directory(dataset)?.children();
        let children = missing_is_none(self.dsl.settled(look))?.unwrap_or_default();
        Ok(children
            .iter()
            .map(|child| format!("{dataset}/{}", child.component()))
            .collect())
    }

    fn snapshots(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let look = || self.dsl.head(dataset)?.named_snapshots();
        let found = missing_is_none(self.dsl.settled(look))?.unwrap_or_default();
        for (short, snapshot) in found {
            if let Some(source) = self.source(format!("{dataset}@{short}"), snapshot)? {
                visit(&source)?;
            }
        }
        Ok(())
    }

    fn bookmarks(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn PropertySource) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let look = || {
            let head = self.dsl.head(dataset)?;
            let bookmarks = head.bookmarks()?;
            Ok((head, bookmarks))
        };
        let Some((head, bookmarks)) = missing_is_none(self.dsl.settled(look))? else {
            return Ok(());
        };
        for bookmark in bookmarks {
            let name = format!("{dataset}#{}", bookmark.name);
            visit(&BookmarkSource {
                name,
                head: Arc::clone(&head),
                bookmark,
            })?;
        }
        Ok(())
    }
}

/// A name that leads nowhere is an answer, not a failure.
pub(crate) fn missing_is_none<T>(found: Result<T, DslError>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(DslError::NotFound { .. } | DslError::BadName { .. }) => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}

/// What the property layer stores, as it travels.
pub(crate) fn value_of(stored: PropertyValue) -> Value {
    match stored {
        PropertyValue::Number(number) => Value::Number(number),
        PropertyValue::Text(text) => Value::Text(text),
    }
}

/// A head or snapshot.
pub(crate) struct DatasetSource<'a> {
    dataset_index: &'a PoolDatasetIndex<'a>,
    name: String,
    head_kind: Types,
    dataset: Arc<Dataset>,
    directory: Arc<Directory>,
    phys: DatasetPhys,
    space: OnceLock<DatasetSpace>,
    received: OnceLock<Vec<(String, Value)>>,
    contents: OnceLock<Option<Arc<ObjectSet>>>,
}

impl DatasetSource<'_> {
    /// The figures that cost a walk over deadlists.
    fn space(&self) -> Result<DatasetSpace, Failure> {
        if let Some(space) = self.space.get() {
            return Ok(*space);
        }
        let space = self.dataset.space().map_err(unreadable)?;
        Ok(*self.space.get_or_init(|| space))
    }

    /// The value that a stream brought, whether or not another one stands before it.
    fn received(&self, name: &str) -> Result<Option<Value>, Failure> {
        let all = if let Some(all) = self.received.get() {
            all
        } else {
            let stored = self.dataset.stored_properties().map_err(unreadable)?;
            let all = stored.into_iter();
            let all = all.filter_map(|one| Some((one.name, value_of(one.received?))));
            let all: Vec<(String, Value)> = all.collect();
            self.received.get_or_init(|| all)
        };
        let found = all.iter().find(|(other, _)| other == name);
        Ok(found.map(|(_, value)| value.clone()))
    }

    /// The contents, if they can be opened: without a key they cannot.
    fn contents(&self) -> Option<Arc<ObjectSet>> {
        self.contents
            .get_or_init(|| self.dataset.object_set().ok())
            .clone()
    }

    /// What a mount option says instead of the property, until the next mount.
    fn temporary(&self, row: &Row, setting: Option<&Setting>) -> Option<Setting> {
        let option: fn(&MountOptions) -> bool = match row.mount? {
            MountOption::ReadOnly => |options| options.readonly,
            MountOption::AccessTimes => |options| options.atime,
            MountOption::Devices => |options| options.devices,
            MountOption::Execute => |options| options.exec,
            MountOption::SetUserId => |options| options.setuid,
        };
        if self.dataset.is_snapshot() {
            return None;
        }
        let now = option(&self.dataset_index.mounts.options(&self.name)?);
        let usual = match setting.and_then(|setting| setting.value.number()) {
            Some(number) => number != 0,
            None => option(&MountOptions::default()),
        };
        (now != usual).then(|| Setting::from(Value::Number(now.into()), Source::Temporary))
    }

    fn mountpoint(&self) -> Result<Setting, Failure> {
        let stored = self.dataset.effective(dataset::MOUNTPOINT.row());
        let stored = stored.map_err(unreadable)?;
        let setting = stored.map(setting_of);
        let place = Mountpoint::effective(&self.name, setting.as_ref(), self.dataset_index.altroot);
        let source = setting.map_or(Source::Default, |setting| setting.source);
        Ok(Setting::from(Value::Text(place.text()), source))
    }
}

/// An effective value, as it travels.
pub(crate) fn setting_of((value, source): (PropertyValue, dsl::Source)) -> Setting {
    let value = value_of(value);
    match source {
        dsl::Source::Local => Setting::from(value, Source::Local),
        dsl::Source::Received => Setting {
            received: Some(value.clone()),
            value,
            source: Source::Received,
        },
        dsl::Source::Inherited(from) => Setting::from(value, Source::Inherited(from)),
    }
}

impl PropertySource for DatasetSource<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> Types {
        if self.dataset.is_snapshot() {
            Types::SNAPSHOT
        } else {
            self.head_kind
        }
    }

    fn head_kind(&self) -> Types {
        self.head_kind
    }

    fn created_txg(&self) -> u64 {
        self.phys.creation_txg.0
    }

    fn figure(&self, figure: Figure) -> Result<Option<Value>, Failure> {
        self.measure(figure)
    }

    fn computed(&self, name: &str) -> Result<Option<Value>, Failure> {
        if let Some(snapshot) = name.strip_prefix("written@") {
            return self.written_since(snapshot);
        }
        if let Some(bookmark) = name.strip_prefix("written#") {
            return self.written_since_bookmark(bookmark);
        }
        let Some(property) = OwnerProperty::parse(name) else {
            return Ok(None);
        };
        let known = self.head_kind == Types::FILESYSTEM;
        let objects = self.contents().filter(|_| known);
        let value = objects.and_then(|objects| property.value(&objects));
        Ok(value.map(Value::Number))
    }

    fn stored(&self, row: &'static Row) -> Result<Option<Setting>, Failure> {
        if dataset::MOUNTPOINT.is(row.name) {
            return self.mountpoint().map(Some);
        }
        let effective = self.dataset.effective(row).map_err(unreadable)?;
        let setting = effective.map(setting_of);
        let setting = self.temporary(row, setting.as_ref()).or(setting);
        let received = self.received(row.name)?;
        if received.is_none() {
            return Ok(setting);
        }
        let usual = || Setting::from(row.default_value(), Source::Default);
        Ok(Some(Setting {
            received,
            ..setting.unwrap_or_else(usual)
        }))
    }

    fn user_property(&self, name: &str) -> Result<Option<Setting>, Failure> {
        let effective = self.dataset.user_property(name).map_err(unreadable)?;
        let received = self.received(name)?;
        Ok(effective.map(setting_of).map(|setting| Setting {
            received,
            ..setting
        }))
    }

    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure> {
        let mut names = std::collections::BTreeSet::new();
        let mut note = |stored: Vec<dsl::StoredProperty>| {
            names.extend(
                stored
                    .into_iter()
                    .map(|p| p.name)
                    .filter(|name| name.contains(':')),
            );
        };
        note(self.dataset.stored_properties().map_err(unreadable)?);
        let mut directory = Some(Arc::clone(&self.directory));
        while let Some(current) = directory {
            note(current.stored_properties().map_err(unreadable)?);
            directory = current.parent();
        }
        let mut found = Vec::new();
        for name in names {
            if let Some(setting) = self.user_property(&name)? {
                found.push((name, setting));
            }
        }
        Ok(found)
    }
}

struct BookmarkSource {
    name: String,
    head: Arc<Dataset>,
    bookmark: Bookmark,
}

impl PropertySource for BookmarkSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> Types {
        Types::BOOKMARK
    }

    fn head_kind(&self) -> Types {
        Types::BOOKMARK
    }

    fn created_txg(&self) -> u64 {
        self.bookmark.phys.creation_txg.0
    }

    fn figure(&self, figure: Figure) -> Result<Option<Value>, Failure> {
        let phys = &self.bookmark.phys;
        // Bookmarks of the first form know no sizes.
        let sized = phys.referenced_bytes != 0;
        Ok(if figure == Figure::Creation {
            Some(Value::Number(phys.creation_time))
        } else if figure == Figure::CreationTxg {
            Some(Value::Number(phys.creation_txg.0))
        } else if figure == Figure::Guid {
            Some(Value::Number(phys.guid.0))
        } else if figure == Figure::Referenced {
            sized.then_some(Value::Number(phys.referenced_bytes))
        } else if figure == Figure::LogicalReferenced {
            sized.then_some(Value::Number(phys.uncompressed_bytes))
        } else if figure == Figure::RedactSnapshots {
            let list = self.head.redaction_list(&self.bookmark);
            let list = list.map_err(unreadable)?;
            list.map(|list| Value::Text(figures::joined(list.snapshots())))
        } else {
            None
        })
    }

    fn computed(&self, _name: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    fn stored(&self, _row: &'static Row) -> Result<Option<Setting>, Failure> {
        Ok(None)
    }

    fn user_property(&self, _name: &str) -> Result<Option<Setting>, Failure> {
        Ok(None)
    }

    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure> {
        Ok(Vec::new())
    }
}
