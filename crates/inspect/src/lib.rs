//! Reading pools without trusting them: ls, cat, cp, tree, inspect.

mod error;
mod log;
mod print;
mod raw;
mod run;
mod verify;

pub use error::InspectError;
pub use run::run;
