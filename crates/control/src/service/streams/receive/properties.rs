//! The properties of what is received: set by the command, and inherited in spite of the stream.

use admin::{Assignments, Failure, Types};
use dsl::property::dataset::{QUOTA, REFQUOTA, REFRESERVATION, RESERVATION, find};
use dsl::{PropertyChange, SetProperties};
use format::ObjectSetKind;

use crate::service::Service;
use crate::service::assignments::stored;
use crate::service::refusal::refused;
use crate::service::reporter::Reporter;
use crate::service::rules::Target;

/// What changes of a dataset's properties when a stream is received.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    local: Assignments,
    changes: Vec<(String, PropertyChange)>,
}

impl Wanted {
    /// What the command says.
    pub(super) fn of(local: &Assignments, excluded: &[String]) -> Result<Self, Failure> {
        let inherited = excluded
            .iter()
            .filter(|name| find(name).is_none_or(|row| row.inherits))
            .map(|name| (name.clone(), PropertyChange::Inherit));
        let set = stored(local)?
            .into_iter()
            .map(|(name, value)| (name, PropertyChange::Set(value)));
        Ok(Self {
            local: local.clone(),
            changes: inherited.chain(set).collect(),
        })
    }

    /// Refuses what cannot be set.
    pub(super) fn check(
        &self,
        service: &Service,
        path: &str,
        kind: ObjectSetKind,
    ) -> Result<(), Failure> {
        let kind = match kind {
            ObjectSetKind::Volume => Types::VOLUME,
            ObjectSetKind::FileSystem
            | ObjectSetKind::None
            | ObjectSetKind::Meta
            | ObjectSetKind::Other => Types::FILESYSTEM,
        };
        let target = Target {
            kind,
            creating: false,
        };
        service.check_properties("receive", path, target, &self.local)
    }

    /// Sets what the data is written by at a new dataset, before any is.
    pub(super) fn set_first(&mut self, service: &Service, path: &str) -> Result<(), Failure> {
        let all = std::mem::take(&mut self.changes);
        let (last, first): (Vec<_>, _) = all.into_iter().partition(|(name, _)| is_limit(name));
        self.changes = last;
        if first.is_empty() {
            return Ok(());
        }
        let task = SetProperties {
            name: path.to_owned(),
            changes: first,
        };
        let set = service.dsl.run(task);
        set.map_err(|error| refused("set properties of", path, &error))
    }

    /// Sets what is left, when all data is there. What cannot be set is warned of.
    pub(super) fn set_last(&mut self, service: &Service, path: &str, reporter: &mut Reporter<'_>) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        if let Err(failure) = service.change_properties(path, changes, false, reporter) {
            reporter.warn(failure);
        }
    }
}

/// Whether a property says how much there may be, which holds once all is there.
fn is_limit(name: &str) -> bool {
    QUOTA.is(name) || REFQUOTA.is(name) || RESERVATION.is(name) || REFRESERVATION.is(name)
}
