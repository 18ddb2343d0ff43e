//! Models, random histories and crash points: what the engine must survive.

pub mod aftermath;
pub mod at_best;
pub mod comparison;
pub mod counters;
pub mod crowd;
pub mod durable;
mod encryption;
pub mod fragments;
pub mod hesitant;
pub mod holes;
pub mod model;
pub mod operation;
pub mod picture;
pub mod pool_model;
pub mod random;
pub mod real;
pub mod test_pool;
pub mod tunables;
