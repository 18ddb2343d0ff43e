//! Giving free space back to the devices of the pool.

use admin::changes::{Trim, TrimAction, WaitTrim};
use admin::{Failure, FailureKind};
use base::Guid;
use dsl::Actor;
use pool::{TrimRefusal, VdevStatus};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::refusal::unreadable;
use crate::service::reporter::Reporter;

impl PoolChange for Trim {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied_to_trim(service))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("trim")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let verb = match self.action {
            TrimAction::Start { .. } => "trim",
            TrimAction::Cancel => "cancel trim",
            TrimAction::Suspend => "suspend trim",
        };
        let all = self.devices.is_empty();
        let mut leaves = service.meant(verb, &self.devices)?;
        if all {
            leaves.retain(|leaf| leaf.can_discard);
            if leaves.is_empty() {
                let text = format!("cannot {verb}: no devices in pool support trim operations");
                return Err(Failure::new(FailureKind::Unsupported, text));
            }
        }
        let guids = guids(&leaves);
        let refused = match self.action {
            TrimAction::Start { rate, secure } => service.pool.start_trims(&guids, rate, secure),
            TrimAction::Cancel => service.pool.cancel_trims(&guids),
            TrimAction::Suspend => service.pool.suspend_trims(&guids),
        };
        let refused = refused.map_err(|error| service.pool_refused(verb, &error))?;
        told(verb, all, &leaves, &refused)
    }
}

impl PoolChange for WaitTrim {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied_to_trim(service))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::Goes
    }

    fn turn(&self) -> Turn {
        Turn::Beside
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let leaves = service.meant("trim", &self.devices)?;
        let waited = service.pool.wait_trims(&guids(&leaves));
        waited.map_err(|error| service.pool_refused("wait for trim of", &error))
    }
}

fn denied_to_trim(service: &Service) -> Failure {
    denied_plainly(&format!("trim {}", service.dsl.pool_name()))
}

/// A leaf that was meant.
pub(super) struct Meant {
    guid: Guid,
    name: String,
    can_discard: bool,
}

impl Service {
    /// The leaves of these names, paths or guids; all, if none is named.
    pub(super) fn meant(&self, verb: &str, devices: &[String]) -> Result<Vec<Meant>, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let mut leaves = Vec::new();
        gather(&status.root, &mut leaves);
        if devices.is_empty() {
            return Ok(leaves.into_iter().map(meant).collect());
        }
        let find = |name: &String| {
            let found = leaves.iter().find(|leaf| answers_to(leaf, name));
            found.map(|leaf| meant(leaf)).ok_or_else(|| {
                let text = format!("cannot {verb} '{name}': no such device in pool");
                Failure::new(FailureKind::Missing, text)
            })
        };
        devices.iter().map(find).collect()
    }
}

fn gather<'a>(vdev: &'a VdevStatus, leaves: &mut Vec<&'a VdevStatus>) {
    if vdev.statistics.is_some() && vdev.children.is_empty() {
        leaves.push(vdev);
    }
    for child in &vdev.children {
        gather(child, leaves);
    }
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn answers_to(leaf: &VdevStatus, name: &str) -> bool {
    let path = leaf.path.as_deref().unwrap_or_default();
    path == name || short(path) == name || name.parse() == Ok(leaf.guid.0)
}

fn meant(leaf: &VdevStatus) -> Meant {
    Meant {
        guid: leaf.guid,
        name: leaf.path.clone().unwrap_or_default(),
        can_discard: leaf.can_discard,
    }
}

pub(super) fn guids(leaves: &[Meant]) -> Vec<Guid> {
    leaves.iter().map(|leaf| leaf.guid).collect()
}

/// One line for each device that was refused; of a whole pool, those for which there was something to do count.
pub(super) fn told(
    verb: &str,
    is_whole_pool: bool,
    leaves: &[Meant],
    refused: &[TrimRefusal],
) -> Result<(), Failure> {
    if is_whole_pool && refused.len() < leaves.len() {
        return Ok(());
    }
    let mut lines = refused.iter().filter_map(|(guid, reason)| {
        let leaf = leaves.iter().find(|leaf| leaf.guid == *guid)?;
        Some(format!("cannot {verb} '{}': {reason}", leaf.name))
    });
    let Some(first) = lines.next() else {
        return Ok(());
    };
    Err(lines.fold(Failure::new(FailureKind::Invalid, first), Failure::advise))
}
