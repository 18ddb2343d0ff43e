//! The numbers of space that users see of a dataset.

use base::Txg;
use dmu::Tx;
use format::bookmark::BookmarkPhys;

use super::Dataset;
use crate::deadlist::Deadlist;
use crate::error::Result;
use crate::property::dataset::{REFQUOTA, REFRESERVATION};
use crate::services::SpaceClass;
use crate::sizes::Sizes;

/// What users see of a dataset's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Of a head, everything in its subtree; of a snapshot, what only it has.
    pub used: u64,
    /// Bytes that can still be written; 0 of a snapshot.
    pub available: u64,
    /// Everything reachable.
    pub referenced: u64,
    /// What was written since the snapshot before.
    pub written: u64,
    /// What only this dataset has of its neighbours.
    pub unique: u64,
    /// Logical bytes of `used`; of a snapshot as `logical_referenced`.
    pub logical_used: u64,
    /// Logical bytes of `referenced`.
    pub logical_referenced: u64,
    /// Logical to physical bytes of `used`, in hundredths.
    pub compress_ratio_percent: u64,
    /// Logical to physical bytes of `referenced`, in hundredths.
    pub referenced_ratio_percent: u64,
}

fn ratio_percent(uncompressed: u64, compressed: u64) -> u64 {
    if compressed == 0 {
        return 100;
    }
    let ratio = u128::from(uncompressed) * 100 / u128::from(compressed);
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

impl Dataset {
    /// The numbers of space that users see.
    ///
    /// # Errors
    /// A record or deadlist cannot be read.
    pub fn space(&self) -> Result<DatasetSpace> {
        let phys = self.phys()?;
        let directory = self.directory().phys()?;
        let referenced_ratio_percent =
            ratio_percent(phys.uncompressed_bytes, phys.compressed_bytes);
        let mut space = DatasetSpace {
            used: phys.unique_bytes,
            available: 0,
            referenced: phys.referenced_bytes,
            written: self.written_since_previous()?,
            unique: phys.unique_bytes,
            logical_used: phys.uncompressed_bytes,
            logical_referenced: phys.uncompressed_bytes,
            compress_ratio_percent: referenced_ratio_percent,
            referenced_ratio_percent,
        };
        if !self.is_snapshot {
            space.used = directory.used_bytes;
            space.logical_used = directory.uncompressed_bytes;
            space.compress_ratio_percent =
                ratio_percent(directory.uncompressed_bytes, directory.compressed_bytes);
            space.available = self.available(SpaceClass::Normal)?;
        }
        Ok(space)
    }

    /// The reservation for this head's unshared data.
    ///
    /// # Errors
    /// The properties cannot be read.
    pub fn ref_reservation(&self) -> Result<u64> {
        Ok(self.directory().get(REFRESERVATION)?.value)
    }

    /// The quota for what this head references; 0 = none.
    ///
    /// # Errors
    /// The properties cannot be read.
    pub fn ref_quota(&self) -> Result<u64> {
        Ok(self.directory().get(REFQUOTA)?.value)
    }

    /// Bytes that can still be written to this head.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn available(&self, class: SpaceClass) -> Result<u64> {
        let phys = self.phys()?;
        let reserved = self.ref_reservation()?.saturating_sub(phys.unique_bytes);
        let available = self.directory().available(class)?.saturating_add(reserved);
        let quota = self.ref_quota()?;
        if quota == 0 {
            return Ok(available);
        }
        Ok(available.min(quota.saturating_sub(phys.referenced_bytes)))
    }

    /// The deadlist.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn deadlist(&self) -> Result<Deadlist> {
        Deadlist::open(&self.dsl.mos, self.phys()?.deadlist)
    }

    fn written_since_previous(&self) -> Result<u64> {
        match self.previous()? {
            Some(previous) => self.written_since(&previous),
            None => Ok(self.phys()?.referenced_bytes),
        }
    }

    /// What was written to this dataset since an older snapshot of its ancestry, and is there still: the difference of
    /// what both refer to, and what went that the older one has.
    ///
    /// # Errors
    /// A snapshot between cannot be read.
    pub fn written_since(&self, older: &Self) -> Result<u64> {
        let mine = self.phys()?;
        let then = older.phys()?;
        let written = mine.referenced_bytes.wrapping_sub(then.referenced_bytes);
        let mut dead = self.dead_of(then.creation_txg)?;
        let mut current = mine.previous_snapshot;
        while current.0 != 0 && current != older.id() {
            let dataset = self.dsl.dataset_by_id(current)?;
            let phys = dataset.phys()?;
            if phys.creation_txg <= then.creation_txg {
                break;
            }
            dead += dataset.dead_of(then.creation_txg)?;
            current = phys.previous_snapshot;
        }
        Ok(written.wrapping_add_signed(dead.used))
    }

    /// Physical and logical bytes of what was written to this dataset since the txg of an older snapshot of its
    /// ancestry, which had `then`.
    ///
    /// # Errors
    /// A snapshot between cannot be read.
    pub fn written_sizes_since(&self, txg: Txg, then: (u64, u64)) -> Result<(u64, u64)> {
        let mine = self.phys()?;
        let mut dead = self.dead_of(txg)?;
        let mut current = mine.previous_snapshot;
        while current.0 != 0 {
            let dataset = self.dsl.dataset_by_id(current)?;
            let phys = dataset.phys()?;
            if phys.creation_txg <= txg {
                break;
            }
            dead += dataset.dead_of(txg)?;
            current = phys.previous_snapshot;
        }
        let written =
            |now: u64, then: u64, dead: i64| now.wrapping_sub(then).wrapping_add_signed(dead);
        Ok((
            written(mine.compressed_bytes, then.0, dead.compressed),
            written(mine.uncompressed_bytes, then.1, dead.uncompressed),
        ))
    }

    /// What of the deadlist was born up to a snapshot before this one.
    fn dead_of(&self, birth: Txg) -> Result<Sizes> {
        let phys = self.phys()?;
        if phys.deadlist.0 == 0 {
            return Ok(Sizes::ZERO);
        }
        let deadlist = self.deadlist()?;
        // A deadlist has nothing that is younger than the snapshot before it.
        if phys.previous_snapshot_txg <= birth {
            return deadlist.sizes();
        }
        deadlist.sizes_between(Txg(0), Some(birth))
    }

    /// What was written to this dataset since a bookmark of its head was a snapshot; none for one
    /// that does not count what was freed after it, or is not older.
    ///
    /// # Errors
    /// A snapshot between cannot be read.
    pub fn written_since_bookmark(&self, bookmark: &BookmarkPhys) -> Result<Option<u64>> {
        let mine = self.phys()?;
        let is_older = !self.is_snapshot() || bookmark.creation_txg < mine.creation_txg;
        if !bookmark.counts_freed() || !is_older {
            return Ok(None);
        }
        // What went before the next snapshot the bookmark knows; the deadlists know the rest.
        let mut freed = i64::try_from(bookmark.freed_before_next).unwrap_or(i64::MAX);
        let mut dead = self.dead_of(bookmark.creation_txg)?.used;
        let mut current = mine.previous_snapshot;
        while current.0 != 0 {
            let dataset = self.dsl.dataset_by_id(current)?;
            let phys = dataset.phys()?;
            if phys.creation_txg <= bookmark.creation_txg {
                break;
            }
            freed = freed.saturating_add(dead);
            dead = dataset.dead_of(bookmark.creation_txg)?.used;
            current = phys.previous_snapshot;
        }
        let written = mine
            .referenced_bytes
            .wrapping_sub(bookmark.referenced_bytes);
        Ok(Some(written.wrapping_add_signed(freed)))
    }

    /// What destroying the snapshots from `first` to this one, with all between, would free: what
    /// only they have.
    ///
    /// # Errors
    /// A snapshot or deadlist cannot be read.
    pub fn freed_back_to(&self, first: &Self) -> Result<u64> {
        let birth = first.phys()?.previous_snapshot_txg;
        let mut freed = 0;
        let mut current = self.phys()?.next_snapshot;
        while current.0 != 0 && current != first.id() {
            let dataset = self.dsl.dataset_by_id(current)?;
            freed += dataset.deadlist()?.sizes_between(birth, None)?.used;
            current = dataset.phys()?.previous_snapshot;
        }
        Ok(u64::try_from(freed).unwrap_or(0))
    }

    /// What of the unshared data is beyond the reservation, before and after a change: the change
    /// that the directory sees.
    pub(crate) fn beyond_reservation(before: u64, change: i64, reservation: u64) -> i64 {
        let after = before.wrapping_add_signed(change);
        let old = before.max(reservation);
        let new = after.max(reservation);
        new.wrapping_sub(old).cast_signed()
    }

    /// Charges a change of this head's unshared data to its directory: what the reservation covers
    /// is charged already.
    pub(crate) fn charge_head(
        &self,
        tx: &Tx,
        unique_before: u64,
        unique_change: i64,
        sizes: Sizes,
    ) -> Result<()> {
        use format::dsl::UsedBy;
        let reservation = self.ref_reservation()?;
        let delta = Self::beyond_reservation(unique_before, unique_change, reservation);
        let directory = self.directory();
        directory.charge(
            tx,
            UsedBy::Head,
            Sizes {
                used: delta,
                ..sizes
            },
        )?;
        let covered = sizes.used.wrapping_sub(delta);
        directory.transfer(tx, covered, UsedBy::RefReservation, UsedBy::Head)
    }
}
