//! Booking what a pass referred to, entered and dropped.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::Arc;

use codec::Checksum;
use dmu::Tx;
use dsl::property::pool::DEDUP_TABLE_QUOTA;
use format::BlockPointer;
use format::dedup::{DedupBlock, DedupForm, key_of};

use super::booking::Booking;
use super::table::Table;
use super::{Entry, METERS, Name};
use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::tunables::DEDUP_KEYS_SHARE;

impl PoolServices {
    /// Books what the pass changed; `free` frees the space of blocks that nothing refers to any more.
    pub(crate) fn settle_dedup(&self, tx: &Tx, mut free: impl FnMut(&BlockPointer)) -> Result<()> {
        let pending = std::mem::take(&mut *self.dedup.pending.lock());
        METERS
            .pending
            .set(i64::try_from(pending.entries.len()).unwrap_or(i64::MAX));
        let is_idle = pending.entries.is_empty() && pending.dropped.is_empty();
        if is_idle && pending.pruned.is_empty() {
            return Ok(());
        }
        let mut entries = pending.entries;
        for pointer in &pending.dropped {
            self.drop_reference(&mut entries, pointer, &mut free);
        }
        for candidate in pending.pruned {
            self.dedup.prune(&mut entries, candidate);
        }
        entries.retain(|_, entry| entry.now != entry.before);
        // By key: neighbours are in one block of their ZAP.
        let mut names: Vec<Name> = entries.keys().copied().collect();
        names.sort_unstable();
        let mut booking: Option<Booking<'_>> = None;
        for name in names {
            let Some(entry) = entries.get_mut(&name) else {
                continue;
            };
            let Ok(kind) = Checksum::from_id(name.0) else {
                continue;
            };
            free_unused(entry, kind, &name, &mut free);
            if booking
                .as_ref()
                .is_none_or(|booking| booking.table.kind != kind)
            {
                self.finish_booking(booking.take())?;
                booking = Some(self.book_dedup(tx, kind)?);
            }
            if let Some(booking) = &mut booking {
                booking.apply(&name.1, entry)?;
            }
        }
        self.finish_booking(booking)?;
        self.dedup.tell(&self.limits);
        Ok(())
    }

    /// A pointer is no more: its block's entry counts one reference less. Without an entry the block was the pointer's
    /// alone; where that cannot be known it stays, and leaks.
    fn drop_reference(
        &self,
        entries: &mut HashMap<Name, Entry>,
        pointer: &BlockPointer,
        free: &mut impl FnMut(&BlockPointer),
    ) {
        let Ok(kind) = pointer.checksum() else {
            METERS.leaked.increment();
            return;
        };
        let name = (kind.id(), key_of(pointer));
        let entry = match entries.entry(name) {
            Place::Occupied(known) => known.into_mut(),
            Place::Vacant(place) => match self.dedup.load_entry(kind, &name.1) {
                Ok(entry) => place.insert(entry),
                Err(_) => {
                    METERS.leaked.increment();
                    return;
                }
            },
        };
        match entry.now.block_of(pointer) {
            Some(block) => block.references = block.references.saturating_sub(1),
            None => {
                let mut own = *pointer;
                own.set_dedup(false);
                free(&own);
            }
        }
    }

    /// The table of a checksum, to be changed; made if it is not there.
    pub(super) fn book_dedup<'a>(&'a self, tx: &'a Tx, kind: Checksum) -> Result<Booking<'a>> {
        if let Some(table) = self.dedup.table(kind) {
            let mut booking = Booking::new(self, tx, Table::clone(&table));
            booking.begin()?;
            return Ok(booking);
        }
        let form = self.dedup.form_of(None);
        let mut booking = Booking::new(self, tx, Table::new(kind, form));
        if form == DedupForm::Flat {
            booking.make_folder()?;
            booking.begin()?;
        }
        Ok(booking)
    }

    pub(super) fn finish_booking(&self, booking: Option<Booking<'_>>) -> Result<()> {
        let Some(booking) = booking else {
            return Ok(());
        };
        let number = booking.table.kind.id();
        match booking.finish()? {
            Some(table) => {
                let table = Arc::new(table);
                self.dedup.tables.write().insert(number, table);
            }
            None => {
                self.dedup.tables.write().remove(&number);
            }
        }
        Ok(())
    }

    /// A txg begins; `class_bytes`: what the devices for dedup tables hold, 0 without any.
    pub(crate) fn begin_dedup_txg(&self, class_bytes: u64) {
        // A property that cannot be read counts as its default: it is no reason to stop.
        let quota = self.stored_number(DEDUP_TABLE_QUOTA.row()).unwrap_or(None);
        let bytes = match quota {
            Some(0) => None,
            None | Some(u64::MAX) => (class_bytes != 0).then_some(class_bytes),
            Some(bytes) => Some(bytes),
        };
        let keys_bytes = self.store.cache_bytes() / DEDUP_KEYS_SHARE.get();
        self.dedup.begin_txg(bytes, keys_bytes);
    }

    /// A pass begins; `lacking`: devices lack something.
    pub(crate) fn begin_dedup(&self, lacking: bool) {
        let fast = self.features.is_enabled(&format::features::FAST_DEDUP);
        let scrub = self.scrub.as_ref().and_then(|scrub| scrub.current());
        let is_careful = lacking && scrub.is_some_and(|scan| scan.is_running());
        self.dedup.begin(fast, is_careful);
    }
}

/// Frees the blocks of an entry that nobody refers to, and what old pools have of it besides: nobody makes that any
/// more.
fn free_unused(
    entry: &mut Entry,
    kind: Checksum,
    (_, key): &Name,
    free: &mut impl FnMut(&BlockPointer),
) {
    let skipped = match entry.now.form {
        DedupForm::Legacy => 1,
        DedupForm::Flat => 0,
    };
    for (number, block) in entry.now.blocks.iter_mut().enumerate() {
        if block.is_stored() && (block.references == 0 || number < skipped) {
            free(&block.pointer(kind, key));
            *block = DedupBlock::default();
        }
    }
}
