//! ZFS pools in your own process: no kernel module, no mount, no daemon, and on image files no root.
//!
//! * [`Pool`] makes and opens pools, and has their datasets, snapshots and properties.
//! * [`FileSystem`] has the files of a dataset or snapshot, by path; [`File`] an open one.
//! * [`Image`] looks at pools without opening them: every block, and a check of all, damaged pools included.
//! * [`listen`] has a program told what no call returns.
//! * [`Error`] is the only error; each has a [`std::io::ErrorKind`].
//!
//! ```
//! use millpond::{CreateOptions, OpenOptions, Pool};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let image = folder.path().join("pond.img");
//! let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
//! let files = pool.file_system("pond")?;
//! files.write("hello", b"first")?;
//! pool.snapshot(&["pond@one"])?;
//! files.write("hello", b"second")?;
//! pool.export()?;
//!
//! let pool = Pool::open(&OpenOptions::new().path(&image).read_only())?;
//! assert_eq!(pool.file_system("pond")?.read("hello")?, b"second");
//! assert_eq!(pool.file_system("pond@one")?.read("hello")?, b"first");
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! [`Pool`], [`FileSystem`], [`File`] and [`Image`] are `Send` and `Sync`; clones of the first two are cheap handles.
//! Calls block; a pool has threads of its own that write in the background.
//!
//! # Durability
//!
//! A change is visible at once, and on the devices some seconds later, whole or not at all: after a crash the pool is
//! what it was at some moment not long before. [`File::sync`], [`FileSystem::sync`] and [`Pool::sync`] return when what
//! was done before them is on the devices.
//!
//! # Features
//!
//! `commands` (on by default) builds the `millpond` binary with its FUSE mounts. Programs that want the library only
//! take `default-features = false`: neither FUSE nor the commands are then among the dependencies.
//!
//! # Stability
//!
//! What is public here is listed in `docs/api.txt`; a change of it is a change of the version, breaking or not, and
//! `cargo xtask tidy` sees every one. Options are made with setters, and structures and enums that may grow are
//! `#[non_exhaustive]`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod library;

pub use library::{
    Block, BlockAddress, Blocks, Cause, CopyInOptions, CopyProgress, CopyReport, CreateOptions,
    DamagedCopy, DatasetInfo, DatasetKind, DestroyOptions, Difference, DifferenceKind, DirEntry,
    Error, File, FileOptions, FileSystem, FileType, Image, ImageDataset, ListOptions, Metadata,
    OpenOptions, Pool, Property, PropertySource, ReadDir, ReceiveOptions, Result, RollbackOptions,
    ScrubReport, ScrubState, SendOptions, SetMetadata, Space, SpaceFault, SpaceFaultKind, Vdev,
    VerifyOptions, VerifyProgress, VerifyReport, Volume, listen,
};
