//! How a top-level vdev spreads blocks over its children: pure arithmetic of addresses and sizes.
//!
//! `space` asks what a block takes up, `vdev` where its bytes go and how many children may lack them, `pool` what a
//! block is charged with and how large a vdev is, `inspect` all of that. Nothing here reads, allocates, or knows which
//! children are there. A new kind of vdev is a variant of [`Kind`]; no match over kinds has a fallback arm, so the
//! compiler asks for each formula.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod block;
mod columns;
mod draid;
mod growth;
mod kind;
mod layout;
mod permutation;
mod placement;
mod raidz;
mod reflow;
mod rows;
mod stripe;

pub use block::Block;
pub use columns::{Area, Column, Columns, Content};
pub use draid::Draid;
pub use growth::{Growth, Moved};
pub use kind::Kind;
pub use layout::Layout;
pub use placement::{Piece, Placement};
pub use raidz::RaidZ;
pub use reflow::{Reflow, Spread};
