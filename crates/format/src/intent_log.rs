//! The intent log's anchor, its chain of blocks, and the records in them. Host order but where a
//! decoder takes an order.

mod header;

pub use header::LogHeader;
