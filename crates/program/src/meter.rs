//! How much a program may still do.

use std::cell::Cell;

use mlua::Error;

use crate::ProgramError;

/// How many instructions the interpreter executes between two looks at the meter.
pub(crate) const STRIDE: u32 = 100;
/// Characters looked at, or values moved, that count as an instruction.
const UNITS: u64 = 16;

/// Counts what a program does.
pub(crate) struct Meter {
    left: Cell<u64>,
    /// Why it has to end. It cannot be caught: each look at the meter fails from then on.
    ended: Cell<Option<fn() -> ProgramError>>,
    interrupted: Box<dyn Fn() -> bool>,
    /// The longest string.
    bytes_max: usize,
}

impl Meter {
    pub(crate) fn new(
        instructions: u64,
        bytes_max: usize,
        interrupted: Box<dyn Fn() -> bool>,
    ) -> Self {
        Self {
            left: Cell::new(instructions),
            ended: Cell::new(None),
            interrupted,
            bytes_max,
        }
    }

    /// Why the program had to end.
    pub(crate) fn ended(&self) -> Option<ProgramError> {
        self.ended.get().map(|make| make())
    }

    /// Counts instructions.
    ///
    /// # Errors
    /// There are none left, or nobody waits for the program.
    pub(crate) fn instructions(&self, count: u64) -> mlua::Result<()> {
        if self.ended.get().is_none() {
            match self.left.get().checked_sub(count) {
                Some(left) if !(self.interrupted)() => self.left.set(left),
                Some(_) => self.ended.set(Some(|| ProgramError::Interrupted)),
                None => self.ended.set(Some(|| ProgramError::Instructions)),
            }
        }
        match self.ended() {
            Some(error) => Err(Error::runtime(error)),
            None => Ok(()),
        }
    }

    /// Counts work that the interpreter does not count: characters looked at, values moved.
    ///
    /// # Errors
    /// As [`Meter::instructions`].
    pub(crate) fn work(&self, units: u64) -> mlua::Result<()> {
        self.instructions(1 + units / UNITS)
    }

    /// Whether a string of so many bytes is not longer than the program's memory.
    pub(crate) const fn fits(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max
    }

    /// Counts the making of a string.
    ///
    /// # Errors
    /// It is longer than the program's memory; or as [`Meter::instructions`].
    pub(crate) fn string(&self, bytes: usize) -> mlua::Result<()> {
        if !self.fits(bytes) {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        self.work(bytes as u64)
    }
}
