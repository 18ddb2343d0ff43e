//! The space of a directory's subtree: charges upwards, quotas, reservations, what is available.

use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::dsl::{DirectoryPhys, UsedBy};

use super::Directory;
use crate::error::{DslError, Result};
use crate::sizes::{Sizes, change};

/// What a directory says about the space of its subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectorySpace {
    /// Everything in the subtree.
    pub used: u64,
    /// By the head dataset.
    pub by_dataset: u64,
    /// By snapshots alone.
    pub by_snapshots: u64,
    /// By children and their reservations.
    pub by_children: u64,
    /// Reserved for the head and not used.
    pub by_ref_reservation: u64,
    /// Physical bytes in the subtree.
    pub compressed: u64,
    /// Logical bytes in the subtree.
    pub uncompressed: u64,
    /// Bytes that can still be used here.
    pub available: u64,
    /// The quota; 0 = none.
    pub quota: u64,
    /// The reservation; 0 = none.
    pub reserved: u64,
}

fn used(phys: &DirectoryPhys, by: UsedBy) -> u64 {
    phys.used_breakdown.get(by.index()).copied().unwrap_or(0)
}

impl Directory {
    /// The space of the subtree.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn space(&self) -> Result<DirectorySpace> {
        let phys = self.phys()?;
        Ok(DirectorySpace {
            used: phys.used_bytes,
            by_dataset: used(&phys, UsedBy::Head),
            by_snapshots: used(&phys, UsedBy::Snapshots),
            by_children: used(&phys, UsedBy::Children)
                .wrapping_add(used(&phys, UsedBy::ChildReservations)),
            by_ref_reservation: used(&phys, UsedBy::RefReservation),
            compressed: phys.compressed_bytes,
            uncompressed: phys.uncompressed_bytes,
            available: self.available(crate::SpaceClass::Normal)?,
            quota: phys.quota,
            reserved: phys.reserved,
        })
    }

    /// Bytes that can still be used here: what the chain of quotas up to the pool leaves.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn available(&self, class: crate::SpaceClass) -> Result<u64> {
        let phys = self.phys()?;
        let unused_reservation = phys.reserved.saturating_sub(phys.used_bytes);
        let above = match self.parent() {
            None => self
                .dsl
                .services()
                .usable_bytes(class)
                .saturating_sub(phys.used_bytes),
            Some(parent) => parent.available(class)?.saturating_add(unused_reservation),
        };
        let quota = if phys.quota == 0 {
            u64::MAX
        } else {
            phys.quota
        };
        Ok(above.min(quota.saturating_sub(phys.used_bytes)))
    }

    /// Charges `sizes` more to a kind of use, and passes it on upwards.
    ///
    /// # Errors
    /// A directory cannot be changed.
    pub(crate) fn charge(&self, tx: &Tx, by: UsedBy, sizes: Sizes) -> Result<()> {
        let passed = self.change(tx, |phys| {
            let before = phys.used_bytes.max(phys.reserved);
            change(&mut phys.used_bytes, sizes.used);
            change(&mut phys.compressed_bytes, sizes.compressed);
            change(&mut phys.uncompressed_bytes, sizes.uncompressed);
            add(phys, by, sizes.used);
            phys.used_bytes
                .max(phys.reserved)
                .wrapping_sub(before)
                .cast_signed()
        })?;
        let Some(parent) = self.parent() else {
            return Ok(());
        };
        parent.charge(
            tx,
            UsedBy::Children,
            Sizes {
                used: passed,
                ..sizes
            },
        )?;
        parent.transfer(
            tx,
            sizes.used.wrapping_sub(passed),
            UsedBy::ChildReservations,
            UsedBy::Children,
        )
    }

    /// Reads what a charge will change of this directory and those above.
    ///
    /// # Errors
    /// It cannot be read: nothing could be charged.
    pub(crate) fn prepare_charge(&self) -> Result<()> {
        self.object.prepare_change()?;
        self.parent()
            .map_or(Ok(()), |parent| parent.prepare_charge())
    }

    /// Moves `bytes` from one kind of use to another.
    ///
    /// # Errors
    /// The directory cannot be changed.
    pub(crate) fn transfer(&self, tx: &Tx, bytes: i64, from: UsedBy, to: UsedBy) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.change(tx, |phys| {
            add(phys, from, bytes.wrapping_neg());
            add(phys, to, bytes);
        })
    }

    /// Sets the reservation and tells the parent.
    ///
    /// # Errors
    /// A directory cannot be changed.
    pub(crate) fn set_reservation(&self, tx: &Tx, reserved: u64) -> Result<()> {
        let delta = self.change(tx, |phys| {
            let before = phys.used_bytes.max(phys.reserved);
            phys.reserved = reserved;
            phys.used_bytes
                .max(reserved)
                .wrapping_sub(before)
                .cast_signed()
        })?;
        let Some(parent) = self.parent() else {
            return Ok(());
        };
        parent.charge(
            tx,
            UsedBy::ChildReservations,
            Sizes {
                used: delta,
                ..Sizes::ZERO
            },
        )
    }

    /// Sets the quota.
    ///
    /// # Errors
    /// The directory cannot be changed.
    pub(crate) fn set_quota(&self, tx: &Tx, quota: u64) -> Result<()> {
        self.change(tx, |phys| phys.quota = quota)
    }
}

/// Refuses when moving `bytes` from under `from` to under `to` passes a quota on the way up to
/// what both have in common.
pub(crate) fn check_quotas(to: &Arc<Directory>, from: &Arc<Directory>, bytes: u64) -> Result<()> {
    let above: Vec<ObjectId> = from.ancestry().iter().map(|one| one.id()).collect();
    for directory in to.ancestry() {
        if above.contains(&directory.id()) {
            break;
        }
        let phys = directory.phys()?;
        if phys.quota != 0 && phys.used_bytes.saturating_add(bytes) > phys.quota {
            return Err(DslError::Quota {
                name: directory.name(),
            });
        }
    }
    Ok(())
}

fn add(phys: &mut DirectoryPhys, by: UsedBy, bytes: i64) {
    if phys.flags & DirectoryPhys::FLAG_USED_BREAKDOWN == 0 {
        return;
    }
    if let Some(stored) = phys.used_breakdown.get_mut(by.index()) {
        change(stored, bytes);
    }
}
