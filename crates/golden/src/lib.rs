//! For tests: pools made by OpenZFS with their manifests, and OpenZFS's zdb.
//!
//! Both are found through the environment (`cargo xtask` sets it): `MILLPOND_GOLDEN` is a folder of unpacked golden
//! pools, `MILLPOND_ZDB` the path of OpenZFS's zdb. Without them a test prints that it is skipped, and why.

mod manifest;
mod pools;
mod tree;
mod zdb;

pub use manifest::{Entry, Manifest};
pub use pools::{GoldenPool, all_pools, pool};
pub use tree::describe_tree;
pub use zdb::Zdb;
