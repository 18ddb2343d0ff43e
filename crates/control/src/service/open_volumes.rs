//! Which volumes are open: one copy of each, whoever uses it, so that all see one size and one order of changes.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use admin::{Failure, FailureKind};
use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};
use base::notice;
use dsl::Dataset;
use dsl::property::dataset::READONLY;
use format::ObjectSetKind;
use volume::{Source, Volume};

use super::FileSource;
use super::refusal::{reason, unreadable};
use super::source::PoolSource;

static VOLUMES: LockClass = LockClass::new("control.open_volumes", rank::FRONT_END + 32);

/// A volume that is open as long as somebody has this. It refuses all once its pool is closed.
pub struct OpenVolume {
    volume: Volume,
    dataset: Arc<Dataset>,
}

impl OpenVolume {
    /// Its full name now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn name(&self) -> Result<String, Failure> {
        self.dataset.name().map_err(unreadable)
    }
}

impl Deref for OpenVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl std::fmt::Debug for OpenVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.volume.fmt(f)
    }
}

/// The volumes of a pool that are open, by their datasets' numbers.
pub(super) struct OpenVolumes(Mutex<State>);

#[derive(Default)]
struct State {
    open: HashMap<ObjectId, Weak<OpenVolume>>,
    /// The pool is closed.
    is_closed: bool,
}

impl OpenVolumes {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&VOLUMES, State::default())))
    }

    fn open(
        &self,
        dataset: &Arc<Dataset>,
        open: impl FnOnce() -> Result<Volume, Failure>,
    ) -> Result<Arc<OpenVolume>, Failure> {
        if let Some(found) = self.find(dataset.id()) {
            return Ok(found);
        }
        let new = Arc::new(OpenVolume {
            volume: open()?,
            dataset: Arc::clone(dataset),
        });
        let mut state = self.0.lock();
        if state.is_closed {
            let text = "the pool is about to be closed";
            return Err(Failure::new(FailureKind::Busy, text));
        }
        state.open.retain(|_, volume| volume.strong_count() > 0);
        // Of two who open it at once, one has it; nobody has used the other copy.
        let place = state.open.entry(dataset.id()).or_default();
        if let Some(first) = place.upgrade() {
            return Ok(first);
        }
        *place = Arc::downgrade(&new);
        Ok(new)
    }

    fn find(&self, dataset: ObjectId) -> Option<Arc<OpenVolume>> {
        let found = self.0.lock().open.get(&dataset).and_then(Weak::upgrade);
        found.filter(|volume| !volume.is_closed())
    }

    fn all(&self) -> Vec<Arc<OpenVolume>> {
        let state = self.0.lock();
        state.open.values().filter_map(Weak::upgrade).collect()
    }

    /// Whether somebody has a volume open.
    pub(super) fn is_open(&self, dataset: &Dataset) -> bool {
        self.find(dataset.id()).is_some()
    }

    /// Lets none be opened any more. With `force` those that are open refuse all from now on.
    ///
    /// # Errors
    /// Some are open: their names.
    pub(super) fn close(&self, force: bool) -> Result<(), Vec<String>> {
        let open = {
            let mut state = self.0.lock();
            let open = state.open.values().filter_map(Weak::upgrade);
            let open: Vec<_> = open.filter(|volume| !volume.is_closed()).collect();
            if !force && !open.is_empty() {
                drop(state);
                return Err(open.iter().filter_map(|one| one.name().ok()).collect());
            }
            state.is_closed = true;
            open
        };
        for volume in open {
            volume.stop();
        }
        Ok(())
    }

    /// The pool stays open after all.
    pub(super) fn reopen(&self) {
        self.0.lock().is_closed = false;
    }
}

impl PoolSource {
    /// Opens a volume or a snapshot of one, once what its log owes is applied.
    pub(super) fn open_volume(&self, dataset: &Arc<Dataset>) -> Result<Arc<OpenVolume>, Failure> {
        self.volumes.open(dataset, || {
            let log = self.log(dataset)?;
            let source = |read_only| -> Result<Source, Failure> {
                let objects = dataset.object_set().map_err(|error| {
                    let (kind, text) = reason(&error);
                    Failure::new(kind, text)
                })?;
                if objects.kind() != ObjectSetKind::Volume {
                    let text = "operation not applicable to datasets of this type";
                    return Err(Failure::new(FailureKind::Invalid, text));
                }
                let engine = self.pool.engine().filter(|_| log.is_some()).cloned();
                Ok(Source {
                    objects,
                    engine,
                    log: log.clone(),
                    admission: Some(dataset.admission() as _),
                    read_only,
                })
            };
            let medium =
                |error: volume::VolumeError| Failure::new(FailureKind::Medium, error.to_string());
            let mut is_whole = true;
            if let Some(log) = log.as_ref().filter(|log| log.is_owed()) {
                let replayed = volume::replay(source(false)?, log).map_err(medium)?;
                let name = dataset.name().map_err(unreadable)?;
                is_whole = say_replayed(&name, &replayed.lost, replayed.failed.as_ref());
            }
            let mut source = source(read_only(dataset)?)?;
            if !is_whole {
                source.log = None;
            }
            Volume::open(source).map_err(medium)
        })
    }

    /// Takes over the properties of the volumes that are open, after some changed.
    pub(super) fn refresh_volumes(&self) -> Result<(), Failure> {
        for volume in self.volumes.all() {
            // The log follows its properties.
            self.log(&volume.dataset)?;
            volume.set_read_only(read_only(&volume.dataset)?);
        }
        Ok(())
    }
}

fn read_only(dataset: &Dataset) -> Result<bool, Failure> {
    Ok(dataset.is_snapshot() || dataset.get(READONLY).map_err(unreadable)?.value)
}

/// Says what was lost; false: nothing may be written, as the log could not be replayed as a whole.
pub(super) fn say_replayed(
    name: &str,
    lost: &[(u64, String)],
    failed: Option<&(u64, String)>,
) -> bool {
    for (sequence, reason) in lost {
        notice::say(&format_args!(
            "{name}: record {sequence} of the intent log is lost with what it changes: {reason}"
        ));
    }
    let Some((sequence, reason)) = failed else {
        return true;
    };
    notice::say(&format_args!(
        "{name}: record {sequence} of the intent log cannot be replayed ({reason}): \
         the dataset is read-only, and its log is kept"
    ));
    false
}

impl FileSource {
    /// Opens a volume or a snapshot of one, or finds it open, once what its intent log owes is applied.
    ///
    /// # Errors
    /// There is none of that name; it is a file system, or its key is not loaded; or it cannot be read.
    pub fn open_volume(&self, name: &str) -> Result<Arc<OpenVolume>, Failure> {
        self.0.open_volume(&self.0.dataset(name)?)
    }
}
