//! Making bookmarks with redaction lists. That takes its turn with other changes when it begins, and goes beside them
//! from then on: what it reads is held.

use std::sync::Arc;

use admin::changes::Redact;
use admin::{Failure, FailureKind, Permission};
use base::ObjectId;
use dsl::tasks::{AbortRedaction, BeginRedaction, ExtendRedaction, GrowingList};
use dsl::{Actor, Dataset, DslError};
use format::redaction::RedactedRange;
use replication::{FindError, Taker};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{reason, refused};
use crate::service::reporter::Reporter;

const VERB: &str = "redact";

/// Why a list is not made.
enum Unmade {
    /// Nobody wants it any more.
    Stopped(String),
    /// Somebody destroyed its bookmark.
    Gone,
    /// What is there stays, to be gone on with.
    Failed(FailureKind, String),
}

impl From<FindError> for Unmade {
    fn from(error: FindError) -> Self {
        Self::Failed(FailureKind::Medium, error.to_string())
    }
}

/// A list and who wants it.
struct Work<'a, 'r> {
    change: &'a Redact,
    service: &'a Service,
    reporter: &'a Reporter<'r>,
    list: GrowingList,
}

impl Taker<Unmade> for Work<'_, '_> {
    fn take(&mut self, ranges: Vec<RedactedRange>, reached: (ObjectId, u64)) -> Result<(), Unmade> {
        self.go_on()?;
        let task = ExtendRedaction {
            list: self.list.clone(),
            ranges,
            reached,
        };
        self.list = self.service.dsl.run(task).map_err(|error| {
            if let DslError::NotFound { .. } = error {
                Unmade::Gone
            } else {
                let (kind, text) = reason(&error);
                Unmade::Failed(kind, text)
            }
        })?;
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Unmade> {
        let wanted = self.reporter.check();
        wanted.map_err(|ended| Unmade::Stopped(ended.to_string()))
    }
}

impl PoolChange for Redact {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied(VERB, &self.source);
        service.require(actor, &self.source, &[Permission::BOOKMARK], failure)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::InSteps("a redaction bookmark is being made")
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let turn = service.turn_of(self, reporter)?;
        let snapshot = open(service, &self.source)?;
        let others: Result<Vec<_>, _> = self.by.iter().map(|name| open(service, name)).collect();
        let others = others?;
        // What the blocks of all these say is read for as long as it takes.
        let _held: Vec<_> = others
            .iter()
            .chain([&snapshot])
            .map(Dataset::hold_long)
            .collect();
        let begun = service.dsl.run(BeginRedaction {
            name: self.name.clone(),
            source: self.source.clone(),
            by: self.by.clone(),
        });
        let list = begun.map_err(|error| refused_as(self, &error))?;
        let Some(_making) = service.redactions.enter(list.id()) else {
            let text = "the bookmark is being made by another command";
            return Err(Failure::cannot(FailureKind::Busy, VERB, &self.source, text));
        };
        drop(turn);
        let reached = list.reached();
        let mut work = Work {
            change: self,
            service,
            reporter,
            list,
        };
        let done = replication::redact(&service.pool, &snapshot, &others, reached, &mut work);
        done.map_err(|unmade| work.ended_early(unmade))
    }
}

impl Work<'_, '_> {
    /// A list that nobody waits for goes, others stay to be gone on with; what to say of it.
    fn ended_early(self, unmade: Unmade) -> Failure {
        let cannot = |kind, text| Failure::cannot(kind, VERB, &self.change.source, text);
        const STAYS: &str = "the list is not complete: the same command goes on with it";
        match unmade {
            Unmade::Stopped(why) => {
                let abort = AbortRedaction { list: self.list };
                match self.service.dsl.run(abort) {
                    Ok(()) | Err(DslError::NotFound { .. }) => cannot(FailureKind::Busy, why),
                    Err(error) => cannot(FailureKind::Busy, why)
                        .because(error.to_string())
                        .advise(STAYS),
                }
            }
            Unmade::Gone => {
                let text = "its bookmark was destroyed meanwhile".to_owned();
                cannot(FailureKind::Missing, text)
            }
            Unmade::Failed(kind, text) => cannot(kind, text).advise(STAYS),
        }
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
