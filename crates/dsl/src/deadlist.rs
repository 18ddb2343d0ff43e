//! Dead lists: the blocks that the previous snapshot has and this dataset has no more, by birth.
//!
//! A key k holds the blocks born after k, up to the next key, so that destroying a snapshot moves
//! whole lists. Pools before version 26 have one plain list instead, which is read only.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::{AllocateObject, Object, Tx, Zap};
use format::bpobj::BpobjPhys;
use format::deadlist::{DeadlistPhys, parse_integer_key};
use format::{BlockPointer, ObjectType};

use crate::bpobj::{Bpobj, drop_empty, is_shared_empty, reference_empty};
use crate::error::{DslError, Result};
use crate::mos::{Mos, change_record, read_record};
use crate::sizes::{Sizes, change};

/// A dead list or livelist.
#[derive(Clone)]
pub struct Deadlist {
    mos: Mos,
    object: Arc<Object>,
}

impl Deadlist {
    /// Opens a dead list.
    ///
    /// # Errors
    /// The object is none.
    pub fn open(mos: &Mos, id: ObjectId) -> Result<Self> {
        Ok(Self {
            mos: mos.clone(),
            object: mos.object(id)?,
        })
    }

    /// A new dead list without keys.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(mos: &Mos, tx: &Tx) -> Result<Self> {
        let shape = AllocateObject {
            object_type: ObjectType::DEADLIST,
            bonus_type: ObjectType::DEADLIST_HEADER,
            bonus_len: DeadlistPhys::SIZE as u16,
            ..AllocateObject::default()
        };
        let object = mos.set.allocate(tx, &shape)?;
        Zap::format(&object, tx, 0)?;
        Ok(Self {
            mos: mos.clone(),
            object,
        })
    }

    /// A new dead list with this one's keys below `max`, all empty.
    ///
    /// # Errors
    /// This one cannot be read or the new one not be written.
    pub fn clone_keys(&self, tx: &Tx, max: Txg) -> Result<Self> {
        let new = Self::create(&self.mos, tx)?;
        let zap = new.zap()?;
        for key in self.entries()?.into_keys().filter(|key| *key < max) {
            zap.add_int(tx, key.0, reference_empty(&self.mos, tx)?.0)?;
        }
        Ok(new)
    }

    /// Its object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Whether it is the plain list of an old pool.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.object.info().object_type == ObjectType::BPOBJ
    }

    fn zap(&self) -> Result<Zap> {
        if self.is_legacy() {
            return Err(DslError::damaged(self.id(), "a dead list of an old pool"));
        }
        Ok(Zap::open(&self.object)?)
    }

    /// The keys and their lists, ascending.
    ///
    /// # Errors
    /// The list cannot be read, or has a key that is no txg.
    pub fn entries(&self) -> Result<BTreeMap<Txg, ObjectId>> {
        let mut entries = BTreeMap::new();
        for entry in self.zap()?.entries()? {
            let key = parse_integer_key(&entry.name)
                .ok_or_else(|| DslError::damaged(self.id(), "a key is no txg"))?;
            entries.insert(Txg(key), ObjectId(entry.value));
        }
        Ok(entries)
    }

    /// Sizes of all blocks in it.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn sizes(&self) -> Result<Sizes> {
        if self.is_legacy() {
            return Bpobj::open(&self.mos, self.id())?.sizes();
        }
        let header: DeadlistPhys = read_record(&self.object)?;
        Ok(Sizes::stored(
            header.used,
            header.compressed,
            header.uncompressed,
        ))
    }

    /// Sizes of the blocks born after `low`, up to `high` (a key, or nothing for no limit).
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn sizes_between(&self, low: Txg, high: Option<Txg>) -> Result<Sizes> {
        let within = |birth: Txg| birth > low && high.is_none_or(|high| birth <= high);
        if self.is_legacy() {
            let mut sum = Sizes::ZERO;
            Bpobj::open(&self.mos, self.id())?.for_each(&mut |pointer, _| {
                if within(pointer.birth()) {
                    sum += Sizes::of(self.mos.store.as_ref(), pointer);
                }
                Ok(())
            })?;
            return Ok(sum);
        }
        let mut sum = Sizes::ZERO;
        for (key, list) in self.entries()? {
            if key >= low && high.is_none_or(|high| key < high) {
                sum += Bpobj::open(&self.mos, list)?.sizes()?;
            }
        }
        Ok(sum)
    }

    fn add_sizes(&self, tx: &Tx, sizes: Sizes) -> Result<()> {
        change_record(&self.object, tx, |header: &mut DeadlistPhys| {
            change(&mut header.used, sizes.used);
            change(&mut header.compressed, sizes.compressed);
            change(&mut header.uncompressed, sizes.uncompressed);
        })
    }

    /// Inserts blocks; `freed` marks them as frees (livelists).
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn insert(&self, tx: &Tx, pointers: &[BlockPointer], freed: bool) -> Result<()> {
        if pointers.is_empty() {
            return Ok(());
        }
        let entries = self.entries()?;
        let mut batches: BTreeMap<Txg, Vec<BlockPointer>> = BTreeMap::new();
        for pointer in pointers {
            let (key, _) = entries
                .range(..pointer.birth())
                .next_back()
                .ok_or_else(|| DslError::damaged(self.id(), "no key takes a dead block"))?;
            batches.entry(*key).or_default().push(*pointer);
        }
        for (key, batch) in batches {
            let list = self.own_list(tx, key, entries.get(&key).copied())?;
            list.append(tx, &batch, freed)?;
        }
        let store = self.mos.store.as_ref();
        let sum: Sizes = pointers
            .iter()
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.add_sizes(tx, if freed { -sum } else { sum })
    }

    /// The list of a key, its own one instead of the shared empty one.
    fn own_list(&self, tx: &Tx, key: Txg, current: Option<ObjectId>) -> Result<Bpobj> {
        let current = current.ok_or_else(|| DslError::damaged(self.id(), "a key is missing"))?;
        if !is_shared_empty(&self.mos, current)? {
            return Bpobj::open(&self.mos, current);
        }
        let list = Bpobj::create(&self.mos, tx, BpobjPhys::BLOCK_SIZE)?;
        drop_empty(&self.mos, tx)?;
        self.zap()?.update_int(tx, key.0, list.id().0)?;
        Ok(list)
    }

    /// Appends a whole list to the one of a key.
    fn append_list(&self, tx: &Tx, key: Txg, current: ObjectId, list: ObjectId) -> Result<()> {
        if is_shared_empty(&self.mos, list)? {
            return drop_empty(&self.mos, tx);
        }
        if is_shared_empty(&self.mos, current)? {
            drop_empty(&self.mos, tx)?;
            return Ok(self.zap()?.update_int(tx, key.0, list.0)?);
        }
        Bpobj::open(&self.mos, current)?.append_list(tx, list)
    }

    /// Adds a key, empty.
    ///
    /// # Errors
    /// The list cannot be written, or the key is there.
    pub fn add_key(&self, tx: &Tx, key: Txg) -> Result<()> {
        Ok(self
            .zap()?
            .add_int(tx, key.0, reference_empty(&self.mos, tx)?.0)?)
    }

    /// Removes a key, if it is there; the next lower one takes its blocks.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn remove_key(&self, tx: &Tx, key: Txg) -> Result<()> {
        let entries = self.entries()?;
        let Some(list) = entries.get(&key) else {
            return Ok(());
        };
        let (lower, current) = entries
            .range(..key)
            .next_back()
            .ok_or_else(|| DslError::damaged(self.id(), "the lowest key cannot go"))?;
        self.append_list(tx, *lower, *current, *list)?;
        Ok(self.zap()?.remove_int(tx, key.0)?)
    }

    /// Moves everything of another dead list into this one and frees the other.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn merge(&self, tx: &Tx, other: ObjectId) -> Result<()> {
        let other = Self::open(&self.mos, other)?;
        if other.is_legacy() {
            return Err(DslError::damaged(other.id(), "a dead list of an old pool"));
        }
        self.add_sizes(tx, other.sizes()?)?;
        for (key, list) in other.entries()? {
            let entries = self.entries()?;
            let (mine, current) = entries
                .range(..=key)
                .next_back()
                .ok_or_else(|| DslError::damaged(self.id(), "no key takes a list"))?;
            self.append_list(tx, *mine, *current, list)?;
        }
        self.mos.free(tx, other.id())
    }

    /// Moves the lists with keys from `low` on to the end of `target`; their sizes.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn move_to(&self, tx: &Tx, low: Txg, target: &Bpobj) -> Result<Sizes> {
        let zap = self.zap()?;
        let mut moved = Sizes::ZERO;
        for (key, list) in self.entries()?.range(low..) {
            moved += Bpobj::open(&self.mos, *list)?.sizes()?;
            target.append_list(tx, *list)?;
            zap.remove_int(tx, key.0)?;
        }
        self.add_sizes(tx, -moved)?;
        Ok(moved)
    }

    /// Removes a key with its list; no block in it is freed.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn drop_part(&self, tx: &Tx, key: Txg) -> Result<()> {
        let Some(part) = self.entries()?.remove(&key) else {
            return Ok(());
        };
        self.zap()?.remove_int(tx, key.0)?;
        if is_shared_empty(&self.mos, part)? {
            return drop_empty(&self.mos, tx);
        }
        let list = Bpobj::open(&self.mos, part)?;
        self.add_sizes(tx, -list.sizes()?)?;
        list.destroy(tx)
    }

    /// Frees the dead list, but no block in it.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn destroy(&self, tx: &Tx) -> Result<()> {
        for list in self.entries()?.into_values() {
            if is_shared_empty(&self.mos, list)? {
                drop_empty(&self.mos, tx)?;
            } else {
                Bpobj::open(&self.mos, list)?.destroy(tx)?;
            }
        }
        self.mos.free(tx, self.id())
    }
}
