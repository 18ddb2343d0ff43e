//! Opening a pool: selecting it, refusing it where we must, and starting to write it.

pub(crate) mod blockers;
pub(crate) mod discover;
pub(crate) mod load;
pub(crate) mod rewind;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use base::clock::{Clock, SystemClock};
use base::random::Rng;
use base::{Guid, ObjectId, Txg};
use device::{Access, BlockDevice};
use dmu::SyncWorkers;
use dsl::{Dsl, Mos, NamedList, OpenDsl, Services};
use format::config::{directory, keys};
use format::label::PoolState;
use format::uberblock::VERSION_FEATURES;
use txg::{Engine, EngineConfig};

use crate::allocation::allocator::PoolAllocator;
use crate::allocation::limits::Limits;
use crate::allocation::opening::{self, OpenedSpace};
use crate::allocation::savings;
use crate::blocks::gate::ReuseGate;
use crate::blocks::references::BlockReferenceTable;
use crate::blocks::{Sharing, WriteRules};
use crate::config::host::{Host, kernel_module_present};
use crate::config::state::ConfigState;
use crate::error::{ImportBlocker, PoolError, Result};
use crate::events::Events;
use crate::import::blockers::Inspection;
use crate::import::discover::{FoundPool, discover};
use crate::import::load::Loaded;
use crate::import::rewind::load_with_rewind;
use crate::logs::devices::LogDevices;
use crate::logs::intent_logs::{Claiming, IntentLogs};
use crate::mos::history::History;
use crate::pool::services::PoolServices;
use crate::pool::{Pool, Rewound, Writer};
use crate::scan::control::Scrub;
use crate::sync::frees::Frees;
use crate::sync::memory;
use crate::sync::syncer::{LastSynced, Syncer, UnderWay};
use crate::sync::tasks::SyncTasks;
use crate::trim::Trim;
use crate::vdevs::changes::VdevChanges;
use crate::vdevs::devices::{Devices, paths_of};
use crate::vdevs::dtl::{self, MissedTxgs};

/// Which of the pools that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The one of this name.
    Name(String),
    /// The one of this guid.
    Guid(Guid),
    /// The only one.
    Only,
}

/// How far a pool that cannot be opened may be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rewind {
    /// Not at all.
    #[default]
    Never,
    /// To one of the last txgs, whose blocks are all still there (`-F`).
    Safe,
    /// To any txg that is still whole (`-FX`).
    Extreme,
    /// To the newest whole txg up to this one (`-T`).
    To(Txg),
}

/// How to import a pool.
#[derive(Clone)]
pub struct ImportOptions {
    /// Devices, files, or folders of such; none: the machine's devices.
    pub paths: Vec<PathBuf>,
    /// Which pool.
    pub selection: Selection,
    /// What to call it from now on.
    pub new_name: Option<String>,
    /// Whether the new name is only for this import (`-t`).
    pub temporary_name: bool,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether to import a pool that another host may use (`-f`).
    pub force: bool,
    /// Whether to import a destroyed pool (`-D`).
    pub destroyed: bool,
    /// Whether log devices may be missing (`-m`).
    pub without_logs: bool,
    /// How far to go back.
    pub rewind: Rewind,
    /// The folder below which its file systems are mounted (`-R`).
    pub altroot: Option<PathBuf>,
    /// Bytes that the block cache may hold.
    pub cache_bytes: usize,
    /// Who we are.
    pub host: Host,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
    /// What to put between the pool and each of its devices, if anything.
    pub between: Option<Between>,
}

/// A device in front of another.
pub type Between = Arc<dyn Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + Send + Sync>;

impl ImportOptions {
    /// The usual: by name, writable, nothing forced.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, selection: Selection) -> Self {
        Self {
            paths,
            selection,
            new_name: None,
            temporary_name: false,
            read_only: false,
            force: false,
            destroyed: false,
            without_logs: false,
            rewind: Rewind::Never,
            altroot: None,
            cache_bytes: cache::default_limit_bytes(),
            host: Host::current(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(sys::SystemRng),
            between: None,
        }
    }

    /// The same, without writing anything.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl Pool {
    /// Opens the pool on these images for reading, whoever used it last; nothing is written.
    ///
    /// # Errors
    /// There is no pool, several, or it cannot be read.
    pub fn open_read(images: &[PathBuf]) -> Result<Arc<Self>> {
        let mut options = ImportOptions::new(images.to_vec(), Selection::Only).read_only();
        options.force = true;
        options.destroyed = true;
        options.without_logs = true;
        Self::import(&options)
    }

    /// Imports a pool.
    ///
    /// # Errors
    /// Why it cannot be imported, and whether it could be read-only.
    pub fn import(options: &ImportOptions) -> Result<Arc<Self>> {
        let found = select(options)?;
        check_use(&found, options)?;
        let access = if options.read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let mut devices = Devices::open(&paths_of(&found.config.root, &found.devices), access)?;
        if let Some(between) = &options.between {
            devices.put_between(between);
        }
        let (loaded, rewound) = load_with_rewind(&found, &devices, options)?;
        loaded.features.check_known(!options.read_only)?;
        dtl::note_outdated(&loaded.vdevs, &devices.found(), loaded.uberblock.txg);
        let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
        let first = loaded.uberblock.txg.max(newest).next();
        open(loaded, rewound, first, options)
    }
}

fn select(options: &ImportOptions) -> Result<FoundPool> {
    let mut found = discover(&options.paths)?;
    let wanted = match &options.selection {
        Selection::Name(name) => {
            found.retain(|pool| pool.name == *name);
            name.clone()
        }
        Selection::Guid(guid) => {
            found.retain(|pool| pool.guid == *guid);
            guid.to_string()
        }
        Selection::Only => "a pool".to_owned(),
    };
    found.retain(|pool| options.destroyed || pool.state != PoolState::Destroyed);
    if found.len() > 1 {
        return Err(PoolError::Ambiguous { name: wanted });
    }
    if let Some(pool) = found.pop() {
        return Ok(pool);
    }
    match (&options.selection, options.paths.as_slice()) {
        (Selection::Only, [path]) if path.is_file() => Err(PoolError::NoLabel {
            path: path.display().to_string(),
        }),
        _ => Err(PoolError::NoSuchPool { wanted }),
    }
}

/// Refuses a pool that somebody else may have open.
fn check_use(found: &FoundPool, options: &ImportOptions) -> Result<()> {
    if options.force || found.state != PoolState::Active {
        return Ok(());
    }
    let foreign = found.last_user.host_id != options.host.id;
    // The kernel's own implementation does not see our locks: an active pool may be open there.
    if foreign || kernel_module_present() {
        return Err(PoolError::InUseElsewhere(found.last_user.clone()));
    }
    Ok(())
}

fn object_of(loaded: &Loaded, key: &str) -> Result<Option<ObjectId>> {
    let id = loaded.directory.lookup(key.as_bytes())?;
    Ok(id.filter(|id| *id != 0).map(ObjectId))
}

/// Opens the layers above a loaded object set.
fn open(
    mut loaded: Loaded,
    rewound: Option<Rewound>,
    first: Txg,
    options: &ImportOptions,
) -> Result<Arc<Pool>> {
    let writable = !options.read_only;
    if writable {
        refuse(
            Inspection {
                uberblock: &loaded.uberblock,
                config: &loaded.config,
                vdevs: &loaded.vdevs,
                directory: &loaded.directory,
                features: &loaded.features,
            }
            .blocker()?,
        )?;
    }
    let name = options
        .new_name
        .clone()
        .unwrap_or_else(|| loaded.config.name().to_owned());
    if !options.temporary_name {
        loaded.config.list.set(keys::NAME, name.as_str());
    }
    let findings = Arc::default();
    let opened = opening::open(
        &loaded.mos,
        &loaded.directory,
        &loaded.config.root,
        &loaded.features,
        &findings,
    );
    // Without space maps a pool can still be read; only its figures are unknown.
    let space = match opened {
        Ok(space) => Some(space),
        Err(error) if writable => return Err(error),
        Err(_) => None,
    };
    let engine = writable.then(|| {
        let config = memory::engine_config(first);
        Engine::new(EngineConfig { findings, ..config })
    });
    let parts = assemble(loaded, space, engine, name, options)?;
    let keys = Arc::clone(parts.dsl.keys());
    parts.loaded.pipeline.set_keys(keys);
    if writable {
        claim_logs(&parts, first)?;
    }
    start(parts, rewound, options)
}

/// Claims the logs that the last import left; nothing was allocated yet.
fn claim_logs(parts: &Parts, first: Txg) -> Result<()> {
    let Some(space) = &parts.space else {
        return Ok(());
    };
    let claiming = Claiming {
        dsl: &parts.dsl,
        pipeline: &parts.loaded.pipeline,
        space: &space.space,
        maps: &space.maps,
        vdevs: &parts.loaded.vdevs,
        rng: parts.services.rng.as_ref(),
        loaded: parts.loaded.uberblock.txg,
        first,
    };
    claiming.run()
}

fn refuse(blocker: Option<ImportBlocker>) -> Result<()> {
    blocker.map_or(Ok(()), |blocker| Err(PoolError::ReadOnlyPossible(blocker)))
}

/// Everything that a pool is made of.
pub(crate) struct Parts {
    pub(crate) loaded: LoadedParts,
    pub(crate) services: Arc<PoolServices>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) space: Option<OpenedSpace>,
    pub(crate) allocator: Option<Arc<PoolAllocator>>,
    pub(crate) engine: Option<Arc<Engine>>,
    /// Who syncs.
    pub(crate) workers: SyncWorkers,
}

/// What remains of [`Loaded`] once the services have their part of it.
pub(crate) struct LoadedParts {
    pub(crate) uberblock: format::Uberblock,
    pub(crate) guid: Guid,
    pub(crate) vdevs: Arc<vdev::VdevTree>,
    pub(crate) pipeline: Arc<pipeline::Pipeline>,
    /// The txgs that the pool has stored as missed, by leaf.
    pub(crate) missed: BTreeMap<Guid, vdev::TxgRanges>,
}

fn assemble(
    loaded: Loaded,
    space: Option<OpenedSpace>,
    engine: Option<Arc<Engine>>,
    name: String,
    options: &ImportOptions,
) -> Result<Parts> {
    let history_object = object_of(&loaded, directory::HISTORY)?;
    let guid = loaded.config.guid();
    let events = Events::new(&name, guid, Arc::clone(&options.clock));
    loaded.errors.tell(&events);
    let history = History::open(&loaded.mos, history_object, &options.host.name, &events)?;
    let logged = space.as_ref().is_some_and(|space| space.space.has_logs());
    let limits = Arc::new(Limits::default());
    let mut allocator = None;
    if let Some(space) = &space {
        limits.set(Arc::clone(&space.space));
        if engine.is_none() {
            limits.set_read_only();
        }
        if engine.is_some() {
            let made = PoolAllocator::new(Arc::clone(&space.space), Arc::clone(&space.maps), true);
            let made = Arc::new(made);
            loaded.allocator.set(&made);
            allocator = Some(made);
        }
    }
    let references = open_references(&loaded, engine.is_some())?;
    let services = Arc::new(PoolServices {
        mos: Arc::clone(&loaded.mos),
        directory: loaded.directory,
        store: Arc::clone(&loaded.store),
        clock: Arc::clone(&options.clock),
        rng: Arc::clone(&options.rng),
        version: loaded.uberblock.version,
        writable: AtomicBool::new(engine.is_some()),
        features: loaded.features.noting_for(engine.as_deref()),
        history,
        config: Arc::new(ConfigState::new(loaded.config, loaded.config_object)),
        frees: Arc::new(Frees::new(
            Arc::clone(&loaded.store),
            Arc::clone(&references),
            logged,
        )),
        references,
        limits,
        logs: OnceLock::new(),
        scrub: OnceLock::new(),
        trim: OnceLock::new(),
        errors: loaded.errors,
        events,
        task: crate::sync::task_effects::TaskEffects::new(),
        ageing: crate::sync::ageing::Ageing::default(),
    });
    note_kept(&services, &listed_frees(&services)?);
    let dsl = Dsl::open(OpenDsl {
        mos: loaded.mos,
        services: Arc::clone(&services) as Arc<dyn Services>,
        engine: engine.clone(),
        name,
        objects_max: crate::tunables::OBJECTS_MAX.count(),
    })?;
    Ok(Parts {
        loaded: LoadedParts {
            uberblock: loaded.uberblock,
            guid,
            vdevs: loaded.vdevs,
            pipeline: loaded.pipeline,
            missed: loaded.missed,
        },
        services,
        dsl,
        space,
        allocator,
        engine,
        workers: SyncWorkers::per_core(),
    })
}

/// Which blocks are shared; nobody asks in a pool that is not written.
fn open_references(loaded: &Loaded, writable: bool) -> Result<Arc<BlockReferenceTable>> {
    let references = BlockReferenceTable::new();
    if writable {
        references.load(&loaded.mos, &loaded.directory, &loaded.vdevs)?;
    }
    Ok(references)
}

/// The list of frees that were deferred to the next txg.
fn listed_frees(services: &Arc<PoolServices>) -> Result<Option<NamedList>> {
    let mos = Mos::new(
        Arc::clone(&services.mos),
        Arc::clone(services) as Arc<dyn Services>,
    );
    let list = NamedList::deferred(&mos);
    Ok(list.exists()?.then_some(list))
}

/// Tells the limits of space that is neither free nor anybody's. Figures that cannot be read are
/// left out: they only make the shown space a little larger.
fn note_kept(services: &PoolServices, deferred: &Option<NamedList>) {
    let limits = &services.limits;
    if let Some(Ok(sizes)) = deferred.as_ref().map(NamedList::sizes) {
        limits.set_listed(u64::try_from(sizes.used).unwrap_or(0));
    }
    let config = services.config.get();
    let _ = savings::load(&services.mos, &services.directory, &config.root, limits);
}

/// Makes the pool of its parts, and starts writing it when it is writable.
fn start(parts: Parts, rewound: Option<Rewound>, options: &ImportOptions) -> Result<Arc<Pool>> {
    let writer = make_writer(&parts)?;
    let events = Arc::clone(&parts.services.events);
    let pool = Arc::new(Pool {
        guid: parts.loaded.guid,
        vdevs: parts.loaded.vdevs,
        pipeline: parts.loaded.pipeline,
        services: parts.services,
        space: parts.space.map(|space| space.space),
        dsl: parts.dsl,
        writer,
        altroot: options.altroot.clone(),
        state: Pool::new_state(),
        rewound,
    });
    events.observe(&pool.vdevs);
    if let Some(writer) = &pool.writer {
        take_possession(&pool, &options.host);
        writer.engine.start(writer.syncer.clone());
        writer.engine.wait_synced(None)?;
        events.system("pool_import", Vec::new());
        pool.follow_failmode();
        if !pool.resilver_if_needed()? {
            pool.resume_scrub()?;
        }
        pool.resume_trims()?;
        // After the scrub: it may have one of those before it that go now.
        pool.dsl.clean_up()?;
    } else {
        events.system("pool_import", Vec::new());
    }
    Ok(pool)
}

/// The rules of the pool's own object set.
fn own_rules(services: &PoolServices) -> WriteRules {
    let features = &services.features;
    WriteRules::meta(
        features.is_active(&format::features::LZ4_COMPRESS),
        features.is_active(&format::features::EMBEDDED_DATA),
        if services.version >= VERSION_FEATURES {
            3
        } else {
            1
        },
    )
}

impl Parts {
    /// What decides whether blocks may be shared.
    fn sharing(&self, meta: WriteRules) -> Sharing {
        Sharing {
            services: Arc::downgrade(&self.services),
            dsl: Arc::downgrade(&self.dsl),
            vdevs: Arc::clone(&self.loaded.vdevs),
            meta,
        }
    }
}

/// The syncer over the parts of a writable pool.
pub(crate) fn make_writer(parts: &Parts) -> Result<Option<Writer>> {
    let (Some(engine), Some(space), Some(allocator)) =
        (&parts.engine, &parts.space, &parts.allocator)
    else {
        let newest = parts.loaded.uberblock.txg;
        parts.services.store.set_unchanging(newest);
        return Ok(None);
    };
    let services = &parts.services;
    let gate = ReuseGate::new(parts.loaded.uberblock.txg);
    services.store.set_engine(engine);
    services.store.set_gate(&gate);
    let deferred = listed_frees(services)?
        .ok_or_else(|| PoolError::Damaged("it has no list of deferred frees".to_owned()))?;
    let rules = own_rules(services);
    services.store.set_sharing(parts.sharing(rules));
    let rng = Arc::clone(&services.rng);
    let devices = LogDevices::new(&parts.loaded.vdevs, &space.space);
    let pipeline = &parts.loaded.pipeline;
    let logs = Arc::new(IntentLogs::new(engine, pipeline, rng, rules, &devices));
    // There is one writer a pool: nobody was first.
    let _ = services.logs.set(Arc::clone(&logs));
    let scrub = Scrub::new(services.frees.scan());
    let _ = services.scrub.set(Arc::clone(&scrub));
    let trim = Trim::new();
    let _ = services.trim.set(Arc::clone(&trim));
    let syncer = Syncer {
        objects: Arc::clone(&services.mos),
        dsl: Arc::clone(&parts.dsl),
        pipeline: Arc::clone(&parts.loaded.pipeline),
        space: Arc::clone(&space.space),
        maps: Arc::clone(&space.maps),
        allocator: Arc::clone(allocator),
        frees: Arc::clone(&services.frees),
        logs: Arc::clone(&logs),
        deferred,
        limits: Arc::clone(&services.limits),
        missed: MissedTxgs::new(
            Arc::clone(&parts.loaded.vdevs),
            Arc::clone(&space.maps),
            Arc::clone(&services.config),
            parts.loaded.missed.clone(),
        ),
        vdevs: Arc::clone(&parts.loaded.vdevs),
        workers: parts.workers,
        config: Arc::clone(&services.config),
        engine: Arc::downgrade(engine),
        clock: Arc::clone(&services.clock),
        rules,
        sync_tasks: SyncTasks::new(Arc::clone(services)),
        last: LastSynced::new(parts.loaded.uberblock),
        flush_all: AtomicBool::new(false),
        log_devices: devices,
        vdev_changes: VdevChanges::new(),
        gate,
        under_way: UnderWay::default(),
        findings: Arc::clone(engine.findings()),
    };
    Ok(Some(Writer {
        logs,
        engine: Arc::clone(engine),
        syncer: Arc::new(syncer),
        scrub,
        trim,
    }))
}

/// The first txg tells everyone that the pool is in use, and by whom.
fn take_possession(pool: &Pool, host: &Host) {
    let paths = leaf_paths(pool);
    pool.services.config.change(|config| {
        config.list.set(keys::STATE, PoolState::Active.number());
        if host.id == 0 {
            config.list.remove(keys::HOST_ID);
        } else {
            config.list.set(keys::HOST_ID, host.id);
        }
        config.list.set(keys::HOST_NAME, host.name.as_str());
        for (guid, path) in paths {
            if let Some(leaf) = config.root.find_mut(guid) {
                leaf.list.set(keys::PATH, path.as_str());
            }
        }
    });
    pool.services.update_label_features();
}

/// Where the leaves are now, as absolute paths.
fn leaf_paths(pool: &Pool) -> Vec<(Guid, String)> {
    let tops = pool.vdevs.tops().into_iter();
    let leaves = tops.flat_map(|top| top.leaves().to_vec());
    leaves
        .map(|leaf| {
            let path = leaf.path().to_string();
            let absolute = std::path::absolute(&path);
            let text = absolute.map_or(path, |path| path.display().to_string());
            (leaf.guid(), text)
        })
        .collect()
}

#[cfg(test)]
mod tests;
