//! The service of one pool: what answers the requests of `admin`, over `pool` and `posix`.
//!
//! | module | what |
//! |---|---|
//! | `service` | requests to an open pool, and how it is opened; [`Service`] |
//! | `service/changes` | what each change does, who may make it, what becomes of it on a suspended pool |
//! | `found` | pools that are not imported |
//! | `image` | pool images made from directories |
//! | `mounts` | what the service asks of whoever holds the mounts |
//! | `compatibility`, `vdevs` | the features that a pool is limited to; vdevs as lists show them |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod compatibility;
mod found;
mod image;
mod mounts;
mod service;
mod vdevs;

pub use device::{absolute, exists as device_exists, is_remote, paths_in};
pub use found::{
    Found, discover, discover_watching, explain_nothing, is_feature, labelclear, upgraded_features,
};
pub use image::{
    CopyInOptions, ImageProgress, ImageReport, ImageRequest, ImageSource, Reproducible, Watcher,
    copy_in, make_image,
};
pub use mounts::{Force, MountOptions, MountRequest, Mounts, NoMounts};
pub use service::{
    FileSource, OpenVolume, Opened, Service, SnapshotRecord, cached_devices, kind_of_device,
};
