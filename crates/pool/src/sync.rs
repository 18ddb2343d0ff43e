//! Writing a txg: what each pass does, and the uberblock at their end.

pub(crate) mod ageing;
pub(crate) mod frees;
pub(crate) mod memory;
mod noted;
pub(crate) mod syncer;
pub(crate) mod task_effects;
pub(crate) mod tasks;
pub(crate) mod uberblock;
