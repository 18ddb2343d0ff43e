//! Other keys for roots of encryption, and other roots for what is below them. The keys of the blocks stay as they are:
//! they are wrapped anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::ObjectId;
use crypto::{KeyMaterial, WrappingKey};
use dmu::Tx;
use format::dsl::key_record as names;

use crate::directory::key_creation::{NewKey, put_wrapped};
use crate::directory::{Directory, KeyRecord};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::property::dataset::KEYLOCATION;
use crate::property::{KeyLocation, PropertyValue, clear_local, set_local};
use crate::task::{Task, TaskContext};

/// Gives a dataset a key of its own, or its parent's.
pub struct ChangeKey {
    /// Its path.
    pub path: String,
    /// Its own key; none: its parent's.
    pub key: Option<NewKey>,
    /// Where its own key is from now on; none: where it was.
    pub location: Option<String>,
}

/// What changes.
struct Change {
    directory: Arc<Directory>,
    /// The present root, and its key.
    from: (ObjectId, WrappingKey),
    /// The new one, with what its key is made of.
    to: (ObjectId, WrappingKey, KeyMaterial),
}

impl ChangeKey {
    fn find(&self, dsl: &Arc<Dsl>) -> Result<Change> {
        let directory = dsl.directory(&self.path)?;
        let refuse = |reason| DslError::KeyChange {
            name: self.path.clone(),
            reason,
        };
        let record = directory.key_record()?;
        let record = record.ok_or_else(|| refuse("Dataset not encrypted."))?;
        if let Some(origin) = directory.origin()?
            && origin.directory().crypto_key()? == Some(record.id())
        {
            return Err(refuse("Keys cannot be changed on clones."));
        }
        let from = loaded(dsl, &record)?.ok_or_else(|| {
            refuse(match record.is_loaded() {
                true => "A received stream has brought another key: it must be loaded.",
                false => "Key must be loaded.",
            })
        })?;
        let to = if let Some(new) = &self.key {
            let key = new.key.copy().map_err(|error| record.unusable(error))?;
            (directory.id(), key, new.material)
        } else {
            if from.0 != directory.id() {
                return Err(refuse(
                    "Key inheritting can only be performed on encryption roots.",
                ));
            }
            let parent = directory.parent().map(|parent| parent.key_record());
            let parent = parent.transpose()?.flatten();
            let parent = parent.ok_or_else(|| refuse("Parent must be encrypted."))?;
            let (root, key) =
                loaded(dsl, &parent)?.ok_or_else(|| refuse("Parent key must be loaded."))?;
            (root, key, parent.material()?)
        };
        Ok(Change {
            directory,
            from,
            to,
        })
    }
}

/// The root of a record and its key, if that is loaded.
fn loaded(dsl: &Dsl, record: &KeyRecord) -> Result<Option<(ObjectId, WrappingKey)>> {
    let Some(root) = record.root() else {
        return Ok(None);
    };
    let key = dsl.keys.wrapping(root.id());
    let key = key.map_err(|error| record.unusable(error))?;
    Ok(key.map(|key| (root.id(), key)))
}

impl Task for ChangeKey {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.find(context.dsl).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let Change {
            directory,
            from: (old_root, old),
            to: (root, new, material),
        } = self.find(dsl)?;
        let members = members_of(dsl, &directory, old_root)?;
        for record in members.values() {
            let stored = record.stored()?.rewrap(&old, &new);
            let stored = stored.map_err(|error| record.unusable(error))?;
            let zap = dsl.mos.zap(record.id())?;
            put_wrapped(tx, &zap, &stored, material)?;
            zap.update(tx, names::ROOT.as_bytes(), root.0)?;
        }
        if let Some(head) = directory.head()? {
            if self.key.is_none() {
                clear_local(dsl, tx, &head, KEYLOCATION.name)?;
            } else if self.location.is_some() || root != old_root {
                let location = self.location.as_deref();
                let location = location.unwrap_or(KeyLocation::DEFAULT);
                let value = PropertyValue::Text(location.to_owned());
                set_local(dsl, tx, &head, KEYLOCATION.name, &value)?;
            }
        }
        let records: BTreeSet<ObjectId> = members.into_keys().collect();
        let is_left = root != old_root && old_root == directory.id();
        let dsl = Arc::clone(dsl);
        tx.on_success(move || {
            let left = is_left.then_some(old_root);
            dsl.keys.change((root, new), &records, left);
        });
        Ok(())
    }
}

/// Has a root of encryption get its key from the root above, though nobody has loaded it: what is below it was wrapped
/// with that key where both came from.
pub struct AdoptKey {
    /// Its path.
    pub path: String,
}

impl AdoptKey {
    /// The directory, and the root above it.
    fn find(&self, dsl: &Dsl) -> Result<(Arc<Directory>, ObjectId)> {
        let directory = dsl.directory(&self.path)?;
        let refuse = |reason| DslError::KeyChange {
            name: self.path.clone(),
            reason,
        };
        let own = dsl.encryption_root(&directory)?;
        let above = directory.parent().map(|parent| parent.key_record());
        let above = above.transpose()?.flatten();
        let above = above.ok_or_else(|| refuse("Parent must be encrypted."))?;
        let root = above.root().map(|root| root.id());
        let root = root.ok_or_else(|| refuse("Parent must be encrypted."))?;
        if own.material()? != above.material()? || own.is_loaded() {
            return Err(refuse("The parent has another key."));
        }
        Ok((directory, root))
    }
}

impl Task for AdoptKey {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.find(context.dsl).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (directory, root) = self.find(dsl)?;
        for record in members_of(dsl, &directory, directory.id())?.keys() {
            let zap = dsl.mos.zap(*record)?;
            zap.update(tx, names::ROOT.as_bytes(), root.0)?;
        }
        if let Some(head) = directory.head()? {
            clear_local(dsl, tx, &head, KEYLOCATION.name)?;
        }
        dsl.new_stamp();
        Ok(())
    }
}

/// The root of encryption that a directory has its key from.
pub(super) fn encryption_root(directory: &Arc<Directory>) -> Result<Option<ObjectId>> {
    let record = directory.key_record()?;
    Ok(record.and_then(|record| record.root().map(|root| root.id())))
}

/// The records of a directory and of what is below it or cloned from that, as far as they are under a root.
pub(super) fn members_of(
    dsl: &Dsl,
    directory: &Arc<Directory>,
    root: ObjectId,
) -> Result<BTreeMap<ObjectId, KeyRecord>> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![Arc::clone(directory)];
    while let Some(directory) = open.pop() {
        if !seen.insert(directory.id()) {
            continue;
        }
        let Some(record) = directory.key_record()? else {
            continue;
        };
        if record.root().map(|root| root.id()) != Some(root) {
            continue;
        }
        found.insert(record.id(), record);
        open.extend(directory.all_children()?);
        for head in directory.clone_heads()? {
            open.push(dsl.dataset_by_id(head)?.directory());
        }
    }
    Ok(found)
}

/// The clone that is promoted is the root of encryption from now on, if its origin was.
pub(super) fn follow_promotion(
    dsl: &Arc<Dsl>,
    tx: &Tx,
    from: &Arc<Directory>,
    to: &Arc<Directory>,
) -> Result<()> {
    let Some(record) = from.key_record()? else {
        return Ok(());
    };
    if record.root().map(|root| root.id()) != Some(from.id()) {
        return Ok(());
    }
    let members = members_of(dsl, from, from.id())?;
    for record in members.keys() {
        let zap = dsl.mos.zap(*record)?;
        zap.update(tx, names::ROOT.as_bytes(), to.id().0)?;
    }
    if let (Some(old), Some(new)) = (from.head()?, to.head()?) {
        let location = old.get(KEYLOCATION)?.value;
        clear_local(dsl, tx, &old, KEYLOCATION.name)?;
        let value = PropertyValue::Text(location);
        set_local(dsl, tx, &new, KEYLOCATION.name, &value)?;
    }
    let records: BTreeSet<ObjectId> = members.into_keys().collect();
    let (dsl, from, to) = (Arc::clone(dsl), from.id(), to.id());
    tx.on_success(move || dsl.keys.move_root(from, to, &records));
    Ok(())
}
