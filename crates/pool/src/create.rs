//! Making a pool.

pub(crate) mod new_objects;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::clock::{Clock, SystemClock};
use base::invariant::Findings;
use base::random::Rng;
use base::{Guid, ObjectId, Txg};
use dmu::{ObjectSet, SyncWorkers, Tx, Zap};
use dsl::{PropertyValue, SyncPass};
use format::config::{VdevType, directory, keys};
use format::features::{self, Feature};
use format::label::PoolState;
use format::nvlist::Value;
use format::uberblock::{VERSION_FEATURES, version_is_known};
use format::{BlockPointer, NvList, ObjectSetKind, ObjectSetPhys, Uberblock, version};
use space::{ClassKind, PoolSpace, VdevSpace};
use txg::{Engine, EngineConfig};
use vdev::{VdevTree, WriteGroup};

use crate::allocation::maps::{MapForms, MosSpaceStore, VdevMaps};
use crate::allocation::opening::{OpenedSpace, geometry};
use crate::assembly::{Beginning, Blocks, Foundation, Identity, Whole, WithSpace};
use crate::blocks::{PassWriters, WriteRules, copies_max};
use crate::config::host::Host;
use crate::config::{PoolConfig, VdevConfig};
use crate::create::new_objects::{NewPool, in_dependency_order};
use crate::error::{PoolError, Result};
use crate::mos::features::Features;
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::pool::status::VdevRole;
use crate::sync::memory;
use crate::vdevs::devices::{Devices, open_tree};
use crate::vdevs::new::{NewDevice, NewVdev, Preparation, open_device, prepare_top, require};
use crate::vdevs::remote::check_not_remote;
use crate::vdevs::spare_rooms;

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
    /// Its cache devices.
    pub caches: Vec<NewDevice>,
    /// Its hot spares.
    pub spares: Vec<NewDevice>,
    /// Sector size as a power of two; `None`: what the devices ask for.
    pub ashift: Option<u32>,
    /// Whether devices may belong to another pool (`-f`).
    pub force: bool,
    /// Its version: 1 to 28, which have no features, or 5000.
    pub version: u64,
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
            caches: Vec::new(),
            spares: Vec::new(),
            ashift: None,
            force: false,
            version: VERSION_FEATURES,
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
    let all = features::ALL.iter().copied();
    all.filter(|feature| feature.is_for_all_pools()).collect()
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
    if dsl::name::is_reserved_pool(name) {
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
    if !version_is_known(options.version) {
        return Err(PoolError::Invalid {
            reason: format!("property 'version' number {} is invalid.", options.version),
        });
    }
    if options.vdevs.is_empty() {
        return Err(PoolError::Invalid {
            reason: "invalid vdev specification: at least one toplevel vdev must be specified"
                .to_owned(),
        });
    }
    if !options.spares.is_empty() {
        require(options.version, version::DOUBLE_PARITY, "hot spares")?;
    }
    if !options.caches.is_empty() {
        require(options.version, version::CACHE_DEVICES, "cache devices")?;
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
        role.check_version(options.version)?;
        vdev.check_version(options.version)?;
        let id = tops.len();
        tops.push(prepare_top(id, role, vdev, &preparation, &mut devices)?);
    }
    let mut root = NvList::new();
    root.set(keys::TYPE, VdevType::Root.name())
        .set(keys::ID, 0_u64)
        .set(keys::GUID, guid.0)
        .set(keys::CREATE_TXG, Txg::INITIAL.0);
    let mut list = NvList::new();
    list.set(keys::VERSION, options.version)
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
        let (altroot, force) = (options.altroot.clone(), options.force);
        let (spares, caches) = (options.spares.clone(), options.caches.clone());
        let ashift = options.ashift;
        for spare in spares.iter().chain(&caches) {
            // While nothing is made yet.
            check_not_remote(spare)?;
            open_device(spare, force)?;
        }
        let whole = assemble(options, prepared.config, &vdevs)?;
        let writer = whole.writer.as_ref();
        let writer =
            writer.ok_or_else(|| PoolError::Damaged("a new pool without space".to_owned()))?;
        let services = &whole.datasets.services;
        let tops = services.config.with(|config| config.root.children.clone());
        for top in &tops {
            let rooms = spare_rooms::of_new(top, services.rng.as_ref());
            rooms.into_iter().for_each(|room| services.spares.add(room));
        }
        let group = WriteGroup::new(Txg::INITIAL);
        writer.syncer.sync_txg(Txg::INITIAL, &group)?;
        let pool = whole.pool(altroot, None, None);
        pool.services.events.system("pool_create", Vec::new());
        let writer = pool.writer()?;
        writer.engine.start(writer.syncer.clone());
        pool.finish_creation(&spares, &caches, (ashift, force))
            .inspect_err(|_| {
                // On its devices it is a pool like any other. The first failure is the one to be told.
                let _ended = pool.destroy();
            })?;
        pool.watch_devices();
        pool.watch_checkpoint();
        pool.resume_removal();
        Ok(pool)
    }

    /// What a new pool gets once it is one.
    fn finish_creation(
        self: &Arc<Self>,
        spares: &[NewDevice],
        caches: &[NewDevice],
        (ashift, force): (Option<u32>, bool),
    ) -> Result<()> {
        self.follow_autotrim()?;
        self.follow_multihost()?;
        if !spares.is_empty() {
            self.add_spares(spares, force)?;
        }
        if !caches.is_empty() {
            self.add_caches(caches, ashift, force)?;
        }
        Ok(())
    }
}

/// Labels that claim the devices; their txg 0 says that the pool is not there yet.
fn initialise_labels(config: &PoolConfig, vdevs: &VdevTree) -> Result<()> {
    let blank = Uberblock::new(
        config.version(),
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

/// What is settled before anything is made.
struct Settled {
    /// The features to be enabled, each after those it depends on.
    enabled: Vec<&'static Feature>,
    /// What each vdev is for, by id.
    roles: Vec<VdevRole>,
    /// Secret of salted checksums.
    salt: [u8; 32],
    version: u64,
}

impl Settled {
    fn new(options: &CreateOptions) -> Result<Self> {
        let wanted = match &options.features {
            Some(features) => features.clone(),
            None if options.version < VERSION_FEATURES => Vec::new(),
            None => default_features(),
        };
        let mut settled = Self {
            enabled: in_dependency_order(&wanted),
            roles: options.roles(),
            salt: [0; 32],
            version: options.version,
        };
        let classed = settled.roles.iter().any(|role| role.has_feature());
        if classed && !settled.has(&features::ALLOCATION_CLASSES) {
            return Err(PoolError::Invalid {
                reason: "special and dedup vdevs need feature@allocation_classes".to_owned(),
            });
        }
        let mut of_layouts = options.all_vdevs().filter_map(|(_, vdev)| vdev.feature());
        if let Some(feature) = of_layouts.find(|feature| !settled.has(feature)) {
            return Err(PoolError::Invalid {
                reason: format!("vdevs of this kind need feature@{}", feature.name),
            });
        }
        options.rng.fill(&mut settled.salt);
        Ok(settled)
    }

    fn has(&self, feature: &Feature) -> bool {
        self.enabled.iter().any(|known| known.guid == feature.guid)
    }

    /// The rules of the pool's own object set.
    fn rules(&self) -> WriteRules {
        WriteRules::meta(
            self.has(&features::LZ4_COMPRESS),
            self.has(&features::EMBEDDED_DATA),
            copies_max(self.version),
        )
    }

    /// The space of a new pool: all free.
    fn space(
        &self,
        config: &PoolConfig,
        allocators: usize,
        findings: &Arc<Findings>,
    ) -> Result<PoolSpace> {
        let mut vdevs = Vec::new();
        for (top, role) in config.root.children.iter().zip(&self.roles) {
            let geometry = geometry(top, role.class())?;
            vdevs.push(Some(VdevSpace::new(geometry, &[], findings)));
        }
        Ok(PoolSpace::new(
            vdevs,
            allocators,
            self.has(&features::LOG_SPACEMAP),
            self.has(&features::SPACEMAP_V2),
        ))
    }
}

/// The first steps of [`crate::assembly`]: an empty object set over devices that are all free.
fn empty(
    options: &CreateOptions,
    settled: &Settled,
    config: &PoolConfig,
    vdevs: &Arc<VdevTree>,
) -> Result<(WithSpace, OpenedSpace)> {
    let txg = Txg::INITIAL;
    let (allocators, engine) = match options.reproducible {
        true => (1, EngineConfig::on_request(txg.next())),
        false => (
            space::allocators_of_machine(),
            memory::engine_config(txg.next()),
        ),
    };
    let findings = Arc::default();
    let space = Arc::new(settled.space(config, allocators, &findings)?);
    let blocks = Blocks {
        cache_bytes: options.cache_bytes,
        writable: true,
    };
    let foundation = Foundation::new(config, vdevs, blocks);
    let pipeline = &foundation.pipeline;
    pipeline.set_hole_birth(settled.has(&features::HOLE_BIRTH));
    foundation
        .store
        .set_deflates(options.version >= version::DEFLATE);
    pipeline.set_slim_logs(options.version >= version::SLIM_LOGS);
    pipeline.set_salt(codec::Salt(settled.salt));
    let own = foundation.own_objects();
    let size = ObjectSetPhys::size_in(options.version);
    let mos = ObjectSet::create_sized(own, ObjectSetKind::Meta, &Tx::syncing(txg), size)?;
    let forms = MapForms {
        histogram: settled.has(&features::SPACEMAP_HISTOGRAM),
    };
    let maps = Arc::new(MosSpaceStore::new(Arc::clone(&mos), forms));
    maps.begin(txg);
    let opened = OpenedSpace { space, maps };
    let engine = Engine::new(EngineConfig { findings, ..engine });
    let with_objects = foundation.with_objects(mos);
    let with_space = with_objects.with_space_written(opened.clone(), engine);
    Ok((with_space, opened))
}

/// Makes the first state of everything in memory and on the way to the devices.
fn assemble(options: CreateOptions, config: PoolConfig, vdevs: &Arc<VdevTree>) -> Result<Whole> {
    let settled = Settled::new(&options)?;
    let (with_space, opened) = empty(&options, &settled, &config, vdevs)?;
    let (mos, pipeline) = (with_space.mos(), with_space.pipeline());
    let (txg, version) = (Txg::INITIAL, options.version);
    let tx = Tx::syncing(txg);
    let new = NewPool {
        objects: &mos,
        tx: &tx,
        version,
        features: &settled.enabled,
        salt: settled.salt,
        capacity_bytes: opened.space.capacity_bytes(ClassKind::Normal),
    };
    let directory = new.directory()?;
    let mut root = config.root.clone();
    let with_services = with_space.with_services(Identity {
        name: options.temporary_name.unwrap_or(options.name),
        version,
        directory: directory.clone(),
        features: Features::none(),
        config,
        config_object: ObjectId(0),
        history_object: None,
        host_name: options.host.name,
        clock: options.clock,
        rng: options.rng,
        rules: settled.rules(),
    })?;
    let group = WriteGroup::new(txg);
    let writers = PassWriters {
        pipeline: &pipeline,
        meta: settled.rules(),
        txg,
        pass: 1,
        group: &group,
        may_share: false,
        may_deduplicate: false,
    };
    let workers = SyncWorkers::new(1);
    let pass = SyncPass {
        txg,
        pass: 1,
        workers: &workers,
        engine: None,
        writers: &writers,
    };
    with_services.services.frees.begin(1);
    let datasets = with_services.create_datasets(&pass)?;
    let services = &datasets.services;
    new.fill(&directory, &mut root, &settled.roles)?;
    adopt(services, &opened.maps, &root)?;
    store_properties(services, &tx, &options.properties)?;
    services.config.change(|config| config.root = root);
    services.update_label_features();
    note_creation(services, &tx, version, &settled.enabled)?;
    datasets.dsl.create_root(options.root, &pass)?;
    group.wait()?;
    datasets.with_writer(Beginning {
        uberblock: Uberblock::new(version, Txg(0), 0, 0, BlockPointer::HOLE),
        missed: BTreeMap::new(),
        workers: match options.reproducible {
            true => SyncWorkers::new(1),
            false => SyncWorkers::per_core(),
        },
    })
}

/// The first records of the history.
fn note_creation(
    services: &PoolServices,
    tx: &Tx,
    version: u64,
    enabled: &[&'static Feature],
) -> Result<()> {
    let note = |name: &str, text: &str| {
        let now_s = services.clock.now_s();
        services.history.internal(tx, name, text, None, now_s)
    };
    let text = format!("pool version {version}; software version millpond");
    note("create", &text)?;
    for feature in enabled {
        note("set", &format!("feature@{}=enabled", feature.name))?;
    }
    Ok(())
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
    let history = services.directory.lookup(directory::HISTORY.as_bytes())?;
    if let Some(id) = history {
        services.history.set_object(mos.object(ObjectId(id))?);
    }
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
