//! What a target is.

use base::ByteOrder;

/// One target. It must not panic, hang, or allocate out of proportion, whatever the bytes.
#[derive(Debug)]
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Gives it an input.
    pub run: fn(&[u8]),
}

/// A list of targets.
macro_rules! targets {
    ($($name:ident: $run:expr;)*) => {
        &[$(crate::target::Target { name: stringify!($name), run: $run }),*]
    };
}
pub(crate) use targets;

/// For decoders that are told the byte order.
pub(crate) const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];
