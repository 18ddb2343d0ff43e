//! Pools that are not imported: finding them, wiping their labels; and the features known here.

mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use admin::{
    Failure, FailureKind, ImportCandidate, ImportState, VdevClass, VdevReport, human_bytes,
};
use base::clock::real_now;
use base::thread;
use device::Access;
use format::config::keys;
use format::features;
use format::label::{self, PoolState};
use pool::{FoundPool, Host, PoolConfig, Trial};

use crate::compatibility::Compatibility;
use crate::service::side_by_side::side_by_side;
use crate::vdevs::{LeafFacts, class_in_label, pool_state, tree};
use verdict::import_state;

/// A pool that could be imported, or why not.
#[derive(Debug, Clone)]
pub struct Found {
    /// What the list shows.
    pub candidate: ImportCandidate,
    /// Why it may be a stranger's, as the end of a sentence about it.
    pub of_stranger: Option<String>,
}

/// How long a list waits for those who have just answered "exported", and keep their locks until they have ended.
const RELEASE_WAIT: Duration = Duration::from_secs(1);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);
/// How many pools a list tries at once.
const TRIALS_COUNT: usize = 4;
/// How long a list tries one pool. One that takes longer is shown as its labels are.
const TRIAL_WAIT: Duration = Duration::from_secs(20);

/// Looks for pools in directories and on devices; on the machine's devices if none are named. What is said of each is
/// what its labels say.
pub fn discover(search: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let pools = find(search)?;
    Ok(in_order(pools.iter().map(Found::of).collect()))
}

/// As [`discover`], for a list of what `is_listed`: it is found out whether another process has a pool, whether it
/// could be imported otherwise, and of pools that several hosts can reach whether another one has them, which takes as
/// long as that one may be silent.
pub fn discover_watching(
    search: &[PathBuf],
    is_listed: &(dyn Fn(&ImportCandidate) -> bool + Sync),
) -> Result<Vec<Found>, Failure> {
    let host = Host::current();
    let patience = real_now() + RELEASE_WAIT;
    let pools: Vec<_> = find(search)?.into_iter().map(Arc::new).collect();
    let found = side_by_side("listing", &pools, TRIALS_COUNT, |pool| {
        let found = Found::of(pool);
        match is_listed(&found.candidate) {
            true => found.tried(pool, &host, patience),
            false => found,
        }
    });
    Ok(in_order(found))
}

fn find(search: &[PathBuf]) -> Result<Vec<FoundPool>, Failure> {
    pool::discover(search).map_err(|error| {
        let kind = FailureKind::Medium;
        Failure::new(kind, format!("cannot discover pools: {error}"))
    })
}

fn in_order(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by(|a, b| a.candidate.name.cmp(&b.candidate.name));
    found
}

/// What `work` comes to, if it comes to that in time and does not fail. It goes on otherwise, and nobody waits for it.
fn within<T: Send + 'static>(
    wait: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, done) = sync_channel(1);
    let work = move || {
        let _nobody_waits_any_more = send.send(work());
    };
    let started = thread::named("trial", thread::Role::PART).spawn(work);
    started.ok()?;
    done.recv_timeout(wait).ok()
}

impl Found {
    fn of(pool: &FoundPool) -> Self {
        Self {
            candidate: candidate(pool, None),
            of_stranger: of_stranger(pool),
        }
    }

    /// The same with what the pool itself says, and how it could be imported.
    fn tried(self, pool: &Arc<FoundPool>, host: &Host, patience: Instant) -> Self {
        let held = held_elsewhere(pool, host).or_else(|| self.held_here(patience));
        // What another one has is not to be imported, whatever is on it.
        let trial = match &held {
            Some(_) => None,
            None => {
                let tried = Arc::clone(pool);
                within(TRIAL_WAIT, move || pool::try_import(&tried))
            }
        };
        let stored = trial.as_ref().and_then(|trial| trial.config.as_ref());
        let mut candidate = candidate(pool, stored);
        let import = match (held, &trial) {
            (Some(held), _) => held,
            (None, None) => ImportState::Unknown,
            (None, Some(trial)) => import_state((pool.as_ref(), host), candidate.state, trial),
        };
        if let Some((state, cause)) = verdict::shown(&import, &candidate.vdevs) {
            candidate.state = state;
            candidate.cause = cause;
        }
        candidate.import = import;
        candidate.vdevs.extend(trial.iter().flat_map(beside));
        Self { candidate, ..self }
    }

    /// Whether another process has the pool, and still has it at that time.
    fn held_here(&self, patience: Instant) -> Option<ImportState> {
        let mut device = self.locked_device()?;
        while real_now() < patience {
            std::thread::sleep(RELEASE_PAUSE);
            device = self.locked_device()?;
        }
        let by = device::lock_holder(&device).map(|holder| holder.to_string());
        Some(ImportState::InUse { by })
    }

    /// The process of this host that has a device of the pool, if there is one that can be seen.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        let holder = device::lock_holder(&self.locked_device()?)?;
        Some(holder.to_string())
    }

    /// A device that another process has.
    fn locked_device(&self) -> Option<PathBuf> {
        let mut devices = Vec::new();
        for vdev in &self.candidate.vdevs {
            vdev.walk(&mut |vdev| {
                let path = vdev.path.as_ref().filter(|_| !vdev.absent);
                devices.extend(path.map(PathBuf::from));
            });
        }
        devices.into_iter().find(|path| device::is_locked(path))
    }
}

/// The hot spares and the devices for a cache that a pool lists.
fn beside(trial: &Trial) -> Vec<VdevReport> {
    let device = |path: &String, class| VdevReport {
        path: Some(path.clone()),
        class,
        ..VdevReport::healthy("file", 0)
    };
    let caches = trial.caches.iter().map(|it| device(it, VdevClass::Cache));
    let spares = trial.spares.iter().map(|it| device(it, VdevClass::Spare));
    caches.chain(spares).collect()
}

/// Whether another host has a pool that several can reach, or may have it as far as this one can know.
fn held_elsewhere(pool: &FoundPool, host: &Host) -> Option<ImportState> {
    if !is_multihost(pool) {
        return None;
    }
    if host.id == 0 {
        return Some(ImportState::NoHostId);
    }
    let user = pool::other_host(pool, host)?;
    Some(ImportState::Active {
        host: user.shown_name().to_owned(),
        host_id: user.host_id,
    })
}

fn is_multihost(found: &FoundPool) -> bool {
    let newest = found.newest_uberblock();
    newest.is_some_and(format::Uberblock::multihost_active)
}

/// Whether somebody else than who asks may have made the pool what it is: another host used it last, or a file of it
/// belongs to another user.
fn of_stranger(found: &FoundPool) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let (host, user) = (Host::current(), &found.last_user);
    let named = |name: &str| !name.is_empty() && name != host.name;
    if host.is_other(user) || named(&user.host_name) {
        return Some(match user.host_name.as_str() {
            "" => "was last used elsewhere".to_owned(),
            name => format!("was last used on '{}'", name.escape_debug()),
        });
    }
    let leaves = found.config.root.leaves();
    let files = leaves.iter().filter_map(|leaf| found.device(leaf.guid()));
    let mut owners = files.filter_map(|device| {
        let known = std::fs::metadata(device::file_of(&device.path)).ok()?;
        let is_strange = known.is_file() && known.uid() != 0 && known.uid() != sys::user_id();
        is_strange.then(|| known.uid())
    });
    let owner = owners.next()?;
    Some(format!("is in a file of user {owner}"))
}

/// A pool with the vdevs that it has stored, or else those of its labels.
fn candidate(found: &FoundPool, stored: Option<&PoolConfig>) -> ImportCandidate {
    let truncated = found.truncated();
    let config = stored.unwrap_or(&found.config);
    let vdevs = tree(
        &config.root,
        &class_in_label,
        &|leaf| match found.device(leaf.guid()) {
            Some(device) => LeafFacts {
                path: Some(device.path.to_string_lossy().into_owned()),
                ..if truncated.contains(&leaf.guid()) {
                    LeafFacts::too_small()
                } else {
                    LeafFacts::online()
                }
            },
            None => LeafFacts::missing(),
        },
    );
    ImportCandidate {
        name: found.name.clone(),
        guid: found.guid.0,
        state: pool_state(&vdevs),
        cause: None,
        destroyed: found.state == PoolState::Destroyed,
        comment: found.comment.clone(),
        import: ImportState::Ready,
        vdevs,
    }
}

/// Why nothing was found where someone looked: a line for each place and file that should have held
/// a pool.
#[must_use]
pub fn explain_nothing(search: &[PathBuf]) -> Vec<String> {
    /// More files of a folder are not explained.
    const FILES_MAX: usize = 16;
    let mut lines = Vec::new();
    for place in search.iter().filter(|place| *place != Path::new("/dev")) {
        if !place.is_dir() {
            lines.push(explain_file(place));
            continue;
        }
        let Ok(entries) = std::fs::read_dir(place) else {
            lines.push(format!("{}: cannot be read", place.display()));
            continue;
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Nobody asked about files that never were a pool's.
        files.retain(|path| path.is_file() && has_label(path));
        files.sort();
        files.truncate(FILES_MAX);
        lines.extend(files.iter().map(|path| explain_file(path)));
    }
    lines
}

fn has_label(path: &Path) -> bool {
    let device = device::open(path, Access::ReadOnly);
    device.is_ok_and(|device| {
        let labels = vdev::read_labels(device.as_ref());
        labels.best_config(None).is_some()
    })
}

/// Why a file is not part of a pool that can be found.
fn explain_file(path: &Path) -> String {
    let shown = path.display();
    let device = match device::open(path, Access::ReadOnly) {
        Ok(device) => device,
        Err(error) => return error.to_string(),
    };
    let size = device.size();
    let labels = vdev::read_labels(device.as_ref());
    match labels.best_config(None) {
        None if size < label::DEVICE_SIZE_MIN => format!(
            "{shown}: no pool: {} is less than any pool's device has (64M); truncated?",
            human_bytes(size)
        ),
        None => format!("{shown}: no pool: no valid label"),
        Some(found) => {
            let needed = found
                .config
                .list(keys::VDEV_TREE)
                .and_then(|tree| tree.u64(keys::ASIZE))
                .unwrap_or(0);
            if size < needed {
                format!(
                    "{shown}: truncated: its label tells of {}, the file has {}; copy it again",
                    human_bytes(needed),
                    human_bytes(size)
                )
            } else if found.config.u64(keys::STATE) == Some(PoolState::Destroyed.number()) {
                format!("{shown}: part of a destroyed pool; look with '-D'")
            } else {
                format!("{shown}: its labels are not those of a pool that can be imported")
            }
        }
    }
}

/// Wipes the labels of a device that no imported pool uses.
pub fn labelclear(path: &Path, force: bool) -> Result<(), Failure> {
    let shown = path.display();
    let failed = |error: &dyn std::fmt::Display| {
        let text = format!("failed to clear label for {shown}");
        Failure::new(FailureKind::Medium, text).because(error.to_string())
    };
    // Opening for writing excludes whoever has the pool imported.
    let device = device::open(path, Access::ReadWrite).map_err(|error| failed(&error))?;
    let device = device.as_ref();
    let pools = pool::discover(&[path.to_owned()]).map_err(|error| failed(&error))?;
    let Some(found) = pools.first() else {
        return match pool::labelled_beside_vdevs(path, device) {
            Some(PoolState::Cache) => {
                pool::clear_cache_labels(device).map_err(|error| failed(&error))
            }
            Some(_) => pool::clear_labels(device).map_err(|error| failed(&error)),
            None => Err(failed(&"it has no label of any pool")),
        };
    };
    let state = match found.state {
        PoolState::Active => "potentially active",
        PoolState::Exported => "exported",
        PoolState::Destroyed | PoolState::Spare | PoolState::Cache => "",
    };
    if !force && !state.is_empty() {
        let text = "use '-f' to override the following error:";
        return Err(Failure::new(FailureKind::Busy, text).because(format!(
            "{shown} is a member of {state} pool \"{}\"",
            found.name
        )));
    }
    pool::clear_labels(device).map_err(|error| failed(&error))
}

/// The features that `zpool upgrade` enables in a pool with this value of `compatibility`.
#[must_use]
pub fn upgraded_features(compatibility: &str) -> Vec<&'static str> {
    let Ok(limit) = Compatibility::read(compatibility) else {
        return Vec::new();
    };
    let names = pool::default_features().into_iter();
    names
        .map(|feature| feature.name)
        .filter(|name| limit.allows(name))
        .collect()
}

/// True if a feature of this name is known.
#[must_use]
pub fn is_feature(name: &str) -> bool {
    features::by_name(name).is_some()
}

#[cfg(test)]
mod tests;
