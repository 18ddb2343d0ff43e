//! Opening a pool: selecting it, refusing it where we must, and starting to write it.

pub(crate) mod blockers;
pub(crate) mod discover;
pub(crate) mod load;
pub(crate) mod options;
pub(crate) mod removed;
pub(crate) mod rewind;
pub(crate) mod trial;

use std::path::PathBuf;
use std::sync::Arc;

use base::{Guid, ObjectId, Txg};
use dmu::{SyncWorkers, Zap};
use dsl::NamedList;
use format::Uberblock;
use format::config::{directory, keys};
use format::label::PoolState;
use txg::{Engine, EngineConfig};

use crate::allocation::opening;
use crate::assembly::{Beginning, Identity, WithDatasets, deferred_frees};
use crate::blocks::{WriteRules, copies_max};
use crate::config::host::{Host, kernel_module_present};
use crate::error::{PoolError, Result};
use crate::facts::Stored;
use crate::import::blockers::judge;
use crate::import::discover::{FoundPool, discover};
use crate::import::load::Loaded;
use crate::import::options::{ImportOptions, Selection};
use crate::import::rewind::{load_with_rewind, write_checkpoint};
use crate::logs::intent_logs::Claiming;
use crate::mos::features::Features;
use crate::multihost::activity;
use crate::pool::services::PoolServices;
use crate::pool::{Pool, Rewound};
use crate::sync::memory;
use crate::vdevs::device_lists;
use crate::vdevs::devices::Devices;
use crate::vdevs::regroup::DeviceChange;

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
        options.looks_on = true;
        Self::import(&options)
    }

    /// Imports a pool.
    ///
    /// # Errors
    /// Why it cannot be imported, and whether it could be read-only.
    pub fn import(options: &ImportOptions) -> Result<Arc<Self>> {
        let found = select(options)?;
        let seen = activity::check(&found, options)?;
        if !options.force {
            check_use(&found, &options.host)?;
        }
        let devices = Devices::of_pool(&found, options.purpose(), options.between.as_ref())?;
        Self::import_from((&found, seen), devices, options)
    }

    /// Imports a pool from these of its devices. `seen`: the newest uberblock of one that is to be claimed.
    pub(crate) fn import_from(
        (found, seen): (&FoundPool, Option<Uberblock>),
        mut devices: Devices,
        options: &ImportOptions,
    ) -> Result<Arc<Self>> {
        let (loaded, rewound) = load_with_rewind(found, &mut devices, options)?;
        judge(&loaded, (found, &devices), options.purpose())?;
        let vdevs = &loaded.objects.foundation.vdevs;
        let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
        let first = loaded.uberblock.txg.max(newest).next();
        let claim = match seen.filter(|_| !options.read_only) {
            Some(newest) => Some(activity::claim(vdevs, &newest, options.rng.as_ref())?),
            None => None,
        };
        open(loaded, rewound, (first, claim), options)
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
        (Selection::Only, [path]) if device::file_of(path).is_file() => Err(PoolError::NoLabel {
            path: path.display().to_string(),
        }),
        _ => Err(PoolError::NoSuchPool { wanted }),
    }
}

/// Refuses a pool that somebody else may have open.
///
/// # Errors
/// Who used it last, and did not export it: another host, or the kernel of this one may have it.
pub fn check_use(found: &FoundPool, host: &Host) -> Result<()> {
    if found.state != PoolState::Active {
        return Ok(());
    }
    let foreign = host.is_other(&found.last_user);
    // The kernel's own implementation does not see our locks: an active pool may be open there.
    if foreign || kernel_module_present() {
        return Err(PoolError::InUseElsewhere(found.last_user.clone()));
    }
    Ok(())
}

fn object_of(directory: &Zap, key: &str) -> Result<Option<ObjectId>> {
    let id = directory.lookup(key.as_bytes())?;
    Ok(id.filter(|id| *id != 0).map(ObjectId))
}

/// Opens the layers above a loaded object set.
fn open(
    mut loaded: Loaded,
    rewound: Option<Rewound>,
    (first, claim): (Txg, Option<Uberblock>),
    options: &ImportOptions,
) -> Result<Arc<Pool>> {
    let writable = !options.read_only;
    if writable && options.to_checkpoint {
        write_checkpoint(&loaded.objects.foundation.vdevs, &loaded.uberblock)?;
    }
    let name = options
        .new_name
        .clone()
        .unwrap_or_else(|| loaded.config.name().to_owned());
    if !options.temporary_name {
        loaded.config.list.set(keys::NAME, name.as_str());
    }
    let uberblock = loaded.uberblock;
    let missed = std::mem::take(&mut loaded.missed);
    let datasets = assemble(loaded, name, first, options)?;
    if writable {
        claim_logs(&datasets, &uberblock, (first, options.without_logs))?;
    }
    let beginning = Beginning {
        uberblock,
        missed,
        workers: SyncWorkers::per_core(),
    };
    let pool = datasets.with_writer(beginning)?;
    if writable && options.to_checkpoint {
        let services = &pool.datasets.services;
        let text = format!("rewound state to txg={}", uberblock.checkpoint_txg);
        let now_s = services.clock.now_s();
        services
            .history
            .internal_next("checkpoint rewind", &text, first, now_s);
    }
    let pool = pool.pool(options.altroot.clone(), rewound, options.between.clone());
    if let (Some(writer), Some(claim)) = (&pool.writer, &claim) {
        writer.multihost.follow(claim);
    }
    start(pool, options)
}

/// From the loaded object set to the datasets.
fn assemble(
    loaded: Loaded,
    name: String,
    first: Txg,
    options: &ImportOptions,
) -> Result<WithDatasets> {
    let writable = !options.read_only;
    let findings = Arc::default();
    let opened = opening::open(
        &loaded.objects.mos,
        &loaded.directory,
        &loaded.config.root,
        &loaded.features,
        &findings,
    );
    let with_space = if writable {
        let config = memory::engine_config(first);
        let engine = Engine::new(EngineConfig { findings, ..config });
        loaded.objects.with_space_written(opened?, engine)
    } else {
        loaded.objects.with_space_read(opened.ok())
    };
    let history_object = object_of(&loaded.directory, directory::HISTORY)?;
    let version = loaded.uberblock.version;
    let with_services = with_space.with_services(Identity {
        name,
        version,
        rules: own_rules(&loaded.features, version),
        directory: loaded.directory,
        features: loaded.features,
        config: loaded.config,
        config_object: loaded.config_object,
        history_object,
        host_name: options.host.name.clone(),
        clock: Arc::clone(&options.clock),
        rng: Arc::clone(&options.rng),
    })?;
    if writable {
        with_services.load_references()?;
    } else {
        with_services.load_tables_to_show();
    }
    let services = &with_services.services;
    device_lists::load(services)?;
    note_kept(services)?;
    with_services.open_datasets()
}

/// Claims the logs that the last import left; nothing was allocated yet.
fn claim_logs(
    datasets: &WithDatasets,
    loaded: &Uberblock,
    (first, without_logs): (Txg, bool),
) -> Result<()> {
    let Some(space) = &datasets.space else {
        return Ok(());
    };
    let claiming = Claiming {
        dsl: &datasets.dsl,
        pipeline: &datasets.pipeline,
        space: &space.space,
        maps: &space.maps,
        vdevs: &datasets.vdevs,
        services: &datasets.services,
        loaded: match loaded.checkpoint_txg {
            Txg(0) => loaded.txg,
            kept => kept,
        },
        first,
        without_logs,
    };
    claiming.run()
}

/// Tells the limits of space that is neither free nor anybody's. Figures that cannot be read are
/// left out: they only make the shown space a little larger.
fn note_kept(services: &Arc<PoolServices>) -> Result<()> {
    let limits = &services.limits;
    let deferred = deferred_frees(services)?;
    if let Some(Ok(sizes)) = deferred.as_ref().map(NamedList::sizes) {
        limits.set_listed(u64::try_from(sizes.used).unwrap_or(0));
    }
    let config = services.config.get();
    let stored = Stored::new(&services.mos, Some(services.directory.clone()));
    limits.set_shared(stored.cloned_blocks(&config.root).saved);
    let dedup = stored.dedup_statistics().with(&services.dedup.logged());
    limits.set_saved(dedup.saved_bytes());
    limits.set_dedup_percent(match dedup.ratio() {
        0 => 100,
        percent => percent,
    });
    Ok(())
}

/// The rules of the pool's own object set.
fn own_rules(features: &Features, version: u64) -> WriteRules {
    WriteRules::meta(
        features.is_active(&format::features::LZ4_COMPRESS),
        features.is_active(&format::features::EMBEDDED_DATA),
        copies_max(version),
    )
}

/// Starts writing the pool when it is writable.
fn start(pool: Arc<Pool>, options: &ImportOptions) -> Result<Arc<Pool>> {
    let events = Arc::clone(&pool.services.events);
    events.observe(&pool.vdevs);
    if let Some(writer) = &pool.writer {
        take_possession(&pool, &options.host);
        let begun = options.of_split.clone().map(|split| {
            let change = DeviceChange::BeginSplit(Box::new(split));
            writer.vdev_changes.change_devices(change)
        });
        pool.hold_as_set()?;
        writer.engine.start(writer.syncer.clone());
        writer.engine.wait_synced(None)?;
        begun.map_or(Ok(()), |number| writer.vdev_changes.outcome(number))?;
        events.system("pool_import", Vec::new());
        pool.follow_failmode();
        pool.release_spares();
        // Which devices these are for, those below leave alone.
        pool.rebuild_if_needed()?;
        if !pool.resume_resilver()? && !pool.resilver_if_needed()? {
            pool.resume_scrub()?;
        }
        pool.locate_spares(&options.paths)?;
        pool.relabel_spares();
        pool.open_caches(options)?;
        pool.resume_trims()?;
        pool.make_first_metaslabs()?;
        pool.follow_autoexpand()?;
        pool.go_on_expanding();
        pool.resume_removal();
        // After the scrub: it may have one of those before it that go now.
        pool.dsl.clean_up()?;
        pool.watch_devices();
        pool.watch_checkpoint();
    } else {
        events.system("pool_import", Vec::new());
    }
    Ok(pool)
}

/// The first txg tells everyone that the pool is in use, and by whom.
fn take_possession(pool: &Pool, host: &Host) {
    let paths = leaf_paths(pool);
    pool.services.config.change(|config| {
        config.list.set(keys::STATE, PoolState::Active.number());
        config.list.remove(keys::SPLIT_GUID);
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
    // A distributed spare has a name.
    leaves
        .filter(|leaf| leaf.spare_room().is_none())
        .map(|leaf| {
            let path = leaf.path().to_string();
            let absolute = device::absolute(path.as_ref());
            (leaf.guid(), absolute.display().to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests;
