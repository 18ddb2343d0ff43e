//! Checkpoints: the whole state of a pool as of one txg, kept until it is discarded or the pool is taken back to it.
//!
//! ```text
//! none --take--> taken --discard--> discarding --the maps are empty--> none
//! ```
//!
//! A checkpoint is an uberblock: the pool's directory stores the newest one as it was when the checkpoint was taken.
//! From then on nothing that it leads to is given away. A block that was in use as of its txg stays in use when it is
//! freed, and is listed in a map of its vdev (`space::PoolSpace::keep`): what was in use then is told by the txg in
//! which its space was given. Discarding removes the uberblock from the directory and frees what the maps list, from
//! their ends, a little with each txg: each txg is whole, so that it goes on after a crash or an import, here or in
//! OpenZFS.
//!
//! A pool is taken back at import (`import::rewind`). The old state knows nothing of the maps, nor of anything else
//! that came later: what they list is simply in use.
//!
//! The devices of the old state must be there then: while a checkpoint is kept no device comes beside another one,
//! goes, or takes another one's place, and replacements do not end. Vdevs can be added; the old state does not know
//! them.

mod requests;
mod work;

use std::sync::{Arc, Weak};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::Zap;
use format::Uberblock;
use format::config::directory;
use format::features;
use txg::Engine;

use crate::allocation::allocator::PoolAllocator;
use crate::error::{PoolError, Result};
use crate::mos::features::Features;
use crate::pool::services::PoolServices;
use crate::sync::syncer::LastSynced;

static STATE: LockClass = LockClass::new("pool.checkpoint", rank::LAST - 33);
static ENDED: LockClass = LockClass::new("pool.checkpoint_ended", rank::LAST - 34);

/// Whether there is a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is none.
    #[default]
    None,
    /// There is one, of that txg.
    Taken(Txg),
    /// What it kept is being freed.
    Discarding,
}

/// What is to be done with the next txg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Take,
    Discard,
}

#[derive(Default)]
struct State {
    standing: Standing,
    wanted: Option<Request>,
    /// What became of it.
    outcome: Option<Result<()>>,
    /// What the maps list cannot be read: it stays in use.
    is_stuck: bool,
}

/// Called, by the thread that syncs, when a checkpoint is gone.
type Ended = Box<dyn Fn() + Send + Sync>;

/// The checkpoint of a pool that is open for writing.
pub(crate) struct CheckpointKeeper {
    allocator: Arc<PoolAllocator>,
    last: Arc<LastSynced>,
    engine: Weak<Engine>,
    state: Mutex<State>,
    ended: Mutex<Option<Ended>>,
}

impl Standing {
    /// Why devices stay as they are, if they must.
    pub(crate) fn check_none(self) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Taken(_) => Err(PoolError::CheckpointExists),
            Self::Discarding => Err(PoolError::DiscardingCheckpoint),
        }
    }
}

/// The uberblock that a pool's directory stores as its checkpoint, if there is one.
pub(crate) fn stored(directory: &Zap) -> Result<Option<Uberblock>> {
    let value = directory.lookup_value(directory::CHECKPOINT.as_bytes())?;
    let Some(value) = value else { return Ok(None) };
    let uberblock = Uberblock::from_words(&value.to_words());
    uberblock
        .map(Some)
        .map_err(PoolError::corrupt("checkpoint"))
}

/// How a pool's checkpoint stands when it is opened.
fn standing(directory: &Zap, features: &Features) -> Result<Standing> {
    Ok(match stored(directory)? {
        Some(uberblock) => Standing::Taken(uberblock.checkpoint_txg.max(uberblock.txg)),
        None if features.is_active(&features::ZPOOL_CHECKPOINT) => Standing::Discarding,
        None => Standing::None,
    })
}

impl CheckpointKeeper {
    /// As the pool has stored it.
    pub(crate) fn open(
        services: &PoolServices,
        allocator: &Arc<PoolAllocator>,
        last: &Arc<LastSynced>,
        engine: &Arc<Engine>,
    ) -> Result<Arc<Self>> {
        let standing = standing(&services.directory, &services.features)?;
        if let Standing::Taken(txg) = standing {
            allocator.set_checkpoint(txg);
        }
        let state = State {
            standing,
            ..State::default()
        };
        Ok(Arc::new(Self {
            allocator: Arc::clone(allocator),
            last: Arc::clone(last),
            engine: Arc::downgrade(engine),
            state: Mutex::new(&STATE, state),
            ended: Mutex::new(&ENDED, None),
        }))
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.state.lock().standing
    }

    /// From now on this is called when a checkpoint is gone.
    fn on_ended(&self, ended: Ended) {
        *self.ended.lock() = Some(ended);
    }
}

#[cfg(test)]
mod tests;
