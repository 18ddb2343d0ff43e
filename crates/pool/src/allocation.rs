//! The pool's space: what is free, who may have it, and the maps that say so.

pub(crate) mod allocator;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod maps;
pub(crate) mod obsolete;
pub(crate) mod opening;
