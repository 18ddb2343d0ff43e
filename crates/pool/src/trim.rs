//! Trim: free space is discarded on the devices.
//!
//! One thread takes free ranges out of use, one at a time, has them discarded on the leaves in question, and gives them
//! back (`space::trim`). How far it is on each leaf is stored with every txg, so that it goes on after a crash or an
//! import, here or in OpenZFS.
//!
//! Overwriting free space (`zpool initialize`) goes the same way, by a thread of its own: what is safe to discard is
//! safe to overwrite.
//!
//! ```text
//! none/cancelled/complete --start--> active <--suspend/start--> suspended
//!                                    active, suspended --cancel--> cancelled
//!                                    active --end of the device--> complete
//! ```
//!
//! A range is free only when it has rested for two txgs with an uberblock. So the states that a safe rewind may go to,
//! which are those of the newest uberblock and the two before, refer to no range that was discarded; and nobody who
//! looks at old blocks under a hold of the reuse gate loses them. What the pool's last txg freed before it was opened
//! has not rested: nothing is discarded before two txgs were written.

pub(crate) mod control;
pub(crate) mod kind;
pub(crate) mod requests;
mod stored;
mod work;

#[cfg(test)]
mod tests;
