//! What streams say of the features that datasets are counted for.

use dsl::DatasetFeature;
use stream::Features;

/// What the stream of a dataset says of a feature that this is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InStreams {
    /// Nothing: what a receiver stores has it, or not, by the receiver's own properties.
    Nothing,
    /// That blocks are sent so, for which whoever sends asks.
    Form(Features),
    /// That there are such records. The receiver counts it with the first of them.
    Records(Features),
    /// That contents may have it, of which records do not tell: the receiver counts it from the beginning.
    Contents(Features),
}

impl InStreams {
    /// Of a feature.
    pub(crate) const fn of(feature: DatasetFeature) -> Self {
        match feature {
            DatasetFeature::LargeBlocks => Self::Form(Features::LARGE_BLOCKS),
            DatasetFeature::ZstdCompress => Self::Form(Features::ZSTD),
            DatasetFeature::Encryption => Self::Form(Features::RAW),
            DatasetFeature::RedactedDatasets => Self::Form(Features::REDACTED),
            DatasetFeature::LargeDnode => Self::Records(Features::LARGE_DNODE),
            DatasetFeature::LongName => Self::Contents(Features::LONG_NAME),
            DatasetFeature::LargeMicrozap => Self::Contents(Features::LARGE_MICROZAP),
            DatasetFeature::Sha512
            | DatasetFeature::Skein
            | DatasetFeature::Edonr
            | DatasetFeature::Blake3
            | DatasetFeature::UserObjectAccounting
            | DatasetFeature::ProjectQuota
            | DatasetFeature::ZilSaXattr
            | DatasetFeature::PhysicalRewrite => Self::Nothing,
        }
    }

    /// The flag of streams that say it.
    pub(crate) const fn flag(self) -> Option<Features> {
        match self {
            Self::Nothing => None,
            Self::Form(flag) | Self::Records(flag) | Self::Contents(flag) => Some(flag),
        }
    }

    /// The flag that a stream has however it is sent.
    pub(crate) const fn flag_of_contents(self) -> Features {
        match self {
            Self::Nothing | Self::Form(_) => Features::empty(),
            Self::Records(flag) | Self::Contents(flag) => flag,
        }
    }

    /// Whether a receiver of a stream with such flags counts it from the beginning.
    pub(crate) const fn is_counted_at_first(self, flags: Features) -> bool {
        match self {
            Self::Nothing | Self::Form(_) | Self::Records(_) => false,
            Self::Contents(flag) => flags.contains(flag),
        }
    }
}

// A flag is of one feature, and receivers know it.
const _: () = {
    let (mut at, mut all) = (0, Features::empty());
    while at < DatasetFeature::ALL.len() {
        if let Some(flag) = InStreams::of(DatasetFeature::ALL[at]).flag() {
            assert!(flag.bits().is_power_of_two() && flag.unknown().is_empty());
            assert!(!all.intersects(flag));
            all = all.union(flag);
        }
        at += 1;
    }
};
