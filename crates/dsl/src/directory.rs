//! A directory: a node of the tree of names, with the space of its subtree and its properties.

mod create;
pub(crate) mod key_creation;
mod key_record;
mod space;

use std::sync::Arc;

use base::ObjectId;
use base::lock::{LockClass, RwLock, rank};
use dmu::{Object, Tx, Zap};
use format::deadlist::parse_integer_key;
use format::dsl::{DirectoryPhys, key};

use crate::dataset::Dataset;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::mos::{change_record, name_of, read_record};
use crate::name::is_hidden;
use crate::property::EffectiveCache;

pub(crate) use create::{create_directory, directory_object};
pub use key_record::KeyRecord;
pub use space::DirectorySpace;
pub(crate) use space::check_quotas;

static PLACE: LockClass = LockClass::new("dsl.place", rank::DSL + 30);

/// Where a directory hangs: this changes with a rename.
#[derive(Clone)]
struct Place {
    parent: Option<Arc<Directory>>,
    component: String,
}

/// A directory in memory.
pub struct Directory {
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) object: Arc<Object>,
    pub(crate) effective: EffectiveCache,
    place: RwLock<Place>,
}

impl Directory {
    /// `hangs`: the name under which it was just found.
    pub(crate) fn load(dsl: &Dsl, id: ObjectId, depth: usize, hangs: Option<&str>) -> Result<Self> {
        let object = dsl.mos.object(id)?;
        let phys: DirectoryPhys = read_record(&object)?;
        let place = if phys.parent.0 == 0 {
            Place {
                parent: None,
                component: dsl.pool_name(),
            }
        } else {
            let parent = dsl.load_directory(phys.parent, depth + 1)?;
            // It may have been renamed since.
            let component = match hangs {
                Some(component) if parent.has_child(component, id)? => component.to_owned(),
                Some(_) | None => parent.component_of(id)?,
            };
            Place {
                parent: Some(parent),
                component,
            }
        };
        Ok(Self {
            dsl: dsl.arc()?,
            object,
            effective: EffectiveCache::new(),
            place: RwLock::new(&PLACE, place),
        })
    }

    fn has_child(&self, component: &str, child: ObjectId) -> Result<bool> {
        let found = self.child_map()?.lookup(component.as_bytes())?;
        Ok(found == Some(child.0))
    }

    /// The name under which a child hangs here, which all are looked through for.
    fn component_of(&self, child: ObjectId) -> Result<String> {
        let entries = self.child_map()?.entries()?;
        let entry = entries.into_iter().find(|entry| entry.value == child.0);
        let entry = entry.ok_or_else(|| DslError::damaged(child, "its parent does not know it"))?;
        Ok(name_of(&entry.name))
    }

    /// Its object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Its record.
    ///
    /// # Errors
    /// The object is something else now.
    pub fn phys(&self) -> Result<DirectoryPhys> {
        read_record(&self.object)
    }

    pub(crate) fn change<T>(
        &self,
        tx: &Tx,
        change: impl FnOnce(&mut DirectoryPhys) -> T,
    ) -> Result<T> {
        change_record(&self.object, tx, change)
    }

    /// The directory above; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Arc<Self>> {
        self.place.read().parent.clone()
    }

    /// The last component of its name.
    #[must_use]
    pub fn component(&self) -> String {
        self.place.read().component.clone()
    }

    /// Its full name.
    #[must_use]
    pub fn name(&self) -> String {
        let place = self.place.read().clone();
        match place.parent {
            None => place.component,
            Some(parent) => format!("{}/{}", parent.name(), place.component),
        }
    }

    /// Its level: 0 for the root.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.parent().map_or(0, |parent| parent.depth() + 1)
    }

    /// The directories above, itself included, from below.
    pub(crate) fn ancestry(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut chain = vec![Arc::clone(self)];
        let mut current = self.parent();
        while let Some(directory) = current {
            current = directory.parent();
            chain.push(directory);
        }
        chain
    }

    pub(crate) fn set_place(
        self: &Arc<Self>,
        tx: &Tx,
        parent: Option<Arc<Self>>,
        component: String,
    ) {
        let place = Place { parent, component };
        let before = std::mem::replace(&mut *self.place.write(), place);
        let directory = Arc::clone(self);
        tx.on_undo(move || *directory.place.write() = before);
    }

    pub(crate) fn child_map(&self) -> Result<Zap> {
        self.dsl.mos.zap(self.phys()?.child_map)
    }

    /// The child with a name, a hidden one too.
    ///
    /// # Errors
    /// The child cannot be read.
    pub fn child(&self, component: &str) -> Result<Option<Arc<Self>>> {
        match self.child_map()?.lookup(component.as_bytes())? {
            None => Ok(None),
            Some(id) => self.load_child(ObjectId(id), component).map(Some),
        }
    }

    /// A child that was just found here by its name: nobody needs to look through all for it.
    fn load_child(&self, id: ObjectId, component: &str) -> Result<Arc<Self>> {
        self.dsl.load_child(id, component)
    }

    /// The children that are not hidden, by name.
    ///
    /// # Errors
    /// A child cannot be read.
    pub fn children(&self) -> Result<Vec<Arc<Self>>> {
        let mut found = Vec::new();
        for entry in self.child_map()?.entries()? {
            let component = name_of(&entry.name);
            if !is_hidden(&component) {
                let child = self.load_child(ObjectId(entry.value), &component)?;
                if child.hangs(self.id(), &component) {
                    found.push((component, child));
                }
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found.into_iter().map(|(_, directory)| directory).collect())
    }

    /// All children, hidden ones too, in no order.
    pub(crate) fn all_children(&self) -> Result<Vec<Arc<Self>>> {
        let mut found = Vec::new();
        for entry in self.child_map()?.entries()? {
            let component = name_of(&entry.name);
            let child = self.load_child(ObjectId(entry.value), &component)?;
            if child.hangs(self.id(), &component) {
                found.push(child);
            }
        }
        Ok(found)
    }

    /// Whether this is its place. A map may name what hangs elsewhere, itself or one above it, or one child twice: who
    /// followed that would never come to an end. One that is just being moved is in either place.
    fn hangs(&self, parent: ObjectId, component: &str) -> bool {
        let place = self.place.read();
        let is_parent = |found: &Arc<Self>| found.id() == parent;
        place.component == component && place.parent.as_ref().is_some_and(is_parent)
    }

    /// Whether a directory hangs here, a hidden one too.
    pub(crate) fn has_children(&self) -> Result<bool> {
        Ok(!self.child_map()?.is_empty()?)
    }

    /// The head dataset; hidden directories may have none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn head(&self) -> Result<Option<Arc<Dataset>>> {
        let head = self.phys()?.head_dataset;
        if head.0 == 0 {
            return Ok(None);
        }
        self.dsl.dataset_by_id(head).map(Some)
    }

    /// The snapshot that the head was cloned from; none when it is no clone.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn origin(&self) -> Result<Option<Arc<Dataset>>> {
        let origin = self.phys()?.origin;
        if origin.0 == 0 || Some(origin) == self.dsl.origin_snapshot()? {
            return Ok(None);
        }
        self.dsl.dataset_by_id(origin).map(Some)
    }

    /// The heads of the directories whose origin is a snapshot here.
    pub(crate) fn clone_heads(&self) -> Result<Vec<ObjectId>> {
        let clones = self.phys()?.clones;
        if clones.0 == 0 {
            return Ok(Vec::new());
        }
        let entries = self.dsl.mos.zap(clones)?.entries()?;
        let heads = entries
            .iter()
            .filter_map(|entry| parse_integer_key(&entry.name));
        Ok(heads.map(ObjectId).collect())
    }

    /// The ZAP of properties.
    pub(crate) fn property_zap(&self) -> Result<Zap> {
        self.dsl.mos.zap(self.phys()?.properties)
    }

    /// The livelist, when the directory is that of a clone that has one.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn livelist(&self) -> Result<Option<ObjectId>> {
        self.extra_word(key::LIVELIST)
            .map(|word| word.map(ObjectId))
    }

    /// The encryption key's object, when there is one.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn crypto_key(&self) -> Result<Option<ObjectId>> {
        self.extra_word(key::CRYPTO_KEY)
            .map(|word| word.map(ObjectId))
    }

    /// When its set of snapshots last changed: seconds and nanoseconds.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn snapshots_changed(&self) -> Result<Option<(u64, u64)>> {
        let Some(zap) = self.dsl.mos.zapified(&self.object)? else {
            return Ok(None);
        };
        let value = zap.lookup_value(key::SNAPSHOTS_CHANGED.as_bytes())?;
        let words = value.map(|value| value.to_words()).unwrap_or_default();
        Ok(match words.as_slice() {
            [seconds, nanoseconds, ..] => Some((*seconds, *nanoseconds)),
            [seconds] => Some((*seconds, 0)),
            [] => None,
        })
    }

    /// A word among the keys of a directory that became a ZAP.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn extra_word(&self, key: &str) -> Result<Option<u64>> {
        let Some(zap) = self.dsl.mos.zapified(&self.object)? else {
            return Ok(None);
        };
        Ok(zap.lookup(key.as_bytes())?)
    }

    /// Whether the directory is the root of a hidden tree: `$MOS`, `$FREE`, `$ORIGIN`, ….
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        is_hidden(&self.component()) || self.parent().is_some_and(|parent| parent.is_hidden())
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Directory({} {})", self.id(), self.name())
    }
}
