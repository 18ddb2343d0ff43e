//! An open pool: what it is made of, and the requests that concern it as a whole.

mod for_datasets;
mod healing;
mod keys;
pub(crate) mod properties;
pub(crate) mod services;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod suspend;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::clock::Clock;
use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectSetId, Txg};
use dsl::{Dataset, Dsl, Services};
use format::NvList;
use format::label::PoolState;
use format::uberblock::version_is_known;
use intent::Log;
use pipeline::Pipeline;
use space::{Extent, Loaded, PoolSpace};
use txg::Engine;
use vdev::VdevTree;

use self::status::PoolStatus;
use crate::allocation::limits::SpaceFigures;
use crate::checkpoint::CheckpointKeeper;
use crate::condensing::Condenser;
use crate::config::PoolConfig;
use crate::error::{PoolError, Result};
use crate::events::Event;
use crate::expansion::Expander;
use crate::logs::intent_logs::IntentLogs;
use crate::mos::features::Features;
use crate::mos::history::Actor;
use crate::multihost::Multihost;
use crate::pool::services::PoolServices;
use crate::pool::settings::{FeaturesToEnable, Settings};
use crate::rebuild::control::Rebuilds;
use crate::removal::Evacuation;
use crate::scan::control::{ScanChange, Scrub};
use crate::scan::phys::{self, ScanPhys};
use crate::sync::syncer::Syncer;
use crate::trim::control::Trim;
use crate::trim::kind::Kind;
use crate::vdevs::changes::VdevChanges;
use crate::vdevs::devices::Between;
use crate::vdevs::diagnosis::Diagnosis;

static STATE: LockClass = LockClass::new("pool.state", rank::POOL + 10);

/// An open pool. Dropping it stops writing; what was not synced is lost, as at a crash.
pub struct Pool {
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) services: Arc<PoolServices>,
    pub(crate) space: Option<Arc<PoolSpace>>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) writer: Option<Writer>,
    pub(crate) altroot: Option<PathBuf>,
    pub(crate) state: Mutex<State>,
    /// What was lost when the pool was opened at an earlier txg.
    pub(crate) rewound: Option<Rewound>,
    /// What is put in front of each device that is opened.
    pub(crate) between: Option<Between>,
}

/// What a pool that is open for writing has besides.
pub(crate) struct Writer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) logs: Arc<IntentLogs>,
    pub(crate) scrub: Arc<Scrub>,
    pub(crate) rebuilds: Arc<Rebuilds>,
    pub(crate) trim: Arc<Trim>,
    pub(crate) initialize: Arc<Trim>,
    pub(crate) checkpoint: Arc<CheckpointKeeper>,
    pub(crate) vdev_changes: Arc<VdevChanges>,
    pub(crate) removal: Arc<Evacuation>,
    pub(crate) condenser: Arc<Condenser>,
    pub(crate) features: Arc<FeaturesToEnable>,
    pub(crate) settings: Arc<Settings>,
    /// What moves of a vdev that is getting another child.
    pub(crate) expander: Arc<Expander>,
    /// Who has the pool says so.
    pub(crate) multihost: Arc<Multihost>,
    /// What is done about devices that fail too often.
    pub(crate) diagnosis: Arc<Diagnosis>,
}

impl Writer {
    /// Work of a kind on free space.
    pub(crate) const fn work(&self, kind: Kind) -> &Arc<Trim> {
        match kind {
            Kind::Trim => &self.trim,
            Kind::Initialize => &self.initialize,
        }
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// Exported or destroyed: nothing more is possible.
    pub(crate) closed: bool,
}

/// How a pool was taken back to an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The txg that it was taken back to.
    pub txg: Txg,
    /// The time that it was taken back to, seconds since 1970.
    pub timestamp: u64,
    /// Seconds of changes that are lost.
    pub seconds_lost: u64,
}

impl Pool {
    pub(crate) fn new_state() -> Mutex<State> {
        Mutex::new(&STATE, State::default())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.dsl.pool_name()
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.services.config.with(PoolConfig::guid)
    }

    /// Whether it cannot be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.writer.is_none()
    }

    /// The folder below which its file systems are mounted.
    #[must_use]
    pub fn altroot(&self) -> Option<&Path> {
        self.altroot.as_deref()
    }

    /// What was lost when it was opened.
    #[must_use]
    pub const fn rewound(&self) -> Option<Rewound> {
        self.rewound
    }

    /// Its datasets.
    #[must_use]
    pub const fn dsl(&self) -> &Arc<Dsl> {
        &self.dsl
    }

    /// Its transaction engine, when it is open for writing.
    #[must_use]
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.writer.as_ref().map(|writer| &writer.engine)
    }

    /// How its blocks are read.
    #[must_use]
    pub const fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Its devices.
    #[must_use]
    pub const fn vdevs(&self) -> &Arc<VdevTree> {
        &self.vdevs
    }

    /// Stores blocks of more than `bytes` in pieces, as when no free range is long enough: tests reach with it what
    /// else only a fragmented pool does. The least that works is 512.
    pub fn set_whole_block_max(&self, bytes: u64) {
        if let Some(writer) = &self.writer {
            writer.syncer.allocator.set_whole_max(bytes.max(512));
        }
    }

    /// The intent log of a head; none when the pool is read-only. If it [owes](Log::is_owed) a
    /// replay, that comes before anything else is done to the head.
    ///
    /// # Errors
    /// The head's object set cannot be opened.
    pub fn intent_log(&self, head: &Arc<Dataset>) -> Result<Option<Arc<Log>>> {
        let Some(writer) = &self.writer else {
            return Ok(None);
        };
        let xattrs = self.features().is_enabled(&format::features::ZILSAXATTR);
        writer.logs.log(head, xattrs).map(Some)
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.services.clock()
    }

    /// Its configuration as of now.
    #[must_use]
    pub fn config(&self) -> PoolConfig {
        self.services.config.get()
    }

    /// Its features.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.services.features
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.services.version()
    }

    /// Its space.
    #[must_use]
    pub fn space(&self) -> SpaceFigures {
        self.services.space()
    }

    /// What of its free space is in memory.
    #[must_use]
    pub fn loaded_space(&self) -> Loaded {
        let loaded = self.space.as_ref().map(|space| space.loaded());
        loaded.unwrap_or_default()
    }

    /// Takes space out of use: who makes pools of odd shapes to try them does. Nothing owns it, and a check of the
    /// pool calls it leaked. What is not free is passed over. Answers how many extents were taken.
    ///
    /// # Errors
    /// The pool is read-only, or stopped.
    pub fn take_space(&self, extents: impl Iterator<Item = Extent>) -> Result<u64> {
        let syncer = &self.writer()?.syncer;
        let hold = self.writer()?.engine.hold()?;
        let claims = extents.map(|extent| syncer.space.claim(&extent, hold.txg(), &*syncer.maps));
        Ok(claims.filter(|claim| claim.is_ok()).count() as u64)
    }

    /// The pool's own object set, for those who look at everything.
    #[must_use]
    pub fn meta_object_set(&self) -> &Arc<dmu::ObjectSet> {
        debug_assert_eq!(self.services.mos.id(), ObjectSetId::MOS);
        &self.services.mos
    }

    /// Every record of its history, those included that wait for a txg.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn history(&self) -> Result<Vec<NvList>> {
        if self.services.history.has_pending() {
            // What a stopped pool has on disk can be shown all the same.
            let _ = self.sync();
        }
        self.services.history.records()
    }

    /// What happened after the event of a number, as far as it is remembered; oldest first.
    #[must_use]
    pub fn events(&self, after: u64) -> Vec<Event> {
        let events = &self.services.events;
        events.observe(&self.vdevs);
        events.after(after)
    }

    /// Forgets all events; how many there were.
    pub fn clear_events(&self) -> usize {
        self.services.events.clear()
    }

    /// Notes a command line in the history, with the next txg.
    pub fn log_history(&self, line: &str, actor: &Actor) {
        if self.writer.is_some() {
            let now_s = self.clock().now_s();
            self.services.history.command(line, actor, now_s);
        }
    }

    /// Notes an administrative request in the history, with the next txg.
    pub fn log_request(&self, name: &str, input: NvList, actor: &Actor) {
        if self.writer.is_some() {
            let now_s = self.clock().now_s();
            self.services.history.request(name, input, actor, now_s);
        }
    }

    /// The last scan. One that is paused ended, for now, when it was paused or the pool imported.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn scan(&self) -> Result<Option<ScanPhys>> {
        let running = self.writer.as_ref().and_then(|writer| writer.scrub.shown());
        match running {
            Some(scan) => Ok(Some(scan)),
            None => Ok(phys::load(&self.services.directory)?),
        }
    }

    /// How it is.
    ///
    /// # Errors
    /// The scan entry cannot be read.
    pub fn status(&self) -> Result<PoolStatus> {
        let config = self.config();
        let suspended = self.suspended();
        let root = status::vdevs(&config.root, &self.vdevs, self.space.as_ref());
        Ok(PoolStatus {
            name: self.name(),
            guid: self.guid(),
            condition: root.condition,
            suspended: suspended.clone(),
            read_only: self.is_read_only(),
            altroot: self.altroot.clone(),
            root,
            space: self.space(),
            // A suspended pool is shown all the same.
            scan: match self.scan() {
                Err(_) if suspended.is_some() => None,
                scan => scan?,
            },
            // A log that cannot be read says nothing.
            errors: self.services.data_errors().unwrap_or_default(),
            stopped: self.dsl.stopped_heads(),
        })
    }

    pub(crate) fn writer(&self) -> Result<&Writer> {
        let writer = self.writer.as_ref().ok_or(PoolError::ReadOnly)?;
        if self.state.lock().closed {
            return Err(PoolError::Stopped {
                txg: writer.engine.synced_txg(),
                reason: "the pool is closed".to_owned(),
            });
        }
        Ok(writer)
    }

    /// How many older states somebody still looks at, so that what was freed since cannot be used again.
    #[must_use]
    pub fn states_held(&self) -> usize {
        let writer = self.writer.as_ref();
        writer.map_or(0, |writer| writer.syncer.gate.held())
    }

    /// Waits until everything that was changed before is on disk.
    ///
    /// # Errors
    /// The pool is read-only, or stopped.
    pub fn sync(&self) -> Result<()> {
        let writer = self.writer()?;
        writer.engine.wait_synced(None).map_err(PoolError::from)
    }

    /// Exports the pool: everything is on disk, the labels say that it is free to be imported, and
    /// the devices are released when the pool is dropped.
    ///
    /// # Errors
    /// The pool could not be written; it stays as at a crash.
    pub fn export(&self) -> Result<()> {
        self.close(PoolState::Exported)
    }

    /// Destroys the pool: its labels say so, and it is not listed any more.
    ///
    /// # Errors
    /// The pool is read-only or could not be written.
    pub fn destroy(&self) -> Result<()> {
        self.writer()?;
        self.close(PoolState::Destroyed)?;
        self.release_caches();
        Ok(())
    }

    fn close(&self, state: PoolState) -> Result<()> {
        let Some(writer) = &self.writer else {
            return Ok(());
        };
        if let Some(failure) = writer.engine.failure() {
            return Err(failure.into());
        }
        self.check_running()?;
        if std::mem::replace(&mut self.state.lock().closed, true) {
            return Ok(());
        }
        if let Err(error) = self.write_last(writer, state) {
            // Still open: what comes later must not carry the labels of a pool that is not.
            self.set_label_state(PoolState::Active);
            writer.syncer.stay_open();
            writer.logs.go_on();
            self.services.ageing.end(false);
            self.state.lock().closed = false;
            return Err(error);
        }
        writer.engine.stop();
        writer.multihost.stop();
        self.pipeline.second_level().close();
        let name = match state {
            PoolState::Destroyed => "pool_destroy",
            PoolState::Active | PoolState::Exported | PoolState::Spare | PoolState::Cache => {
                "pool_export"
            }
        };
        self.services.events.system(name, Vec::new());
        self.services.writable.store(false, Ordering::Relaxed);
        self.dsl.close();
        Ok(())
    }

    /// The last txgs of a pool that is closed as `state`.
    fn write_last(&self, writer: &Writer, state: PoolState) -> Result<()> {
        let engine = &writer.engine;
        writer.syncer.close_tasks();
        self.services.ageing.end(true);
        writer.scrub.change_next(ScanChange::Update);
        // What is dirty goes out first, under the old state; and logs end: who imports the pool
        // next has nothing to claim.
        writer.logs.wind_up();
        engine.wait_synced(None)?;
        self.set_label_state(state);
        if state == PoolState::Exported {
            writer.syncer.flush_maps_next();
        }
        // The state's own txg, and two more for what came meanwhile.
        for _ in 0..3 {
            engine.wait_synced(None)?;
        }
        Ok(())
    }

    fn set_label_state(&self, state: PoolState) {
        self.services.config.change(|config| {
            let list = &mut config.list;
            list.set(format::config::keys::STATE, state.number());
        });
    }

    /// Raises the version of the pool (`zpool upgrade -V`); whether it was an older one.
    ///
    /// # Errors
    /// The pool is read-only or stopped, the version is none, or a dataset cannot be read.
    pub fn raise_version(&self, version: u64) -> Result<bool> {
        if !version_is_known(version) {
            return Err(PoolError::UnsupportedVersion { version });
        }
        self.writer()?;
        if version <= self.version() {
            return Ok(false);
        }
        self.dsl.run(dsl::tasks::RaiseVersion { version })?;
        Ok(true)
    }

    /// Enables every feature that we maintain (`zpool upgrade`); answers which were not enabled
    /// before.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn enable_features(
        &self,
        wanted: &[&'static format::features::Feature],
    ) -> Result<Vec<&'static format::features::Feature>> {
        let writer = self.writer()?;
        let missing: Vec<_> = wanted
            .iter()
            .copied()
            .filter(|feature| !self.features().is_enabled(feature))
            .collect();
        if !missing.is_empty() {
            writer.features.enable_next(&missing);
            writer.engine.wait_synced(None)?;
        }
        Ok(missing)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            writer.syncer.close_tasks();
            writer.engine.stop();
            writer.multihost.stop();
        }
        self.dsl.close();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({})", self.name())
    }
}
