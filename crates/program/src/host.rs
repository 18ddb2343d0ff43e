//! What a program may ask.

use crate::Value;

/// Numbers of errors, as programs know them. They are Linux's, on any system.
pub mod errno {
    /// All names that programs have, with their numbers.
    pub const NAMES: &[(&str, i64)] = &[
        ("EPERM", 1),
        ("ENOENT", ENOENT),
        ("ESRCH", ESRCH),
        ("EINTR", 4),
        ("EIO", EIO),
        ("ENXIO", 6),
        ("E2BIG", E2BIG),
        ("ENOEXEC", 8),
        ("EBADF", 9),
        ("ECHILD", 10),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EACCES", EACCES),
        ("EFAULT", 14),
        ("ENOTBLK", 15),
        ("EBUSY", EBUSY),
        ("EEXIST", EEXIST),
        ("EXDEV", EXDEV),
        ("ENODEV", 19),
        ("ENOTDIR", 20),
        ("EISDIR", 21),
        ("EINVAL", EINVAL),
        ("ENFILE", 23),
        ("EMFILE", 24),
        ("ENOTTY", 25),
        ("ETXTBSY", 26),
        ("EFBIG", 27),
        ("ENOSPC", ENOSPC),
        ("ESPIPE", 29),
        ("EROFS", EROFS),
        ("EMLINK", 31),
        ("EPIPE", 32),
        ("EDOM", 33),
        ("ERANGE", 34),
        ("ENOTSUP", ENOTSUP),
        ("EDQUOT", EDQUOT),
    ];
    /// It does not exist.
    pub const ENOENT: i64 = 2;
    /// There is nothing to go back to.
    pub const ESRCH: i64 = 3;
    /// A device failed.
    pub const EIO: i64 = 5;
    /// It is too long.
    pub const E2BIG: i64 = 7;
    /// Permission denied, or a key is not loaded.
    pub const EACCES: i64 = 13;
    /// It is in use.
    pub const EBUSY: i64 = 16;
    /// It exists, or others depend on it.
    pub const EEXIST: i64 = 17;
    /// It is in another pool.
    pub const EXDEV: i64 = 18;
    /// It makes no sense.
    pub const EINVAL: i64 = 22;
    /// There is no space.
    pub const ENOSPC: i64 = 28;
    /// The pool is open for reading only.
    pub const EROFS: i64 = 30;
    /// The pool lacks the feature.
    pub const ENOTSUP: i64 = 95;
    /// A quota does not allow it.
    pub const EDQUOT: i64 = 122;
}

/// A change that a program asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Destroy a file system, volume or snapshot; a snapshot in use, if it may, when its last user goes.
    Destroy {
        /// Which.
        name: String,
        /// May a snapshot in use wait for its end?
        deferred: bool,
    },
    /// Forget a property's local value.
    Inherit {
        /// Of which.
        name: String,
        /// Which property.
        property: String,
    },
    /// Promote a clone.
    Promote {
        /// Which.
        name: String,
    },
    /// Go back to the latest snapshot.
    Rollback {
        /// The file system or volume.
        name: String,
    },
    /// Set a user property.
    SetProperty {
        /// On which.
        name: String,
        /// Which property.
        property: String,
        /// To what.
        value: String,
    },
    /// Take a snapshot.
    Snapshot {
        /// Its full name.
        name: String,
    },
    /// Give a snapshot another name.
    RenameSnapshot {
        /// The file system or volume.
        dataset: String,
        /// The snapshot's short name.
        from: String,
        /// Its new short name.
        to: String,
    },
    /// Make a bookmark.
    Bookmark {
        /// Of which snapshot or bookmark.
        source: String,
        /// Its full name.
        name: String,
    },
}

/// Whether a change is made, or only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is made, and on disk when the answer comes.
    Do,
    /// Whether it would be possible now.
    Check,
}

/// Why a change was not made: the program goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the error ([`errno`]).
    pub errno: i64,
    /// Names that say more of it.
    pub details: Vec<String>,
}

impl Refusal {
    /// One of which there is no more to say.
    #[must_use]
    pub const fn new(errno: i64) -> Self {
        Self {
            errno,
            details: Vec::new(),
        }
    }
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The datasets right below one.
    Children,
    /// The snapshots of one.
    Snapshots,
    /// The clones of a snapshot.
    Clones,
    /// The bookmarks of one.
    Bookmarks,
    /// The holds of a snapshot: tags and times.
    Holds,
    /// User properties: names, values, and where they were set.
    UserProperties,
    /// The names of the properties that one has of itself.
    SystemProperties,
}

/// What an iteration gives in one turn.
pub type Entry = Vec<Value>;

/// Answers what a program asks. Faults end the program: they are for names that make no sense.
pub trait Host {
    /// Whether a dataset, snapshot or bookmark exists.
    ///
    /// # Errors
    /// The name makes no sense here.
    fn exists(&self, name: &str) -> Result<bool, String>;

    /// A property's value, and where it comes from; nothing if it has none.
    ///
    /// # Errors
    /// There is no such dataset or property.
    fn property(
        &self,
        name: &str,
        property: &str,
    ) -> Result<Option<(Value, Option<String>)>, String>;

    /// Everything of a kind that belongs to a dataset.
    ///
    /// # Errors
    /// There is no such dataset.
    fn list(&self, what: Listing, name: &str) -> Result<Vec<Entry>, String>;

    /// Makes a change, or says whether it could be made.
    ///
    /// # Errors
    /// Why not.
    fn act(&self, action: &Action, mode: Mode) -> Result<(), Refusal>;

    /// Notes what the program says of itself.
    fn note(&self, text: &str);
}
