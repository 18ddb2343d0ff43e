//! What users ask of trims, and when they go on.

use std::sync::Arc;
use std::time::Duration;

use base::thread;
use base::{Guid, VdevId};
use dsl::property::pool::AUTOTRIM;
use vdev::Leaf;

use super::control::{LeafTrim, Trim, TrimState};
use super::work;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::sync::ageing::REST_TXGS;

/// The pause between two looks at what is waited for.
const WAIT_PAUSE: Duration = Duration::from_millis(20);

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

    pub(super) fn leaf_of(&self, guid: Guid) -> Option<(VdevId, Arc<Leaf>)> {
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
                TrimState::None | TrimState::Cancelled | TrimState::Complete => 0,
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
            base::thread::sleep(WAIT_PAUSE);
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
