//! Object sets, dnodes, buffers, transactions and the ZAP.
//!
//! Purpose: objects of numbered blocks, changed in transactions, read and written by any number of
//! threads. Invariants: a txg reaches the disk as a whole; a lock of one object is never held
//! across I/O, but those of writers of a ZAP; no thread waits for another file's. Called by `dsl`, `intent`, `pool`,
//! `posix`. Must not know datasets, devices or files; never frees space, only says which blocks died.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod accounting;
mod dnode_header;
mod editor;
mod error;
mod meters;
mod object;
mod object_set;
mod pointer;
mod ranges;
pub mod raw;
mod stage;
mod store;
#[cfg(test)]
mod testing;
mod tree;
pub mod tunables;
mod tx;
mod workers;
mod zap;

pub use error::{BlockError, DmuError, Result};
pub use object::{Early, FreePiece, Object, ObjectInfo, StoredBlock, StoredBlocks};
pub use object_set::{AllocateObject, ObjectSet, OpenObjectSet, SealedShape, read_by_walks};
pub use store::{
    BlockAccounting, BlockKind, BlockReference, BlockStore, BlockWrite, BlockWriter, Owner,
    ReferenceRules, SealedBlock, SyncContext,
};
pub use tunables::TUNABLES;
pub use tx::{Account, Admission, Footprint, Promise, Refusal, Reservation, Tx, TxError, Wanted};
pub use workers::SyncWorkers;
pub use zap::{CreateZap, FoundName, KeyMemory, Zap, ZapCursor, ZapEntry, ZapMatch};
