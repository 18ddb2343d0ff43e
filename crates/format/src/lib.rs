//! Every on-disk byte of a ZFS pool, declared once.

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
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

pub mod acl;
pub mod bits;
pub mod block_pointer;
pub mod bookmark;
pub mod bpobj;
pub mod bptree;
pub mod brt;
pub mod config;
pub mod deadlist;
pub mod dedup;
pub mod dnode;
pub mod dsl;
pub mod embedded_checksum;
mod error;
pub mod features;
pub mod gang;
pub mod history;
mod host;
pub mod indirect;
pub mod intent_log;
pub mod l2arc;
pub mod label;
pub mod ledger;
pub mod nvlist;
pub mod object_set;
pub mod object_type;
pub mod partitions;
pub mod protection;
pub mod rebuild;
pub mod record;
pub mod redaction;
pub mod sa;
pub mod scan;
pub mod space_map;
pub mod stream;
pub mod swap;
pub mod uberblock;
pub mod version;
pub mod zap;
pub mod znode;

pub use block_pointer::{BlockPointer, Dva};
pub use dnode::DnodePhys;
pub use error::FormatError;
pub use nvlist::NvList;
pub use object_set::{ObjectSetKind, ObjectSetPhys};
pub use object_type::ObjectType;
pub use uberblock::Uberblock;
