//! What users ask of trims, and when they go on.

use std::sync::Arc;
use std::time::Duration;

use base::thread;
use base::{Guid, VdevId};
use dsl::property::pool::AUTOTRIM;
use vdev::Leaf;

use super::control::{LeafTrim, Trim, TrimState};
use super::kind::Kind;
use super::work;
use crate::error::{PoolError, Result};
use crate::pool::{Pool, Writer};
use crate::sync::ageing::REST_TXGS;

/// The pause between two looks at what is waited for.
const WAIT_PAUSE: Duration = Duration::from_millis(20);

/// A leaf whose trim was refused, and why.
pub type TrimRefusal = (Guid, &'static str);

/// From whether a leaf can discard and how the work on it stands to what is to come; or why not.
type Choice<'a> = dyn Fn(bool, Option<LeafTrim>) -> Result<Changed, &'static str> + 'a;

/// How work stands from now on, and the event that tells of it.
type Changed = (LeafTrim, Option<&'static str>);

const NO_SUCH_LEAF: &str = "no such device in pool";
const NOT_SUPPORTED: &str = "trim operations are not supported by this device";
const NOT_SECURE: &str = "secure trim operations are not supported by this device";

/// Work that begins, or goes on where it was suspended.
fn begun(
    kind: Kind,
    before: Option<LeafTrim>,
    time_s: u64,
    rate: u64,
) -> Result<Changed, &'static str> {
    let before = before.unwrap_or_default();
    let [started, resumed, ..] = kind.events();
    let (offset, event) = match before.state {
        TrimState::Active => return Err(kind.under_way()),
        TrimState::Suspended => (before.offset, resumed),
        TrimState::None | TrimState::Cancelled | TrimState::Complete => (0, started),
    };
    let work = LeafTrim {
        state: TrimState::Active,
        offset,
        time_s,
        rate,
        used_only: false,
        secure: false,
    };
    Ok((work, Some(event)))
}

impl Pool {
    /// How the trim of a leaf stands, if there ever was one since it is known.
    #[must_use]
    pub fn leaf_trim(&self, leaf: Guid) -> Option<LeafTrim> {
        self.leaf_work(Kind::Trim, leaf)
    }

    /// The same of a kind of work.
    pub(crate) fn leaf_work(&self, kind: Kind, leaf: Guid) -> Option<LeafTrim> {
        self.writer.as_ref()?.work(kind).of(leaf)
    }

    pub(crate) fn leaf_of(&self, guid: Guid) -> Option<(VdevId, Arc<Leaf>)> {
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
        self.change_work(Kind::Trim, leaves, &|able, before| {
            if secure {
                return Err(NOT_SECURE);
            }
            if !able {
                return Err(NOT_SUPPORTED);
            }
            begun(Kind::Trim, before, now_s, rate)
        })
    }

    /// Overwrites the free space of leaves once, or goes on with what is suspended. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn start_initializing(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        self.change_work(Kind::Initialize, leaves, &|_, before| {
            begun(Kind::Initialize, before, now_s, 0)
        })
    }

    /// Suspends the initializing of leaves. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn suspend_initializing(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        self.suspend_work(Kind::Initialize, leaves)
    }

    /// Gives up the initializing of leaves, also what is suspended. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn cancel_initializing(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        self.cancel_work(Kind::Initialize, leaves)
    }

    /// Forgets that leaves were initialized. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn uninitialize(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        self.change_work(Kind::Initialize, leaves, &|_, before| match before {
            Some(work) if work.state == TrimState::Active => Err(Kind::Initialize.under_way()),
            _ => Ok((LeafTrim::default(), None)),
        })
    }

    /// Waits until none of these leaves is being initialized, and that is stored.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_initializing(&self, leaves: &[Guid]) -> Result<()> {
        self.wait_work(Kind::Initialize, leaves)
    }

    /// Suspends trims of leaves. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn suspend_trims(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        self.suspend_work(Kind::Trim, leaves)
    }

    fn suspend_work(self: &Arc<Self>, kind: Kind, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        let [_, _, suspended, ..] = kind.events();
        self.change_work(kind, leaves, &|_, before| match before {
            Some(work) if work.state == TrimState::Active => Ok((
                LeafTrim {
                    state: TrimState::Suspended,
                    time_s: now_s,
                    ..work
                },
                Some(suspended),
            )),
            _ => Err(kind.not_active()),
        })
    }

    /// Gives up trims of leaves, also suspended ones. Answers which were refused.
    ///
    /// # Errors
    /// The pool is read-only, suspended or stopped.
    pub fn cancel_trims(self: &Arc<Self>, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        self.cancel_work(Kind::Trim, leaves)
    }

    fn cancel_work(self: &Arc<Self>, kind: Kind, leaves: &[Guid]) -> Result<Vec<TrimRefusal>> {
        let now_s = self.clock().now_s();
        let [_, _, _, cancelled, _] = kind.events();
        self.change_work(kind, leaves, &|_, before| match before {
            Some(work) if matches!(work.state, TrimState::Active | TrimState::Suspended) => Ok((
                LeafTrim {
                    state: TrimState::Cancelled,
                    offset: 0,
                    time_s: now_s,
                    ..work
                },
                Some(cancelled),
            )),
            _ => Err(kind.not_active()),
        })
    }

    /// Changes work as `choose` says, and waits until that is stored.
    fn change_work(
        self: &Arc<Self>,
        kind: Kind,
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
                let mut control = writer.work(kind).control.lock();
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
            if let Some(event) = event {
                self.services.events.vdev(event, guid);
            }
        }
        if refused.len() < leaves.len() {
            self.run_work(kind)?;
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
        self.wait_work(Kind::Trim, leaves)
    }

    fn wait_work(&self, kind: Kind, leaves: &[Guid]) -> Result<()> {
        let under_way = |writer: &Writer| {
            let mut leaves = leaves.iter();
            leaves.any(|leaf| writer.work(kind).is_under_way(*leaf))
        };
        while under_way(self.writer()?) {
            base::thread::sleep(WAIT_PAUSE);
        }
        Ok(self.writer()?.engine.wait_synced(None)?)
    }

    /// Goes on with what was under way when the pool was last open: trims, and what initializes free space.
    pub(crate) fn resume_trims(self: &Arc<Self>) -> Result<()> {
        self.resume_work(Kind::Initialize)?;
        self.run_work(Kind::Initialize)?;
        self.resume_work(Kind::Trim)?;
        self.follow_autotrim()
    }

    fn resume_work(&self, kind: Kind) -> Result<()> {
        let work = self.writer()?.work(kind);
        for top in self.vdevs.tops() {
            for leaf in top.leaves() {
                // What cannot be read is not gone on with: it is only a convenience.
                let Ok(Some(mut stored)) = self.services.stored_work(kind, leaf.guid()) else {
                    continue;
                };
                let unable = match kind {
                    Kind::Trim => stored.secure || !leaf.can_discard(),
                    Kind::Initialize => false,
                };
                let mut control = work.control.lock();
                if stored.state == TrimState::Active && unable {
                    stored.state = TrimState::Suspended;
                    Trim::change(&mut control, leaf.guid(), stored, top.id());
                    continue;
                }
                Trim::change(&mut control, leaf.guid(), stored, top.id());
                control.unstored.remove(&leaf.guid());
            }
        }
        Ok(())
    }

    /// Follows the property `autotrim`.
    pub(crate) fn follow_autotrim(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        // A property that cannot be read counts as its default.
        let auto = self.get(AUTOTRIM).is_ok_and(|found| found.value);
        writer.trim.control.lock().auto = auto;
        writer.syncer.space.set_remembers(auto);
        self.run_work(Kind::Trim)
    }

    /// Has the threads look at what there is to do.
    pub(crate) fn run_all_work(self: &Arc<Self>) -> Result<()> {
        self.run_work(Kind::Trim)?;
        self.run_work(Kind::Initialize)
    }

    /// Has the thread look at what there is to do; starts it if there is something.
    fn run_work(self: &Arc<Self>, kind: Kind) -> Result<()> {
        let trim = self.writer()?.work(kind);
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
        let spawned = thread::named(kind.thread(), sys::thread::BACKGROUND)
            .spawn(move || work::run(&pool, &own));
        *thread = Some(spawned.map_err(|_| PoolError::Scan("no thread can be started"))?);
        Ok(())
    }
}
