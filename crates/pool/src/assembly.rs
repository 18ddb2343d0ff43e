//! How a pool comes together, made or imported.
//!
//! Each step takes what the one before knows and answers with more, so that no other order compiles:
//!
//! ```text
//! Foundation     devices and pipeline: blocks can be read
//! WithObjects    the pool's own object set
//! WithSpace      space maps; of a pool that is written, the engine: blocks can be allocated
//! WithServices   what the pool does for the layers above its blocks
//! WithDatasets   the datasets
//! Whole          what writes txgs, of a pool that is written; from it the [`Pool`](crate::Pool)
//! ```
//!
//! Who makes a pool and who imports one differ in where each part comes from, and in what they do between the steps.
//! What is known late and still asked for early is listed in `docs/internals/assembly.md`.

mod datasets;
mod foundation;
mod services;

pub(crate) use datasets::{Beginning, Whole, WithDatasets, deferred_frees};
pub(crate) use foundation::{Blocks, Foundation, WithObjects, WithSpace};
pub(crate) use services::Identity;
