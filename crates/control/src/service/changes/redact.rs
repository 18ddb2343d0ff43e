//! Making bookmarks with redaction lists.

use std::sync::Arc;

use admin::changes::Redact;
use admin::{Failure, FailureKind};
use base::ObjectId;
use dsl::tasks::{BeginRedaction, ExtendRedaction};
use dsl::{Actor, Dataset, DslError};
use replication::FindError;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{reason, refused, unreadable};
use crate::service::reporter::Reporter;

const VERB: &str = "redact";

/// Why a list is not made.
struct Refused(Failure);

impl From<FindError> for Refused {
    fn from(error: FindError) -> Self {
        Self(Failure::new(FailureKind::Medium, error.to_string()))
    }
}

impl PoolChange for Redact {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied(VERB, &self.source);
        service.require(actor, &self.source, &["bookmark"], failure)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let snapshot = open(service, &self.source)?;
        let others: Result<Vec<_>, _> = self.by.iter().map(|name| open(service, name)).collect();
        let others = others?;
        // What the blocks of all these say is read for as long as it takes.
        let _held: Vec<_> = others
            .iter()
            .chain([&snapshot])
            .map(Dataset::hold_long)
            .collect();
        let task = BeginRedaction {
            name: self.name.clone(),
            source: self.source.clone(),
            by: self.by.clone(),
        };
        let mut from = service
            .dsl
            .run(task)
            .map_err(|error| refused_as(self, &error))?;
        let guid = snapshot.guid().map_err(unreadable)?;
        let begun = from;
        let mut take = |ranges, reached: (ObjectId, u64)| {
            let task = ExtendRedaction {
                name: self.name.clone(),
                guid,
                from,
                ranges,
                reached,
            };
            from = reached;
            let done = service.dsl.run(task);
            done.map_err(|error| Refused(refused_as(self, &error)))
        };
        let done = replication::redact(&service.pool, &snapshot, &others, begun, &mut take);
        done.map_err(|Refused(failure)| {
            Failure::cannot(failure.kind, VERB, &self.source, failure.message)
                .advise("the list is not complete: the same command goes on with it")
        })
    }
}

fn open(service: &Service, name: &str) -> Result<Arc<Dataset>, Failure> {
    let found = service.dsl.dataset(name);
    found.map_err(|error| refused("open", name, &error))
}

fn refused_as(change: &Redact, error: &DslError) -> Failure {
    let cannot = |kind, reason: &str| Failure::cannot(kind, VERB, &change.source, reason);
    if let DslError::Exists { .. } = error {
        let short = change.name.find('#').and_then(|at| change.name.get(at..));
        let text = format!("bookmark '{}' exists", short.unwrap_or(&change.name));
        return cannot(FailureKind::Exists, &text);
    }
    if let DslError::FeatureDisabled { feature } = error {
        let text = format!("feature '{feature}' is not enabled");
        return cannot(FailureKind::Unsupported, &text);
    }
    if let DslError::Unrelated { name, .. } = error {
        let text = format!("'{name}' is no later snapshot of it, or of a clone of it");
        return cannot(FailureKind::Invalid, &text);
    }
    let (kind, text) = reason(error);
    cannot(kind, &text)
}
