//! What a device was given since its last good flush.
//!
//! Invariant: a write stays here from its end until a flush that began later succeeds, or it is noted as missed. A
//! write that a device may have lost (a flush failed; the device went out of use and came back) does not become
//! durable by a later flush, only by being written again: until then no flush succeeds.

use base::Txg;
use device::DeviceError;
use sys::Buffer;

/// A finished write that no flush has covered yet.
#[derive(Clone)]
pub(crate) struct Unflushed {
    pub(crate) offset: u64,
    pub(crate) data: Buffer,
    pub(crate) txg: Txg,
}

/// See the module.
#[derive(Default)]
pub(crate) struct UnflushedWrites {
    writes: Vec<Unflushed>,
    bytes: usize,
    /// The number of the first of `writes`.
    first: u64,
    /// Why what is here may be lost.
    doubt: Option<DeviceError>,
}

impl UnflushedWrites {
    /// Adds a write; answers how many bytes there are now.
    pub(crate) fn push(&mut self, write: Unflushed) -> usize {
        self.bytes += write.data.len();
        self.writes.push(write);
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(crate) const fn doubt(&self) -> Option<&DeviceError> {
        self.doubt.as_ref()
    }

    /// From here on no flush helps what is here.
    pub(crate) fn set_doubt(&mut self, error: &DeviceError) {
        self.doubt.get_or_insert_with(|| error.clone());
    }

    /// The number of the next write: a flush that begins now covers all before it.
    pub(crate) const fn through(&self) -> u64 {
        self.first + self.writes.len() as u64
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Unflushed> {
        self.writes.clone()
    }

    /// A flush covered all before this number.
    pub(crate) fn flushed(&mut self, through: u64) {
        let count = through.saturating_sub(self.first);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        for write in self.writes.drain(..count.min(self.writes.len())) {
            self.first += 1;
            self.bytes -= write.data.len();
        }
    }

    /// They were written again, and flushed.
    pub(crate) fn rewritten(&mut self, through: u64) {
        self.flushed(through);
        self.doubt = None;
    }

    /// Takes all of them, for they count as lost.
    pub(crate) fn lose(&mut self) -> Vec<Unflushed> {
        let lost = std::mem::take(&mut self.writes);
        self.first += lost.len() as u64;
        self.bytes = 0;
        self.doubt = None;
        lost
    }
}
