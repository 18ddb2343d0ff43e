//! What a file system must know about the space of its dataset.

use dmu::Admission;
use dsl::{DatasetFeature, HeadAdmission, SpaceClass};

use crate::error::{PosixError, Result};

/// Space as the dataset sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceNumbers {
    /// Bytes that the dataset refers to.
    pub referenced: u64,
    /// Bytes that can still be written: the least of pool, quotas and reservations.
    pub available: u64,
}

/// The dataset under a file system.
pub trait Space: Admission {
    /// The numbers now.
    fn numbers(&self) -> SpaceNumbers;

    /// Something is about to be stored that older software does not read: the dataset counts
    /// among the users of a feature from the txg that is open now.
    ///
    /// # Errors
    /// The pool has not enabled the feature: nothing may be stored that needs it.
    fn note_feature(&self, feature: DatasetFeature) -> Result<()> {
        let _ = feature;
        Ok(())
    }
}

impl Space for HeadAdmission {
    fn numbers(&self) -> SpaceNumbers {
        let head = self.head();
        SpaceNumbers {
            referenced: head.phys().map_or(0, |phys| phys.referenced_bytes),
            available: head.available(SpaceClass::Normal).unwrap_or(0),
        }
    }

    fn note_feature(&self, feature: DatasetFeature) -> Result<()> {
        let noted = self.head().note_feature(feature);
        // It says nothing else than this.
        noted.map_err(|_| PosixError::NotSupported(feature.feature().name))
    }
}
