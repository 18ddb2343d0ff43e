//! The pool's vdevs: opened, made, given back, and what each of them missed.

pub(crate) mod changes;
pub(crate) mod devices;
pub(crate) mod dtl;
pub(crate) mod new;
pub(crate) mod objects;
mod requests;
