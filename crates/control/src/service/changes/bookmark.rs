//! Making bookmarks.

use admin::changes::Bookmark;
use admin::{Failure, FailureKind, Permission};
use dsl::tasks::CreateBookmark;
use dsl::{Actor, DslError};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::refused;
use crate::service::reporter::Reporter;

impl PoolChange for Bookmark {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("create bookmark", &self.name);
        service.require(actor, &self.source, &[Permission::BOOKMARK], failure)?;
        service.require(actor, &self.name, &[Permission::BOOKMARK], failure)
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
        const VERB: &str = "create bookmark";
        let task = CreateBookmark {
            name: self.name.clone(),
            source: self.source.clone(),
        };
        service.dsl.run(task).map_err(|error| {
            let cannot = |kind, reason: &str| Failure::cannot(kind, VERB, &self.name, reason);
            if let DslError::Exists { .. } = error {
                cannot(FailureKind::Exists, "bookmark exists")
            } else if let DslError::FeatureDisabled { .. } = error {
                cannot(FailureKind::Unsupported, "bookmark feature not enabled")
            } else if let DslError::Unrelated { .. } = error {
                cannot(
                    FailureKind::Invalid,
                    "source is not an ancestor of the new bookmark's dataset",
                )
            } else {
                refused(VERB, &self.name, &error)
            }
        })
    }
}
