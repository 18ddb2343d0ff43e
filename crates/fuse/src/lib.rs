//! The FUSE protocol and the mounts.
//!
//! [`wire`] is the protocol as bytes; a [`Session`] reads requests from the kernel and serves them
//! from a [`Tree`]; a [`Mount`] is a session at a place.

mod errno;
mod mount;
mod session;
mod tree;
pub mod wire;

pub use mount::{Mount, MountFailure, MountOptions, MountState};
pub use session::{Session, SessionError, SessionOptions};
pub use tree::{Caller, Creation, Opened, Opening, Piece, ReadReply, Reply, Tree};
