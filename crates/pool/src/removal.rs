//! Removing data vdevs: what one holds is copied to the others, and a mapping says where it lies then.
//!
//! Each txg copies a piece, in its first pass, before anything is freed: what is in use is what was in use when the
//! last txg ended. The entries of the mapping are stored with the same txg. So at any moment each range of the vdev is
//! mapped and copied, or neither; a crash goes on where the last txg ended. When everything is copied, a txg puts a
//! vdev without devices in its place, which leads to the copies.

mod copying;
mod ending;
mod requests;
mod starting;
mod stored;

use std::sync::{Arc, Weak};

use base::lock::{LockClass, Mutex, rank};
use base::{Txg, VdevId};
use format::config::keys;
use format::indirect::{Removing, removal_state};
use space::PoolSpace;
use txg::Engine;

use crate::allocation::allocator::PoolAllocator;
use crate::error::{PoolError, Result};
use crate::import::removed;
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};
use crate::vdevs::changes::VdevChanges;
use stored::Stored;

static WHEN_ENDED: LockClass = LockClass::new("pool.removal_ended", rank::POOL + 27);
static STATE: LockClass = LockClass::new("pool.removal", rank::LAST - 27);

/// What is to be done with the next txg.
#[derive(Clone, Copy, Debug)]
enum Request {
    Begin(VdevId),
    Cancel,
}

/// Why a removal cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// Something of the vdev cannot be read from any of its devices.
    Unreadable,
    /// The sides of a mirror differ, and nobody knows which is right.
    SidesDiffer,
    /// There is no room on the others.
    NoSpace,
    /// Another device has larger sectors.
    Sectors,
    /// Something that is in use was not copied: a fault of ours, found before anything was given up.
    Incomplete,
}

impl Halt {
    /// What the history says of it.
    const fn reason(self) -> &'static str {
        match self {
            Self::Unreadable => " (some of it cannot be read)",
            Self::SidesDiffer => " (its sides differ: scrub the pool first)",
            Self::NoSpace => " (out of space)",
            Self::Sectors => " (a device has larger sectors)",
            Self::Incomplete => " (not all of it was copied)",
        }
    }
}

/// A removal that is under way.
#[derive(Clone)]
struct Running {
    vdev: VdevId,
    removing: Removing,
    stored: Stored,
    /// Up to here everything is copied.
    at: u64,
    /// Nothing is left to be copied.
    is_copied: bool,
    halt: Option<Halt>,
}

#[derive(Default)]
struct State {
    wanted: Option<Request>,
    outcome: Option<Result<()>>,
    running: Option<Running>,
    /// The pool closes: nothing more is copied.
    is_paused: bool,
    /// One ended with the txg that syncs.
    has_ended: bool,
    /// How many write over blocks where they lie: none may begin meanwhile.
    barred: usize,
}

/// What is done when the removal of a vdev has ended, by the thread that syncs.
type WhenEnded = Arc<dyn Fn(VdevId) + Send + Sync>;

/// While it lasts no removal begins.
pub struct RemovalsBarred(Arc<Evacuation>);

impl RemovalsBarred {
    fn new(removal: &Arc<Evacuation>) -> Self {
        removal.state.lock().barred += 1;
        Self(Arc::clone(removal))
    }
}

impl Drop for RemovalsBarred {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.barred = state.barred.saturating_sub(1);
    }
}

/// The removal of a data vdev, one at a time.
pub(crate) struct Evacuation {
    state: Mutex<State>,
    when_ended: Mutex<Option<WhenEnded>>,
    allocator: Arc<PoolAllocator>,
    changes: Arc<VdevChanges>,
    engine: Weak<Engine>,
}

impl Evacuation {
    /// With the removal that the last import left, if it left one.
    pub(crate) fn open(
        services: &PoolServices,
        allocator: &Arc<PoolAllocator>,
        changes: &Arc<VdevChanges>,
        engine: &Arc<Engine>,
    ) -> Result<Arc<Self>> {
        let mut state = State::default();
        let removing = removed::removing(&services.directory)?;
        let active = removing.filter(|removing| removing.state == removal_state::ACTIVE);
        if let Some(removing) = active {
            let id = VdevId(removing.vdev);
            let config = services.config.get();
            let top = config
                .top(id)
                .ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
            let vdevs = allocator.obsolete.vdevs();
            let mapping = removed::read_mapping(&services.mos, top, vdevs)?;
            if !top.flag(keys::REMOVING) || top.is_hole() || top.is_indirect() {
                let text = format!(
                    "vdev {id} is said to be removed, and its configuration says otherwise"
                );
                return Err(PoolError::Damaged(text));
            }
            let stored = Stored::open(&services.mos, top)?;
            // Their count and order are relied on when more is added.
            let _births = removed::read_births(&stored.births)?;
            let running = Running {
                vdev: id,
                removing,
                stored,
                at: mapping.end(),
                is_copied: false,
                halt: None,
            };
            allocator.obsolete.set_removing(Some((id, mapping)));
            state.running = Some(running);
        }
        Ok(Arc::new(Self {
            state: Mutex::new(&STATE, state),
            when_ended: Mutex::new(&WHEN_ENDED, None),
            allocator: Arc::clone(allocator),
            changes: Arc::clone(changes),
            engine: Arc::downgrade(engine),
        }))
    }

    /// Which vdev is being removed.
    pub(crate) fn vdev(&self) -> Option<VdevId> {
        self.state
            .lock()
            .running
            .as_ref()
            .map(|running| running.vdev)
    }

    /// Whether none may begin.
    fn is_barred(&self) -> bool {
        self.state.lock().barred > 0
    }

    fn change(&self, pass: &FirstPass<'_>, request: Request) -> Result<()> {
        let running = self.state.lock().running.clone();
        let outcome = match (request, running) {
            (Request::Begin(id), None) => {
                let running = self.begin(pass, id)?;
                self.state.lock().running = Some(running);
                Ok(())
            }
            (Request::Begin(_), Some(_)) => Err(PoolError::Busy),
            (Request::Cancel, Some(running)) => {
                self.cancel(pass, &running)?;
                self.end();
                Ok(())
            }
            (Request::Cancel, None) => Err(PoolError::NoRemoval),
        };
        self.state.lock().outcome = Some(outcome);
        Ok(())
    }

    fn go_on(&self, pass: &FirstPass<'_>) -> Result<()> {
        let running = {
            let state = self.state.lock();
            state.running.clone().filter(|_| !state.is_paused)
        };
        let Some(mut running) = running else {
            return Ok(());
        };
        if running.halt.is_some() {
            self.cancel(pass, &running)?;
            self.end();
        } else if running.is_copied && !self.is_whole(pass, &running)? {
            running.halt = Some(Halt::Incomplete);
            self.state.lock().running = Some(running);
        } else if running.is_copied {
            self.complete(pass, &running)?;
            self.end();
        } else {
            self.copy_some(pass, &mut running)?;
            self.state.lock().running = Some(running);
        }
        Ok(())
    }

    /// It has ended with the txg that syncs: before that is on disk, the devices are needed as they were.
    fn end(&self) {
        self.state.lock().has_ended = true;
    }

    /// The txgs in which something was copied by the removal that is under way.
    pub(crate) fn births(&self) -> Result<Vec<Txg>> {
        let births = {
            let state = self.state.lock();
            let running = state.running.as_ref();
            running.map(|running| Arc::clone(&running.stored.births))
        };
        let Some(births) = births else {
            return Ok(Vec::new());
        };
        let found = removed::read_births(&births)?;
        Ok(found.into_iter().map(|(_, birth)| birth).collect())
    }
}

impl SyncTask for Evacuation {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let wanted = self.state.lock().wanted.take();
        match wanted {
            Some(request) => self.change(pass, request),
            None => self.go_on(pass),
        }
    }

    fn finish(&self, _space: &PoolSpace) {
        let has_ended = std::mem::take(&mut self.state.lock().has_ended);
        if has_ended {
            let when_ended = self.when_ended.lock().clone();
            if let (Some(when_ended), Some(id)) = (when_ended, self.vdev()) {
                when_ended(id);
            }
            // Now another one may begin.
            self.state.lock().running = None;
        }
        let goes_on = {
            let state = self.state.lock();
            state.running.is_some() && !state.is_paused
        };
        if goes_on && let Some(engine) = self.engine.upgrade() {
            engine.kick();
        }
    }

    fn close(&self) {
        self.state.lock().is_paused = true;
    }

    fn stay(&self) {
        self.state.lock().is_paused = false;
        if let Some(engine) = self.engine.upgrade() {
            engine.kick();
        }
    }
}

#[cfg(test)]
mod tests;
