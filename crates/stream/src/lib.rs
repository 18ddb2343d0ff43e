//! Send streams: their records, checksums and framing.
//!
//! Purpose: what `zfs send` writes and `zfs receive` reads, as records with payloads, in both byte orders.
//! Invariants: pure functions of bytes and of the reader or writer that is handed in. A stream comes from anywhere: no
//! input panics, nothing is allocated for more than has come, and nothing is handed on whose checksum is wrong.
//! Callers: `replication`, which sends and receives, and the commands that show streams.
//! It must not know what a pool is.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]
// Decoders: no input may panic, no number be cut or change its sign unseen.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod begin;
mod convert;
mod embedded;
mod error;
mod features;
mod package;
mod reader;
mod record;
mod token;
mod writer;

#[cfg(test)]
mod tests;

pub use begin::{Header, begin_name, decode_list, name_field};
pub use convert::{Change, Recompress, compression_of_name, convert, decompress};
pub use embedded::{embedded_contents, spill_offset};
pub use error::StreamError;
pub use features::Features;
pub use package::{PackageList, PackageSnapshot, PackageSystem, PackageValue};
pub use reader::{Item, Part, Reader};
pub use record::Record;
pub use token::ResumeToken;
pub use writer::Writer;

/// No payload of a record is longer.
pub const PAYLOAD_MAX: u64 = 16 << 20;
/// No list at the head of a stream or package is longer.
pub const LIST_MAX: u64 = 256 << 20;
