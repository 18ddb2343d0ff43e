//! Setting properties of vdevs.

use dsl::Actor;
use serde::{Deserialize, Serialize};

use super::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::Failure;
use crate::message::Assignments;
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

/// Set properties of a vdev.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetVdev {
    /// Which: a name, path or guid.
    pub vdev: String,
    /// What; an empty text or an absent value takes one back.
    pub properties: Assignments,
}

impl PoolChange for SetVdev {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("set property for", &service.dsl.pool_name()))
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
        service.set_vdev(&self.vdev, &self.properties)
    }
}
