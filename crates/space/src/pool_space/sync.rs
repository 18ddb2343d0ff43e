//! A txg's changes of space, written to the log or to the metaslabs' own maps.

use super::PoolSpace;
use crate::metaslab::{Changes, Metaslab, Pass};
use crate::{MapAppend, SpaceError, SpaceStore};
use base::{ObjectId, Txg, VdevId};
use format::space_map::{Encoder, Form, decode};
use std::ops::Range;
use std::sync::Arc;

/// Units of log space maps, as a shift.
const LOG_SHIFT: u32 = 9;
/// Metaslabs flushed in each txg that has changes; enough to keep the logs short.
const FLUSH_PER_TXG: usize = 2;

impl PoolSpace {
    /// Takes up one log at import, in ascending order of txg.
    ///
    /// # Errors
    /// An entry does not decode or contradicts the maps.
    pub fn replay_log(&self, txg: Txg, log: ObjectId, bytes: &[u8]) -> Result<(), SpaceError> {
        for entry in decode(bytes, LOG_SHIFT) {
            let entry = entry.map_err(|source| SpaceError::Format {
                object: log,
                source,
            })?;
            let mut range = entry.offset..entry.offset.saturating_add(entry.length);
            // A vdev that was removed since, or one that holds no space: its entries are moot.
            let Ok(vdev) = self.vdev(VdevId(entry.vdev), &range) else {
                continue;
            };
            while !range.is_empty() {
                let size = 1_u64 << vdev.geometry().metaslab_shift;
                let end = (range.start / size + 1).saturating_mul(size).min(range.end);
                let part: Range<u64> = range.start..end;
                vdev.metaslab(&part)?.replay(entry.action, &part, txg)?;
                range.start = end;
            }
        }
        Ok(())
    }

    /// Whether a pass has something to write.
    #[must_use]
    pub fn is_dirty(&self, txg: Txg) -> bool {
        self.every_metaslab()
            .iter()
            .any(|metaslab| metaslab.is_dirty(txg))
    }

    /// Moves the logged changes of a few metaslabs to their own maps, the longest unflushed first; in pass 1 of a
    /// txg that writes, before [`Self::sync`].
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn flush_some(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let mut metaslabs = self.mapped_metaslabs();
        if !self.logs || metaslabs.is_empty() {
            return Ok(());
        }
        metaslabs.sort_by_key(|metaslab| metaslab.unflushed_txg());
        let mut left = FLUSH_PER_TXG.max(metaslabs.len() / 128);
        for metaslab in metaslabs {
            if metaslab.has_unflushed() {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            metaslab.flush(self.pass(txg, 1), store)?;
        }
        self.trim_logs(txg, store)
    }

    /// Moves all logged changes to the metaslabs' own maps: at export.
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn flush_all(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if !self.logs {
            return Ok(());
        }
        for metaslab in self.mapped_metaslabs() {
            metaslab.flush(self.pass(txg, 1), store)?;
        }
        self.trim_logs(txg, store)
    }

    /// Drops the logs that no metaslab needs. A metaslab whose logged changes cancel out needs its logs all the
    /// same: half of a pair that cancels would contradict its map.
    pub(super) fn trim_logs(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let metaslabs = self.mapped_metaslabs();
        let oldest = metaslabs
            .iter()
            .map(|metaslab| metaslab.unflushed_txg())
            .min();
        store
            .trim_logs(oldest.unwrap_or(txg).min(txg))
            .map_err(|source| SpaceError::Store {
                object: ObjectId(0),
                txg,
                source,
            })
    }

    /// The metaslabs that have a map: the others were never used.
    fn mapped_metaslabs(&self) -> Vec<Arc<Metaslab>> {
        let mut metaslabs = self.every_metaslab();
        metaslabs.retain(|metaslab| metaslab.has_map());
        metaslabs
    }

    /// Writes the changes since the last pass.
    ///
    /// # Errors
    /// The maps cannot be written, or contradict the changes.
    pub fn sync(&self, txg: Txg, pass: u32, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let dirty: Vec<Arc<Metaslab>> = self
            .every_metaslab()
            .into_iter()
            .filter(|metaslab| metaslab.is_dirty(txg))
            .collect();
        if dirty.is_empty() {
            return Ok(());
        }
        let pass = self.pass(txg, pass);
        if self.logs {
            self.write_log(&dirty, pass, store)?;
        } else {
            dirty
                .iter()
                .try_for_each(|metaslab| metaslab.write_own(pass, store))?;
        }
        let mut waiting = self.dirty.lock();
        for metaslab in dirty {
            if !waiting.iter().any(|known| Arc::ptr_eq(known, &metaslab)) {
                waiting.push(metaslab);
            }
        }
        Ok(())
    }

    fn write_log(
        &self,
        dirty: &[Arc<Metaslab>],
        pass: Pass,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        let failed = |source| SpaceError::Store {
            object: ObjectId(0),
            txg: pass.txg,
            source,
        };
        let log = store.log(pass.txg).map_err(failed)?;
        let mut changes = Vec::with_capacity(dirty.len());
        for metaslab in dirty {
            changes.push((metaslab.place().vdev, metaslab.take_for_log(pass, store)?));
        }
        let failed = |source| SpaceError::Store {
            object: log,
            txg: pass.txg,
            source,
        };
        let position = store.length(log).map_err(failed)?;
        let block_size = store.block_size(log).map_err(failed)?;
        let position = usize::try_from(position % block_size as u64).unwrap_or(0);
        let mut encoder = Encoder::new(LOG_SHIFT, Form::WithVdev, block_size, position);
        let allocated_change = changes
            .iter()
            .map(|(vdev, change)| log_entries(&mut encoder, *vdev, change, pass))
            .sum();
        let append = MapAppend {
            bytes: &encoder.finish(),
            allocated_change,
            histogram: None,
        };
        store.append(log, &append).map_err(failed)
    }

    /// After the uberblock of `txg`: what was freed begins its rest, what has rested may be used again.
    ///
    /// # Errors
    /// The maps contradict the changes: a bug.
    pub fn finish(&self, txg: Txg) -> Result<(), SpaceError> {
        let waiting = std::mem::take(&mut *self.dirty.lock());
        let mut still = Vec::with_capacity(waiting.len());
        for metaslab in waiting {
            if metaslab.finish(txg)? {
                still.push(metaslab);
            }
        }
        self.dirty.lock().extend(still);
        Ok(())
    }

    /// Whether freed space still rests, so that more (empty) txgs would make it usable.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    fn every_metaslab(&self) -> Vec<Arc<Metaslab>> {
        let vdevs = self.vdevs.read();
        vdevs
            .iter()
            .flatten()
            .flat_map(|vdev| vdev.metaslabs().iter().cloned())
            .collect()
    }

    fn pass(&self, txg: Txg, pass: u32) -> Pass {
        let form = if self.two_words {
            Form::Mixed
        } else {
            Form::OneWord
        };
        Pass { txg, pass, form }
    }
}

/// Writes the entries of one metaslab; returns by how much allocated bytes grow.
fn log_entries(encoder: &mut Encoder, vdev: VdevId, changes: &Changes, pass: Pass) -> i64 {
    changes.encode(encoder, vdev.0, 0, pass);
    changes.growth()
}
