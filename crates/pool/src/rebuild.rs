//! Sequential rebuilds: devices get what they lack by copying what is in use of their vdev, in the order of places.
//!
//! A rebuild is for devices that came by `attach -s` or `replace -s`, and for distributed spares that step in. It does
//! not walk over blocks: the maps of free space say what is to be copied ([`work`]), and `vdev` copies it beside
//! whatever is written ([`vdev::RangeCopy`]). So it reads and writes in long stretches, and verifies nothing; a scrub
//! that follows does. Only mirrors, single devices and dRAIDs can be copied so: what lies at a place of a RAID-Z
//! depends on the block.
//!
//! ```text
//! none/cancelled/complete --devices to be rebuilt--> active
//! active --all copied--> complete --> scrub, or resilver of what is left
//! active --the devices go--> cancelled
//! ```
//!
//! Each top-level vdev has its own, with a thread. What was copied up to some place, and is written, is stored with
//! each txg; what is flushed with that txg is durable when the place is. An import goes on from there, unless a device
//! that has a part in it was away meanwhile: then it begins anew, as it does when another device joins.

pub(crate) mod control;
pub(crate) mod fill;
pub(crate) mod requests;
mod stored;
mod work;

#[cfg(test)]
mod tests;
