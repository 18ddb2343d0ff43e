//! The bridge between objects and the pipeline: how blocks are read, and by which rules they are written.
//!
//! Purpose: `dmu` knows blocks by two small traits; this supplies them over the pipeline, to the datasets'
//! sync and to that of the pool's own object set. Must not know what the blocks mean.

pub(crate) mod dedup;
pub(crate) mod gate;
mod kept;
mod pruning_requests;
pub(crate) mod references;
mod rules;
mod sharing;
mod store;
mod writer;

pub(crate) use kept::KeptStore;
pub(crate) use rules::{WriteRules, copies_max};
pub(crate) use sharing::{Sharing, all_are_whole};
pub(crate) use store::PipelineStore;
pub(crate) use writer::PassWriters;
