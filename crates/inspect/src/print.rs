//! What is found, as text: close to what OpenZFS's zdb prints, since people and scripts know it.

mod numbers;
mod verify;

pub(crate) use numbers::{Numbers, nice};
pub(crate) use verify::{print_kinds, print_report};
