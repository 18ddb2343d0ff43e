//! A pool comes to its daemon: made or imported, and what it is refused for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{
    Assignments, CreateRequest, Failure, FailureKind, ImportRequest, OpenRequest, Types, Value,
    VdevClass, VdevShape, VdevSpec, moment,
};
use base::clock::Clock;
use base::{Guid, Txg};
use device::{DeviceError, FileDevice};
use dsl::property::Requirement;
use dsl::property::dataset::KEYLOCATION;
use dsl::property::pool::{ALTROOT, ASHIFT, BOOTFS, CACHEFILE, COMPATIBILITY, MULTIHOST, VERSION};
use dsl::{NewEncryption, PropertyValue};
use pool::{
    CreateOptions, DraidWidth, ImportOptions, LastUser, MissingFeature, NewDevice, NewVdev, Pool,
    PoolError, Rewind, Selection, VdevRole,
};

use format::features::{ENCRYPTION, Feature};
use format::uberblock::VERSION_FEATURES;

use super::assignments::{InsideValues, split_inside, stored, stored_value};
use super::contents::clock;
use super::new_keys;
use super::open_heads::OpenHeads;
use super::open_volumes::OpenVolumes;
use super::refusal::{device_refused, kind_of, new_device_refused};
use super::rules::{self, Target};
use crate::compatibility::Compatibility;

/// A pool that was just created or imported, before anything is mounted.
pub struct Opened {
    pub(super) pool: Arc<Pool>,
    pub(super) heads: Arc<OpenHeads>,
    pub(super) volumes: Arc<OpenVolumes>,
    pub(super) altroot: Option<PathBuf>,
    pub(super) begin: Begin,
}

/// What remains to be done when the pool is served.
#[derive(Debug, Clone, Default)]
pub(super) struct Begin {
    /// Mount nothing.
    pub(super) unmounted: bool,
    /// Why the pool may be a stranger's.
    pub(super) of_stranger: Option<String>,
    /// Words of mount options.
    pub(super) mount_words: Vec<String>,
    /// Pool properties to set.
    pub(super) properties: Assignments,
    /// The command line for the history.
    pub(super) command: String,
    /// Lines of the answer.
    pub(super) lines: Vec<String>,
    /// What nobody asked for, and is to be known.
    pub(super) notice: Option<String>,
    /// Of a pool that is new: the files that were made for it.
    pub(super) made: Option<Vec<PathBuf>>,
}

impl Opened {
    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.pool.guid().0
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.pool.name()
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opened({})", self.name())
    }
}

/// Creates or imports the pool.
pub(super) fn open(request: &OpenRequest) -> Result<Opened, Failure> {
    match request {
        OpenRequest::Create(request) => create(request),
        OpenRequest::Import(request) => import(request),
    }
}

fn create(request: &CreateRequest) -> Result<Opened, Failure> {
    let is_multihost = request.properties.iter().any(is_multihost_on);
    if is_multihost && pool::Host::current().id == 0 {
        return Err(Failure::cannot(
            FailureKind::Invalid,
            "create",
            &request.name,
            NO_HOST_ID,
        ));
    }
    let made = make_files("create", &request.name, &request.vdevs, request.file_size)?;
    let outcome = create_options(request, &made, &Maker::current())
        .and_then(|options| Pool::create(options).map_err(|e| create_refused(&request.name, &e)));
    // Nothing is left of what did not become a pool.
    let pool = outcome.inspect_err(|_| remove_files(&paths(&made)))?;
    Ok(Opened {
        pool,
        heads: OpenHeads::new(),
        volumes: OpenVolumes::new(),
        altroot: request.altroot.clone(),
        begin: Begin {
            command: request.command.clone(),
            properties: late_properties(request),
            made: Some(paths(&made)),
            ..Begin::default()
        },
    })
}

/// What `multihost=on` needs.
pub(super) const NO_HOST_ID: &str = "requires a non-zero system hostid";

/// Whether an assignment says that several hosts can reach the pool.
pub(super) fn is_multihost_on((name, value): &(String, Value)) -> bool {
    MULTIHOST.is(name) && *value == Value::Number(1)
}

/// Properties of a new pool that are not stored with it, or name what is in it.
fn late_properties(request: &CreateRequest) -> Assignments {
    let late = |name: &str| CACHEFILE.is(name) || BOOTFS.is(name);
    let properties = request.properties.iter();
    properties.filter(|(name, _)| late(name)).cloned().collect()
}

/// A file that was made for a vdev. It stays open, and locked, until it is the pool's: nobody else makes a pool of it
/// meanwhile, so that it can be removed if this one fails.
pub(crate) struct MadeFile {
    path: PathBuf,
    device: Arc<FileDevice>,
}

/// Where files are that were made.
pub(super) fn paths(made: &[MadeFile]) -> Vec<PathBuf> {
    made.iter().map(|file| file.path.clone()).collect()
}

/// Makes the files of vdevs that do not exist yet.
pub(super) fn make_files(
    verb: &str,
    pool: &str,
    vdevs: &[VdevSpec],
    size: Option<u64>,
) -> Result<Vec<MadeFile>, Failure> {
    let Some(size) = size else {
        return Ok(Vec::new());
    };
    let mut made = Vec::new();
    for path in vdevs.iter().flat_map(VdevSpec::leaves) {
        if path.exists() || device::is_remote(path) {
            continue;
        }
        match make_file(verb, pool, path, size) {
            Ok(file) => made.push(file),
            Err(failure) => {
                remove_files(&paths(&made));
                return Err(failure);
            }
        }
    }
    Ok(made)
}

/// What will be in it has owners and modes of its own: the file is for its owner alone.
fn make_file(verb: &str, pool: &str, path: &Path, size: u64) -> Result<MadeFile, Failure> {
    let created = FileDevice::create_private(path, size);
    let device = created.map_err(|error| device_refused(verb, pool, &error))?;
    Ok(MadeFile {
        path: path.to_owned(),
        device: Arc::new(device),
    })
}

/// Removes files that were made for nothing.
pub(super) fn remove_files(made: &[PathBuf]) {
    for path in made {
        let _gone = std::fs::remove_file(path);
    }
}

/// A device by its path, or the file that was made there.
fn new_device(path: &Path, made: &[MadeFile]) -> NewDevice {
    match made.iter().find(|file| file.path == path) {
        Some(file) => {
            let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            NewDevice::Open(place, Arc::clone(&file.device) as _)
        }
        None => NewDevice::Path(path.to_owned()),
    }
}

/// Vdevs with what they are for.
pub(super) fn new_vdevs(vdevs: &[VdevSpec], made: &[MadeFile]) -> Vec<(VdevRole, NewVdev)> {
    let device = |path: &PathBuf| new_device(path, made);
    let vdev = |spec: &VdevSpec| {
        let role = match spec.class {
            VdevClass::Log => VdevRole::Log,
            VdevClass::Special => VdevRole::Special,
            VdevClass::Dedup => VdevRole::Dedup,
            VdevClass::Normal | VdevClass::Cache | VdevClass::Spare => VdevRole::Data,
        };
        let vdev = match &spec.shape {
            VdevShape::Leaf(path) => NewVdev::Single(device(path)),
            VdevShape::Mirror(paths) => NewVdev::Mirror(paths.iter().map(device).collect()),
            VdevShape::RaidZ(parity, paths) => {
                NewVdev::RaidZ(*parity, paths.iter().map(device).collect())
            }
            VdevShape::Draid {
                parity,
                data,
                spares,
                paths,
            } => {
                let width = DraidWidth {
                    parity: *parity,
                    data: usize::try_from(*data).unwrap_or(usize::MAX),
                    spares: usize::try_from(*spares).unwrap_or(usize::MAX),
                };
                NewVdev::Draid(width, paths.iter().map(device).collect())
            }
        };
        (role, vdev)
    };
    let is_of_tree = |spec: &&VdevSpec| !matches!(spec.class, VdevClass::Spare | VdevClass::Cache);
    vdevs.iter().filter(is_of_tree).map(vdev).collect()
}

/// The cache devices among vdevs.
pub(super) fn new_caches(vdevs: &[VdevSpec], made: &[MadeFile]) -> Vec<NewDevice> {
    of_class(vdevs, made, VdevClass::Cache)
}

/// The hot spares among vdevs.
pub(super) fn new_spares(vdevs: &[VdevSpec], made: &[MadeFile]) -> Vec<NewDevice> {
    of_class(vdevs, made, VdevClass::Spare)
}

fn of_class(vdevs: &[VdevSpec], made: &[MadeFile], class: VdevClass) -> Vec<NewDevice> {
    let found = vdevs.iter().filter(|spec| spec.class == class);
    let paths = found.flat_map(VdevSpec::leaves);
    paths.map(|path| new_device(path, made)).collect()
}

/// Who makes a pool, and what time it is.
pub(crate) struct Maker {
    /// Owner and group of the root directory.
    pub(crate) owner: (u32, u32),
    pub(crate) clock: Arc<dyn Clock>,
}

impl Maker {
    fn current() -> Self {
        Self {
            owner: (sys::user_id(), sys::group_id()),
            clock: clock(),
        }
    }
}

/// A request as the pool layer has it.
pub(crate) fn create_options(
    request: &CreateRequest,
    made: &[MadeFile],
    maker: &Maker,
) -> Result<CreateOptions, Failure> {
    let (data, others): (Vec<_>, Vec<_>) = new_vdevs(&request.vdevs, made)
        .into_iter()
        .partition(|(role, _)| *role == VdevRole::Data);
    let data = data.into_iter().map(|(_, vdev)| vdev).collect();
    let mut options = CreateOptions::new(&request.name, data);
    options.others = others;
    options.spares = new_spares(&request.vdevs, made);
    options.caches = new_caches(&request.vdevs, made);
    options.altroot.clone_from(&request.altroot);
    options.temporary_name.clone_from(&request.temporary_name);
    options.force = request.force;
    options.features = Some(features(request)?);
    options.clock = Arc::clone(&maker.clock);
    options.root = root_file_system(request, maker)?;
    for (name, value) in &request.properties {
        // Set once the pool is there.
        if ALTROOT.is(name) || CACHEFILE.is(name) || BOOTFS.is(name) {
            continue;
        }
        match value {
            Value::Number(version) if VERSION.is(name) => options.version = *version,
            Value::Number(ashift) if ASHIFT.is(name) => {
                options.ashift = u32::try_from(*ashift).ok().filter(|ashift| *ashift != 0);
                // Vdevs that are added later follow it.
                if *ashift != 0 {
                    let value = PropertyValue::Number(*ashift);
                    options.properties.push((name.clone(), value));
                }
            }
            Value::Number(_) | Value::Text(_) | Value::Absent => {
                let stored = stored_value(value).map(|value| (name.clone(), value));
                options.properties.extend(stored);
            }
        }
    }
    Ok(options)
}

/// The root file system of a new pool, and what it is filled with.
fn root_file_system(request: &CreateRequest, maker: &Maker) -> Result<dsl::NewPool, Failure> {
    let target = Target {
        kind: Types::FILESYSTEM,
        creating: true,
    };
    // Every feature that we maintain is enabled, unless told otherwise.
    let chosen = features(request)?;
    let enabled = |feature: &Feature| chosen.iter().any(|known| known.name == feature.name);
    let (name, given) = (&request.name, &request.dataset_properties);
    let refuse = |text| Failure::cannot(FailureKind::Invalid, "create", name, text);
    let (encryption, properties) = new_keys::chosen(name, given, request.key.as_ref())?;
    match encryption {
        NewEncryption::Suite(_) => {
            return Err(refuse("Keyformat required for new encryption root."));
        }
        NewEncryption::Root(None, _) => {
            let text = "Encryption must be turned on to set encryption properties.";
            return Err(refuse(text));
        }
        NewEncryption::Root(Some(_), _) if !enabled(&ENCRYPTION) => {
            return Err(refuse("Encryption feature not enabled."));
        }
        NewEncryption::Root(..)
        | NewEncryption::Received(..)
        | NewEncryption::Inherited
        | NewEncryption::Off => {}
    }
    let mut checked = properties.clone();
    checked.retain(|(property, _)| !KEYLOCATION.is(property));
    let version = version(request);
    let has = |needed| match needed {
        Requirement::Feature(feature) => enabled(feature),
        Requirement::Version(needed) => version >= needed,
    };
    rules::check(target, &checked, &has)
        .map_err(|error| Failure::cannot(FailureKind::Invalid, "create", &request.name, error))?;
    let (inside, outside) = split_inside(&properties);
    let mut shape = InsideValues::new(&inside, &|_| None, &has).shape(&request.name)?;
    shape.owner = maker.owner;
    Ok(dsl::NewPool {
        properties: stored(&outside)?,
        case_insensitive: shape.is_case_insensitive(),
        populate: Some(shape.populate_task(Arc::clone(&maker.clock))),
        encryption,
    })
}

/// The version of a new pool.
fn version(request: &CreateRequest) -> u64 {
    let asked = request.properties.iter().find(|(name, _)| VERSION.is(name));
    let asked = asked.and_then(|(_, value)| value.number());
    asked.unwrap_or(VERSION_FEATURES)
}

/// The features of a new pool: the default ones, or none, and those named.
fn features(request: &CreateRequest) -> Result<Vec<&'static format::features::Feature>, Failure> {
    if version(request) < VERSION_FEATURES {
        return Ok(Vec::new());
    }
    let limit = request
        .properties
        .iter()
        .filter(|(name, _)| COMPATIBILITY.is(name))
        .find_map(|(_, value)| value.text().map(Compatibility::read));
    let limit = limit
        .unwrap_or(Ok(Compatibility::Off))
        .map_err(|reason| Failure::cannot(FailureKind::Invalid, "create", &request.name, reason))?;
    let mut chosen = if request.without_features {
        Vec::new()
    } else {
        pool::default_features()
    };
    chosen.retain(|feature| limit.allows(feature.name));
    for (name, wanted) in &request.features {
        let feature = format::features::by_name(name).ok_or_else(|| {
            let reason = format!("invalid property 'feature@{name}'");
            Failure::cannot(FailureKind::Invalid, "create", &request.name, reason)
        })?;
        chosen.retain(|present| present.name != feature.name);
        if *wanted {
            if feature.support != format::features::Support::Write {
                let reason = format!("feature@{name} is not supported for writing");
                let kind = FailureKind::Unsupported;
                return Err(Failure::cannot(kind, "create", &request.name, reason));
            }
            chosen.push(feature);
        }
    }
    Ok(chosen)
}

pub(crate) fn create_refused(name: &str, error: &PoolError) -> Failure {
    let cannot = |kind, reason: &str| Failure::cannot(kind, "create", name, reason);
    if let PoolError::TooSmall { .. } = error {
        cannot(
            FailureKind::Invalid,
            "one or more devices is less than the minimum size (64M)",
        )
    } else if let PoolError::DeviceInUse { .. } = error {
        Failure::unless_forced(FailureKind::Busy, error.to_string())
    } else if let PoolError::NoSpace = error {
        cannot(FailureKind::Space, "one or more devices is out of space")
    } else if let PoolError::Device(error) = error {
        new_device_refused("create", name, error)
    } else {
        cannot(kind_of(error), &error.to_string())
    }
}

fn import(request: &ImportRequest) -> Result<Opened, Failure> {
    let mut options =
        ImportOptions::new(request.search.clone(), Selection::Guid(Guid(request.guid)));
    options.new_name.clone_from(&request.new_name);
    options.temporary_name = request.temporary;
    options.read_only = request.readonly;
    options.force = request.force;
    options.destroyed = request.destroyed;
    options.without_logs = request.missing_log;
    options.altroot.clone_from(&request.altroot);
    options.rewind = match (request.txg_max, request.rewind, request.rewind_extreme) {
        (Some(txg), ..) => Rewind::To(Txg(txg)),
        (None, true, true) => Rewind::Extreme,
        (None, true, false) => Rewind::Safe,
        (None, false, _) => Rewind::Never,
    };
    options.to_checkpoint = request.to_checkpoint;
    if request.dry_run {
        options.read_only = true;
    }
    let pool = Pool::import(&options).map_err(|error| import_refused(request, &error))?;
    let lines = rewind_lines(&pool, request.dry_run);
    if request.dry_run {
        let text = lines.join("\n");
        let text = if text.is_empty() {
            "The pool can be imported as it is."
        } else {
            &text
        };
        return Err(Failure::new(FailureKind::Usage, text));
    }
    Ok(Opened {
        pool,
        heads: OpenHeads::new(),
        volumes: OpenVolumes::new(),
        altroot: request.altroot.clone(),
        begin: Begin {
            unmounted: request.unmounted,
            of_stranger: request.of_stranger.clone(),
            mount_words: request.mount_options.clone(),
            properties: request.properties.clone(),
            command: request.command.clone(),
            lines,
            notice: stranger_notice(request),
            made: None,
        },
    })
}

/// What the file systems of a stranger's pool are mounted without, for root: others' mounts are never otherwise.
fn stranger_notice(request: &ImportRequest) -> Option<String> {
    let stranger = request.of_stranger.as_ref()?;
    let words = &request.mount_options;
    let asked = |word: &str| words.iter().any(|given| given.contains(word));
    let is_decided = asked("setuid") && asked("devices");
    if sys::user_id() != 0 || request.unmounted || request.dry_run || is_decided {
        return None;
    }
    let name = request.new_name.as_ref().unwrap_or(&request.name);
    Some(format!(
        "{name} {stranger}: set-id programs and device nodes in it do nothing; '-o setuid,devices' if you trust it"
    ))
}

fn rewind_lines(pool: &Pool, dry_run: bool) -> Vec<String> {
    let Some(rewound) = pool.rewound() else {
        return Vec::new();
    };
    let (name, date) = (pool.name(), moment(rewound.timestamp));
    let mut lines = vec![if dry_run {
        format!("Would be able to return {name} to its state as of {date}.")
    } else {
        format!("Pool {name} returned to its state as of {date}.")
    }];
    let (count, unit) = match rewound.seconds_lost {
        0 => return lines,
        seconds if seconds > 120 => (seconds / 60, "minutes"),
        seconds => (seconds, "seconds"),
    };
    let verb = if dry_run {
        "Would discard"
    } else {
        "Discarded"
    };
    lines.push(format!(
        "{verb} approximately {count} {unit} of transactions."
    ));
    lines
}

fn with_features(failure: Failure, features: &[MissingFeature], readable: bool) -> Failure {
    let head = "This pool uses the following feature(s) not supported by this system:";
    let lines = features.iter().map(|feature| format!("\t{feature}"));
    let failure = lines.fold(failure.because(head), Failure::because);
    if readable {
        let reason = "All unsupported features are only required for writing to the pool.";
        can_be_read(failure.because(reason))
    } else {
        failure
    }
}

/// Of a pool that can be read.
fn can_be_read(failure: Failure) -> Failure {
    failure.advise("The pool can be imported using '-o readonly=on'.")
}

fn with_reason(failure: Failure, reason: &str) -> Failure {
    if reason.is_empty() {
        return failure;
    }
    failure.because(reason.to_owned())
}

fn import_refused(request: &ImportRequest, error: &PoolError) -> Failure {
    const UNAVAILABLE: &str = "one or more devices is currently unavailable";
    let name = &request.name;
    let cannot = |kind, reason: &str| Failure::cannot(kind, "import", name, reason);
    match error {
        PoolError::NoSuchPool { .. } => cannot(FailureKind::Missing, "no such pool available"),
        PoolError::UnsupportedVersion { .. } => cannot(
            FailureKind::Unsupported,
            "pool is formatted using an unsupported ZFS version",
        ),
        PoolError::UnsupportedFeatures { features, readable } => {
            let failure = cannot(FailureKind::Unsupported, "unsupported version or feature");
            with_features(failure, features, *readable)
        }
        PoolError::InUseElsewhere(user) => in_use(name, user, pool::Host::current().is_other(user)),
        PoolError::ActiveElsewhere(user) => imported_elsewhere(name, user),
        PoolError::NoHostId => without_host_id(name),
        PoolError::Locked { path } => cannot(FailureKind::Busy, &locked(path)),
        PoolError::Device(error @ DeviceError::ReadOnlyPlace { .. }) => {
            can_be_read(cannot(FailureKind::ReadOnly, &error.to_string()))
        }
        PoolError::Device(error) => device_refused("import", name, error),
        PoolError::MissingDevices { reason, .. } => {
            with_reason(cannot(FailureKind::Medium, UNAVAILABLE), reason)
        }
        PoolError::MissingLogs { paths } => {
            with_logs(cannot(FailureKind::Medium, UNAVAILABLE), paths)
        }
        PoolError::NoUberblock { reason } => cannot(FailureKind::Medium, "I/O error")
            .because(reason.clone())
            .advise("\tDestroy and re-create the pool from\n\ta backup source."),
        PoolError::ReadOnlyPossible(blocker) => {
            let reason = format!("cannot be opened for writing: {blocker}");
            can_be_read(cannot(FailureKind::Unsupported, &reason))
        }
        PoolError::NoLabel { .. }
        | PoolError::CheckpointExists
        | PoolError::DiscardingCheckpoint
        | PoolError::NoCheckpoint
        | PoolError::NoRemoval
        | PoolError::Ambiguous { .. }
        | PoolError::BadName { .. }
        | PoolError::TooSmall { .. }
        | PoolError::DeviceInUse { .. }
        | PoolError::Invalid { .. }
        | PoolError::Vdev(_)
        | PoolError::Cache(_)
        | PoolError::Corrupt { .. }
        | PoolError::Damaged(_)
        | PoolError::Object(_)
        | PoolError::Dataset(_)
        | PoolError::UnsupportedVdev { .. }
        | PoolError::Commit(_)
        | PoolError::NoUberblockWritten { .. }
        | PoolError::NoLabelWritten { .. }
        | PoolError::NoConvergence { .. }
        | PoolError::Invariant(_)
        | PoolError::UnnamedReference { .. }
        | PoolError::Free(_)
        | PoolError::Space(_)
        | PoolError::Suspended { .. }
        | PoolError::ReadOnly
        | PoolError::Busy
        | PoolError::NoSpace
        | PoolError::Scan(_)
        | PoolError::SplitUnfinished { .. }
        | PoolError::Stopped { .. }
        | PoolError::NoSuchVdev { .. } => cannot(kind_of(error), &error.to_string()),
    }
}

/// Another process has a device of the pool.
fn locked(path: &str) -> String {
    format!("{path} is in use by another process; export the pool there")
}

/// Another host has the pool, and says so.
fn imported_elsewhere(name: &str, user: &LastUser) -> Failure {
    let (host, id) = (user.shown_name(), user.host_id);
    let reason = format!("pool is imported on {host} (hostid: {id:#x})");
    Failure::cannot(FailureKind::Busy, "import", name, reason)
        .advise("Export the pool on the other system, then run 'zpool import'.")
}

fn without_host_id(name: &str) -> Failure {
    let text = format!(
        "Cannot import '{name}': pool has the multihost property on and the\nsystem's hostid is not set. \
         Set a unique hostid with the zgenhostid(8) command."
    );
    Failure::new(FailureKind::Invalid, text)
}

/// The log devices without which a pool is imported by force only.
fn with_logs(failure: Failure, paths: &[String]) -> Failure {
    let head = "The devices below are missing or corrupted, use '-m' to import the pool anyway:";
    let lines = paths.iter().map(|path| format!("\t    {path}"));
    lines.fold(failure.advise(head), Failure::because)
}

/// Why a pool may be open somewhere else: on another host, or in the kernel of this one.
fn in_use(name: &str, user: &LastUser, is_other: bool) -> Failure {
    if !is_other {
        let reason = "the kernel's ZFS module is here (/dev/zfs) and may have it open";
        return Failure::cannot(FailureKind::Busy, "import", name, reason)
            .advise("It was not exported: see whether 'zpool list' of OpenZFS knows it, and export it there.")
            .advise("If it is not imported there, use 'zpool import -f' to import it.");
    }
    let host = if user.host_name.is_empty() {
        "<unknown>"
    } else {
        &user.host_name
    };
    let reason = "pool was previously in use from another system.";
    Failure::cannot(FailureKind::Busy, "import", name, reason)
        .because(format!(
            "Last accessed by {host} (hostid={:x}) at {}",
            user.host_id,
            moment(user.timestamp)
        ))
        .advise("The pool can be imported, use 'zpool import -f' to import the pool.")
}

#[cfg(test)]
mod tests;
