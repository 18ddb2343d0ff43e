//! What is served.

use std::ops::Range;
use std::sync::Arc;

use sys::Buffer;

/// Why a request failed, as the protocol can say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is read-only.
    ReadOnly,
    /// It cannot be read or written.
    Io,
    /// There is no room.
    NoSpace,
    /// The request makes no sense.
    Invalid,
    /// It is about to be taken away.
    Closing,
}

/// Something with bytes in a row.
pub trait Disk: Send + Sync {
    /// Its bytes.
    fn size(&self) -> u64;
    /// What it is best read and written in.
    fn block_size(&self) -> u32;
    /// Whether changes are refused.
    fn is_read_only(&self) -> bool;
    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// They cannot be read.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// Writes bytes, in buffers that end where blocks do; with `durable` they are there after a crash.
    ///
    /// # Errors
    /// They cannot be written.
    fn write(&self, offset: u64, data: Vec<Buffer>, durable: bool) -> Result<(), Fault>;
    /// Makes a range zeroes, which may free it.
    ///
    /// # Errors
    /// It cannot be written.
    fn write_zeroes(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault>;
    /// Frees a range as far as that can be.
    ///
    /// # Errors
    /// It cannot be written.
    fn trim(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault>;
    /// Makes durable what was changed so far, by anybody.
    ///
    /// # Errors
    /// It could not be made so.
    fn flush(&self) -> Result<(), Fault>;
    /// The first byte of a range that is not in a hole; none: there are only holes. Each read asks: nobody looks beyond
    /// the range.
    ///
    /// # Errors
    /// It cannot be found out.
    fn next_data(&self, range: Range<u64>) -> Result<Option<u64>, Fault>;
    /// The first byte of a range that is in a hole, at the latest its end.
    ///
    /// # Errors
    /// It cannot be found out.
    fn next_hole(&self, range: Range<u64>) -> Result<u64, Fault>;
}

/// The disks that clients may ask for.
pub trait Exports {
    /// Their names. The first is also the one that a client gets who names none.
    fn names(&self) -> Vec<String>;
    /// Opens one.
    ///
    /// # Errors
    /// It cannot be had now.
    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Fault>;
}
