//! The datasets of a pool as walks and properties see them.
//!
//! Listing reads the pool's own object set only; of a head also its root block, once, to know
//! whether it is a file system or a volume. Its contents are opened for `volsize`, `version` and
//! what else is stored inside, and only when these are asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, RwLock, rank};
use base::{ObjectId, ObjectSetId};
use dmu::{ObjectSet, Place, Zap};
use dsl::{Bookmark, Dataset, DatasetSpace, Directory, Dsl, DslError, PropertyValue, SpaceClass};
use format::dsl::{DatasetPhys, key};
use format::{ObjectSetKind, ObjectSetPhys};

use super::mountpoint::Mountpoint;
use super::owners::OwnerProperty;
use super::refusal::unreadable;
use super::subject::Subject;
use super::walk::{Catalogue, Stop};
use crate::mounts::{MountOptions, Mounts};
use crate::property::{Setting, Source, Types, Value};
use crate::{Failure, name};

static KINDS: LockClass = LockClass::new("control.kinds", rank::LAST + 3);

/// The object of a file system's master node, and of a volume's data.
const MASTER_NODE: ObjectId = ObjectId(1);
/// The object of a volume's properties.
const VOLUME_PROPERTIES: ObjectId = ObjectId(2);

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
pub(crate) struct PoolCatalogue<'a> {
    pub(crate) dsl: &'a Arc<Dsl>,
    pub(crate) mounts: &'a dyn Mounts,
    pub(crate) altroot: Option<&'a std::path::Path>,
    pub(crate) kinds: &'a Kinds,
}

impl PoolCatalogue<'_> {
    /// Whether a dataset is a file system or a volume.
    pub(crate) fn kind_of(&self, dataset: &Arc<Dataset>) -> Result<Types, Failure> {
        if let Some(kind) = self.kinds.known.read().get(&dataset.id()) {
            return Ok(*kind);
        }
        let pointer = dataset.phys().map_err(unreadable)?.block_pointer;
        let kind = if pointer.is_hole() {
            Types::FILESYSTEM
        } else {
            let place = Place::root(ObjectSetId(dataset.id().0));
            let block = self
                .dsl
                .mos()
                .store
                .read(&pointer, place)
                .map_err(|error| unreadable(&error))?;
            let phys = ObjectSetPhys::decode(&block).map_err(|error| unreadable(&error))?;
            if phys.kind == ObjectSetKind::Volume {
                Types::VOLUME
            } else {
                Types::FILESYSTEM
            }
        };
        self.kinds.known.write().insert(dataset.id(), kind);
        Ok(kind)
    }

    /// A head or snapshot as its properties are asked for.
    pub(crate) fn head(
        &self,
        name: String,
        dataset: Arc<Dataset>,
    ) -> Result<DatasetSubject<'_>, Failure> {
        let head_kind = if dataset.is_snapshot() {
            match dataset.directory().head().map_err(unreadable)? {
                Some(head) => self.kind_of(&head)?,
                None => Types::FILESYSTEM,
            }
        } else {
            self.kind_of(&dataset)?
        };
        let phys = dataset.phys().map_err(unreadable)?;
        Ok(DatasetSubject {
            catalogue: self,
            name,
            head_kind,
            directory: dataset.directory(),
            dataset,
            phys,
            space: OnceLock::new(),
            contents: OnceLock::new(),
        })
    }
}

impl Catalogue for PoolCatalogue<'_> {
    fn root(&self) -> String {
        self.dsl.pool_name()
    }

    fn find(&self, full_name: &str) -> Result<Option<Box<dyn Subject + '_>>, Failure> {
        if let Some((head, short)) = full_name.split_once('#') {
            let Some(head) = missing_is_none(self.dsl.head(head))? else {
                return Ok(None);
            };
            let found = head.bookmark(short).map_err(unreadable)?;
            return Ok(found.map(|bookmark| {
                Box::new(BookmarkSubject {
                    name: full_name.to_owned(),
                    bookmark,
                }) as Box<_>
            }));
        }
        match missing_is_none(self.dsl.dataset(full_name))? {
            None => Ok(None),
            Some(dataset) => Ok(Some(Box::new(self.head(full_name.to_owned(), dataset)?))),
        }
    }

    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let Some(directory) = missing_is_none(self.dsl.directory(dataset))? else {
            return Ok(Vec::new());
        };
        let children = directory.children().map_err(unreadable)?;
        Ok(children
            .iter()
            .map(|child| format!("{dataset}/{}", child.component()))
            .collect())
    }

    fn snapshots(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn Subject) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(head) = missing_is_none(self.dsl.head(dataset))? else {
            return Ok(());
        };
        for snapshot in head.snapshots().map_err(unreadable)? {
            let short = snapshot.snapshot_name().map_err(unreadable)?;
            visit(&self.head(format!("{dataset}@{short}"), snapshot)?)?;
        }
        Ok(())
    }

    fn bookmarks(
        &self,
        dataset: &str,
        visit: &mut dyn FnMut(&dyn Subject) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(head) = missing_is_none(self.dsl.head(dataset))? else {
            return Ok(());
        };
        for bookmark in head.bookmarks().map_err(unreadable)? {
            let name = format!("{dataset}#{}", bookmark.name);
            visit(&BookmarkSubject { name, bookmark })?;
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
pub(crate) struct DatasetSubject<'a> {
    catalogue: &'a PoolCatalogue<'a>,
    name: String,
    head_kind: Types,
    dataset: Arc<Dataset>,
    directory: Arc<Directory>,
    phys: DatasetPhys,
    space: OnceLock<DatasetSpace>,
    contents: OnceLock<Option<Arc<ObjectSet>>>,
}

fn hundredths(logical: u64, physical: u64) -> u64 {
    if physical == 0 {
        return 100;
    }
    u64::try_from(u128::from(logical) * 100 / u128::from(physical)).unwrap_or(u64::MAX)
}

impl DatasetSubject<'_> {
    /// The figures that cost a walk over dead lists.
    fn space(&self) -> Result<DatasetSpace, Failure> {
        if let Some(space) = self.space.get() {
            return Ok(*space);
        }
        let space = self.dataset.space().map_err(unreadable)?;
        Ok(*self.space.get_or_init(|| space))
    }

    /// The contents, if they can be opened: without a key they cannot.
    fn contents(&self) -> Option<Arc<ObjectSet>> {
        self.contents
            .get_or_init(|| self.dataset.object_set().ok())
            .clone()
    }

    fn stored_inside(&self, object: ObjectId, key: &str) -> Option<u64> {
        let object = self.contents()?.object(object).ok()?;
        Zap::open(&object).ok()?.lookup(key.as_bytes()).ok()?
    }

    fn snapshot_figure(&self, name: &str) -> Result<Option<u64>, Failure> {
        let phys = &self.phys;
        Ok(Some(match name {
            "used" | "unique" => phys.unique_bytes,
            "compressratio" => hundredths(phys.uncompressed_bytes, phys.compressed_bytes),
            "defer_destroy" => u64::from(phys.has_flag(DatasetPhys::FLAG_DEFER_DESTROY)),
            "userrefs" => self.dataset.holds().map_err(unreadable)?.len() as u64,
            "numclones" => self.dataset.clone_names().map_err(unreadable)?.len() as u64,
            _ => return Ok(None),
        }))
    }

    fn head_figure(&self, name: &str) -> Result<Option<u64>, Failure> {
        let space = || self.directory.space().map_err(unreadable);
        let phys = || self.directory.phys().map_err(unreadable);
        Ok(Some(match name {
            "used" => phys()?.used_bytes,
            "logicalused" => phys()?.uncompressed_bytes,
            "compressratio" => {
                let phys = phys()?;
                hundredths(phys.uncompressed_bytes, phys.compressed_bytes)
            }
            "available" => self
                .dataset
                .available(SpaceClass::Normal)
                .map_err(unreadable)?,
            "unique" => self.phys.unique_bytes,
            "usedbysnapshots" => space()?.by_snapshots,
            "usedbydataset" => space()?.by_dataset,
            "usedbychildren" => space()?.by_children,
            "usedbyrefreservation" => space()?.by_ref_reservation,
            "quota" => phys()?.quota,
            "reservation" => phys()?.reserved,
            "filesystem_count" => return self.extra_word(key::FILESYSTEM_COUNT),
            "snapshot_count" => return self.extra_word(key::SNAPSHOT_COUNT),
            "mounted" => {
                let mounted = self.catalogue.mounts.mounted();
                u64::from(mounted.iter().any(|mount| mount.dataset == self.name))
            }
            "snapshots_changed" => {
                let changed = self.directory.snapshots_changed().map_err(unreadable)?;
                return Ok(changed.map(|(seconds, _)| seconds));
            }
            _ => return Ok(None),
        }))
    }

    fn extra_word(&self, key: &str) -> Result<Option<u64>, Failure> {
        self.directory.extra_word(key).map_err(unreadable)
    }

    fn common_figure(&self, name: &str) -> Result<Option<u64>, Failure> {
        let phys = &self.phys;
        Ok(Some(match name {
            "creation" => phys.creation_time,
            "createtxg" => phys.creation_txg.0,
            "guid" => phys.guid.0,
            "objsetid" => self.dataset.id().0,
            "referenced" => phys.referenced_bytes,
            "logicalreferenced" => phys.uncompressed_bytes,
            "refcompressratio" => hundredths(phys.uncompressed_bytes, phys.compressed_bytes),
            "written" => self.space()?.written,
            "inconsistent" => u64::from(phys.has_flag(DatasetPhys::FLAG_INCONSISTENT)),
            "version" => return Ok(self.stored_inside(MASTER_NODE, "VERSION")),
            "utf8only" | "normalization" | "casesensitivity" => {
                return Ok(self.stored_inside(MASTER_NODE, name).or(Some(0)));
            }
            "volsize" => return Ok(self.stored_inside(VOLUME_PROPERTIES, "size")),
            "volblocksize" => {
                let data = self.contents().and_then(|set| set.object(MASTER_NODE).ok());
                return Ok(data.map(|object| u64::from(object.block_size())));
            }
            _ => return Ok(None),
        }))
    }

    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let head = !self.dataset.is_snapshot();
        match name {
            "origin" if head => match self.directory.origin().map_err(unreadable)? {
                Some(origin) => origin.name().map(Some).map_err(unreadable),
                None => Ok(None),
            },
            "clones" if !head => {
                let clones = self.dataset.clone_names().map_err(unreadable)?;
                Ok((!clones.is_empty()).then(|| clones.join(",")))
            }
            _ => Ok(None),
        }
    }

    /// What the key's record says; nothing without encryption.
    fn key_figure(&self, name: &str) -> Result<Option<Value>, Failure> {
        let Some(record) = self.directory.crypto_key().map_err(unreadable)? else {
            return Ok(None);
        };
        let lookup = |record: ObjectId, key: &str| {
            let object = self.catalogue.dsl.mos().set.object(record).ok()?;
            Zap::open(&object).ok()?.lookup(key.as_bytes()).ok()?
        };
        let root = lookup(record, "DSL_CRYPTO_ROOT_DDOBJ")
            .map(|id| self.catalogue.dsl.directory_by_id(ObjectId(id)))
            .transpose()
            .map_err(unreadable)?;
        let root_record = match &root {
            Some(root) => root.crypto_key().map_err(unreadable)?.unwrap_or(record),
            None => record,
        };
        Ok(match name {
            "encryption" => lookup(record, "DSL_CRYPTO_SUITE").map(Value::Number),
            "encryptionroot" => root.map(|root| Value::Text(root.name())),
            "keyformat" | "pbkdf2iters" => lookup(root_record, name).map(Value::Number),
            "keystatus" => Some(Value::Number(if self.contents().is_some() { 2 } else { 1 })),
            _ => None,
        })
    }

    /// `written@snapshot`.
    fn written_since(&self, snapshot: &str) -> Result<Option<Value>, Failure> {
        let full = if snapshot.contains('@') {
            snapshot.to_owned()
        } else {
            format!("{}@{snapshot}", name::dataset_of(&self.name))
        };
        let Some(older) = missing_is_none(self.catalogue.dsl.dataset(&full))? else {
            return Ok(None);
        };
        // A snapshot does not know what came after it.
        let taken = older.phys().map_err(unreadable)?.creation_txg;
        if self.dataset.is_snapshot() && taken >= self.phys.creation_txg {
            return Ok(None);
        }
        Ok(self.dataset.written_since(&older).ok().map(Value::Number))
    }

    /// `written#bookmark`, of a bookmark of the same file system or volume.
    fn written_since_bookmark(&self, bookmark: &str) -> Result<Option<Value>, Failure> {
        let own = name::dataset_of(&self.name);
        let short = match bookmark.split_once('#') {
            Some((dataset, short)) if dataset == own => short,
            Some(_) => return Ok(None),
            None => bookmark,
        };
        let Some(head) = missing_is_none(self.catalogue.dsl.head(own))? else {
            return Ok(None);
        };
        let Some(found) = head.bookmark(short).map_err(unreadable)? else {
            return Ok(None);
        };
        let written = self.dataset.written_since_bookmark(&found.phys);
        Ok(written.ok().flatten().map(Value::Number))
    }

    /// What a mount option says instead of the property, until the next mount.
    fn temporary(&self, name: &str, setting: Option<&Setting>) -> Option<Setting> {
        let option: fn(&MountOptions) -> bool = match name {
            "readonly" => |options| options.readonly,
            "atime" => |options| options.atime,
            "devices" => |options| options.devices,
            "exec" => |options| options.exec,
            "setuid" => |options| options.setuid,
            _ => return None,
        };
        if self.dataset.is_snapshot() {
            return None;
        }
        let now = option(&self.catalogue.mounts.options(&self.name)?);
        let usual = match setting.and_then(|setting| setting.value.number()) {
            Some(number) => number != 0,
            None => option(&MountOptions::default()),
        };
        (now != usual).then(|| Setting::from(Value::Number(now.into()), Source::Temporary))
    }

    fn mountpoint(&self) -> Result<Setting, Failure> {
        let stored = self
            .dataset
            .property("mountpoint", true)
            .map_err(unreadable)?;
        let setting = stored.map(setting_of);
        let place = Mountpoint::effective(&self.name, setting.as_ref(), self.catalogue.altroot);
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

impl Subject for DatasetSubject<'_> {
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

    fn measured(&self, name: &str) -> Result<Option<Value>, Failure> {
        if matches!(
            name,
            "encryption" | "encryptionroot" | "keyformat" | "pbkdf2iters" | "keystatus"
        ) {
            return self.key_figure(name);
        }
        if let Some(snapshot) = name.strip_prefix("written@") {
            return self.written_since(snapshot);
        }
        if let Some(bookmark) = name.strip_prefix("written#") {
            return self.written_since_bookmark(bookmark);
        }
        if let Some(property) = OwnerProperty::parse(name) {
            let known = self.head_kind == Types::FILESYSTEM;
            let objects = self.contents().filter(|_| known);
            let value = objects.and_then(|objects| property.value(&objects));
            return Ok(value.map(Value::Number));
        }
        let own = if self.dataset.is_snapshot() {
            self.snapshot_figure(name)?
        } else {
            self.head_figure(name)?
        };
        let number = match own {
            None => self.common_figure(name)?,
            found => found,
        };
        match number {
            Some(number) => Ok(Some(Value::Number(number))),
            None => Ok(self.text(name)?.map(Value::Text)),
        }
    }

    fn stored(&self, name: &str, inherits: bool) -> Result<Option<Setting>, Failure> {
        if name == "mountpoint" {
            return self.mountpoint().map(Some);
        }
        let effective = self.dataset.property(name, inherits).map_err(unreadable)?;
        let setting = effective.map(setting_of);
        Ok(self.temporary(name, setting.as_ref()).or(setting))
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
            if let Some(setting) = self.stored(&name, true)? {
                found.push((name, setting));
            }
        }
        Ok(found)
    }
}

struct BookmarkSubject {
    name: String,
    bookmark: Bookmark,
}

impl Subject for BookmarkSubject {
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

    fn measured(&self, name: &str) -> Result<Option<Value>, Failure> {
        let phys = &self.bookmark.phys;
        Ok(Some(Value::Number(match name {
            "creation" => phys.creation_time,
            "createtxg" => phys.creation_txg.0,
            "guid" => phys.guid.0,
            // Bookmarks of the first form know no sizes.
            "referenced" if phys.referenced_bytes != 0 => phys.referenced_bytes,
            "logicalreferenced" if phys.referenced_bytes != 0 => phys.uncompressed_bytes,
            _ => return Ok(None),
        })))
    }

    fn stored(&self, _name: &str, _inherits: bool) -> Result<Option<Setting>, Failure> {
        Ok(None)
    }

    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure> {
        Ok(Vec::new())
    }
}
