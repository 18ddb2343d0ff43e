//! Making a pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::clock::{Clock, SystemClock};
use base::random::Rng;
use base::{Guid, ObjectId, ObjectSetId, Txg, VdevId};
use device::{Access, BlockDevice, DeviceKind, FileDevice};
use dmu::{ObjectSet, OpenObjectSet, SyncWorkers, Tx, Zap};
use dsl::{Dsl, OpenDsl, PropertyValue, Services, SyncPass};
use format::config::{directory, keys, vdev_types, vdev_zap};
use format::features::{self, Feature, Support};
use format::label::{self, PoolState};
use format::nvlist::Value;
use format::{BlockPointer, NvList, ObjectSetKind, Uberblock};
use pipeline::{Pipeline, PipelineConfig};
use space::{ClassKind, PoolSpace, VdevGeometry, VdevSpace};
use txg::{Engine, EngineConfig};
use vdev::{VdevTree, WriteGroup};

use crate::allocator::PoolAllocator;
use crate::blocks::{PassWriters, PipelineStore, WriteRules};
use crate::config::{PoolConfig, VdevConfig};
use crate::config_state::ConfigState;
use crate::devices::{Devices, open_tree};
use crate::discover;
use crate::error::{PoolError, Result};
use crate::error_log::ErrorLog;
use crate::features::Features;
use crate::frees::Frees;
use crate::history::History;
use crate::host::Host;
use crate::import::{LoadedParts, Parts, make_writer};
use crate::late_allocator::LateAllocator;
use crate::limits::Limits;
use crate::load::granularity;
use crate::new_objects::{NewPool, VERSION_FEATURES, in_dependency_order};
use crate::open_space::{OpenedSpace, geometry};
use crate::pool::Pool;
use crate::services::PoolServices;
use crate::space_store::{MapForms, MosSpaceStore, VdevMaps};

/// Clean objects of a dataset that stay in core.
const OBJECTS_MAX: usize = 65_536;
/// The longest name of a pool.
const NAME_MAX: usize = 255;

/// A device of a new pool.
#[derive(Clone)]
pub enum NewDevice {
    /// A file or disk, which must be there and large enough.
    Path(PathBuf),
    /// A device that is open already, and what to call it.
    Open(PathBuf, Arc<dyn BlockDevice>),
}

/// A top-level vdev of a new pool.
#[derive(Clone)]
pub enum NewVdev {
    /// One device.
    Single(NewDevice),
    /// Devices that hold the same bytes.
    Mirror(Vec<NewDevice>),
}

/// How to make a pool.
pub struct CreateOptions {
    /// Its name.
    pub name: String,
    /// What it is called until it is exported (`-t`).
    pub temporary_name: Option<String>,
    /// Its vdevs.
    pub vdevs: Vec<NewVdev>,
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
}

impl CreateOptions {
    /// The usual, over these vdevs.
    #[must_use]
    pub fn new(name: &str, vdevs: Vec<NewVdev>) -> Self {
        Self {
            name: name.to_owned(),
            temporary_name: None,
            vdevs,
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
        }
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

fn open_device(new: &NewDevice, force: bool) -> Result<(PathBuf, Arc<dyn BlockDevice>)> {
    let (path, device) = match new {
        NewDevice::Open(path, device) => (path.clone(), Arc::clone(device)),
        NewDevice::Path(path) => {
            let opened = FileDevice::open(path, Access::ReadWrite);
            let device: Arc<dyn BlockDevice> = Arc::new(opened?);
            (absolute(path), device)
        }
    };
    if device.size() < label::DEVICE_SIZE_MIN {
        return Err(PoolError::TooSmall {
            path: path.display().to_string(),
        });
    }
    if !force {
        check_unused(&path, device.as_ref())?;
    }
    Ok((path, device))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses a device that carries the label of a pool that was not destroyed.
fn check_unused(path: &Path, device: &dyn BlockDevice) -> Result<()> {
    let Some(found) = discover::labelled(path, device) else {
        return Ok(());
    };
    let Some(config) = discover::newest(&found.labels) else {
        return Ok(());
    };
    let state = match config.u64(keys::STATE).and_then(PoolState::from_number) {
        Some(PoolState::Destroyed) => return Ok(()),
        Some(PoolState::Exported) => "exported",
        Some(PoolState::Spare | PoolState::Cache) => "another",
        Some(PoolState::Active) => "active",
        None => "unknown",
    };
    // A label of txg 0 is left of a creation that was not finished.
    if config.u64(keys::TXG) == Some(0) {
        return Ok(());
    }
    Err(PoolError::DeviceInUse {
        path: path.display().to_string(),
        pool: config.str(keys::NAME).unwrap_or_default().to_owned(),
        state,
    })
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
    for (id, vdev) in options.vdevs.iter().enumerate() {
        tops.push(prepare_top(id, vdev, options, &mut devices)?);
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

fn prepare_top(
    id: usize,
    vdev: &NewVdev,
    options: &CreateOptions,
    devices: &mut Devices,
) -> Result<VdevConfig> {
    let (single, members) = match vdev {
        NewVdev::Single(device) => (true, std::slice::from_ref(device)),
        NewVdev::Mirror(members) => (false, members.as_slice()),
    };
    if !single && members.len() < 2 {
        return Err(PoolError::Invalid {
            reason: "invalid vdev specification: mirror requires at least 2 devices".to_owned(),
        });
    }
    let mut leaves = Vec::new();
    let (mut asize, mut ashift) = (u64::MAX, options.ashift.unwrap_or(0));
    for (index, member) in members.iter().enumerate() {
        let (path, device) = open_device(member, options.force)?;
        asize = asize.min(label::leaf_asize(device.size()));
        ashift = ashift.max(least_ashift(device.as_ref(), options.ashift));
        let guid = Guid(options.rng.nonzero_u64());
        leaves.push(leaf_config(index, guid, &path, device.kind()));
        devices.insert(guid, &path, device);
    }
    if !label::ASHIFT_RANGE.contains(&ashift) {
        return Err(PoolError::Invalid {
            reason: format!("invalid ashift: {ashift}; it must be 9 to 16"),
        });
    }
    let mut top = if single {
        let mut leaf = leaves.remove(0);
        leaf.list.set(keys::ID, id as u64);
        leaf
    } else {
        let mut list = NvList::new();
        list.set(keys::TYPE, vdev_types::MIRROR)
            .set(keys::ID, id as u64)
            .set(keys::GUID, options.rng.nonzero_u64());
        VdevConfig {
            list,
            children: leaves,
        }
    };
    top.list.remove(keys::CREATE_TXG);
    top.list
        .set(keys::METASLAB_ARRAY, 0_u64)
        .set(
            keys::METASLAB_SHIFT,
            u64::from(VdevGeometry::metaslab_shift_for(asize)),
        )
        .set(keys::ASHIFT, u64::from(ashift))
        .set(keys::ASIZE, asize)
        .set(keys::MIN_ALLOC, 1_u64 << ashift)
        .set(keys::IS_LOG, 0_u64)
        .set(keys::CREATE_TXG, Txg::INITIAL.0);
    Ok(top)
}

/// The sector size that a device asks for; one that was asked for wins if the device can do it.
fn least_ashift(device: &dyn BlockDevice, wanted: Option<u32>) -> u32 {
    /// Larger physical sectors are not chosen by themselves.
    const AUTOMATIC_MAX: u32 = 14;
    let logical = device.sector_size().max(512).ilog2();
    if wanted.is_some() {
        return logical;
    }
    let physical = device.physical_sector_size().max(512).ilog2();
    match device.kind() {
        // A file's sectors are whatever we make of them.
        DeviceKind::File | DeviceKind::Memory => logical,
        DeviceKind::Disk => logical.max(physical.min(AUTOMATIC_MAX)),
    }
}

fn leaf_config(index: usize, guid: Guid, path: &Path, kind: DeviceKind) -> VdevConfig {
    let disk = kind == DeviceKind::Disk;
    let mut list = NvList::new();
    let name = if disk {
        vdev_types::DISK
    } else {
        vdev_types::FILE
    };
    list.set(keys::TYPE, name)
        .set(keys::ID, index as u64)
        .set(keys::GUID, guid.0)
        .set(keys::PATH, path.display().to_string());
    if disk {
        list.set(keys::WHOLE_DISK, 0_u64);
    }
    list.set(keys::CREATE_TXG, Txg::INITIAL.0);
    VdevConfig {
        list,
        children: Vec::new(),
    }
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
        writer.syncer.sync_txg(Txg::INITIAL)?;
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
fn fresh_space(config: &PoolConfig, enabled: &[&'static Feature]) -> Result<PoolSpace> {
    let has = |feature: &Feature| enabled.iter().any(|known| known.guid == feature.guid);
    let mut vdevs = Vec::new();
    for top in &config.root.children {
        let geometry = geometry(top, ClassKind::Normal)?;
        vdevs.push(Some(VdevSpace::new(geometry, &[])));
    }
    let allocators = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(PoolSpace::new(
        vdevs,
        allocators.min(4),
        has(&features::LOG_SPACEMAP),
        has(&features::SPACEMAP_V2),
    ))
}

/// Makes the first state of everything in core and on the way to the devices.
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
    let txg = Txg::INITIAL;
    let tx = Tx::syncing(txg);
    let space = Arc::new(fresh_space(&config, &enabled)?);
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
        objects_max: OBJECTS_MAX,
    };
    let mos = ObjectSet::create(open, ObjectSetKind::Meta, &tx)?;
    let maps = Arc::new(MosSpaceStore::new(
        Arc::clone(&mos),
        MapForms {
            histogram: has(&features::SPACEMAP_HISTOGRAM),
            large_blocks: has(&features::LOG_SPACEMAP),
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
    let services = Arc::new(PoolServices {
        mos: Arc::clone(&mos),
        directory: directory.clone(),
        store,
        clock: Arc::clone(&options.clock),
        rng: Arc::clone(&options.rng),
        version: VERSION_FEATURES,
        writable: AtomicBool::new(true),
        features: Features::none(),
        history: History::open(&mos, None, &options.host.name)?,
        config: Arc::new(ConfigState::new(config, ObjectId(0))),
        frees: Arc::new(Frees::new(Arc::clone(&pipeline), space.has_logs())),
        limits,
        logs: std::sync::OnceLock::new(),
        scrub: std::sync::OnceLock::new(),
        errors,
    });
    let engine = Engine::new(EngineConfig {
        first: txg.next(),
        ..EngineConfig::default()
    });
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
            name: options
                .temporary_name
                .as_ref()
                .unwrap_or(&options.name)
                .clone(),
            objects_max: OBJECTS_MAX,
        },
        &pass,
    )?;
    new.fill(&directory, &mut root)?;
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
        let missing = || PoolError::Damaged("a new vdev without metaslab array".to_owned());
        let array = top.object(keys::METASLAB_ARRAY).ok_or_else(missing)?;
        let zap = top.object(keys::VDEV_ZAP_TOP).ok_or_else(missing)?;
        let zap = Zap::open(&mos.object(zap)?)?;
        let unflushed = zap.lookup(vdev_zap::UNFLUSHED_TXGS.as_bytes())?;
        let unflushed = unflushed.map(|id| mos.object(ObjectId(id))).transpose()?;
        let array = mos.object(array)?;
        maps.set_vdev(VdevId(top.id().0), VdevMaps { array, unflushed });
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
