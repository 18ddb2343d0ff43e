//! File semantics: names, attributes, permissions, extended attributes.
//!
//! A [`FileSystem`] is one mounted object set: the head of a dataset (read-write) or a snapshot
//! (read-only). Front ends call it with object ids, names and [`Credentials`]; it never knows which
//! protocol asked. Start at [`FileSystem`], then [`OpenFile`] for what happens on file data.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod attributes;
mod comparison;
mod copying;
mod core;
mod credentials;
mod directory;
mod error;
mod file;
mod file_system;
mod inherited;
mod life;
mod listings;
mod log;
mod long_free;
mod lookup;
mod master;
mod names;
mod new_file_system;
mod nodes;
mod options;
mod owners;
mod packing;
mod permission;
mod posix_acl;
mod quota;
mod read_ahead;
mod readdir;
mod reading;
mod recording;
mod registry;
mod removal;
mod removed;
mod rename;
mod replay;
mod rewriting;
mod setattr;
mod source;
mod space;
mod statfs;
mod store;
mod table;
mod tunables;
mod writing;
mod xattr;
mod znode;

pub use attributes::{
    Attributes, FileType, NewNode, SetAttributes, SetTime, Statistics, Timestamp, flags,
};
pub use comparison::{Changed, Comparison, FileChange};
pub use credentials::{Access, Credentials};
pub use directory::{DirectoryEntry, RenameMode, Visit, XattrMode};
pub use error::{Corruption, Errno, PosixError, Result};
pub use file::{AllocateMode, OpenFile, OpenOptions, WriteOptions};
pub use file_system::FileSystem;
pub use intent::Completion;
pub use log::{IntentLog, LoggedWrite, NoLog, OperationLog, Scope};
pub use new_file_system::{NewFileSystem, create_file_system, raise_version};
pub use options::{
    AccessTime, AclKind, CaseSensitivity, DatasetProperties, MountOptions, OwnerMap, SetIdPolicy,
    XattrStore,
};
pub use owners::{
    OwnerUse, VERSION_ACCOUNTING, stored_limit, stored_number, stored_owners, stored_use,
};
pub use quota::{QuotaKind, QuotaLine, QuotaUnit};
pub use removed::Removed;
pub use replay::{Replayed, replay};
pub use rewriting::Rewrite;
pub use source::Source;
pub use space::{Space, SpaceNumbers};
pub use tunables::TUNABLES;
pub use txg::{Admitted, AwaitedDevices, Postponed, repeatable, without_waiting};

#[cfg(test)]
mod golden_tests;
