//! The FUSE protocol and the mounts.

pub mod wire;
