//! What is measured rather than stored: the figures that rows ask for.

/// Declares the figures of a table of properties.
macro_rules! figures {
    ($(#[$doc:meta])* $name:ident: $($figure:ident,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $(
                #[doc = concat!("Of the row that ends with `=> ", stringify!($figure), "`.")]
                $figure,
            )*
        }

        impl $name {
            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$figure),*];
        }
    };
}

figures! {
    /// What is measured of datasets, or kept where only a look at them tells.
    Figure:
    Creation,
    Used,
    Available,
    Referenced,
    CompressRatio,
    Mounted,
    Origin,
    Quota,
    Reservation,
    VolumeSize,
    VolumeBlockSize,
    CreationTxg,
    Version,
    Utf8Only,
    Normalization,
    CaseSensitivity,
    Guid,
    UsedBySnapshots,
    UsedByDataset,
    UsedByChildren,
    UsedByRefReservation,
    DeferDestroy,
    UserReferences,
    ObjectSetId,
    RefCompressRatio,
    Written,
    Clones,
    LogicalUsed,
    LogicalReferenced,
    FileSystemCount,
    SnapshotCount,
    ResumeToken,
    Encryption,
    KeyFormat,
    KeyIterations,
    EncryptionRoot,
    KeyStatus,
    RedactSnapshots,
    SnapshotsChanged,
    CloneCount,
    Unique,
    Inconsistent,
}

figures! {
    /// What is known of pools without a look into the table of their properties.
    PoolFigure:
    Name,
    Size,
    Capacity,
    AltRoot,
    Health,
    Guid,
    Version,
    CacheFile,
    DedupRatio,
    Free,
    Allocated,
    ReadOnly,
    Comment,
    ExpandSize,
    Freeing,
    Fragmentation,
    Leaked,
    Checkpoint,
    LoadGuid,
    Compatibility,
    CloneUsed,
    CloneSaved,
    CloneRatio,
    DedupTableSize,
    LastScrubbedTxg,
}

figures! {
    /// What is measured of vdevs.
    VdevFigure:
    Capacity,
    State,
    Guid,
    AllocatableSize,
    PhysicalSize,
    Ashift,
    Size,
    Free,
    Allocated,
    ExpandSize,
    Fragmentation,
    Parity,
    Path,
    Parent,
    Children,
    ChildCount,
    ReadErrors,
    WriteErrors,
    ChecksumErrors,
    InitializeErrors,
    NullOperations,
    ReadOperations,
    WriteOperations,
    FreeOperations,
    ClaimOperations,
    TrimOperations,
    NullBytes,
    ReadBytes,
    WriteBytes,
    FreeBytes,
    ClaimBytes,
    TrimBytes,
    RaidzExpanding,
    Removing,
    TrimSupport,
    TrimErrors,
    SlowOperations,
}

/// The figure of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// None.
    No,
    /// Of a dataset.
    Dataset(Figure),
    /// Of a pool.
    Pool(PoolFigure),
    /// Of a vdev.
    Vdev(VdevFigure),
}

impl Measured {
    /// The figure of a dataset's property.
    #[must_use]
    pub const fn dataset(self) -> Option<Figure> {
        match self {
            Self::Dataset(figure) => Some(figure),
            Self::No | Self::Pool(_) | Self::Vdev(_) => None,
        }
    }

    /// The figure of a pool's property.
    #[must_use]
    pub const fn pool(self) -> Option<PoolFigure> {
        match self {
            Self::Pool(figure) => Some(figure),
            Self::No | Self::Dataset(_) | Self::Vdev(_) => None,
        }
    }

    /// The figure of a vdev's property.
    #[must_use]
    pub const fn vdev(self) -> Option<VdevFigure> {
        match self {
            Self::Vdev(figure) => Some(figure),
            Self::No | Self::Dataset(_) | Self::Pool(_) => None,
        }
    }
}
