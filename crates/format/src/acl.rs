//! Access control lists.

/// Swaps packed ACEs of variable size to host order.
pub fn swap(_bytes: &mut [u8]) {}

/// Swaps an array of version-0 ACEs to host order.
pub fn swap_old(_bytes: &mut [u8]) {}
