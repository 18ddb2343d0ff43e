//! Checksums, compression, parity and other pure transforms of bytes.
//!
//! Purpose: every algorithm that a block pointer can name, as plain functions over byte slices.
//! Invariants: no I/O, no panics on any input, allocation only inside the compression libraries'
//! own reused contexts; each vector kernel equals its scalar twin (property tested).
//! Callers: `format` (embedded checksums), `pipeline` (blocks), `vdev` (labels, parity).
//! It must not know what a pool, a block pointer or a device is.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod checksum;
mod compression;
mod error;
mod parity;

pub use checksum::{Checksum, ChecksumValue, RunningFletcher4, Salt, checksum};
pub use compression::{Compression, ZstdLevel, compress, decompress};
pub use error::CodecError;
pub use parity::{PARITY_ROWS_MAX, generate_parity, reconstruct};
