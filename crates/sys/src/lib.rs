//! The one crate for system calls: files, aligned buffers, mounts, sockets.
//!
//! `unsafe` lives here, each block with its argument. No policy: what to call and when is decided
//! above.

mod buffer;
mod file;
mod random;
pub mod system;

pub use buffer::{Buffer, BufferMut, BufferPoolStats, buffer_pool_stats, set_buffer_pool_limit};
pub use file::{Create, File, FileKind, OpenMode};
pub use random::SystemRng;
pub use rustix::io::Errno;
