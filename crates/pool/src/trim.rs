//! Trim: free space is given back to the devices.
//!
//! One thread takes free ranges out of use, one at a time, has them discarded on the leaves in question, and gives them
//! back (`space::trim`). How far it is on each leaf is stored with every txg, so that it goes on after a crash or an
//! import, here or in OpenZFS.
//!
//! ```text
//! none/cancelled/complete --start--> active <--suspend/start--> suspended
//!                                    active, suspended --cancel--> cancelled
//!                                    active --end of the device--> complete
//! ```
//!
//! A range is free only when it has rested for two txgs with an uberblock. So the states that a safe rewind may go to,
//! which are those of the newest uberblock and the two before, refer to no range that was discarded; and nobody who
//! looks at old blocks under a hold of the reuse gate loses them. What the pool's last txg freed before it was opened
//! has not rested: nothing is discarded before two txgs were written.

mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::{self, JoinHandle};
use base::{Guid, VdevId};
use dmu::{Tx, Zap};
use dsl::property::pool::AUTOTRIM;
use format::config::{keys, vdev_zap};
use vdev::Leaf;

use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::sync::ageing::REST_TXGS;

static CONTROL: LockClass = LockClass::new("pool.trim", rank::LAST - 32);
static THREAD: LockClass = LockClass::new("pool.trim_thread", rank::POOL + 16);

/// The pause between two looks at what is waited for.
const WAIT_PAUSE: Duration = Duration::from_millis(20);

/// How a trim of a leaf stands. The numbers are those on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimState {
    /// There never was one.
    #[default]
    None = 0,
    /// Under way.
    Active = 1,
    /// Given up.
    Cancelled = 2,
    /// Stopped for now.
    Suspended = 3,
    /// Done.
    Complete = 4,
}

impl TrimState {
    /// By its number.
    pub(crate) const fn of(number: u64) -> Self {
        match number {
            1 => Self::Active,
            2 => Self::Cancelled,
            3 => Self::Suspended,
            4 => Self::Complete,
            _ => Self::None,
        }
    }

    /// What the history calls the change to it.
    const fn event(self) -> &'static str {
        match self {
            Self::None | Self::Active => "activated",
            Self::Cancelled => "canceled",
            Self::Suspended => "suspended",
            Self::Complete => "complete",
        }
    }
}

/// The trim of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafTrim {
    /// How it stands.
    pub state: TrimState,
    /// Up to which byte of the allocatable area it is done.
    pub offset: u64,
    /// When it came to its state: seconds since 1970.
    pub time_s: u64,
    /// Bytes a second at most; 0: any number.
    pub rate: u64,
    /// Whether metaslabs that were never used are passed over.
    pub used_only: bool,
    /// Whether what was there must be gone for good: nothing here can do that.
    pub secure: bool,
}

struct Known {
    trim: LeafTrim,
    top: VdevId,
    /// When the rate allows the next range, on the monotonic clock.
    due_ns: u64,
    /// Its leaf takes nothing for now.
    is_away: bool,
}

#[derive(Default)]
struct Control {
    leaves: BTreeMap<Guid, Known>,
    /// Leaves of which something is to be stored, with the states that they had since: a quick trim may begin and end
    /// in one txg.
    unstored: BTreeMap<Guid, Vec<TrimState>>,
    /// Whether what becomes free is trimmed.
    auto: bool,
    /// The pool closes: trims stay as stored.
    leaves_pool: bool,
    /// The vdev that a range is taken of.
    busy: Option<VdevId>,
    /// Vdevs that are about to go.
    barred: BTreeSet<VdevId>,
}

/// The trims of a pool that is open for writing.
pub(crate) struct Trim {
    control: Mutex<Control>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Trim {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            control: Mutex::new(&CONTROL, Control::default()),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
        })
    }

    /// Ends the thread; what is stored stays.
    pub(crate) fn leave(&self) {
        self.control.lock().leaves_pool = true;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    /// The pool stays open after all: trims can be started again.
    pub(crate) fn stay(&self) {
        self.control.lock().leaves_pool = false;
    }

    /// Takes nothing more of a vdev, and waits until nothing is under way there; or goes on.
    pub(crate) fn bar(&self, top: VdevId, barred: bool) {
        let mut control = self.control.lock();
        if !barred {
            control.barred.remove(&top);
            return;
        }
        control.barred.insert(top);
        while control.busy == Some(top) {
            self.changed.wait(&mut control);
        }
        let control = &mut *control;
        control.leaves.retain(|_, known| known.top != top);
        let leaves = &control.leaves;
        control.unstored.retain(|leaf, _| leaves.contains_key(leaf));
    }

    /// How the trim of a leaf stands, if there ever was one.
    fn of(&self, leaf: Guid) -> Option<LeafTrim> {
        let control = self.control.lock();
        control.leaves.get(&leaf).map(|known| known.trim)
    }

    fn is_under_way(&self, leaf: Guid) -> bool {
        if self.thread.lock().is_none() {
            return false;
        }
        let control = self.control.lock();
        let active = |known: &Known| known.trim.state == TrimState::Active && !known.is_away;
        control.leaves.get(&leaf).is_some_and(active)
    }

    /// Changes the state of a leaf's trim; it is stored with the next txg.
    fn change(control: &mut Control, leaf: Guid, trim: LeafTrim, top: VdevId) {
        let known = Known {
            trim,
            top,
            due_ns: 0,
            is_away: false,
        };
        control.leaves.insert(leaf, known);
        control.unstored.entry(leaf).or_default().push(trim.state);
    }

    /// What is to be stored now, with the states that came since.
    fn take_unstored(&self) -> Vec<(Guid, LeafTrim, Vec<TrimState>)> {
        let mut control = self.control.lock();
        let unstored = std::mem::take(&mut control.unstored);
        let trim = |(leaf, states)| {
            let known = control.leaves.get(&leaf)?;
            Some((leaf, known.trim, states))
        };
        unstored.into_iter().filter_map(trim).collect()
    }
}

impl PoolServices {
    /// The ZAP of a leaf, with its path.
    fn leaf_table(&self, leaf: Guid) -> Result<Option<(Zap, String)>> {
        let found = self.config.with(|config| {
            let leaves = config.root.leaves();
            let node = leaves.into_iter().find(|node| node.guid() == leaf)?;
            let path = node.path().unwrap_or_default().to_owned();
            Some((node.object(keys::VDEV_ZAP_LEAF)?, path))
        });
        let Some((id, path)) = found else {
            return Ok(None);
        };
        Ok(Some((Zap::open(&self.mos.object(id)?)?, path)))
    }

    /// The trim of a leaf as it is stored.
    fn stored_trim(&self, leaf: Guid) -> Result<Option<LeafTrim>> {
        let Some((table, _)) = self.leaf_table(leaf)? else {
            return Ok(None);
        };
        let number = |name: &str| table.lookup(name.as_bytes());
        let Some(state) = number(vdev_zap::TRIM_STATE)? else {
            return Ok(None);
        };
        Ok(Some(LeafTrim {
            state: TrimState::of(state),
            offset: number(vdev_zap::TRIM_OFFSET)?.unwrap_or(0),
            time_s: number(vdev_zap::TRIM_TIME)?.unwrap_or(0),
            rate: number(vdev_zap::TRIM_RATE)?.unwrap_or(0),
            used_only: number(vdev_zap::TRIM_PARTIAL)? == Some(1),
            secure: number(vdev_zap::TRIM_SECURE)? == Some(1),
        }))
    }

    /// Stores how trims stand; in syncing context.
    pub(crate) fn store_trims(&self, tx: &Tx) -> Result<()> {
        let Some(trims) = &self.trim else {
            return Ok(());
        };
        for (leaf, trim, states) in trims.take_unstored() {
            let Some((table, path)) = self.leaf_table(leaf)? else {
                continue;
            };
            for (name, value) in [
                (vdev_zap::TRIM_OFFSET, trim.offset),
                (vdev_zap::TRIM_TIME, trim.time_s),
                (vdev_zap::TRIM_RATE, trim.rate),
                (vdev_zap::TRIM_PARTIAL, trim.used_only.into()),
                (vdev_zap::TRIM_SECURE, trim.secure.into()),
                (vdev_zap::TRIM_STATE, trim.state as u64),
            ] {
                table.update(tx, name.as_bytes(), value)?;
            }
            for state in states {
                let text = format!("vdev={path} {}", state.event());
                let now_s = self.clock.now_s();
                self.history.internal(tx, "trim", &text, None, now_s)?;
            }
        }
        Ok(())
    }
}

/// A leaf whose trim was refused, and why.
pub type TrimRefusal = (Guid, &'static str);

/// From whether a leaf can discard and how its trim stands to what is to come, with its event; or why not.
type Choice<'a> =
    dyn Fn(bool, Option<LeafTrim>) -> Result<(LeafTrim, &'static str), &'static str> + 'a;

const NO_SUCH_LEAF: &str = "no such device in pool";
const NOT_SUPPORTED: &str = "trim operations are not supported by this device";
const NOT_SECURE: &str = "secure trim operations are not supported by this device";

impl Pool {
    /// How the trim of a leaf stands, if there ever was one since it is known.
    #[must_use]
    pub fn leaf_trim(&self, leaf: Guid) -> Option<LeafTrim> {
        self.writer.as_ref()?.trim.of(leaf)
    }

    fn leaf_of(&self, guid: Guid) -> Option<(VdevId, Arc<Leaf>)> {
        let tops = self.vdevs.tops().into_iter();
        let mut leaves = tops.flat_map(|top| {
            let id = top.id();
            let leaves = top.leaves().to_vec().into_iter();
            leaves.map(move |leaf| (id, leaf))
        });
        leaves.find(|(_, leaf)| leaf.guid() == guid)
    }

    /// Starts trims of leaves, or goes on with those that are suspended, at `rate` bytes a second each (0: any number).
    /// Answers which were refused. `secure`: what was there must be gone for good.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn start_trims(
        self: &Arc<Self>,
        leaves: &[Guid],
        rate: u64,
        secure: bool,
    ) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        // What was freed before somebody asked is trimmed as well: it has rested then.
        self.wait_rested()?;
        self.change_trims(leaves, &|able, before| {
            if secure {
                return Err(NOT_SECURE);
            }
            if !able {
                return Err(NOT_SUPPORTED);
            }
            let before = before.unwrap_or_default();
            let offset = match before.state {
                TrimState::Active => return Err("currently trimming"),
                TrimState::Suspended => before.offset,
                _ => 0,
            };
            let event = if before.state == TrimState::Suspended {
                "trim_resume"
            } else {
                "trim_start"
            };
            let trim = LeafTrim {
                state: TrimState::Active,
                offset,
                time_s: now_s,
                rate,
                used_only: false,
                secure: false,
            };
            Ok((trim, event))
        })
    }

    /// Suspends trims of leaves. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn suspend_trims(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        self.change_trims(leaves, &|_, before| match before {
            Some(trim) if trim.state == TrimState::Active => Ok((
                LeafTrim {
                    state: TrimState::Suspended,
                    time_s: now_s,
                    ..trim
                },
                "trim_suspend",
            )),
            _ => Err("there is no active trim"),
        })
    }

    /// Gives up trims of leaves, also suspended ones. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn cancel_trims(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        self.change_trims(leaves, &|_, before| match before {
            Some(trim) if matches!(trim.state, TrimState::Active | TrimState::Suspended) => Ok((
                LeafTrim {
                    state: TrimState::Cancelled,
                    offset: 0,
                    time_s: now_s,
                    ..trim
                },
                "trim_cancel",
            )),
            _ => Err("there is no active trim"),
        })
    }

    /// Changes trims as `choose` says, and waits until that is stored.
    fn change_trims(
        self: &Arc<Self>,
        leaves: &[Guid],
        choose: &Choice<'_>,
    ) -> Result<Vec<TrimRefusal>> {
        let writer = self.writer()?;
        self.check_running()?;
        let mut refused = Vec::new();
        for guid in leaves.iter().copied() {
            let Some((top, leaf)) = self.leaf_of(guid) else {
                refused.push((guid, NO_SUCH_LEAF));
                continue;
            };
            let able = leaf.can_discard();
            let event = {
                let mut control = writer.trim.control.lock();
                let before = control.leaves.get(&guid).map(|known| known.trim);
                match choose(able, before) {
                    Ok((trim, event)) => {
                        Trim::change(&mut control, guid, trim, top);
                        event
                    }
                    Err(reason) => {
                        refused.push((guid, reason));
                        continue;
                    }
                }
            };
            self.services.events.vdev(event, guid);
        }
        if refused.len() < leaves.len() {
            self.run_trims()?;
            writer.engine.wait_synced(None)?;
        }
        Ok(refused)
    }

    /// Waits until what is freed by now can be used again; less what txgs free that are written for that alone.
    fn wait_rested(&self) -> Result<()> {
        let writer = self.writer()?;
        let (ageing, space) = (&self.services.ageing, &writer.syncer.space);
        writer.engine.wait_synced(None)?;
        let last = ageing.count() + REST_TXGS;
        while ageing.count() < last && ageing.may_write() && space.is_resting() {
            ageing.want();
            writer.engine.wait_synced(None)?;
        }
        Ok(())
    }

    /// Waits until none of these leaves is being trimmed, and that is stored.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_trims(&self, leaves: &[Guid]) -> Result<()> {
        let under_way = |writer: &crate::pool::Writer| {
            let mut leaves = leaves.iter();
            leaves.any(|leaf| writer.trim.is_under_way(*leaf))
        };
        while under_way(self.writer()?) {
            std::thread::sleep(WAIT_PAUSE);
        }
        Ok(self.writer()?.engine.wait_synced(None)?)
    }

    /// Goes on with the trims that were under way when the pool was last open.
    pub(crate) fn resume_trims(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        for top in self.vdevs.tops() {
            for leaf in top.leaves() {
                // What cannot be read is not gone on with: it is only a convenience.
                let Ok(Some(mut trim)) = self.services.stored_trim(leaf.guid()) else {
                    continue;
                };
                let unable = trim.secure || !leaf.can_discard();
                let mut control = writer.trim.control.lock();
                if trim.state == TrimState::Active && unable {
                    trim.state = TrimState::Suspended;
                    Trim::change(&mut control, leaf.guid(), trim, top.id());
                    continue;
                }
                Trim::change(&mut control, leaf.guid(), trim, top.id());
                control.unstored.remove(&leaf.guid());
            }
        }
        self.follow_autotrim()
    }

    /// Follows the property `autotrim`.
    pub(crate) fn follow_autotrim(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        // A property that cannot be read counts as its default.
        let auto = self.get(AUTOTRIM).is_ok_and(|found| found.value);
        writer.trim.control.lock().auto = auto;
        writer.syncer.space.set_remembers(auto);
        self.run_trims()
    }

    /// Has the thread look at what there is to do; starts it if there is something.
    pub(crate) fn run_trims(self: &Arc<Self>) -> Result<()> {
        let trim = &self.writer()?.trim;
        trim.changed.notify_all();
        let needed = {
            let control = trim.control.lock();
            let mut leaves = control.leaves.values();
            control.auto || leaves.any(|known| known.trim.state == TrimState::Active)
        };
        let mut thread = trim.thread.lock();
        if !needed || thread.is_some() {
            return Ok(());
        }
        let (pool, own) = (Arc::downgrade(self), Arc::clone(trim));
        let spawned = thread::named("pool-trim", sys::thread::BACKGROUND)
            .spawn(move || work::run(&pool, &own));
        *thread = Some(spawned.map_err(|_| PoolError::Scan("no thread can be started"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
