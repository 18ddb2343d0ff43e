//! Keys of encrypted datasets, and what they do: encrypt blocks, open them, prove those that are only authenticated.
//!
//! Purpose: from what a user knows to the wrapping key, from that and a stored record to a dataset's keys, and with
//! these from stored bytes to plain ones and back. Ciphers and hashes are of libraries that run in constant time:
//! RustCrypto, and ring where it is faster.
//! Invariants: nothing from disk makes it panic; key bytes lie in [`sys::Locked`] memory, in no `Debug` output and no
//! error, and the stack that they passed is overwritten. No two blocks are encrypted with one salt and
//! initialisation vector.
//! Callers: `pipeline` (blocks), `dsl` (which dataset has which keys), `control` and `inspect` (keys from users).
//! It must not know what a dataset or a device is, nor where a record is stored.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod cipher;
mod dnodes;
mod error;
mod keys;
mod log;
mod material;
mod object_set;
mod parts;
mod sealing;
mod stack;
mod stored;
mod suite;
mod tree;

pub use error::{BlockFault, KeyError};
pub use keys::DatasetKeys;
pub use material::{
    KeyFormat, KeyMaterial, PBKDF2_ITERATIONS_DEFAULT, PBKDF2_ITERATIONS_MIN,
    PBKDF2_ITERATIONS_SECONDS, WrappingKey,
};
pub use sealing::{BlockSeal, SealMark, seal_children};
pub use stack::with_clean_stack;
pub use stored::{StoredKeys, WrappedKeys};
pub use suite::{Mode, Suite};
