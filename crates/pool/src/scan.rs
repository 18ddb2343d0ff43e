//! Scans. Scrub: every copy of every block is read and verified, and repaired where it is wrong; resilver: what a
//! device missed is written to it.
//!
//! A thread walks the object sets, oldest snapshots first, so that each block is seen with the
//! first dataset that has it ([`course`]), and collects where their copies lie ([`pending`]). When
//! memory for that is used up, or everything was seen, all that was collected is looked at in the
//! order of places ([`issue`]); then the walk goes on. Both work in short slices, each under a hold
//! of the reuse gate: what a slice looks at cannot be overwritten meanwhile. The place up to which
//! everything was looked at is stored every few seconds, with every change of the datasets still to
//! be seen, when it is paused and at export: after a restart it goes on from there, and so does
//! OpenZFS.
//!
//! ```text
//! none/finished/cancelled --start--> running <--start/pause--> paused --stop--> cancelled
//!                                    running --all seen--> finished
//! ```

mod ahead;
pub(crate) mod control;
mod course;
mod deferral;
mod issue;
mod logs;
pub(crate) mod pending;
pub(crate) mod phys;
pub(crate) mod scrub;
mod stored;
pub(crate) mod walk;
mod work;
