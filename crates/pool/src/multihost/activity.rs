//! Whether another host has a pool: an import waits as long as that one would need to be seen, and claims the pool.
//!
//! The claim is one more write, with a number that is drawn, on all leaves. Of two hosts that waited at the same time
//! the one whose claim came first finds the other's in its place; and one that was held up for long finds a newer txg.

use std::sync::Arc;
use std::time::Duration;

use base::clock::{real_now, since};
use base::random::Rng;
use base::thread;
use device::{Access, BlockDevice};
use format::Uberblock;
use format::label::PoolState;
use format::uberblock::MultihostConfig;
use vdev::{VdevTree, read_labels};

use super::{SEQUENCE_MAX, mark};
use crate::config::host::Host;
use crate::error::{LastUser, PoolError, Result};
use crate::import::discover::{self, FoundPool};
use crate::import::options::ImportOptions;
use crate::tunables::{MULTIHOST_IMPORT_INTERVALS, MULTIHOST_INTERVAL_MS, MULTIHOST_WAIT_MAX_MS};
use crate::vdevs::dtl;

/// No wait is shorter.
const WAIT_MIN_MS: u64 = 1000;
/// How often it is looked whether anybody writes.
const LOOK_MS: u64 = 500;
/// How often, and at what distance, it is looked whether a claim stands.
const CLAIM_LOOKS: u32 = 10;
const CLAIM_PAUSE: Duration = Duration::from_millis(100);

/// Waits until it is certain that no other host has the pool. Answers the newest uberblock, where the pool is to be
/// claimed.
///
/// # Errors
/// One has it; or this host has no number by which others would know it.
pub(crate) fn check(found: &FoundPool, options: &ImportOptions) -> Result<Option<Uberblock>> {
    let newest = found.newest_uberblock().copied();
    let Some(newest) = newest.filter(|_| !options.looks_on) else {
        return Ok(None);
    };
    if !newest.multihost_active() {
        return Ok(None);
    }
    if options.host.id == 0 && !options.read_only {
        return Err(PoolError::NoHostId);
    }
    watch(found, &newest, &options.host, options.rng.as_ref())?;
    Ok(Some(newest))
}

/// Who else has a pool now, for those who only list pools; nobody asks where hosts do not say so.
#[must_use]
pub fn other_host(found: &FoundPool, host: &Host) -> Option<LastUser> {
    let newest = found.newest_uberblock().copied();
    let newest = newest.filter(Uberblock::multihost_active)?;
    match watch(found, &newest, host, &sys::SystemRng) {
        Err(PoolError::ActiveElsewhere(user)) => Some(user),
        Ok(()) | Err(_) => None,
    }
}

/// Waits until it is certain that no other host has the pool.
fn watch(found: &FoundPool, newest: &Uberblock, host: &Host, rng: &dyn Rng) -> Result<()> {
    let is_ours = host.id != 0 && host.id == found.last_user.host_id;
    let is_free = match found.state {
        PoolState::Destroyed => true,
        PoolState::Exported => is_ours,
        PoolState::Active | PoolState::Spare | PoolState::Cache => false,
    };
    if is_free {
        return Ok(());
    }
    let wait = wait(newest, rng)?;
    let begun = real_now();
    while since(begun) < wait {
        let left = wait.saturating_sub(since(begun));
        thread::sleep(left.min(Duration::from_millis(LOOK_MS)));
        let devices = found.devices.iter();
        let devices = devices.filter_map(|found| open(&found.path));
        if let Some((now, user)) = newest_on(devices)
            && now.compare_age(newest).is_ne()
        {
            return Err(PoolError::ActiveElsewhere(user));
        }
    }
    Ok(())
}

fn open(path: &std::path::Path) -> Option<Arc<dyn BlockDevice>> {
    device::open_again(path, Access::ReadOnly).ok()
}

/// How long the host that wrote an uberblock may be silent, and has the pool still.
pub(super) fn wait(newest: &Uberblock, rng: &dyn Rng) -> Result<Duration> {
    let (at, config) = (MultihostConfig::AT, newest.multihost_config);
    let delay_ms = newest.multihost_delay_ns / 1_000_000;
    let intervals = MULTIHOST_IMPORT_INTERVALS.get();
    let interval = match at.interval_valid.get(config) {
        1 => at.interval.get(config),
        _ => MULTIHOST_INTERVAL_MS.get(),
    };
    let fails = at.fail_intervals_valid.get(config) == 1;
    let ms = match at.fail_intervals.get(config) {
        count @ 1.. if fails => interval.saturating_mul(count).saturating_mul(2),
        _ => interval.saturating_add(delay_ms).saturating_mul(intervals),
    };
    if ms > MULTIHOST_WAIT_MAX_MS.get() {
        return Err(PoolError::Damaged(format!(
            "a host that has it would be seen after {} s only",
            ms / 1000
        )));
    }
    let ms = ms.max(WAIT_MIN_MS);
    Ok(Duration::from_millis(ms + rng.below(ms / 4)))
}

/// The newest uberblock on these devices, and who wrote the label beside it.
pub(super) fn newest_on(
    devices: impl Iterator<Item = Arc<dyn BlockDevice>>,
) -> Option<(Uberblock, LastUser)> {
    let newest = devices.filter_map(|device| {
        let labels = read_labels(device.as_ref());
        let best = labels.best_uberblock(None)?.uberblock;
        let user = discover::newest(&labels).map(discover::last_user);
        Some((best, user.unwrap_or_default()))
    });
    newest
        .max_by(|a, b| a.0.compare_age(&b.0))
        .map(|(best, user)| {
            let timestamp = best.timestamp;
            (best, LastUser { timestamp, ..user })
        })
}

/// An uberblock that is newer than this one of the same txg, by a number that is drawn.
pub(super) fn claim_after(newest: &Uberblock, rng: &dyn Rng) -> Result<Uberblock> {
    let mut claim = *newest;
    let sequence = newest.multihost_sequence();
    let sequence = if sequence < SEQUENCE_MAX {
        sequence + 1 + rng.below(SEQUENCE_MAX - sequence)
    } else {
        let next = newest.timestamp.checked_add(1);
        let none = || PoolError::Damaged("no time is later than that of its uberblock".to_owned());
        claim.timestamp = next.ok_or_else(none)?;
        1 + rng.below(SEQUENCE_MAX)
    };
    mark(&mut claim, newest.multihost_delay_ns, sequence);
    Ok(claim)
}

/// Says on all leaves that this host takes the pool, whose newest uberblock was `newest`.
///
/// # Errors
/// Another host does so, too, or has the pool.
pub(crate) fn claim(vdevs: &VdevTree, newest: &Uberblock, rng: &dyn Rng) -> Result<Uberblock> {
    let leaves = dtl::leaves(vdevs);
    let devices = || leaves.iter().filter_map(|leaf| leaf.device());
    let must_be = |wanted: &Uberblock| match newest_on(devices()) {
        Some((now, user)) if now.compare_age(wanted).is_ne() => {
            Err(PoolError::ActiveElsewhere(user))
        }
        Some(_) | None => Ok(()),
    };
    must_be(newest)?;
    let claim = claim_after(newest, rng)?;
    let writable = leaves.iter().filter(|leaf| leaf.takes_labels());
    let written = writable.map(|leaf| leaf.write_multihost(&claim, 0).and_then(|()| leaf.flush()));
    if written.filter(Result::is_ok).count() == 0 {
        return Err(PoolError::NoUberblockWritten { txg: newest.txg });
    }
    for _ in 0..CLAIM_LOOKS {
        thread::sleep(CLAIM_PAUSE);
        must_be(&claim)?;
    }
    Ok(claim)
}
