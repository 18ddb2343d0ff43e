//! The intent logs of a pool, and the devices that are for them.

pub(crate) mod devices;
pub(crate) mod intent_logs;
pub(crate) mod resting;
