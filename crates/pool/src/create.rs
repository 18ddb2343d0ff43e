//! Making a pool.

pub(crate) mod new_objects;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::clock::{Clock, SystemClock};
use base::invariant::Findings;
use base::random::Rng;
use base::{Guid, ObjectId, ObjectSetId, Txg};
use dmu::{ObjectSet, OpenObjectSet, SyncWorkers, Tx, Zap};
use dsl::{Dsl, OpenDsl, PropertyValue, Services, SyncPass};
use format::config::{directory, keys, vdev_types};
use format::features::{self, Feature, Support};
use format::label::PoolState;
use format::nvlist::Value;
use format::{BlockPointer, NvList, ObjectSetKind, Uberblock};
use pipeline::{Pipeline, PipelineConfig};
use space::{ClassKind, PoolSpace, VdevSpace};
use txg::{Engine, EngineConfig};
use vdev::{VdevTree, WriteGroup};

use crate::allocation::allocator::PoolAllocator;
use crate::allocation::late::LateAllocator;
use crate::allocation::limits::Limits;
use crate::allocation::maps::{MapForms, MosSpaceStore, VdevMaps};
use crate::allocation::opening::{OpenedSpace, geometry};
use crate::blocks::references::BlockReferenceTable;
use crate::blocks::{PassWriters, PipelineStore, WriteRules};
use crate::config::host::Host;
use crate::config::state::ConfigState;
use crate::config::{PoolConfig, VdevConfig};
use crate::create::new_objects::{NewPool, VERSION_FEATURES, in_dependency_order};
use crate::error::{PoolError, Result};
use crate::events::Events;
use crate::import::load::granularity;
use crate::import::{LoadedParts, Parts, make_writer};
use crate::mos::error_log::ErrorLog;
use crate::mos::features::Features;
use crate::mos::history::History;
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::pool::status::VdevRole;
use crate::sync::frees::Frees;
use crate::sync::memory;
use crate::vdevs::devices::{Devices, open_tree};
use crate::vdevs::new::{NewVdev, Preparation, prepare_top};

/// The longest name of a pool.
const NAME_MAX: usize = 255;

/// How to make a pool.
pub struct CreateOptions {
    /// Its name.
    pub name: String,
    /// What it is called until it is exported (`-t`).
    pub temporary_name: Option<String>,
    /// Its vdevs for data.
    pub vdevs: Vec<NewVdev>,
    /// Its other vdevs: for intent logs, metadata or dedup tables.
    pub others: Vec<(VdevRole, NewVdev)>,
    /// Sector size as a power of two; `None`: what the devices ask for.
    pub ashift: Option<u32>,
    /// Whether devices may belong to another pool (`-f`).
    pub force: bool,
    /// Features to enable; `None`: all that we maintain.
    pub features: Option<Vec<&'static Feature>>,
    /// Properties of the pool.
    pub properties: Vec<(String, PropertyValue)>,
    /// The root file system.
    pub root: dsl::NewPool,
    /// The folder below which its file systems are mounted.
    pub altroot: Option<PathBuf>,
    /// Bytes that the block cache may hold.
    pub cache_bytes: usize,
    /// The pool's guid; `None`: a random one.
    pub guid: Option<Guid>,
    /// Who we are.
    pub host: Host,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
    /// The same calls, from the thread that creates the pool, write the same bytes on every machine,
    /// given the same clock, chance and host: one thread and one allocator work, and a txg closes
    /// only when [`Pool::sync`] asks. The caller asks often enough to bound what is dirty.
    pub reproducible: bool,
}

impl CreateOptions {
    /// The usual, over these vdevs.
    #[must_use]
    pub fn new(name: &str, vdevs: Vec<NewVdev>) -> Self {
        Self {
            name: name.to_owned(),
            temporary_name: None,
            vdevs,
            others: Vec::new(),
            ashift: None,
            force: false,
            features: None,
            properties: Vec::new(),
            root: dsl::NewPool::default(),
            altroot: None,
            cache_bytes: cache::default_limit_bytes(),
            guid: None,
            host: Host::current(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(sys::SystemRng),
            reproducible: false,
        }
    }

    /// Every vdev, in the order of their ids.
    fn all_vdevs(&self) -> impl Iterator<Item = (VdevRole, &NewVdev)> {
        let data = self.vdevs.iter().map(|vdev| (VdevRole::Data, vdev));
        let others = self.others.iter().map(|(role, vdev)| (*role, vdev));
        data.chain(others)
    }

    /// What each vdev is for, by id.
    fn roles(&self) -> Vec<VdevRole> {
        self.all_vdevs().map(|(role, _)| role).collect()
    }
}

/// The features that a new pool gets: all that OpenZFS 2.3 knows and we maintain.
#[must_use]
pub fn default_features() -> Vec<&'static Feature> {
    let maintained = |feature: &&'static Feature| feature.support == Support::Write;
    let all = features::ALL.iter().copied().filter(maintained);
    all.collect()
}

/// Refuses what cannot be a pool's name.
fn check_name(name: &str) -> Result<()> {
    let bad = |reason: String| Err(PoolError::BadName { reason });
    let Some(first) = name.chars().next() else {
        return bad("name is empty".to_owned());
    };
    if name.len() > NAME_MAX {
        return bad("name is too long".to_owned());
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || "-_.: ".contains(*c);
    if let Some(wrong) = name.chars().find(|c| !allowed(c)) {
        return bad(format!("invalid character '{wrong}' in pool name"));
    }
    if !first.is_ascii_alphabetic() {
        return bad("name must begin with a letter".to_owned());
    }
    let reserved = ["mirror", "raidz", "draid", "spare"];
    if name == "log" || reserved.iter().any(|word| name.starts_with(word)) {
        return bad("name is reserved".to_owned());
    }
    Ok(())
}

/// The devices of a new pool, opened, with the configuration that is made for them.
struct Prepared {
    config: PoolConfig,
    devices: Devices,
}

fn prepare(options: &CreateOptions) -> Result<Prepared> {
    if options.vdevs.is_empty() {
        return Err(PoolError::Invalid {
            reason: "invalid vdev specification: at least one toplevel vdev must be specified"
                .to_owned(),
        });
    }
    let guid = options
        .guid
        .unwrap_or_else(|| Guid(options.rng.nonzero_u64()));
    let mut devices = Devices::default();
    let mut tops = Vec::new();
    let preparation = Preparation {
        ashift: options.ashift,
        force: options.force,
        txg: Txg::INITIAL,
        rng: options.rng.as_ref(),
    };
    for (role, vdev) in options.all_vdevs() {
        let id = tops.len();
        tops.push(prepare_top(id, role, vdev, &preparation, &mut devices)?);
    }
    let mut root = NvList::new();
    root.set(keys::TYPE, vdev_types::ROOT)
        .set(keys::ID, 0_u64)
        .set(keys::GUID, guid.0)
        .set(keys::CREATE_TXG, Txg::INITIAL.0);
    let mut list = NvList::new();
    list.set(keys::VERSION, VERSION_FEATURES)
        .set(keys::NAME, options.name.as_str())
        .set(keys::STATE, PoolState::Active.number())
        .set(keys::TXG, 0_u64)
        .set(keys::POOL_GUID, guid.0)
        .set(keys::ERRATA, 0_u64);
    if options.host.id != 0 {
        list.set(keys::HOST_ID, options.host.id);
    }
    list.set(keys::HOST_NAME, options.host.name.as_str())
        .set(keys::HAS_PER_VDEV_ZAPS, Value::Boolean)
        .set(keys::VDEV_CHILDREN, tops.len() as u64);
    let config = PoolConfig {
        list,
        root: VdevConfig {
            list: root,
            children: tops,
        },
    };
    Ok(Prepared { config, devices })
}

impl Pool {
    /// Makes a pool, open for writing.
    ///
    /// # Errors
    /// The name, the devices or the options are not possible, or a device failed.
    pub fn create(options: CreateOptions) -> Result<Arc<Self>> {
        check_name(&options.name)?;
        if let Some(name) = &options.temporary_name {
            check_name(name)?;
        }
        let prepared = prepare(&options)?;
        let vdevs = open_tree(&prepared.config.root, &prepared.devices).vdevs;
        initialise_labels(&prepared.config, &vdevs)?;
        let parts = make_parts(options, prepared.config, vdevs)?;
        let (parts, altroot) = parts;
        let writer = make_writer(&parts)?
            .ok_or_else(|| PoolError::Damaged("a new pool without space".to_owned()))?;
        let group = WriteGroup::new(Txg::INITIAL);
        writer.syncer.sync_txg(Txg::INITIAL, &group)?;
        parts.services.events.system("pool_create", Vec::new());
        let pool = Arc::new(Self {
            guid: parts.loaded.guid,
            vdevs: parts.loaded.vdevs,
            pipeline: parts.loaded.pipeline,
            services: parts.services,
            space: parts.space.map(|space| space.space),
            dsl: parts.dsl,
            writer: Some(writer),
            altroot,
            state: Self::new_state(),
            rewound: None,
        });
        let writer = pool.writer()?;
        writer.engine.start(writer.syncer.clone());
        pool.follow_autotrim()?;
        Ok(pool)
    }
}

/// Labels that claim the devices; their txg 0 says that the pool is not there yet.
fn initialise_labels(config: &PoolConfig, vdevs: &VdevTree) -> Result<()> {
    let blank = Uberblock::new(
        VERSION_FEATURES,
        Txg(0),
        config.root.guid_sum(),
        0,
        BlockPointer::HOLE,
    );
    for (top, node) in vdevs.tops().iter().zip(&config.root.children) {
        for leaf in top.leaves() {
            let label = config.to_label(node, leaf.guid());
            leaf.initialise_labels(&label, &blank)?;
        }
    }
    Ok(())
}

/// The space of a new pool: all free.
fn fresh_space(
    config: &PoolConfig,
    roles: &[VdevRole],
    enabled: &[&'static Feature],
    allocators: usize,
    findings: &Arc<Findings>,
) -> Result<PoolSpace> {
    let has = |feature: &Feature| enabled.iter().any(|known| known.guid == feature.guid);
    let mut vdevs = Vec::new();
    for (top, role) in config.root.children.iter().zip(roles) {
        let geometry = geometry(top, role.class())?;
        vdevs.push(Some(VdevSpace::new(geometry, &[], findings)));
    }
    Ok(PoolSpace::new(
        vdevs,
        allocators,
        has(&features::LOG_SPACEMAP),
        has(&features::SPACEMAP_V2),
    ))
}

/// Makes the first state of everything in memory and on the way to the devices.
#[expect(
    clippy::too_many_lines,
    reason = "one order of steps, each needing what came before"
)]
fn make_parts(
    options: CreateOptions,
    config: PoolConfig,
    vdevs: Arc<VdevTree>,
) -> Result<(Parts, Option<PathBuf>)> {
    let wanted = options.features.clone().unwrap_or_else(default_features);
    let enabled = in_dependency_order(&wanted);
    let has = |feature: &Feature| enabled.iter().any(|known| known.guid == feature.guid);
    let roles = options.roles();
    let classed = roles.iter().filter(|role| role.has_feature()).count();
    if classed > 0 && !has(&features::ALLOCATION_CLASSES) {
        return Err(PoolError::Invalid {
            reason: "special and dedup vdevs need feature@allocation_classes".to_owned(),
        });
    }
    let txg = Txg::INITIAL;
    let tx = Tx::syncing(txg);
    let allocators = match options.reproducible {
        true => 1,
        false => space::allocators_of_machine(),
    };
    let findings = Arc::default();
    let space = fresh_space(&config, &roles, &enabled, allocators, &findings)?;
    let space = Arc::new(space);
    let late = Arc::new(LateAllocator::default());
    let mut pipeline = PipelineConfig::new(Arc::clone(&vdevs), late.clone());
    pipeline.cache_bytes = options.cache_bytes;
    pipeline.heal = true;
    let errors = Arc::new(ErrorLog::new());
    pipeline.error_log = Some(errors.clone());
    pipeline.granularity = granularity(&config);
    pipeline.hole_birth = has(&features::HOLE_BIRTH);
    let mut salt = [0; 32];
    options.rng.fill(&mut salt);
    pipeline.salt = codec::Salt(salt);
    let pipeline = Arc::new(Pipeline::new(pipeline));
    let store = Arc::new(PipelineStore::new(Arc::clone(&pipeline), true));
    let open = OpenObjectSet {
        store: store.clone(),
        id: ObjectSetId::MOS,
        writable: true,
        objects_max: memory::mos_objects_max(),
    };
    let mos = ObjectSet::create(open, ObjectSetKind::Meta, &tx)?;
    let maps = Arc::new(MosSpaceStore::new(
        Arc::clone(&mos),
        MapForms {
            histogram: has(&features::SPACEMAP_HISTOGRAM),
        },
    ));
    maps.begin(txg);
    let allocator = Arc::new(PoolAllocator::new(
        Arc::clone(&space),
        Arc::clone(&maps),
        true,
    ));
    late.set(&allocator);
    let new = NewPool {
        objects: &mos,
        tx: &tx,
        features: &enabled,
        salt,
        capacity_bytes: space.capacity_bytes(ClassKind::Normal),
    };
    let directory = new.directory()?;
    let limits = Arc::new(Limits::default());
    limits.set(Arc::clone(&space));
    let guid = config.guid();
    let mut root = config.root.clone();
    let name = options.temporary_name.as_ref().unwrap_or(&options.name);
    let events = Events::new(name, guid, Arc::clone(&options.clock));
    errors.tell(&events);
    let references = BlockReferenceTable::new();
    let services = Arc::new(PoolServices {
        mos: Arc::clone(&mos),
        directory: directory.clone(),
        store: Arc::clone(&store),
        clock: Arc::clone(&options.clock),
        rng: Arc::clone(&options.rng),
        version: VERSION_FEATURES,
        writable: AtomicBool::new(true),
        features: Features::none().noting_in(&findings),
        history: History::open(&mos, None, &options.host.name, &events)?,
        config: Arc::new(ConfigState::new(config, ObjectId(0))),
        frees: Arc::new(Frees::new(
            Arc::clone(&store),
            Arc::clone(&references),
            space.has_logs(),
        )),
        references,
        limits,
        logs: std::sync::OnceLock::new(),
        scrub: std::sync::OnceLock::new(),
        trim: std::sync::OnceLock::new(),
        errors,
        events,
        task: crate::sync::task_effects::TaskEffects::new(),
        ageing: crate::sync::ageing::Ageing::default(),
    });
    let engine = match options.reproducible {
        true => EngineConfig::on_request(txg.next()),
        false => memory::engine_config(txg.next()),
    };
    let engine = Engine::new(EngineConfig { findings, ..engine });
    let group = WriteGroup::new(txg);
    let writers = PassWriters {
        pipeline: &pipeline,
        meta: WriteRules::meta(
            has(&features::LZ4_COMPRESS),
            has(&features::EMBEDDED_DATA),
            3,
        ),
        txg,
        pass: 1,
        group: &group,
        may_share: false,
    };
    let workers = SyncWorkers::new(1);
    let pass = SyncPass {
        txg,
        pass: 1,
        workers: &workers,
        engine: None,
        writers: &writers,
    };
    services.frees.begin(1);
    let dsl = Dsl::create(
        OpenDsl {
            mos: Arc::clone(&mos),
            services: Arc::clone(&services) as Arc<dyn Services>,
            engine: Some(Arc::clone(&engine)),
            name: name.clone(),
            objects_max: crate::tunables::OBJECTS_MAX.count(),
        },
        &pass,
    )?;
    pipeline.set_keys(Arc::clone(dsl.keys()) as _);
    new.fill(&directory, &mut root, &roles)?;
    adopt(&services, &maps, &root)?;
    store_properties(&services, &tx, &options.properties)?;
    services.config.change(|config| config.root = root);
    services.update_label_features();
    let text = format!("pool version {VERSION_FEATURES}; software version millpond");
    services
        .history
        .internal(&tx, "create", &text, None, services.clock.now_s())?;
    for feature in &enabled {
        let text = format!("feature@{}=enabled", feature.name);
        services
            .history
            .internal(&tx, "set", &text, None, services.clock.now_s())?;
    }
    dsl.create_root(options.root, &pass)?;
    group.wait()?;
    let parts = Parts {
        loaded: LoadedParts {
            uberblock: Uberblock::new(VERSION_FEATURES, Txg(0), 0, 0, BlockPointer::HOLE),
            guid,
            vdevs,
            pipeline,
            missed: std::collections::BTreeMap::new(),
        },
        services,
        dsl,
        space: Some(OpenedSpace { space, maps }),
        allocator: Some(allocator),
        engine: Some(engine),
        workers: match options.reproducible {
            true => SyncWorkers::new(1),
            false => SyncWorkers::per_core(),
        },
    };
    Ok((parts, options.altroot))
}

/// Makes the objects that now exist known to those who use them.
fn adopt(services: &PoolServices, maps: &MosSpaceStore, root: &VdevConfig) -> Result<()> {
    let mos = &services.mos;
    let named = |key: &str| -> Result<ObjectId> {
        let id = services.directory.lookup(key.as_bytes())?;
        id.map(ObjectId)
            .ok_or_else(|| PoolError::Damaged(format!("a new pool without {key}")))
    };
    services
        .features
        .adopt(Features::open(mos, &services.directory)?);
    services.config.set_object(named(directory::CONFIG)?);
    services
        .history
        .set_object(mos.object(named(directory::HISTORY)?)?);
    for top in &root.children {
        maps.set_vdev(top.id(), VdevMaps::of_new(mos, top)?);
    }
    let logs = services
        .directory
        .lookup(directory::LOG_SPACE_MAPS.as_bytes())?;
    if let Some(id) = logs {
        let zap = Zap::open(&mos.object(ObjectId(id))?)?;
        maps.set_logs(Arc::new(zap))?;
    }
    Ok(())
}

/// Stores the properties of a new pool.
fn store_properties(
    services: &PoolServices,
    tx: &Tx,
    properties: &[(String, PropertyValue)],
) -> Result<()> {
    for (name, value) in properties {
        services.set_property(tx, name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
