//! ZAP.

/// Swaps a block of a ZAP to host order.
pub fn swap_block(_block: &mut [u8]) {}
