//! Receiving send streams.
//!
//! Invariants: a stream is decoded and checked ahead of what is written, and never more of it is in memory than a few
//! batches; what it writes goes through transactions like everybody's. Where it goes is begun and ended by tasks of
//! `dsl`, so that a snapshot is there as a whole or not at all.

mod ahead;
mod apply;
mod error;
mod head;
mod heal;
mod objects;
mod sealed;

pub use ahead::{Incoming, Piece};
pub use apply::{Applied, Substream, Wanted, apply};
pub use error::ReceiveError;
pub use head::{Head, Place};
pub use heal::{Healed, heal};
