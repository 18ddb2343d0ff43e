//! Ids and units as types, byte order, clocks, ranked locks, bounded queues, counters.

mod ids;
mod order;

pub use ids::{Guid, ObjectId, ObjectSetId, Txg, VdevId};
pub use order::ByteOrder;
