//! Virtual devices: leaves, what they are put together to (mirrors, RAID-Z, dRAID), labels and I/O queues.
//!
//! A [`VdevTree`] has [`Top`]s; the leaves of a top have its blocks as its layout says (`layout`). A single read goes
//! to the device on the caller's thread, the columns of a block go at once; writes belong to a
//! [`WriteGroup`] and are queued, sorted and merged. Who calls it: `pipeline` for blocks, `pool` for
//! labels, states and health. It knows nothing of block pointers: whether bytes are right is for the
//! reader to say.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod dtl;
mod error;
mod fence;
mod group;
mod holders;
mod io;
mod labels;
mod leaf;
mod mapping;
mod members;
mod node;
mod queue;
mod reads;
mod schedule;
mod state;
#[cfg(test)]
mod testing;
mod top;
mod tree;
pub mod tunables;

pub use dtl::TxgRanges;
pub use error::{Failure, LeafFailure, VdevError};
pub use fence::Fence;
pub use format::label::DATA_START;
pub use group::{FailedWrite, WriteGroup};
pub use io::{BlockRange, IoClass, Verdict};
pub use labels::{
    DeviceLabels, LabelConfig, LabelPair, LabelProblem, UberblockCandidate, clear_labels,
    read_labels,
};
pub use leaf::{ClassStatistics, ErrorCounts, Leaf, LeafConfig, LeafStatistics, examine};
pub use mapping::{Destination, Mapping, MappingBuilder, MappingError, Moved};
pub use node::{Interior, InteriorKind, Node};
pub use schedule::{ClassLimits, Next, Policy, RATIO_TARGET, Scheduler, limits};
pub use state::{Condition, VdevAux, VdevState};
pub use top::range_copy::{Copied, RangeCopy};
pub use top::{Lacking, Move, ReadOutcome, Repaired, ScrubOutcome, Top, TopConfig};
pub use tree::{Layouts, MovedPlaces, Place, VdevTree, flush_tops};
pub use tunables::TUNABLES;
