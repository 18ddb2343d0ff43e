//! Booking what a pass added and dropped.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;

use base::{ByteOrder, VdevId};
use dmu::{AllocateObject, CreateZap, Tx, Zap};
use format::brt::{
    BlockReferencePhys, COUNTS_BLOCK_SIZE, CountForm, ENTRIES_BLOCK_SHIFT, REGION_BYTES, order_code,
};
use format::config::directory;
use format::zap::FatHeader;
use format::{BlockPointer, ObjectType, features};

use super::{Address, Change, Table, address_of};
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;

impl PoolServices {
    /// Books what the pass added and dropped, in that order; `free` frees the space of blocks that nothing
    /// references any more.
    pub(crate) fn settle_references(
        &self,
        tx: &Tx,
        mut free: impl FnMut(&BlockPointer),
    ) -> Result<()> {
        let waiting = std::mem::take(&mut *self.references.waiting.lock());
        if waiting.added.is_empty() && waiting.dropped.is_empty() {
            return Ok(());
        }
        self.references.check_named(&waiting.added)?;
        let mut tables = self.references.tables.lock();
        let mut changes: BTreeMap<Address, Change> = BTreeMap::new();
        for pointer in &waiting.added {
            if let Some(change) = self.change_of(&tables, &mut changes, pointer)? {
                change.now = change.now.saturating_add(1);
            }
        }
        for pointer in &waiting.dropped {
            match self.change_of(&tables, &mut changes, pointer)? {
                Some(change) if change.now > 0 => change.now -= 1,
                _ => free(pointer),
            }
        }
        changes.retain(|_, change| change.before.unwrap_or(0) != change.now);
        let mut touched: BTreeMap<VdevId, Vec<(u64, Change)>> = BTreeMap::new();
        for ((vdev, offset), change) in changes {
            touched.entry(vdev).or_default().push((offset, change));
        }
        for (vdev, changes) in touched {
            self.book_references(tx, &mut tables, vdev, changes)?;
        }
        let sums = tables.values().map(|table| table.header.saved);
        self.limits.set_shared(sums.fold(0, u64::saturating_add));
        Ok(())
    }

    /// The count of a block, as it stands.
    fn change_of<'a>(
        &self,
        tables: &BTreeMap<VdevId, Table>,
        changes: &'a mut BTreeMap<Address, Change>,
        pointer: &BlockPointer,
    ) -> Result<Option<&'a mut Change>> {
        let Some(address) = address_of(pointer) else {
            return Ok(None);
        };
        match changes.entry(address) {
            Entry::Occupied(known) => Ok(Some(known.into_mut())),
            Entry::Vacant(place) => {
                let before = match tables.get(&address.0) {
                    Some(table) => table.lookup(address.1)?,
                    None => None,
                };
                Ok(Some(place.insert(Change {
                    before,
                    now: before.unwrap_or(0),
                    bytes: self.store.charge(pointer),
                })))
            }
        }
    }

    /// Writes changed counts of one vdev. A table that becomes empty goes.
    fn book_references(
        &self,
        tx: &Tx,
        tables: &mut BTreeMap<VdevId, Table>,
        vdev: VdevId,
        changes: Vec<(u64, Change)>,
    ) -> Result<()> {
        let table = match tables.entry(vdev) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.new_table(tx, vdev)?),
        };
        let mut by_region: BTreeMap<usize, i64> = BTreeMap::new();
        for (offset, change) in changes {
            let delta = table.apply(tx, offset, &change)?;
            let region = usize::try_from(offset / REGION_BYTES).unwrap_or(usize::MAX);
            *by_region.entry(region).or_default() += delta;
        }
        let references = &self.references;
        let mut counts = references.regions.read().counts.get(&vdev).cloned();
        let counts = counts.get_or_insert_default();
        for (region, delta) in by_region.into_iter().filter(|(_, delta)| *delta != 0) {
            if region >= counts.len() {
                counts.resize(region + 1, 0);
            }
            let before = counts[region];
            let after = i64::from(before) + delta;
            counts[region] = u16::try_from(after).map_err(|_| {
                PoolError::Damaged(format!("vdev {vdev}: region {region} has {after} entries"))
            })?;
            table
                .counts
                .write(tx, region as u64 * 2, &counts[region].to_ne_bytes())?;
        }
        table.header.regions = table.header.regions.max(counts.len() as u64);
        if table.header.count == 0 {
            self.drop_table(tx, vdev, table)?;
            tables.remove(&vdev);
            references.regions.write().counts.remove(&vdev);
            return Ok(());
        }
        table.store_header(tx)?;
        let counts = std::mem::take(counts);
        references.regions.write().counts.insert(vdev, counts);
        references.in_use.store(true, Ordering::Release);
        Ok(())
    }

    fn new_table(&self, tx: &Tx, vdev: VdevId) -> Result<Table> {
        let bytes = self.config.with(|config| {
            let tops = config.root.children.iter();
            let mut tops = tops.filter(|top| top.id() == vdev);
            tops.next()
                .map_or(0, crate::config::VdevConfig::metaslab_bytes)
        });
        let counts = self.mos.allocate(
            tx,
            &AllocateObject {
                object_type: ObjectType::OTN_U64_METADATA,
                block_size: COUNTS_BLOCK_SIZE,
                bonus_type: ObjectType::OTN_U64_METADATA,
                bonus_len: BlockReferencePhys::SIZE as u16,
                ..AllocateObject::default()
            },
        )?;
        let entries = Zap::create(
            &self.mos,
            tx,
            &CreateZap {
                object_type: ObjectType::OTN_ZAP_METADATA,
                flags: FatHeader::FLAG_HASH_48 | FatHeader::FLAG_WORD_KEYS,
                block_size: 1 << ENTRIES_BLOCK_SHIFT,
                indirect_shift: ENTRIES_BLOCK_SHIFT,
                ..CreateZap::default()
            },
        )?;
        let regions = bytes.div_ceil(REGION_BYTES).max(1);
        // As long as there are regions, whatever is shared in them. OpenZFS opens no pool with more regions than its
        // whole metaslabs have.
        counts.write(tx, (regions - 1) * 2, &0_u16.to_ne_bytes())?;
        let name = format!("{}{}", directory::BLOCK_REFERENCE_PREFIX, vdev.0);
        self.directory.add(tx, name.as_bytes(), counts.id().0)?;
        let form = self.form_of_new_table();
        self.change_feature(tx, &features::BLOCK_CLONING, 1)?;
        if form == CountForm::Word {
            self.change_feature(tx, &features::BLOCK_CLONING_ENDIAN, 1)?;
        }
        let header = BlockReferencePhys {
            entries: entries.object().id().0,
            regions,
            byte_order: order_code(ByteOrder::NATIVE),
            count: 0,
            region_bytes: REGION_BYTES,
            used: 0,
            saved: 0,
        };
        Ok(Table {
            counts,
            entries,
            header,
            form,
        })
    }

    /// The form of the tables that a pool has, as its features say.
    pub(crate) fn form_of_tables(&self) -> CountForm {
        match self.features.is_active(&features::BLOCK_CLONING_ENDIAN) {
            true => CountForm::Word,
            false => CountForm::Bytes,
        }
    }

    /// All tables of a pool have one form, as OpenZFS takes it: the first one decides, by whether the pool has the
    /// feature enabled.
    fn form_of_new_table(&self) -> CountForm {
        let features = &self.features;
        let is_first = !features.is_active(&features::BLOCK_CLONING);
        match is_first && features.is_enabled(&features::BLOCK_CLONING_ENDIAN) {
            true => CountForm::Word,
            false => self.form_of_tables(),
        }
    }

    fn drop_table(&self, tx: &Tx, vdev: VdevId, table: &Table) -> Result<()> {
        let name = format!("{}{}", directory::BLOCK_REFERENCE_PREFIX, vdev.0);
        self.directory.remove(tx, name.as_bytes())?;
        self.mos.free(tx, table.entries.object().id())?;
        self.mos.free(tx, table.counts.id())?;
        self.change_feature(tx, &features::BLOCK_CLONING, -1)?;
        // What a damaged pool does not count is not counted down.
        let is_counted = self.features.is_active(&features::BLOCK_CLONING_ENDIAN);
        if table.form == CountForm::Word && is_counted {
            self.change_feature(tx, &features::BLOCK_CLONING_ENDIAN, -1)?;
        }
        Ok(())
    }
}
