//! Expansion of a RAID-Z vdev: another child, over which all that is allocated spreads.
//!
//! ```text
//! attached ─ the first sectors ─► in the scratch areas ─► in their places ─ slice by slice, one a txg ─► all ─► grown
//! ```
//!
//! Each txg copies a slice in its first pass (`vdev::Move`), and its uberblock says how far what has moved reaches.
//! What is copied overwrites places that the uberblock before does not look for: [`layout::Reflow::limit`]. So a crash
//! at any point leaves a pool all of which is where its newest uberblock says. Sectors at the beginning would
//! overwrite what has not moved yet. They are copied to a scratch area of each leaf, the newest uberblock is written
//! again with the word that leads there, they are copied to their places, and it is written once more, without.
//!
//! While a leaf is away or lacks something nothing moves: what cannot be read cannot be copied.

mod requests;
mod work;

use std::sync::Arc;

use base::VdevId;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::JoinHandle;
use format::Uberblock;
use format::uberblock::Reflow;
use layout::Moved;
use space::VdevSpace;
use vdev::Move;

use crate::config::PoolConfig;
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;
use crate::sync::syncer::LastSynced;

static STATE: LockClass = LockClass::new("pool.expansion", rank::LAST - 35);
static THREAD: LockClass = LockClass::new("pool.expansion_thread", rank::POOL + 17);

/// Expands a vdev of a pool that is open for writing.
pub(crate) struct Expander {
    last: Arc<LastSynced>,
    state: Mutex<State>,
    /// The pool closes.
    closes: Condvar,
    /// A txg is on disk.
    synced: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// The vdev that is getting another child, until the txg in which it has it is on disk.
    vdev: Option<VdevId>,
    /// Whether it has it with the txg that syncs.
    is_complete: bool,
    /// How far it has moved, as the pool on disk says.
    reflow: Reflow,
    /// What moves with the txg that syncs.
    moving: Option<Moving>,
    /// The vdev as it is from the next txg on.
    grown: Option<VdevSpace>,
    /// Whether sectors are to move: not before the pool is open, nor when it closes.
    is_running: bool,
    /// How many txgs there were.
    txgs: u64,
    /// Whether there is a thread that has txgs follow one another.
    has_thread: bool,
    /// Why nothing moved in the last txg, if so.
    waits: Option<Waits>,
}

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// A device is away, or lacks something.
    Devices,
    /// What is to move could not be read or written.
    Failed,
}

struct Moving {
    sectors: Move,
    /// How far has moved when the txg is on disk; none if it stays as it is.
    then: Option<Reflow>,
}

/// What the layers below call it.
pub(crate) const fn moved(reflow: Reflow) -> Moved {
    Moved {
        to: reflow.moved,
        in_scratch: matches!(reflow.scratch, format::uberblock::Scratch::Holds),
    }
}

/// The vdev of a pool that is getting another child.
pub(crate) fn expanding(config: &PoolConfig) -> Option<VdevId> {
    let mut tops = config.root.children.iter();
    let top = tops.find(|top| top.is_expanding());
    top.map(|top| top.id())
}

impl Expander {
    /// That of a pool as an uberblock says it is.
    pub(crate) fn open(
        services: &PoolServices,
        uberblock: &Uberblock,
        last: &Arc<LastSynced>,
    ) -> Result<Arc<Self>> {
        let reflow = uberblock.reflow();
        let reflow = reflow.map_err(PoolError::corrupt("uberblock"))?;
        let vdev = services.config.with(expanding);
        let state = State {
            vdev,
            reflow: if vdev.is_some() {
                reflow
            } else {
                Reflow::default()
            },
            ..State::default()
        };
        Ok(Arc::new(Self {
            last: Arc::clone(last),
            state: Mutex::new(&STATE, state),
            closes: Condvar::new(),
            synced: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
        }))
    }

    /// The vdev that is getting another child.
    pub(crate) fn vdev(&self) -> Option<VdevId> {
        self.state.lock().vdev
    }

    /// Why nothing moves, if so.
    pub(crate) fn waits(&self) -> Option<Waits> {
        self.state.lock().waits
    }

    /// How far the vdev has moved with the uberblock that is written now. A leaf that failed since sectors were copied
    /// may lack some of them.
    pub(crate) fn reflow(&self) -> Reflow {
        let (now, moving) = {
            let mut state = self.state.lock();
            (state.reflow, state.moving.take())
        };
        let Some(mut moving) = moving else {
            return now;
        };
        if !moving.sectors.is_whole() {
            moving.then = None;
        }
        let reflow = moving.then.unwrap_or(now);
        self.state.lock().moving = Some(moving);
        reflow
    }

    /// The txg is on disk, if it was `written`: what moved with it is where the uberblock says.
    pub(crate) fn synced(&self, written: bool) {
        let moving = self.state.lock().moving.take();
        let Some(moving) = moving else { return };
        // Without an uberblock nobody asked how far it reaches.
        let Some(then) = moving.then.filter(|_| written) else {
            return;
        };
        moving.sectors.end();
        self.state.lock().reflow = then;
    }
}
