//! Reading pools without trusting them: ls, cat, cp, tree, inspect.

mod error;
mod log;
mod print;
#[allow(
    dead_code,
    unused_imports,
    reason = "shared by several commands that are landing one by one"
)]
mod raw;
mod run;
mod verify;

pub use error::InspectError;
pub use run::run;
