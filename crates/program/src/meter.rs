//! How much a program may still do.

use std::cell::Cell;

use mlua::Error;

use crate::ProgramError;
use crate::limits::Limits;

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
    /// The CPU time of the thread, and where it ends.
    cpu_ns: Box<dyn Fn() -> u64>,
    cpu_end_ns: u64,
    /// The longest string.
    bytes_max: usize,
}

impl Meter {
    /// For a program that begins now, with strings of `bytes_max`.
    pub(crate) fn new(limits: Limits, bytes_max: usize) -> Self {
        let cpu_end_ns = (limits.cpu_ns)().saturating_add(limits.cpu_max_ns());
        Self {
            left: Cell::new(limits.instructions),
            ended: Cell::new(None),
            interrupted: limits.interrupted,
            cpu_ns: limits.cpu_ns,
            cpu_end_ns,
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
    /// There are none left, or no CPU time, or nobody waits for the program.
    pub(crate) fn instructions(&self, count: u64) -> mlua::Result<()> {
        if self.ended.get().is_none() {
            match self.left.get().checked_sub(count) {
                None => self.ended.set(Some(|| ProgramError::Instructions)),
                Some(_) if (self.interrupted)() => {
                    self.ended.set(Some(|| ProgramError::Interrupted));
                }
                Some(_) if (self.cpu_ns)() > self.cpu_end_ns => {
                    self.ended.set(Some(|| ProgramError::Instructions));
                }
                Some(left) => self.left.set(left),
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
