//! How a dataset's blocks are stored: the effective values of the properties that say so.

/// Effective storage properties of a dataset, as stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoragePolicy {
    /// `compression`: 1 on, 2 off, …; zstd levels above bit 7.
    pub compression: u64,
    /// `checksum`: 1 on, 2 off, …
    pub checksum: u64,
    /// `copies`, 1 to 3.
    pub copies: u64,
    /// `redundant_metadata`: 0 all, 1 most, 2 some, 3 none.
    pub redundant_metadata: u64,
    /// `dedup`: 2 off, otherwise a checksum, plus 256 to verify.
    pub dedup: u64,
    /// `special_small_blocks`: data blocks up to this size go to the special class.
    pub special_small_blocks: u64,
}

impl StoragePolicy {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        compression: 1,
        checksum: 1,
        copies: 1,
        redundant_metadata: 0,
        dedup: 2,
        special_small_blocks: 0,
    };

    /// The properties with their defaults, in the order of [`StoragePolicy::from_values`].
    pub const PROPERTIES: [(&'static str, u64); 6] = [
        ("compression", Self::DEFAULT.compression),
        ("checksum", Self::DEFAULT.checksum),
        ("copies", Self::DEFAULT.copies),
        ("redundant_metadata", Self::DEFAULT.redundant_metadata),
        ("dedup", Self::DEFAULT.dedup),
        ("special_small_blocks", Self::DEFAULT.special_small_blocks),
    ];

    /// From the values of [`StoragePolicy::PROPERTIES`].
    #[must_use]
    pub const fn from_values(values: [u64; 6]) -> Self {
        let [
            compression,
            checksum,
            copies,
            redundant_metadata,
            dedup,
            special_small_blocks,
        ] = values;
        Self {
            compression,
            checksum,
            copies,
            redundant_metadata,
            dedup,
            special_small_blocks,
        }
    }
}
