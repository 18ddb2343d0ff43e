//! A txg's changes of space, written to the log or to the metaslabs' own maps.

use super::PoolSpace;
use crate::metaslab::{Changes, Metaslab, Pass};
use crate::vdev_space::VdevSpace;
use crate::{MapAppend, SpaceError, SpaceStore, tunables};
use base::{ObjectId, Txg, VdevId};
use format::space_map::{Encoder, Form, decode};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last two logs, by txg: what the one of a txg that is being written, and the one before, say was freed rests when
/// it is written.
#[derive(Debug, Default)]
pub(super) struct LastLogs {
    newest: AtomicU64,
    before: AtomicU64,
}

impl LastLogs {
    /// A log was read or begun; by the thread that opens the pool or that syncs, in ascending order.
    fn add(&self, txg: Txg) {
        let newest = self.newest.load(Ordering::Relaxed);
        if txg.0 > newest {
            self.before.store(newest, Ordering::Relaxed);
            self.newest.store(txg.0, Ordering::Relaxed);
        }
    }

    /// The last log before that of a txg; the txg itself without one.
    fn before(&self, txg: Txg) -> Txg {
        let newest = Txg(self.newest.load(Ordering::Relaxed));
        let before = Txg(self.before.load(Ordering::Relaxed));
        let found = if newest < txg { newest } else { before };
        if found == Txg(0) { txg } else { found }
    }
}

/// Units of log space maps, as a shift.
const LOG_SHIFT: u32 = 9;
/// So many times as many metaslabs are passed over in a txg whose logged changes cancel out: each costs a word of an
/// array.
const CLEAN_PACE: usize = 16;
/// So many times as many are flushed while logged changes take too much memory.
const HURRY: usize = 16;

impl PoolSpace {
    /// Takes up one log at import, in ascending order of txg; `newer` is how many come after it. Each txg that was
    /// written has one, so what the last [`DEFER_TXGS`] say was freed goes on resting.
    ///
    /// # Errors
    /// An entry does not decode or contradicts the maps.
    pub fn replay_log(
        &self,
        txg: Txg,
        log: ObjectId,
        bytes: &[u8],
        newer: usize,
    ) -> Result<(), SpaceError> {
        self.last_logs.add(txg);
        for entry in decode(bytes, LOG_SHIFT) {
            let entry = entry.map_err(|source| SpaceError::Format {
                object: log,
                source,
            })?;
            let mut range = entry.offset..entry.offset.saturating_add(entry.length);
            // A vdev that was removed since, or one that holds no space: its entries are moot.
            let Some(vdev) = self.vdev(VdevId(entry.vdev)) else {
                continue;
            };
            while !range.is_empty() {
                let size = 1_u64 << vdev.geometry().metaslab_shift;
                let end = (range.start / size + 1).saturating_mul(size).min(range.end);
                let part: Range<u64> = range.start..end;
                let metaslab = vdev.metaslab(&part)?;
                metaslab.replay(entry.action, &part, txg, newer)?;
                range.start = end;
            }
        }
        Ok(())
    }

    /// Whether a pass has something to write.
    #[must_use]
    pub fn is_dirty(&self, txg: Txg) -> bool {
        let vdevs = self.vdevs.read();
        let mut vdevs = vdevs.iter().flatten();
        vdevs.any(|vdev| vdev.lists().is_dirty(txg))
    }

    /// Moves the logged changes of a few metaslabs to their own maps, the longest unflushed first; in pass 1 of a
    /// txg that writes, before [`Self::sync`].
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn flush_some(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if !self.logs {
            return Ok(());
        }
        let vdevs = self.vdevs();
        let sum = |of: fn(&Arc<VdevSpace>) -> usize| vdevs.iter().map(of).sum::<usize>();
        let mapped = sum(|vdev| vdev.lists().lock().mapped.len());
        let pace = tunables::FLUSHED_PER_TXG_COUNT.count().max(mapped / 128);
        // Each is looked at once: what is flushed goes to the end.
        let mut looked = 0;
        let (mut flushed, mut clean) = (0_usize, 0_usize);
        while looked < mapped && clean < pace.saturating_mul(CLEAN_PACE) {
            let many = self.unflushed_ranges() > tunables::UNFLUSHED_RANGES_COUNT.get();
            let limit = if many {
                pace.saturating_mul(HURRY)
            } else {
                pace
            };
            let Some((_, metaslab)) = longest_unflushed(&vdevs).filter(|(since, _)| *since < txg)
            else {
                break;
            };
            if metaslab.has_unflushed() {
                if flushed >= limit {
                    break;
                }
                flushed += 1;
            } else {
                clean += 1;
            }
            looked += 1;
            metaslab.flush(self.pass(txg, 1), store)?;
            self.shed(None);
        }
        self.trim_logs(txg, store)
    }

    /// Ranges of changes that only the logs have, all in memory.
    pub(super) fn unflushed_ranges(&self) -> u64 {
        let vdevs = self.vdevs.read();
        let of = |vdev: &Arc<VdevSpace>| vdev.lists().unflushed.get();
        vdevs.iter().flatten().map(of).sum()
    }

    /// Metaslabs whose maps cannot be read.
    pub(super) fn unreadable_metaslabs(&self) -> u64 {
        let vdevs = self.vdevs.read();
        let of = |vdev: &Arc<VdevSpace>| vdev.lists().lock().unreadable.len() as u64;
        vdevs.iter().flatten().map(of).sum()
    }

    /// Moves all logged changes to the metaslabs' own maps, but for those whose maps cannot be read: at export.
    ///
    /// # Errors
    /// The maps cannot be written.
    pub fn flush_all(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        if !self.logs {
            return Ok(());
        }
        for metaslab in self.mapped_metaslabs() {
            metaslab.flush(self.pass(txg, 1), store)?;
            self.shed(None);
        }
        self.trim_logs(txg, store)
    }

    /// Drops the logs that no metaslab needs, but for the last ones, which tell an import what rests. A metaslab whose
    /// logged changes cancel out needs its logs all the same: half of a pair that cancels would contradict its map.
    pub(super) fn trim_logs(&self, txg: Txg, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        let vdevs = self.vdevs();
        let oldest = longest_unflushed(&vdevs).map(|(since, _)| since);
        let of = |vdev: &Arc<VdevSpace>| vdev.lists().lock().unreadable.first().copied();
        let unreadable = vdevs.iter().filter_map(of).map(|(since, _)| since);
        let oldest = oldest.into_iter().chain(unreadable).min();
        let kept = self.last_logs.before(txg);
        store
            .trim_logs(oldest.unwrap_or(txg).min(kept))
            .map_err(|source| SpaceError::Store {
                object: ObjectId(0),
                txg,
                source,
            })
    }

    /// The metaslabs that have a map: the others were never used.
    fn mapped_metaslabs(&self) -> Vec<Arc<Metaslab>> {
        let mut found = Vec::new();
        for vdev in self.vdevs() {
            let mapped = {
                let lists = vdev.lists().lock();
                &lists.mapped | &lists.unreadable
            };
            found.extend(vdev.of(mapped.into_iter().map(|(_, index)| index)).cloned());
        }
        found
    }

    /// Writes the changes since the last pass.
    ///
    /// # Errors
    /// The maps cannot be written, or contradict the changes.
    pub fn sync(&self, txg: Txg, pass: u32, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        self.sync_kept(self.pass(txg, pass), store)?;
        let mut dirty: Vec<Arc<Metaslab>> = Vec::new();
        for vdev in self.vdevs() {
            dirty.extend(vdev.of(vdev.lists().dirty(txg)).cloned());
        }
        if dirty.is_empty() {
            return Ok(());
        }
        let pass = self.pass(txg, pass);
        if self.logs {
            return self.write_log(&dirty, pass, store);
        }
        dirty
            .iter()
            .try_for_each(|metaslab| metaslab.write_own(pass, store))
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
        self.last_logs.add(pass.txg);
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
        for vdev in self.vdevs() {
            let resting = vdev.lists().lock().resting.clone();
            vdev.of(resting)
                .try_for_each(|metaslab| metaslab.finish())?;
        }
        self.pass_over(txg);
        Ok(())
    }

    /// After a txg without changes, which wrote no uberblock: what rests goes on resting.
    pub fn pass_over(&self, txg: Txg) {
        self.finished.fetch_max(txg.0, Ordering::Relaxed);
        self.shed(None);
    }

    /// Whether freed space still rests, so that more uberblocks would make it usable.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        let vdevs = self.vdevs.read();
        let mut vdevs = vdevs.iter().flatten();
        vdevs.any(|vdev| !vdev.lists().lock().resting.is_empty())
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

/// The metaslab whose map has waited longest for changes that are in the logs, and since when.
fn longest_unflushed(vdevs: &[Arc<VdevSpace>]) -> Option<(Txg, &Arc<Metaslab>)> {
    let of = |vdev: &'_ Arc<VdevSpace>| vdev.lists().lock().mapped.first().copied();
    let firsts = vdevs.iter().filter_map(|vdev| Some((of(vdev)?, vdev)));
    let ((since, index), vdev) = firsts.min_by_key(|((since, _), _)| *since)?;
    Some((since, vdev.metaslabs().get(index)?))
}

/// Writes the entries of one metaslab; returns by how much allocated bytes grow.
fn log_entries(encoder: &mut Encoder, vdev: VdevId, changes: &Changes, pass: Pass) -> i64 {
    changes.encode(encoder, vdev.0, 0, pass);
    changes.growth()
}
