//! Deadlists: the blocks that the previous snapshot has and this dataset has no more, by birth.
//!
//! A key k holds the blocks born after k, up to the next key, so that destroying a snapshot moves
//! whole lists. Pools before version 26 have one plain list instead, and so have datasets that were made before their
//! pool was upgraded: see [`plain`].

mod keys;
mod plain;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::{AllocateObject, Object, Tx, Zap};
use format::bpobj::BpobjPhys;
use format::deadlist::{DeadlistPhys, parse_integer_key};
use format::{BlockPointer, ObjectType, version};

use crate::bpobj::{
    Bpobj, NamedList, append_list_to, append_to, drop_empties, reference_empties, shared_empty,
    unless_lost,
};
use crate::error::{DslError, Result};
use crate::mos::{Mos, change_record, read_record};
use crate::sizes::{Sizes, change};
pub(crate) use keys::{DeadKeys, Keys};

/// A deadlist or livelist.
#[derive(Clone)]
pub struct Deadlist {
    mos: Mos,
    object: Arc<Object>,
}

impl Deadlist {
    /// Opens a deadlist.
    ///
    /// # Errors
    /// The object is none.
    pub fn open(mos: &Mos, id: ObjectId) -> Result<Self> {
        Ok(Self {
            mos: mos.clone(),
            object: mos.object(id)?,
        })
    }

    /// A new deadlist without keys; a plain list in a pool that knows no others.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(mos: &Mos, tx: &Tx) -> Result<Self> {
        if mos.services.version() < version::DEADLISTS {
            return Self::create_plain(mos, tx);
        }
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

    /// A new deadlist with this one's keys below `max`, all empty.
    fn clone_keys(&self, tx: &Tx, max: Txg) -> Result<Self> {
        let new = Self::create(&self.mos, tx)?;
        let zap = new.zap()?;
        let keys = self.keys()?;
        let wanted: Vec<Txg> = keys
            .iter()
            .map(|(key, _)| key)
            .filter(|key| *key < max)
            .collect();
        let empties = reference_empties(&self.mos, tx, wanted.len())?;
        for (key, list) in wanted.into_iter().zip(empties) {
            zap.add_int(tx, key.0, list.0)?;
        }
        Ok(new)
    }

    /// Its object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    fn zap(&self) -> Result<Zap> {
        if self.is_plain() {
            return Err(DslError::damaged(self.id(), "a deadlist of an old pool"));
        }
        Ok(Zap::open(&self.object)?)
    }

    /// The keys and their lists, ascending.
    ///
    /// # Errors
    /// The list cannot be read, or has a key that is no txg.
    pub fn entries(&self) -> Result<BTreeMap<Txg, ObjectId>> {
        Ok(self.keys()?.iter().collect())
    }

    /// The same, from memory when they are there.
    pub(crate) fn keys(&self) -> Result<Arc<Keys>> {
        self.mos.dead_keys.get(self.id(), || {
            let mut entries = Vec::new();
            let mut each = self.each_key(|key, list| entries.push((key, list)))?;
            Zap::scan(&self.object, &mut each)?;
            drop(each);
            Ok(Keys::new(entries))
        })
    }

    /// What a scan of the ZAP does with an entry: calls `visit` with the key and its list.
    fn each_key(
        &self,
        mut visit: impl FnMut(Txg, ObjectId),
    ) -> Result<impl FnMut(&[u8], u64) -> Result<()>> {
        if self.is_plain() {
            return Err(DslError::damaged(self.id(), "a deadlist of an old pool"));
        }
        Ok(move |name: &[u8], list| {
            let key = parse_integer_key(name)
                .ok_or_else(|| DslError::damaged(self.id(), "a key is no txg"))?;
            visit(Txg(key), ObjectId(list));
            Ok(())
        })
    }

    /// The keys whose list is not the shared empty one, ascending, and how many others there are: for a deadlist that
    /// goes away. Of thousands of keys only a few have a list, so the others are counted as they are read, and are
    /// neither sorted nor kept in memory, where they would displace those of lists that stay. Nor does the cache keep
    /// what was read: until the txg syncs, which frees it, there are hundreds of such deadlists.
    fn last_look(&self, empty: Option<ObjectId>) -> Result<(Keys, usize)> {
        let (mut full, mut empties) = (Vec::new(), 0);
        let mut sort_out = |key, list| {
            if Some(list) == empty {
                empties += 1;
            } else {
                full.push((key, list));
            }
        };
        match self.mos.dead_keys.known(self.id()) {
            Some(keys) => keys.iter().for_each(|(key, list)| sort_out(key, list)),
            None => Zap::last_scan(&self.object, &mut self.each_key(sort_out)?)?,
        }
        Ok((Keys::new(full), empties))
    }

    fn changed(&self, key: Txg, list: Option<ObjectId>) {
        self.mos.dead_keys.change(self.id(), key, list);
    }

    /// Sizes of all blocks in it.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn sizes(&self) -> Result<Sizes> {
        if self.is_plain() {
            return self.plain()?.sizes();
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
        if self.is_plain() {
            return self.plain_sizes_between(low, high);
        }
        let empty = shared_empty(&self.mos)?;
        let mut sum = Sizes::ZERO;
        for &(key, list) in self.keys()?.from(low) {
            if high.is_some_and(|high| key >= high) {
                break;
            }
            if Some(list) != empty {
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
        if self.is_plain() {
            return self.plain()?.append(tx, pointers, freed);
        }
        let keys = self.keys()?;
        let mut batches: BTreeMap<(Txg, ObjectId), Vec<BlockPointer>> = BTreeMap::new();
        for pointer in pointers {
            let found = keys
                .below(pointer.space_birth())
                .ok_or_else(|| DslError::damaged(self.id(), "no key takes a dead block"))?;
            batches.entry(found).or_default().push(*pointer);
        }
        // Held no longer: a change would copy them.
        drop(keys);
        for ((key, current), batch) in batches {
            let list = self.own_list(tx, key, current)?;
            let new = append_to(&self.mos, tx, list, &batch, freed)?;
            self.give(tx, key, new)?;
        }
        let store = self.mos.store.as_ref();
        let sum: Sizes = pointers
            .iter()
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.add_sizes(tx, if freed { -sum } else { sum })
    }

    /// The list of a key, its own one instead of the shared empty one.
    fn own_list(&self, tx: &Tx, key: Txg, current: ObjectId) -> Result<ObjectId> {
        if shared_empty(&self.mos)? != Some(current) {
            return Ok(current);
        }
        let list = Bpobj::create(&self.mos, tx, BpobjPhys::BLOCK_SIZE)?.id();
        self.give(tx, key, Some(list))?;
        drop_empties(&self.mos, tx, 1)?;
        Ok(list)
    }

    /// Gives a key another list, if there is one.
    fn give(&self, tx: &Tx, key: Txg, list: Option<ObjectId>) -> Result<()> {
        let Some(list) = list else {
            return Ok(());
        };
        self.zap()?.update_int(tx, key.0, list.0)?;
        self.changed(key, Some(list));
        Ok(())
    }

    /// Appends a whole list, which is not the shared empty one, to the one of a key.
    fn append_list(&self, tx: &Tx, key: Txg, current: ObjectId, list: ObjectId) -> Result<()> {
        if shared_empty(&self.mos)? == Some(current) {
            self.give(tx, key, Some(list))?;
            return drop_empties(&self.mos, tx, 1);
        }
        let new = append_list_to(&self.mos, tx, current, list)?;
        self.give(tx, key, new)
    }

    /// Adds a key, empty.
    ///
    /// # Errors
    /// The list cannot be written, or the key is there.
    pub fn add_key(&self, tx: &Tx, key: Txg) -> Result<()> {
        for list in reference_empties(&self.mos, tx, 1)? {
            self.zap()?.add_int(tx, key.0, list.0)?;
            self.changed(key, Some(list));
        }
        Ok(())
    }

    fn take_key(&self, tx: &Tx, key: Txg) -> Result<()> {
        self.zap()?.remove_int(tx, key.0)?;
        self.changed(key, None);
        Ok(())
    }

    /// Removes a key, if it is there; the next lower one takes its blocks.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn remove_key(&self, tx: &Tx, key: Txg) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        let keys = self.keys()?;
        let Some(list) = keys.get(key) else {
            return Ok(());
        };
        let (lower, current) = keys
            .below(key)
            .ok_or_else(|| DslError::damaged(self.id(), "the lowest key cannot go"))?;
        drop(keys);
        if shared_empty(&self.mos)? == Some(list) {
            drop_empties(&self.mos, tx, 1)?;
        } else {
            self.append_list(tx, lower, current, list)?;
        }
        self.take_key(tx, key)
    }

    /// Moves everything of another deadlist into this one and frees the other.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn merge(&self, tx: &Tx, other: ObjectId) -> Result<()> {
        let other = Self::open(&self.mos, other)?;
        if other.is_plain() {
            return self.merge_plain(tx, &other);
        }
        self.add_sizes(tx, other.sizes()?)?;
        let empty = shared_empty(&self.mos)?;
        let (theirs, empties) = other.last_look(empty)?;
        for (key, list) in theirs.iter() {
            // Asked again for each: the list before may have changed them.
            let (mine, current) = self
                .keys()?
                .below(key.next())
                .ok_or_else(|| DslError::damaged(self.id(), "no key takes a list"))?;
            self.append_list(tx, mine, current, list)?;
        }
        drop_empties(&self.mos, tx, empties)?;
        other.free(tx)
    }

    /// Frees the deadlist's own object.
    fn free(&self, tx: &Tx) -> Result<()> {
        self.mos.dead_keys.forget(self.id());
        self.mos.free(tx, self.id())
    }

    /// Moves the lists with keys from `low` on to the end of `target`; their sizes.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn move_to(&self, tx: &Tx, low: Txg, target: &NamedList) -> Result<Sizes> {
        let empty = shared_empty(&self.mos)?;
        let mut moved = Sizes::ZERO;
        let mut empties = 0;
        let going = self.keys()?.from(low).to_vec();
        for (key, list) in going {
            if Some(list) == empty {
                empties += 1;
            } else {
                let sizes = Bpobj::open(&self.mos, list).and_then(|list| list.sizes());
                if let Some(sizes) = unless_lost(sizes)? {
                    moved += sizes;
                    target.append_list(tx, list)?;
                }
            }
            self.take_key(tx, key)?;
        }
        drop_empties(&self.mos, tx, empties)?;
        self.add_sizes(tx, -moved)?;
        Ok(moved)
    }

    /// Removes a key with its list; no block in it is freed.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn drop_part(&self, tx: &Tx, key: Txg) -> Result<()> {
        let Some(part) = self.keys()?.get(key) else {
            return Ok(());
        };
        self.take_key(tx, key)?;
        if shared_empty(&self.mos)? == Some(part) {
            return drop_empties(&self.mos, tx, 1);
        }
        let Some(list) = unless_lost(Bpobj::open(&self.mos, part))? else {
            return Ok(());
        };
        self.add_sizes(tx, -list.sizes()?)?;
        list.destroy(tx)
    }

    /// Notes in a part that blocks of it were freed.
    ///
    /// # Errors
    /// The list cannot be written.
    pub(crate) fn append_freed(
        &self,
        tx: &Tx,
        part: &Bpobj,
        pointers: &[BlockPointer],
    ) -> Result<()> {
        if pointers.is_empty() {
            return Ok(());
        }
        part.append(tx, pointers, true)?;
        let store = self.mos.store.as_ref();
        let sum: Sizes = pointers
            .iter()
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.add_sizes(tx, -sum)
    }

    /// Frees the deadlist, but no block in it. What cannot be read of it leaks.
    ///
    /// # Errors
    /// A list cannot be written.
    pub fn destroy(&self, tx: &Tx) -> Result<()> {
        if self.is_plain() {
            let list = self.plain().and_then(|list| list.destroy(tx));
            return unless_lost(list).map(|_| ());
        }
        let empty = shared_empty(&self.mos)?;
        let (keys, empties) = unless_lost(self.last_look(empty))?.unwrap_or_default();
        for (_, list) in keys.iter() {
            unless_lost(Bpobj::open(&self.mos, list).and_then(|list| list.destroy(tx)))?;
        }
        drop_empties(&self.mos, tx, empties)?;
        self.free(tx)
    }
}
