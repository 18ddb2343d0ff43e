//! Legacy znodes.

/// Swaps a legacy znode bonus to host order.
pub fn swap_bonus(_bytes: &mut [u8]) {}
