//! Whether there is space for a transaction: what quotas, reservations and the pool leave, less
//! what is on its way to the disk already.
//!
//! A shortage that ends when dirty data is on disk asks the caller to try again; only one that
//! stays is a refusal, so that a full pool is found before a txg would fail to sync.

use std::sync::Arc;

use dmu::{Admission, Refusal};
use txg::Engine;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::services::SpaceClass;

/// Admits transactions that change a head.
pub struct HeadAdmission {
    head: Arc<Dataset>,
    engine: Arc<Engine>,
}

/// Metadata that comes with dirty data: one part in so many.
const METADATA_SHARE: u64 = 8;

impl Dataset {
    /// What admits transactions that change this head; nothing when the pool is read only.
    #[must_use]
    pub fn admission(self: &Arc<Self>) -> Option<Arc<HeadAdmission>> {
        let engine = Arc::clone(self.dsl().engine.as_ref()?);
        let head = Arc::clone(self);
        Some(Arc::new(HeadAdmission { head, engine }))
    }
}

impl HeadAdmission {
    /// The head.
    #[must_use]
    pub fn head(&self) -> &Arc<Dataset> {
        &self.head
    }

    fn decide(&self, dirty_bytes: u64, net_free: bool) -> Result<Option<Refusal>> {
        let class = if net_free {
            SpaceClass::Reserved
        } else {
            SpaceClass::Normal
        };
        // The caller's own bytes are among them.
        let in_flight = self.engine.dirty_counts().total_bytes.max(dirty_bytes);
        let copies = self.head.directory().storage_policy()?.copies.clamp(1, 3);
        let needed = in_flight.saturating_mul(copies) + in_flight / METADATA_SHARE;
        let directory = self.head.directory();
        let available = if net_free {
            // Quotas do not keep anybody from making room.
            let used = self.head.dsl().root_directory()?.phys()?.used_bytes;
            self.head
                .dsl()
                .services()
                .usable_bytes(class)
                .saturating_sub(used)
        } else {
            self.head.available(class)?
        };
        if available >= needed {
            return Ok(None);
        }
        if in_flight > dirty_bytes || self.head.dsl().has_background_frees()? {
            return Ok(Some(Refusal::Retry));
        }
        let limited = self.head.ref_quota()? != 0 || directory.phys()?.quota != 0;
        Ok(Some(if limited {
            Refusal::Quota
        } else {
            Refusal::NoSpace
        }))
    }
}

impl Admission for HeadAdmission {
    fn admit(&self, dirty_bytes: u64, net_free: bool) -> std::result::Result<(), Refusal> {
        // A dataset whose space cannot be told takes no more.
        match self.decide(dirty_bytes, net_free) {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(refusal),
            Err(_) => Err(Refusal::NoSpace),
        }
    }
}
