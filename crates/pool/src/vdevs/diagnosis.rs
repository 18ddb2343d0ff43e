//! Devices that fail too often: what OpenZFS's event daemon does with them, the pool does itself.
//!
//! Errors are counted by kind and second. A leaf with so many of a kind within so many seconds is faulted (errors of
//! reads and writes) or called degraded (wrong bytes; slow operations, if somebody asked for that). How many, and
//! within what time, its properties say, else those of its top-level vdev. `zpool clear` and an import begin anew.
//!
//! It is done in the first pass of a txg, as all that takes devices out of use: a leaf that another one cannot do
//! without is not faulted, and nobody detaches that other one meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Guid;
use base::lock::{LockClass, Mutex, rank};
use device::DeviceError;
use dsl::property::{Property, vdev as properties};
use vdev::{Condition, ErrorCounts, Leaf, Top, VdevAux, VdevError, VdevState};

use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};

static WATCHED: LockClass = LockClass::new("pool.diagnosis", rank::LAST - 15);

/// Events within [`DEFAULT_S`] seconds that condemn a leaf, where no property says otherwise.
const DEFAULT_COUNT: u64 = 10;
const DEFAULT_S: u64 = 600;
/// Of so many seconds with errors it is remembered how many they had.
const SECONDS_MAX: usize = 1024;

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Reads and writes that failed.
    Io,
    /// Wrong bytes.
    Checksum,
    /// Operations that took very long.
    Slow,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Io, Self::Checksum, Self::Slow];

    const fn count(self, errors: &ErrorCounts) -> u64 {
        match self {
            Self::Io => errors.read.saturating_add(errors.write),
            Self::Checksum => errors.checksum,
            Self::Slow => errors.slow,
        }
    }

    /// The properties that say how many, and within how many seconds.
    const fn properties(self) -> (Property<u64>, Property<u64>) {
        match self {
            Self::Io => (properties::IO_N, properties::IO_T),
            Self::Checksum => (properties::CHECKSUM_N, properties::CHECKSUM_T),
            Self::Slow => (properties::SLOW_IO_N, properties::SLOW_IO_T),
        }
    }

    /// How many within how many seconds, of what is set; none if they are not to be looked at.
    fn limit(self, count: Option<u64>, seconds: Option<u64>) -> Option<(u64, u64)> {
        match self {
            Self::Io | Self::Checksum => {
                Some((count.unwrap_or(DEFAULT_COUNT), seconds.unwrap_or(DEFAULT_S)))
            }
            Self::Slow => count.zip(seconds),
        }
    }

    /// Whether a leaf is not to be used any more for it.
    const fn faults(self) -> bool {
        match self {
            Self::Io => true,
            Self::Checksum | Self::Slow => false,
        }
    }
}

/// How many errors of a kind were found in which second.
#[derive(Default)]
struct Times(BTreeMap<u64, u64>);

impl Times {
    fn add(&mut self, second: u64, count: u64) {
        let sum = self.0.entry(second).or_default();
        *sum = sum.saturating_add(count);
        if self.0.len() > SECONDS_MAX {
            self.0.pop_first();
        }
    }

    /// How many there were since so many seconds before `now`.
    fn within(&self, now: u64, seconds: u64) -> u64 {
        let recent = self.0.range(now.saturating_sub(seconds)..);
        recent.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}

/// A leaf, as it was last looked at.
#[derive(Default)]
struct Watched {
    seen: ErrorCounts,
    times: [Times; Kind::ALL.len()],
}

impl Watched {
    /// Notes what came since the last look; answers the kinds of which something did.
    fn look(&mut self, now: u64, errors: ErrorCounts) -> Vec<Kind> {
        let mut grown = Vec::new();
        for (kind, times) in Kind::ALL.into_iter().zip(&mut self.times) {
            let (before, count) = (kind.count(&self.seen), kind.count(&errors));
            if count > before {
                times.add(now, count - before);
                grown.push(kind);
            }
        }
        self.seen = errors;
        grown
    }

    fn within(&self, kind: Kind, now: u64, seconds: u64) -> u64 {
        let mut kinds = Kind::ALL.into_iter().zip(&self.times);
        let times = kinds.find(|(other, _)| *other == kind);
        times.map_or(0, |(_, times)| times.within(now, seconds))
    }
}

/// Looks at the errors of all leaves in each txg.
pub(crate) struct Diagnosis {
    watched: Mutex<BTreeMap<Guid, Watched>>,
}

impl Diagnosis {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            watched: Mutex::new(&WATCHED, BTreeMap::new()),
        })
    }

    /// The errors of a leaf were cleared: what there was before counts no more.
    pub(crate) fn forget(&self, leaf: Guid) {
        self.watched.lock().remove(&leaf);
    }

    /// The device of a leaf that was not there is back: what failed until then says nothing of it.
    pub(crate) fn begin_anew(&self, leaf: &Leaf) {
        let watched = Watched {
            seen: leaf.errors(),
            ..Watched::default()
        };
        self.watched.lock().insert(leaf.guid(), watched);
    }

    /// Notes the errors of a leaf; answers the kinds of which there are too many.
    fn found(
        &self,
        now: u64,
        leaf: &Leaf,
        limit: &dyn Fn(Kind) -> Option<(u64, u64)>,
    ) -> Vec<Kind> {
        let errors = leaf.errors();
        let grown = {
            let mut watched = self.watched.lock();
            let watched = watched.entry(leaf.guid()).or_default();
            if watched.seen == errors {
                return Vec::new();
            }
            watched.look(now, errors)
        };
        // The limits are read from the pool, and not under the lock.
        let limits = grown
            .into_iter()
            .filter_map(|kind| Some((kind, limit(kind)?)));
        let limits: Vec<_> = limits.collect();
        let watched = self.watched.lock();
        let too_many = |kind: Kind, (count, seconds): (u64, u64)| {
            let watched = watched.get(&leaf.guid());
            watched.is_some_and(|watched| watched.within(kind, now, seconds) >= count)
        };
        let found = limits
            .into_iter()
            .filter(|(kind, limit)| too_many(*kind, *limit));
        found.map(|(kind, _)| kind).collect()
    }
}

impl SyncTask for Diagnosis {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let services = pass.services;
        let now = services.clock.now_s();
        for top in pass.vdevs.tops() {
            for leaf in top.leaves() {
                let limit = |kind| limit_of(services, &top, leaf, kind);
                for kind in self.found(now, leaf, &limit) {
                    condemn(&top, leaf, kind, None);
                }
            }
        }
        Ok(())
    }
}

/// What the properties of a leaf say, or those of its top-level vdev. One that cannot be read is not set.
fn limit_of(services: &PoolServices, top: &Top, leaf: &Leaf, kind: Kind) -> Option<(u64, u64)> {
    let set = |property: Property<u64>| {
        let of = |vdev| services.vdev_number(vdev, property.row()).ok().flatten();
        of(leaf.guid()).or_else(|| of(top.config().guid))
    };
    let (count, seconds) = kind.properties();
    kind.limit(set(count), set(seconds))
}

/// A leaf did not take the uberblock of a txg in any label: it goes out of use at once, however few errors that are. In
/// the end of a txg: nobody detaches another one meanwhile.
pub(crate) fn takes_no_label(top: &Top, leaf: &Arc<Leaf>, error: &VdevError) {
    condemn(top, leaf, Kind::Io, error.of_device());
}

/// Takes a leaf out of use for its errors, of which `last` is one, or calls it degraded.
fn condemn(top: &Top, leaf: &Arc<Leaf>, kind: Kind, last: Option<&DeviceError>) {
    let state = leaf.condition().state;
    let is_in_use = match state {
        VdevState::Healthy | VdevState::Degraded => true,
        VdevState::Unknown
        | VdevState::Closed
        | VdevState::Offline
        | VdevState::Removed
        | VdevState::CantOpen
        | VdevState::Faulted => false,
    };
    if !is_in_use || leaf.remove_if_gone(last) {
        return;
    }
    // One that gives wrong bytes is no help where this one is away.
    let is_no_help = |other: &Leaf| {
        other.guid() == leaf.guid() || other.condition().state == VdevState::Degraded
    };
    if kind.faults() && top.outage(&is_no_help).is_empty() {
        leaf.set_condition(Condition::new(VdevState::Faulted, VdevAux::ErrorsExceeded));
    } else if state == VdevState::Healthy {
        leaf.set_condition(Condition::new(VdevState::Degraded, VdevAux::ErrorsExceeded));
    }
}

#[cfg(test)]
mod tests;
