//! The last steps: the datasets, what writes txgs, and the pool.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Guid;
use dmu::SyncWorkers;
use dsl::{Dsl, Mos, NamedList, OpenDsl, Services, SyncPass};
use format::Uberblock;
use format::config::directory;
use pipeline::Pipeline;
use vdev::{TxgRanges, VdevTree};

use super::foundation::Allocating;
use super::services::{WithServices, Writing};
use crate::allocation::opening::OpenedSpace;
use crate::blocks::Sharing;
use crate::blocks::dedup::WeakTables;
use crate::blocks::gate::ReuseGate;
use crate::checkpoint::CheckpointKeeper;
use crate::condensing::Condenser;
use crate::error::{PoolError, Result};
use crate::expansion::Expander;
use crate::multihost::Multihost;
use crate::pool::services::PoolServices;
use crate::pool::settings::{FeaturesToEnable, Settings};
use crate::pool::{Pool, Rewound, Writer};
use crate::rebuild::control::Rebuilds;
use crate::removal::Evacuation;
use crate::scan::control::Scrub;
use crate::sync::syncer::{LastSynced, Syncer, UnderWay};
use crate::sync::tasks::SyncTask;
use crate::trim::control::Trim;
use crate::tunables;
use crate::vdevs::changes::VdevChanges;
use crate::vdevs::devices::Between;
use crate::vdevs::diagnosis::Diagnosis;
use crate::vdevs::dtl::MissedTxgs;

/// With the datasets.
pub(crate) struct WithDatasets {
    pub(crate) services: Arc<PoolServices>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) vdevs: Arc<VdevTree>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) space: Option<OpenedSpace>,
    writing: Option<Writing>,
}

/// The state that a pool goes on from, and who syncs.
pub(crate) struct Beginning {
    pub(crate) uberblock: Uberblock,
    /// The txgs that the pool has stored as missed, by leaf.
    pub(crate) missed: BTreeMap<Guid, TxgRanges>,
    pub(crate) workers: SyncWorkers,
}

/// With what writes txgs.
pub(crate) struct Whole {
    pub(crate) datasets: WithDatasets,
    pub(crate) writer: Option<Writer>,
}

impl WithServices {
    /// Reads which blocks are shared, and the dedup tables; of a pool that is not written nobody asks more than what
    /// the logs of the tables add up to.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub(crate) fn load_references(&self) -> Result<()> {
        let services = &self.services;
        let (mos, directory) = (&services.mos, &services.directory);
        let form = services.form_of_tables();
        let references = &services.references;
        references.load(mos, directory, &self.vdevs, form)?;
        services.dedup.load(mos, directory, &services.store)
    }

    /// Reads the dedup tables of a pool that is not written, for their statistics. One that cannot be read counts as
    /// nothing: it keeps nobody from seeing the rest.
    pub(crate) fn load_tables_to_show(&self) {
        let services = &self.services;
        let (mos, directory) = (&services.mos, &services.directory);
        let _counts_as_nothing = services.dedup.load(mos, directory, &services.store);
    }

    /// With the datasets of a pool that there is.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn open_datasets(self) -> Result<WithDatasets> {
        let dsl = Dsl::open(self.of_datasets())?;
        Ok(self.with_datasets(dsl))
    }

    /// With the first datasets of a new pool.
    ///
    /// # Errors
    /// They cannot be made.
    pub(crate) fn create_datasets(self, pass: &SyncPass<'_>) -> Result<WithDatasets> {
        let dsl = Dsl::create(self.of_datasets(), pass)?;
        Ok(self.with_datasets(dsl))
    }

    fn of_datasets(&self) -> OpenDsl {
        let engine = |writing: &Writing| Arc::clone(&writing.allocating.engine);
        OpenDsl {
            mos: Arc::clone(&self.services.mos),
            services: Arc::clone(&self.services) as Arc<dyn Services>,
            engine: self.writing.as_ref().map(engine),
            name: self.name.clone(),
            objects_max: tunables::OBJECTS_MAX.count(),
        }
    }

    fn with_datasets(self, dsl: Arc<Dsl>) -> WithDatasets {
        self.pipeline.set_keys(Arc::clone(dsl.keys()) as _);
        self.pipeline
            .set_keeping(Arc::clone(dsl.primary_cache()) as _);
        WithDatasets {
            services: self.services,
            dsl,
            vdevs: self.vdevs,
            pipeline: self.pipeline,
            space: self.space,
            writing: self.writing,
        }
    }
}

/// What changes vdevs.
struct VdevWork {
    changes: Arc<VdevChanges>,
    diagnosis: Arc<Diagnosis>,
    rebuilds: Arc<Rebuilds>,
    expander: Arc<Expander>,
    checkpoint: Arc<CheckpointKeeper>,
    removal: Arc<Evacuation>,
    condenser: Arc<Condenser>,
}

impl VdevWork {
    /// In the order in which they have their part in a txg.
    fn in_order(&self) -> [Arc<dyn SyncTask>; 7] {
        [
            self.checkpoint.clone(),
            self.diagnosis.clone(),
            self.changes.clone(),
            self.rebuilds.clone(),
            self.expander.clone(),
            self.removal.clone(),
            self.condenser.clone(),
        ]
    }
}

impl WithDatasets {
    /// With what writes txgs, if the pool is written.
    ///
    /// # Errors
    /// It lacks the list of deferred frees, or that cannot be read.
    pub(crate) fn with_writer(mut self, beginning: Beginning) -> Result<Whole> {
        let writer = match self.writing.take() {
            Some(writing) => {
                let writer = self.writer(writing, beginning)?;
                let tables = WeakTables::of(&self.services.dedup);
                self.pipeline.set_dedup(tables);
                Some(writer)
            }
            None => {
                self.services.store.set_unchanging(beginning.uberblock.txg);
                None
            }
        };
        Ok(Whole {
            datasets: self,
            writer,
        })
    }

    /// Who knows which blocks may be shared.
    fn sharing(&self, writing: &Writing) -> Sharing {
        Sharing {
            features: Arc::downgrade(&self.services.features),
            references: Arc::downgrade(&self.services.references),
            dsl: Arc::downgrade(&self.dsl),
            vdevs: Arc::clone(&self.vdevs),
            meta: writing.rules,
        }
    }

    /// What keeps in step which txgs the leaves missed.
    fn missed(&self, space: &OpenedSpace, stored: BTreeMap<Guid, TxgRanges>) -> MissedTxgs {
        let (maps, config) = (Arc::clone(&space.maps), Arc::clone(&self.services.config));
        MissedTxgs::new(Arc::clone(&self.vdevs), maps, config, stored)
    }

    /// Who tells other hosts that the pool is in use, and sees whether one of them has it.
    fn multihost(&self, last: &Arc<LastSynced>) -> Arc<Multihost> {
        let chance = (&self.services.clock, &self.services.rng);
        Multihost::new(&self.vdevs, last, &self.services.config, chance)
    }

    /// What changes vdevs, and what goes on with such changes over many txgs.
    fn vdev_work(
        &self,
        beginning: &Beginning,
        (allocating, last): (&Allocating, &Arc<LastSynced>),
    ) -> Result<VdevWork> {
        let (services, allocator) = (&self.services, &allocating.allocator);
        let engine = &allocating.engine;
        let changes = VdevChanges::new();
        Ok(VdevWork {
            diagnosis: Diagnosis::new(),
            rebuilds: Rebuilds::new(),
            expander: Expander::open(services, &beginning.uberblock, last)?,
            checkpoint: CheckpointKeeper::open(services, allocator, last, engine)?,
            removal: Evacuation::open(services, allocator, &changes, engine)?,
            condenser: Condenser::open(services, &allocator.obsolete, engine)?,
            changes,
        })
    }

    fn writer(&self, writing: Writing, beginning: Beginning) -> Result<Writer> {
        let services = &self.services;
        let gate = ReuseGate::new(beginning.uberblock.txg);
        let sharing = self.sharing(&writing);
        let last = Arc::new(LastSynced::new(beginning.uberblock));
        let vdev_work = self.vdev_work(&beginning, (&writing.allocating, &last))?;
        let Allocating {
            engine,
            space,
            allocator,
        } = writing.allocating;
        let store = &services.store;
        store.set_written(&engine, &gate, sharing, &services.events);
        let (deferred, obsolete) = lists(services)?;
        let (features, settings) = (FeaturesToEnable::new(), Settings::new());
        let multihost = self.multihost(&last);
        let (scrub, trims) = (&writing.scrub, [&writing.trim, &writing.initialize]);
        let vdevs = vdev_work.in_order();
        let tasks = in_order(vdevs, &features, (scrub, trims), &settings, services);
        let syncer = Syncer {
            objects: Arc::clone(&services.mos),
            dsl: Arc::clone(&self.dsl),
            pipeline: Arc::clone(&self.pipeline),
            missed: self.missed(&space, beginning.missed),
            space: space.space,
            allocator,
            frees: Arc::clone(&services.frees),
            logs: Arc::clone(&writing.logs),
            deferred,
            obsolete,
            limits: Arc::clone(&services.limits),
            maps: space.maps,
            vdevs: Arc::clone(&self.vdevs),
            workers: beginning.workers,
            config: Arc::clone(&services.config),
            engine: Arc::downgrade(&engine),
            clock: Arc::clone(&services.clock),
            rules: writing.rules,
            tasks,
            services: Arc::clone(services),
            last,
            flush_all: AtomicBool::new(false),
            log_devices: writing.log_devices,
            expander: Arc::clone(&vdev_work.expander),
            multihost: Arc::clone(&multihost),
            gate,
            under_way: UnderWay::default(),
            findings: Arc::clone(engine.findings()),
        };
        Ok(Writer {
            logs: writing.logs,
            engine,
            syncer: Arc::new(syncer),
            scrub: writing.scrub,
            rebuilds: vdev_work.rebuilds,
            trim: writing.trim,
            initialize: writing.initialize,
            checkpoint: vdev_work.checkpoint,
            vdev_changes: vdev_work.changes,
            removal: vdev_work.removal,
            condenser: vdev_work.condenser,
            features,
            settings,
            expander: vdev_work.expander,
            multihost,
            diagnosis: vdev_work.diagnosis,
        })
    }
}

impl Whole {
    /// The pool; nothing writes it yet.
    pub(crate) fn pool(
        self,
        altroot: Option<PathBuf>,
        rewound: Option<Rewound>,
        between: Option<Between>,
    ) -> Arc<Pool> {
        let datasets = self.datasets;
        Arc::new(Pool {
            vdevs: datasets.vdevs,
            pipeline: datasets.pipeline,
            services: datasets.services,
            space: datasets.space.map(|space| space.space),
            dsl: datasets.dsl,
            writer: self.writer,
            altroot,
            state: Pool::new_state(),
            rewound,
            between,
        })
    }
}

/// The list of frees that were deferred to the next txg, of a pool that cannot be written without.
fn needed_frees(services: &Arc<PoolServices>) -> Result<NamedList> {
    let deferred = deferred_frees(services)?;
    deferred.ok_or_else(|| PoolError::Damaged("it has no list of deferred frees".to_owned()))
}

/// The list of frees that were deferred to the next txg.
pub(crate) fn deferred_frees(services: &Arc<PoolServices>) -> Result<Option<NamedList>> {
    let list = named_list(services, directory::SYNC_BPLIST);
    Ok(list.exists()?.then_some(list))
}

/// What the pool does in each sync. The checkpoint comes first, for the others free blocks; the history last: the
/// others write to it.
fn in_order(
    vdevs: [Arc<dyn SyncTask>; 7],
    features: &Arc<FeaturesToEnable>,
    (scrub, [trim, initialize]): (&Arc<Scrub>, [&Arc<Trim>; 2]),
    settings: &Arc<Settings>,
    services: &PoolServices,
) -> Vec<Arc<dyn SyncTask>> {
    let mut tasks = vdevs.to_vec();
    let others: [Arc<dyn SyncTask>; 9] = [
        services.spares.clone(),
        services.caches.clone(),
        features.clone(),
        scrub.clone(),
        services.errors.clone(),
        trim.clone(),
        initialize.clone(),
        settings.clone(),
        services.history.clone(),
    ];
    tasks.extend(others);
    tasks
}

/// The list of deferred frees, and that of places on removed vdevs that nothing refers to, which need not be there.
fn lists(services: &Arc<PoolServices>) -> Result<(NamedList, NamedList)> {
    let deferred = needed_frees(services)?;
    Ok((deferred, named_list(services, directory::OBSOLETE_BPOBJ)))
}

/// A list that the directory names, whether it is there or not.
fn named_list(services: &Arc<PoolServices>, name: &'static str) -> NamedList {
    let services = Arc::clone(services);
    let mos = Mos::new(Arc::clone(&services.mos), services as Arc<dyn Services>);
    NamedList::new(&mos, name)
}
