//! How a program ends without a result.

use thiserror::Error;

/// Why a program has no result. What it changed before stays.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// It is not Lua.
    #[error("{0}")]
    Syntax(String),
    /// It failed, or asked for what cannot be: the message, and where it was called from.
    #[error("{0}")]
    Failed(String),
    /// It ran for longer than it may: by its instructions, or by the CPU time that it took for them.
    #[error("Channel program timed out.")]
    Instructions,
    /// It needed more memory than it may.
    #[error("Memory limit exhausted.")]
    Memory,
    /// What it returned does not fit.
    #[error("Return value too large.")]
    TooLarge,
    /// Nobody waits for it any more, or the pool is about to be closed.
    #[error("the program was interrupted")]
    Interrupted,
    /// A limit is none.
    #[error("Invalid instruction or memory limit.")]
    Limits,
}
