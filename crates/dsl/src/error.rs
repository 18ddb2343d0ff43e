//! What can go wrong in this layer: damage below, a request that cannot be, or the end of the
//! engine.

use base::ObjectId;
use crypto::KeyError;
use dmu::DmuError;
use format::FormatError;
use txg::TxgError;

use crate::name::NameProblem;

/// An error of the dataset layer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DslError {
    /// The object layer failed.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// A structure of the pool's own object set is malformed.
    #[error("object {object} of the pool's object set: {source}")]
    Format {
        /// The object.
        object: ObjectId,
        /// What is wrong.
        source: FormatError,
    },
    /// A structure of the pool's own object set contradicts another.
    #[error("object {object} of the pool's object set: {what}")]
    Damaged {
        /// The object.
        object: ObjectId,
        /// What is wrong.
        what: &'static str,
    },
    /// The engine ended.
    #[error(transparent)]
    Engine(#[from] TxgError),
    /// The pool is open for reading only.
    #[error("the pool is open for reading only")]
    ReadOnly,
    /// There is no such dataset, snapshot or bookmark.
    #[error("'{name}' does not exist")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The name is taken.
    #[error("'{name}' already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// No dataset may be called so.
    #[error("'{name}': {problem}")]
    BadName {
        /// The name.
        name: String,
        /// Why not.
        problem: NameProblem,
    },
    /// The request is for snapshots and this is none.
    #[error("'{name}' is not a snapshot")]
    NotSnapshot {
        /// The name.
        name: String,
    },
    /// The request is not for snapshots.
    #[error("'{name}' is a snapshot")]
    IsSnapshot {
        /// The name.
        name: String,
    },
    /// The dataset has children.
    #[error("'{name}' has children")]
    HasChildren {
        /// The dataset.
        name: String,
    },
    /// The dataset has snapshots.
    #[error("'{name}' has snapshots")]
    HasSnapshots {
        /// The dataset.
        name: String,
    },
    /// The snapshot has clones.
    #[error("'{name}' has dependent clones")]
    HasClones {
        /// The snapshot.
        name: String,
    },
    /// The same was done to it in this txg already: the task runs in the next one.
    #[error("'{name}' changed just now")]
    Again {
        /// The name.
        name: String,
    },
    /// The snapshot is held, or the dataset in use.
    #[error("'{name}' is busy")]
    Busy {
        /// The name.
        name: String,
    },
    /// The hold is already there.
    #[error("hold '{tag}' already exists on '{name}'")]
    HoldExists {
        /// The snapshot.
        name: String,
        /// The hold.
        tag: String,
    },
    /// There is no such hold.
    #[error("no hold '{tag}' on '{name}'")]
    NoSuchHold {
        /// The snapshot.
        name: String,
        /// The hold.
        tag: String,
    },
    /// The dataset is no clone.
    #[error("'{name}' is not a clone")]
    NotClone {
        /// The dataset.
        name: String,
    },
    /// The snapshot is not the latest one.
    #[error("'{name}' is not the most recent snapshot")]
    NotLatest {
        /// The snapshot.
        name: String,
    },
    /// The two have no common pool, or neither comes from the other.
    #[error("'{name}' and '{other}' are not in the same pool or tree")]
    Unrelated {
        /// The one.
        name: String,
        /// The other.
        other: String,
    },
    /// It was changed since the snapshot that a stream continues.
    #[error("'{name}' has been modified since most recent snapshot")]
    Modified {
        /// The head.
        name: String,
    },
    /// It has not the snapshot that a stream continues.
    #[error("no snapshot of '{name}' is the source of the stream")]
    NoSource {
        /// The head.
        name: String,
    },
    /// It is redacted, and what a stream brings is not what it lacks.
    #[error("'{name}' is redacted otherwise than the stream")]
    OtherRedaction {
        /// The head.
        name: String,
    },
    /// A receive into it was interrupted and can go on.
    #[error("'{name}' contains partially-complete state")]
    PartlyReceived {
        /// The head.
        name: String,
    },
    /// It is no receive that this stream goes on with.
    #[error("'{name}' was not received in part up to where the stream begins")]
    NotResumable {
        /// The head.
        name: String,
    },
    /// A stream of blocks as they are encrypted cannot be received there: it is not encrypted, or something that is not
    /// sealed with the same keys would be replaced.
    #[error("'{name}' is not what a raw stream can replace")]
    NotSealed {
        /// The head.
        name: String,
    },
    /// A stream of blocks as they are encrypted has other keys.
    #[error("'{name}' has other keys than the stream")]
    OtherKeys {
        /// The head.
        name: String,
    },
    /// The snapshot that a raw stream continues was encrypted with other vectors.
    #[error("the vectors of the source of the stream are not those of the snapshot of '{name}'")]
    OtherVectors {
        /// The head.
        name: String,
        /// It is not known with which, here or there.
        is_unknown: bool,
    },
    /// The pool is full.
    #[error("no space left in the pool")]
    NoSpace,
    /// A quota is exceeded.
    #[error("a quota of '{name}' is exceeded")]
    Quota {
        /// The dataset.
        name: String,
    },
    /// The value cannot be set.
    #[error("'{property}' of '{name}' cannot be {value}")]
    BadValue {
        /// The dataset.
        name: String,
        /// The property.
        property: String,
        /// The value.
        value: String,
    },
    /// The pool's version knows no such thing.
    #[error("the pool must be upgraded to version {version}")]
    PoolVersion {
        /// The first version that does.
        version: u64,
    },
    /// Something that we do not maintain, so that we refuse to touch what depends on it.
    #[error("'{name}' uses {what}, which this version cannot write")]
    Unsupported {
        /// The dataset.
        name: String,
        /// What it uses.
        what: &'static str,
    },
    /// The dataset cannot have another key, or another root of encryption.
    #[error("{reason}")]
    KeyChange {
        /// The dataset.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// The dataset is not encrypted.
    #[error("'{name}' is not encrypted")]
    NotEncrypted {
        /// The dataset.
        name: String,
    },
    /// The dataset has its key from another.
    #[error("'{name}' has its key from '{root}'")]
    NotEncryptionRoot {
        /// The dataset.
        name: String,
        /// The other.
        root: String,
    },
    /// The key is loaded already.
    #[error("the key of '{name}' is loaded already")]
    KeyLoaded {
        /// The dataset.
        name: String,
    },
    /// No key is loaded.
    #[error("the key of '{name}' is not loaded")]
    KeyUnloaded {
        /// The dataset.
        name: String,
    },
    /// The key cannot be had.
    #[error("'{name}': {source}")]
    Key {
        /// The dataset.
        name: String,
        /// Why not.
        source: KeyError,
    },
    /// A feature that the request needs is not enabled on the pool.
    #[error("the feature '{feature}' is not enabled")]
    FeatureDisabled {
        /// The feature.
        feature: &'static str,
    },
    /// What the caller supplied failed while filling a new dataset.
    #[error("cannot fill the new dataset: {reason}")]
    Populate {
        /// What it says.
        reason: String,
    },
}

/// Result of the dataset layer.
pub type Result<T, E = DslError> = std::result::Result<T, E>;

impl DslError {
    pub(crate) fn not_found(name: impl Into<String>) -> Self {
        Self::NotFound { name: name.into() }
    }

    pub(crate) fn exists(name: impl Into<String>) -> Self {
        Self::Exists { name: name.into() }
    }

    pub(crate) fn busy(name: impl Into<String>) -> Self {
        Self::Busy { name: name.into() }
    }

    /// Whether what is stored is damaged for good, as far as can be told: reading it again will not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Dmu(error) => error.is_damage(),
            Self::Format { .. } | Self::Damaged { .. } => true,
            Self::Engine(_)
            | Self::ReadOnly
            | Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::BadName { .. }
            | Self::NotSnapshot { .. }
            | Self::IsSnapshot { .. }
            | Self::HasChildren { .. }
            | Self::HasSnapshots { .. }
            | Self::HasClones { .. }
            | Self::Again { .. }
            | Self::Busy { .. }
            | Self::HoldExists { .. }
            | Self::NoSuchHold { .. }
            | Self::NotClone { .. }
            | Self::NotLatest { .. }
            | Self::Unrelated { .. }
            | Self::Modified { .. }
            | Self::NoSource { .. }
            | Self::OtherRedaction { .. }
            | Self::PartlyReceived { .. }
            | Self::NotResumable { .. }
            | Self::NotSealed { .. }
            | Self::OtherKeys { .. }
            | Self::OtherVectors { .. }
            | Self::NoSpace
            | Self::Quota { .. }
            | Self::BadValue { .. }
            | Self::Unsupported { .. }
            | Self::PoolVersion { .. }
            | Self::NotEncrypted { .. }
            | Self::KeyChange { .. }
            | Self::NotEncryptionRoot { .. }
            | Self::KeyLoaded { .. }
            | Self::KeyUnloaded { .. }
            | Self::Key { .. }
            | Self::FeatureDisabled { .. }
            | Self::Populate { .. } => false,
        }
    }

    pub(crate) const fn damaged(object: ObjectId, what: &'static str) -> Self {
        Self::Damaged { object, what }
    }
}
