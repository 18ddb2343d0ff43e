//! The FUSE protocol and the mounts.
