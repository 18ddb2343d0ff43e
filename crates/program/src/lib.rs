//! Channel programs: Lua scripts that ask about datasets and change them, without knowing any.
//!
//! Purpose: run one script with its arguments within limits, and turn what it returns into a [`Value`]. What it asks
//! about datasets a [`Host`] answers. Invariants: a script is not trusted to end: its instructions are counted, its
//! memory is bounded, and what the interpreter does without counting (patterns, sorting, repeating) counts here in
//! proportion to its work. It reaches no files, no processes and no other code than its own. Called by `control`. Must
//! not know pools.
//!
//! | module | what |
//! |---|---|
//! | `run` | a script from its text to its result |
//! | `limits` | what bounds it |
//! | `host` | what the script may ask, as a trait |
//! | `source` | Lua with whole numbers only, as the interpreter takes it |
//! | `meter` | how many instructions are left, and whether the result is still wanted |
//! | `library` | the functions of Lua that scripts have |
//! | `strings`, `patterns` | searching in strings, counted |
//! | `arguments`, `interface` | the functions of the table `zfs` |
//! | `value` | what is returned |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod arguments;
mod error;
mod host;
mod interface;
mod library;
mod limits;
mod meter;
mod patterns;
mod run;
mod source;
mod strings;
mod value;

#[cfg(test)]
mod tests;

pub use error::ProgramError;
pub use host::{Action, Entry, Host, Listing, Mode, Refusal, errno};
pub use limits::{INSTRUCTIONS_MAX, Limits, MEMORY_MAX};
pub use run::{Script, run};
pub use value::Value;
