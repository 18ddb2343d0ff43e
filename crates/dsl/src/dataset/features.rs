//! The features that are counted by the datasets that use them.

use std::sync::atomic::Ordering;

use dmu::Tx;
use format::features::{self, Feature};

use super::Dataset;
use crate::error::Result;

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
    /// Parts left out on purpose.
    RedactedDatasets = REDACTED_DATASETS,
}

impl Dataset {
    /// Notes that a block or object of this head uses a per-dataset feature; it is counted when
    /// the head is synced next.
    pub fn note_feature(&self, feature: DatasetFeature) {
        self.noted_features
            .fetch_or(1 << feature as u32, Ordering::AcqRel);
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
