//! Deadlists without keys: those of pools before version 26, and of datasets that were made before their pool was
//! upgraded. Every block is looked at where one with keys moves a list.
//!
//! In a pool that knows keys, what takes the place of a plain list has keys: the txgs of the snapshots before it, as if
//! it had always had some.

use base::Txg;
use dmu::Tx;
use format::bpobj::BpobjPhys;
use format::{BlockPointer, ObjectType, version};

use super::Deadlist;
use crate::bpobj::Bpobj;
use crate::error::Result;
use crate::mos::Mos;
use crate::sizes::Sizes;

/// Pointers that are read before those among them that stay are written.
const BATCH: usize = 1024;

impl Deadlist {
    /// A new plain list.
    pub(super) fn create_plain(mos: &Mos, tx: &Tx) -> Result<Self> {
        let list = Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?;
        Self::open(mos, list.id())
    }

    /// Whether it is a plain list.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.object.info().object_type == ObjectType::BPOBJ
    }

    /// The plain list.
    pub(super) fn plain(&self) -> Result<Bpobj> {
        Bpobj::open(&self.mos, self.id())
    }

    /// A new deadlist without blocks, with this one's keys below `max`; if it has none because it is plain, with those
    /// that `keys` says.
    ///
    /// # Errors
    /// This one cannot be read or the new one not be written, or what `keys` says.
    pub(crate) fn empty_after(
        &self,
        tx: &Tx,
        max: Txg,
        keys: impl FnOnce() -> Result<Vec<Txg>>,
    ) -> Result<Self> {
        if self.mos.services.version() < version::DEADLISTS {
            return Self::create(&self.mos, tx);
        }
        if !self.is_plain() {
            return self.clone_keys(tx, max);
        }
        let new = Self::create(&self.mos, tx)?;
        for key in keys()? {
            new.add_key(tx, key)?;
        }
        Ok(new)
    }

    /// Reads what the sync of a head will need of it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn look_ahead(&self) -> Result<()> {
        if self.is_plain() {
            return self.plain().map(drop);
        }
        self.keys().map(drop)
    }

    pub(super) fn plain_sizes_between(&self, low: Txg, high: Option<Txg>) -> Result<Sizes> {
        let within = |birth: Txg| birth > low && high.is_none_or(|high| birth <= high);
        let mut sum = Sizes::ZERO;
        self.plain()?.for_each(&mut |pointer, _| {
            if within(pointer.space_birth()) {
                sum += Sizes::of(self.mos.store.as_ref(), pointer);
            }
            Ok(())
        })?;
        Ok(sum)
    }

    /// Moves everything of a plain list into this one, and frees the list.
    pub(super) fn merge_plain(&self, tx: &Tx, other: &Self) -> Result<()> {
        other.divide(tx, Txg(u64::MAX), self, &mut |_| Ok(()))?;
        other.destroy(tx)
    }

    /// Goes through a plain list: what was born after `low` is given to `free`, the rest goes to `rest`. The list stays
    /// as it is. The sizes of what was given.
    ///
    /// # Errors
    /// A list cannot be read or written, or what `free` says.
    pub(crate) fn divide(
        &self,
        tx: &Tx,
        low: Txg,
        rest: &Self,
        free: &mut dyn FnMut(&BlockPointer) -> Result<()>,
    ) -> Result<Sizes> {
        let mut given = Sizes::ZERO;
        let mut batch: Vec<BlockPointer> = Vec::new();
        self.plain()?.for_each(&mut |pointer, _| {
            if pointer.space_birth() > low {
                given += Sizes::of(self.mos.store.as_ref(), pointer);
                return free(pointer);
            }
            batch.push(*pointer);
            if batch.len() >= BATCH {
                rest.insert(tx, &std::mem::take(&mut batch), false)?;
            }
            Ok(())
        })?;
        rest.insert(tx, &batch, false)?;
        Ok(given)
    }
}
