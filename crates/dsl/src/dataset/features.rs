//! The features that are counted by the datasets that use them.

use std::sync::atomic::Ordering;

use base::Guid;
use dmu::{ObjectSet, Tx};
use format::features::{self, Feature, LARGE_BLOCKS, LARGE_MICROZAP, REDACTED_DATASETS};
use format::zap::Value;

use super::Dataset;
use crate::error::{DslError, Result};
use crate::services::Services;

macro_rules! dataset_features {
    ($($(#[$doc:meta])* $name:ident = $constant:ident,)*) => {
        /// A feature that is counted by the datasets that use it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum DatasetFeature {
            $($(#[$doc])* $name,)*
        }

        impl DatasetFeature {
            /// All of them.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            /// That of the pool's feature, if datasets count it.
            #[must_use]
            pub fn of(feature: &Feature) -> Option<Self> {
                let mut all = Self::ALL.into_iter();
                all.find(|one| one.feature().guid == feature.guid)
            }

            /// The pool's feature.
            #[must_use]
            pub const fn feature(self) -> &'static Feature {
                match self {
                    $(Self::$name => &features::$constant,)*
                }
            }
        }
    };
}

dataset_features! {
    /// Blocks above 128 KiB.
    LargeBlocks = LARGE_BLOCKS,
    /// Dnodes of several slots.
    LargeDnode = LARGE_DNODE,
    /// Checksums by SHA-512/256.
    Sha512 = SHA512,
    /// Checksums by Skein.
    Skein = SKEIN,
    /// Checksums by Edon-R.
    Edonr = EDONR,
    /// Checksums by BLAKE3.
    Blake3 = BLAKE3,
    /// Blocks compressed by zstd.
    ZstdCompress = ZSTD_COMPRESS,
    /// Objects counted by owner.
    UserObjectAccounting = USEROBJ_ACCOUNTING,
    /// Space by project.
    ProjectQuota = PROJECT_QUOTA,
    /// Extended attributes in log records.
    ZilSaXattr = ZILSAXATTR,
    /// Names above 255 bytes.
    LongName = LONGNAME,
    /// Micro ZAPs above 128 KiB.
    LargeMicrozap = LARGE_MICROZAP,
    /// Encrypted blocks.
    Encryption = ENCRYPTION,
    /// Blocks written anew that keep their logical births.
    PhysicalRewrite = PHYSICAL_REWRITE,
    /// Parts left out on purpose.
    RedactedDatasets = REDACTED_DATASETS,
}

/// What a dataset is counted for, to be given to another one.
pub(crate) struct Counted {
    features: Vec<DatasetFeature>,
    redacted_by: Option<Vec<Guid>>,
}

/// Whether heads may have micro ZAPs above 128 KiB.
pub(super) fn has_large_micro_zaps(services: &dyn Services) -> bool {
    services.is_enabled(&LARGE_MICROZAP) && services.is_enabled(&LARGE_BLOCKS)
}

impl Dataset {
    /// Lets the micro ZAPs of this head's object set grow beyond 128 KiB, where the pool may have such.
    pub(super) fn allow_large_micro_zaps(&self, object_set: &ObjectSet) {
        if has_large_micro_zaps(self.dsl.services()) {
            object_set.allow_large_micro_zaps();
        }
    }

    /// Notes that a block or object of this head is about to use a per-dataset feature; it is counted when the head is
    /// synced next.
    ///
    /// # Errors
    /// The pool has not enabled it: older software, which does not read what uses it, may open the pool. Nothing is
    /// noted, and nothing may be stored that uses it.
    pub fn note_feature(&self, feature: DatasetFeature) -> Result<()> {
        let bit = 1 << feature as u32;
        // What is enabled stays enabled: who notes it again in the same txg need not ask.
        if self.noted_features.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        if !self.dsl.services().is_enabled(feature.feature()) {
            let feature = feature.feature().name;
            return Err(DslError::FeatureDisabled { feature });
        }
        self.noted_features.fetch_or(bit, Ordering::AcqRel);
        Ok(())
    }

    /// The features that this dataset is counted for.
    ///
    /// # Errors
    /// The keys beside the record cannot be read.
    pub fn features(&self) -> Result<Vec<DatasetFeature>> {
        let Some(zap) = self.extra()? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for feature in DatasetFeature::ALL {
            if zap.lookup(feature.feature().guid.as_bytes())?.is_some() {
                found.push(feature);
            }
        }
        Ok(found)
    }

    /// Counts this dataset for a feature, once.
    pub(crate) fn activate(&self, tx: &Tx, feature: DatasetFeature) -> Result<()> {
        let guid = feature.feature().guid.as_bytes();
        let zap = self.make_extra(tx)?;
        if zap.lookup_value(guid)?.is_some() {
            return Ok(());
        }
        zap.add(tx, guid, 0)?;
        let services = &self.dsl.mos.services;
        Ok(services.change_references(tx, feature.feature(), 1)?)
    }

    /// What this dataset is counted for.
    pub(crate) fn counted(&self) -> Result<Counted> {
        Ok(Counted {
            features: self.features()?,
            redacted_by: self.redacted_by()?,
        })
    }

    /// Counts this dataset for what another one is.
    pub(crate) fn activate_all(&self, tx: &Tx, counted: &Counted) -> Result<()> {
        for feature in &counted.features {
            if *feature != DatasetFeature::RedactedDatasets {
                self.activate(tx, *feature)?;
            }
        }
        self.set_redacted_by(tx, counted.redacted_by.as_deref())
    }

    /// The guids of the snapshots by which this dataset is redacted: it lacks blocks that all of these changed. None of
    /// one that is whole.
    ///
    /// # Errors
    /// The keys beside the record cannot be read.
    pub fn redacted_by(&self) -> Result<Option<Vec<Guid>>> {
        let Some(zap) = self.extra()? else {
            return Ok(None);
        };
        let value = zap.lookup_value(REDACTED_DATASETS.guid.as_bytes())?;
        Ok(value.map(|value| value.to_words().into_iter().map(Guid).collect()))
    }

    /// Says by which snapshots this dataset is redacted; by none: it is whole.
    pub(crate) fn set_redacted_by(&self, tx: &Tx, snapshots: Option<&[Guid]>) -> Result<()> {
        let key = REDACTED_DATASETS.guid.as_bytes();
        let was = self.redacted_by()?.is_some();
        if !was && snapshots.is_none() {
            return Ok(());
        }
        let zap = self.make_extra(tx)?;
        if was {
            zap.remove(tx, key)?;
        }
        if let Some(snapshots) = snapshots {
            let words: Vec<u64> = snapshots.iter().map(|guid| guid.0).collect();
            zap.add_value(tx, key, &Value::words(&words))?;
        }
        let delta = i64::from(snapshots.is_some()) - i64::from(was);
        if delta != 0 {
            let services = &self.dsl.mos.services;
            services.change_references(tx, &REDACTED_DATASETS, delta)?;
        }
        Ok(())
    }

    /// Takes this dataset off the counts of all its features.
    pub(crate) fn deactivate_all(&self, tx: &Tx) -> Result<()> {
        for feature in self.features()? {
            if let Some(zap) = self.extra()? {
                zap.remove(tx, feature.feature().guid.as_bytes())?;
            }
            self.dsl
                .mos
                .services
                .change_references(tx, feature.feature(), -1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
