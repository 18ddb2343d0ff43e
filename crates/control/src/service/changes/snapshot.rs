//! Taking snapshots.

use admin::changes::Snapshot;
use admin::{Failure, FailureKind, Permission, Types, name};
use dsl::{Actor, DslError, tasks};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::assignments::stored;
use crate::service::delegation::denied_plainly;
use crate::service::refusal::{reason, unreadable};
use crate::service::reporter::Reporter;
use crate::service::rules::Target;

impl PoolChange for Snapshot {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        service.require_each(
            actor,
            &self.names,
            self.recursive,
            Permission::SNAPSHOT,
            || denied_plainly("create snapshots "),
        )
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
        take(self, service).map_err(|failure| match self.recursive || self.names.len() > 1 {
            true => failure.because("no snapshots were created"),
            false => failure,
        })
    }
}

fn take(snapshot: &Snapshot, service: &Service) -> Result<(), Failure> {
    let all = full_names(snapshot, service)?;
    let target = Target {
        kind: Types::SNAPSHOT,
        creating: true,
    };
    if let Some(first) = all.first() {
        service.check_properties("create snapshot", first, target, &snapshot.properties)?;
    }
    for name in &all {
        let written = service.mounts().barrier(name::dataset_of(name));
        written.map_err(|failure| failed(name, failure.kind, &failure.message))?;
    }
    let heads: Result<Vec<_>, Failure> = all
        .iter()
        .map(|name| service.head("open", name::dataset_of(name)))
        .collect();
    let resting = service.pool.rest_logs(&heads?);
    let _resting = resting.map_err(|error| service.pool_refused("create snapshot", &error))?;
    let task = tasks::Snapshot {
        names: all.clone(),
        properties: stored(&snapshot.properties)?,
    };
    service.run(task).map_err(|error| {
        let (kind, text) = reason(&error);
        let mut name = snapshot.names.first().cloned().unwrap_or_default();
        if let DslError::Exists { name: of } | DslError::NotFound { name: of } = &error
            && of.contains('@')
        {
            name.clone_from(of);
        }
        failed(&name, kind, &text)
    })?;
    for name in &all {
        service.mounts().snapshots_changed(name::dataset_of(name));
    }
    Ok(())
}

/// All that are to be taken.
fn full_names(snapshot: &Snapshot, service: &Service) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for name in &snapshot.names {
        let (dataset, short) = name.split_once('@').unwrap_or((name, ""));
        let head = service.head("open", dataset)?;
        let heads = if snapshot.recursive {
            service
                .dsl
                .heads_under(&head.directory())
                .map_err(unreadable)?
        } else {
            vec![head]
        };
        for head in heads {
            if head.is_inconsistent().map_err(unreadable)? {
                // It is being received: who asked for it is told, who asked for all gets all others.
                if snapshot.recursive {
                    continue;
                }
                return Err(failed(name, FailureKind::Busy, "dataset is busy"));
            }
            let full = format!("{}@{short}", head.directory().name());
            if all
                .iter()
                .any(|other| name::dataset_of(other) == name::dataset_of(&full))
            {
                let text = "cannot create snapshots : multiple snapshots of same fs not allowed";
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            if let Err(error) = name::check_snapshot(&full) {
                return Err(failed(&full, FailureKind::Invalid, &error.to_string()));
            }
            all.push(full);
        }
    }
    Ok(all)
}

fn failed(name: &str, kind: FailureKind, reason: &str) -> Failure {
    Failure::cannot(kind, "create snapshot", name, reason)
}
