//! A checkpoint's part in a sync.

use base::VdevId;
use base::metrics::{Counter, registry};
use format::Uberblock;
use format::config::directory;
use format::features;
use format::space_map::{Action, decode};
use format::uberblock;
use format::zap::Value;
use space::{Extent, PoolSpace, VdevSpace};
use std::sync::{Arc, LazyLock};

use super::{CheckpointKeeper, Request, Standing};
use crate::error::{PoolError, Result};
use crate::sync::tasks::{FirstPass, SyncTask};
use base::Txg;

/// So many bytes of the maps are emptied with a txg: the ranges that they list are in memory until it is on disk.
const BYTES_PER_TXG: usize = 512 << 10;

/// What the history calls both changes.
const TAKEN: &str = "spa checkpoint";
const DISCARDED: &str = "spa discard checkpoint";

/// What can be watched here, for the whole process.
struct Meters {
    /// Ranges that a map of what is kept lists although they cannot be freed: they stay as they are.
    misplaced: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    misplaced: registry().counter("pool.checkpointed_ranges_misplaced"),
});

/// What became of the map of one vdev.
enum Emptied {
    /// There is nothing in it any more.
    Whole,
    /// So many bytes of entries.
    Some(usize),
    /// It cannot be read.
    Unreadable,
}

impl CheckpointKeeper {
    /// Has something done with the next txg.
    pub(super) fn want(&self, request: Request) {
        let mut state = self.state.lock();
        state.wanted = Some(request);
        state.outcome = None;
    }

    /// What became of what was wanted.
    pub(super) fn outcome(&self) -> Result<()> {
        let outcome = self.state.lock().outcome.take();
        outcome.unwrap_or(Err(PoolError::Busy))
    }

    fn set_standing(&self, standing: Standing) {
        self.allocator.set_checkpoint(match standing {
            Standing::Taken(txg) => txg,
            Standing::None | Standing::Discarding => Txg(0),
        });
        self.state.lock().standing = standing;
    }

    fn take(&self, pass: &FirstPass<'_>) -> Result<()> {
        let last = self.last.get();
        let kept = Uberblock {
            checkpoint_txg: last.txg,
            ..last
        };
        let mut bytes = [0; uberblock::SIZE];
        kept.write(&mut bytes);
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| format::record::get_at(word, 0, base::ByteOrder::NATIVE))
            .collect();
        let services = pass.services;
        let key = directory::CHECKPOINT.as_bytes();
        services
            .directory
            .add_value(pass.tx, key, &Value::words(&words))?;
        services.change_feature(pass.tx, &features::ZPOOL_CHECKPOINT, 1)?;
        self.set_standing(Standing::Taken(last.txg));
        let text = format!("checkpointed uberblock txg={}", last.txg);
        let now_s = services.clock.now_s();
        Ok(services
            .history
            .internal(pass.tx, TAKEN, &text, None, now_s)?)
    }

    fn discard(&self, pass: &FirstPass<'_>) -> Result<()> {
        let key = directory::CHECKPOINT.as_bytes();
        pass.services.directory.remove(pass.tx, key)?;
        self.set_standing(Standing::Discarding);
        Ok(())
    }

    /// Does what is wanted; what is refused is told to who asked.
    fn change(&self, pass: &FirstPass<'_>, request: Request) -> Result<()> {
        let outcome = match (request, self.standing()) {
            (Request::Take, Standing::None) => Ok(self.take(pass)?),
            (Request::Discard, Standing::Taken(_)) => Ok(self.discard(pass)?),
            (Request::Discard, Standing::None) => Err(PoolError::NoCheckpoint),
            (_, standing) => standing.check_none(),
        };
        self.state.lock().outcome = Some(outcome);
        Ok(())
    }

    /// Frees some of what was kept.
    fn free_some(&self, pass: &FirstPass<'_>) -> Result<()> {
        let mut room = BYTES_PER_TXG;
        let (mut is_whole, mut is_stuck) = (true, false);
        for vdev in pass.space.vdevs() {
            loop {
                if room == 0 {
                    is_whole &= pass.maps.known_kept(vdev.geometry().vdev).is_none();
                    break;
                }
                match empty_end(pass, &vdev)? {
                    Emptied::Whole => break,
                    Emptied::Some(bytes) => room = room.saturating_sub(bytes.max(1)),
                    Emptied::Unreadable => {
                        (is_whole, is_stuck) = (false, true);
                        break;
                    }
                }
            }
        }
        self.state.lock().is_stuck = is_stuck;
        if !is_whole {
            return Ok(());
        }
        let services = pass.services;
        services.change_feature(pass.tx, &features::ZPOOL_CHECKPOINT, -1)?;
        self.set_standing(Standing::None);
        let text = "finished discarding checkpointed state from the pool";
        let now_s = services.clock.now_s();
        services
            .history
            .internal(pass.tx, DISCARDED, text, None, now_s)?;
        if let Some(ended) = self.ended.lock().as_ref() {
            ended();
        }
        Ok(())
    }
}

/// Frees what the last block of a vdev's map lists, and cuts it off.
fn empty_end(pass: &FirstPass<'_>, vdev: &VdevSpace) -> Result<Emptied> {
    let geometry = vdev.geometry();
    let id = geometry.vdev;
    let Some(map) = pass.maps.known_kept(id) else {
        return Ok(Emptied::Whole);
    };
    let Ok(end) = pass.maps.end_of(map) else {
        return Ok(Emptied::Unreadable);
    };
    let entries = decode(&end.bytes, geometry.layout.ashift());
    let Ok(entries) = entries.collect::<Result<Vec<_>, _>>() else {
        return Ok(Emptied::Unreadable);
    };
    let mut listed: u64 = 0;
    for entry in entries.iter().filter(|entry| entry.action == Action::Free) {
        listed = listed.saturating_add(entry.length);
        free(
            pass.space,
            id,
            entry.offset..entry.offset.saturating_add(entry.length),
        );
    }
    let listed = listed.cast_signed();
    vdev.add_kept(-listed);
    if end.start == 0 {
        pass.maps.drop_kept(pass.tx, id)?;
        return Ok(Emptied::Some(end.bytes.len()));
    }
    pass.maps.cut(pass.tx, map, end.start, listed)?;
    Ok(Emptied::Some(end.bytes.len()))
}

/// Frees a range that was kept. One that is free already, or nowhere, is damage, and costs nothing.
fn free(space: &PoolSpace, vdev: VdevId, range: std::ops::Range<u64>) {
    if space.free(&Extent { vdev, range }).is_err() {
        METERS.misplaced.increment();
    }
}

impl SyncTask for CheckpointKeeper {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let wanted = self.state.lock().wanted.take();
        if let Some(request) = wanted {
            self.change(pass, request)?;
        }
        match self.standing() {
            Standing::Discarding => self.free_some(pass),
            Standing::None | Standing::Taken(_) => Ok(()),
        }
    }

    fn finish(&self, _space: &PoolSpace) {
        let goes_on = {
            let state = self.state.lock();
            state.standing == Standing::Discarding && !state.is_stuck
        };
        if goes_on && let Some(engine) = self.engine.upgrade() {
            engine.kick();
        }
    }
}
