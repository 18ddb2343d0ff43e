//! What an expansion does in a sync.

use std::ops::Range;
use std::sync::Arc;

use base::invariant::Findings;
use base::{Txg, VdevId};
use format::Uberblock;
use format::config::vdev_zap;
use format::uberblock::{Reflow, Scratch};
use layout::Moved;
use space::PoolSpace;
use vdev::{Move, Top, VdevError};

use super::{Expander, Moving, Waits, expanding, moved};
use crate::error::Result;
use crate::sync::tasks::{FirstPass, SyncTask};
use crate::sync::uberblock::Commit;
use crate::tunables;

/// Free space between what is in use is copied with it where it is no longer than this, bytes: a disk would have to
/// seek.
const GAP_BYTES: u64 = 64 << 10;

/// What came of an attempt to move sectors.
enum Outcome {
    Done,
    Waits(Waits),
}

/// What is in use of a slice.
struct Used {
    /// Where the slice ends.
    end: u64,
    /// What is to be copied of it.
    ranges: Vec<Range<u64>>,
    /// How much of that is in use, bytes.
    bytes: u64,
}

impl SyncTask for Expander {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let attached = pass.services.config.with(expanding);
        let (vdev, reflow) = {
            let mut state = self.state.lock();
            let Some(vdev) = state.vdev else {
                // One that got its child in this very txg begins with the next: then the pool on disk has it.
                state.vdev = attached;
                state.reflow = Reflow::default();
                return Ok(());
            };
            if !state.is_running {
                return Ok(());
            }
            (vdev, state.reflow)
        };
        let top = pass.vdevs.top(vdev)?;
        let outcome = if top.can_move() {
            self.advance(pass, &top, reflow)?
        } else {
            Outcome::Waits(Waits::Devices)
        };
        self.state.lock().waits = match outcome {
            Outcome::Done => None,
            Outcome::Waits(why) => Some(why),
        };
        Ok(())
    }

    fn finish(&self, space: &PoolSpace) {
        let grown = {
            let mut state = self.state.lock();
            state.txgs = state.txgs.wrapping_add(1);
            state.grown.take()
        };
        if let Some(grown) = grown {
            space.set_vdev(grown);
        }
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_complete) {
            state.vdev = None;
        }
        drop(state);
        self.synced.notify_all();
    }

    fn close(&self) {
        self.leave();
    }

    /// Sectors move with the txgs that come anyway, until the pool has its thread go on.
    fn stay(&self) {
        self.state.lock().is_running = true;
    }
}

impl Expander {
    fn advance(&self, pass: &FirstPass<'_>, top: &Arc<Top>, reflow: Reflow) -> Result<Outcome> {
        match reflow.scratch {
            Scratch::Unused => match self.fill_scratch(pass, top)? {
                Outcome::Done => self.empty_scratch(pass, top),
                waits @ Outcome::Waits(_) => Ok(waits),
            },
            Scratch::Holds => self.empty_scratch(pass, top),
            Scratch::Moved | Scratch::MovedByImport | Scratch::MovedOn => {
                if reflow.moved >= pass.whole_metaslabs(top.id()) {
                    return self.complete(pass, top);
                }
                self.move_slice(pass, top, reflow)
            }
        }
    }

    /// Copies the first sectors into the scratch areas, and has the newest uberblock lead there.
    fn fill_scratch(&self, pass: &FirstPass<'_>, top: &Arc<Top>) -> Result<Outcome> {
        let Some(geometry) = layout::Reflow::of(top.layout()) else {
            return Ok(Outcome::Waits(Waits::Failed));
        };
        let then = Reflow {
            moved: geometry.scratch_end(),
            scratch: Scratch::Holds,
        };
        self.move_first(pass, top, then)
    }

    /// Copies what the scratch areas hold to its places.
    fn empty_scratch(&self, pass: &FirstPass<'_>, top: &Arc<Top>) -> Result<Outcome> {
        let now = self.state.lock().reflow;
        let then = Reflow {
            scratch: Scratch::Moved,
            ..now
        };
        self.move_first(pass, top, then)
    }

    /// Copies the first sectors, and writes the newest uberblock again with the word that says where they are. It is of
    /// the same txg and counts as newer; should this fail, the uberblock of the txg that syncs replaces both.
    fn move_first(&self, pass: &FirstPass<'_>, top: &Arc<Top>, then: Reflow) -> Result<Outcome> {
        let Some(sectors) = begin(pass, top, moved(then)) else {
            return Ok(Outcome::Waits(Waits::Failed));
        };
        let range = sectors.range();
        if copy(&sectors, [range]).is_err() || pass.vdevs.flush().is_err() || !sectors.is_whole() {
            return Ok(Outcome::Waits(Waits::Failed));
        }
        let last = self.last.get();
        let uberblock = Uberblock {
            reflow_info: then.word(),
            timestamp: last.timestamp.saturating_add(1),
            ..last
        };
        let commit = Commit {
            vdevs: pass.vdevs,
            labels: None,
            uberblock: &uberblock,
            rotor: 0,
            findings: pass.findings,
        };
        if commit.run_on(std::slice::from_ref(top)).is_err() {
            // Some label may have it: until there is a newer one, writes go to both places.
            self.state.lock().moving = Some(Moving {
                sectors,
                then: None,
            });
            return Ok(Outcome::Waits(Waits::Failed));
        }
        self.last.set(&uberblock);
        sectors.end();
        self.state.lock().reflow = then;
        Ok(Outcome::Done)
    }

    /// Copies a slice. From the uberblock of this txg on it is in its new place.
    fn move_slice(&self, pass: &FirstPass<'_>, top: &Arc<Top>, reflow: Reflow) -> Result<Outcome> {
        let id = top.id();
        let end = pass.whole_metaslabs(id);
        let limit =
            layout::Reflow::of(top.layout()).map_or(0, |geometry| geometry.limit(reflow.moved));
        let whole = reflow.moved..limit.min(end);
        if whole.is_empty() {
            return Ok(Outcome::Waits(Waits::Failed));
        }
        let end = pass
            .used(id, &whole, tunables::REFLOW_SLICE_BYTES.get())?
            .end;
        let then = Reflow {
            moved: end,
            scratch: Scratch::MovedOn,
        };
        let Some(sectors) = begin(pass, top, moved(then)) else {
            return Ok(Outcome::Waits(Waits::Failed));
        };
        // What came to be in use before it began may have been written to its old place alone.
        let used = pass.used(id, &(reflow.moved..end), u64::MAX)?;
        if copy(&sectors, used.ranges).is_err() {
            return Ok(Outcome::Waits(Waits::Failed));
        }
        // Also when nothing was copied: so there is an uberblock.
        pass.count_copied(id, used.bytes)?;
        self.state.lock().moving = Some(Moving {
            sectors,
            then: Some(then),
        });
        Ok(Outcome::Done)
    }

    /// All has moved: the vdev is as wide as it has children, and larger.
    fn complete(&self, pass: &FirstPass<'_>, top: &Arc<Top>) -> Result<Outcome> {
        let grown = pass.complete_expansion(top)?;
        let mut state = self.state.lock();
        state.is_complete = true;
        state.reflow = Reflow::default();
        state.grown = Some(grown);
        Ok(Outcome::Done)
    }
}

fn begin(pass: &FirstPass<'_>, top: &Arc<Top>, to: Moved) -> Option<Move> {
    let (txg, findings): (Txg, &Arc<Findings>) = (pass.tx.txg(), pass.findings);
    Move::begin(top, to, txg, findings)
}

fn copy(
    sectors: &Move,
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> std::result::Result<(), VdevError> {
    ranges
        .into_iter()
        .try_for_each(|range| sectors.copy(range))?;
    sectors.settle()
}

impl FirstPass<'_> {
    /// Bytes of a vdev's whole metaslabs: what lies behind them is never used.
    fn whole_metaslabs(&self, vdev: VdevId) -> u64 {
        let config = &self.services.config;
        config.with(|config| config.top(vdev).map_or(0, |top| top.metaslab_bytes()))
    }

    /// What is in use of a part of a vdev, from its beginning up to about so many bytes.
    fn used(&self, vdev: VdevId, whole: &Range<u64>, bytes_max: u64) -> Result<Used> {
        let mut used = Used {
            end: whole.end,
            ranges: Vec::new(),
            bytes: 0,
        };
        let mut rest = whole.clone();
        while let Some(found) = self.space.next_used(vdev, &rest, self.maps)? {
            // Whole sectors, whatever these are.
            let room = bytes_max.saturating_sub(used.bytes) / GAP_BYTES * GAP_BYTES;
            let end = found.end.min(found.start.saturating_add(room));
            used.bytes = used.bytes.saturating_add(end - found.start);
            match used.ranges.last_mut() {
                Some(last) if found.start - last.end <= GAP_BYTES => last.end = end,
                Some(_) | None => used.ranges.push(found.start..end),
            }
            if end < found.end {
                used.end = end;
                break;
            }
            rest.start = found.end;
        }
        Ok(used)
    }

    /// Adds to what is stored as copied.
    fn count_copied(&self, vdev: VdevId, bytes: u64) -> Result<()> {
        let zap = self.top_zap(vdev)?;
        let key = vdev_zap::RAIDZ_EXPAND_BYTES_COPIED.as_bytes();
        let before = zap.lookup(key)?.unwrap_or(0);
        Ok(zap.update(self.tx, key, before.saturating_add(bytes))?)
    }
}
