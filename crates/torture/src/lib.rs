//! Models, random histories and crash points: what the engine must survive.

pub mod durable;
pub mod forest;
pub mod laboratory;
pub mod model;
pub mod operation;
pub mod random;
pub mod real;
