//! A read of a leaf that has asked for its turn.

use super::DeviceHandle;
use super::awaited::ReadResult;
use crate::tunables::PROMPT_READ_US;
use crate::{Failure, IoClass};
use base::clock::monotonic_ns;
use base::metrics::flow;
use device::BlockDevice;
use std::sync::Arc;
use sys::{Buffer, BufferMut};

/// See the module. It must be run once it is its turn: the turn is its own until then.
#[must_use = "it has asked for a turn"]
pub(crate) struct AskedRead {
    pub(super) handle: Arc<DeviceHandle>,
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) class: IoClass,
    pub(super) asked_ns: u64,
    /// What is queued of the range, oldest first: newer than what the device has.
    pub(super) newer: Vec<(u64, Buffer)>,
}

impl AskedRead {
    /// Whether the device answers before a thread would have been woken up.
    pub(crate) fn is_prompt(&self) -> bool {
        let prompt_ns = PROMPT_READ_US.get() * 1000;
        let typical_ns = self.handle.read_time.ns();
        typical_ns.is_some_and(|typical_ns| typical_ns < prompt_ns)
    }

    /// Reads from the device, on the calling thread; its turn began then.
    pub(crate) fn run(self, start_ns: u64) -> ReadResult {
        let mut data = BufferMut::scratch(self.len);
        let meters = self.handle.meters.class(self.class);
        meters.pending.add(-1);
        meters
            .queue_wait_ns
            .record(start_ns.saturating_sub(self.asked_ns));
        let read = || {
            let begun_ns = monotonic_ns();
            let result = self.device.read(self.offset, &mut data);
            let taken_ns = monotonic_ns().saturating_sub(begun_ns);
            self.handle.read_time.note(taken_ns);
            result
        };
        let result = self
            .handle
            .operate_in_turn(self.class, (self.len, 1), start_ns, read);
        flow().device_read.add(self.len as u64);
        let total_ns = monotonic_ns().saturating_sub(self.asked_ns);
        meters.total_ns.record(total_ns);
        match result {
            Ok(()) => Ok(self.with_newer(data)),
            Err(error) => {
                self.handle.read_failed(&*self.device, &error);
                Err(Failure::Device(error))
            }
        }
    }

    fn with_newer(&self, mut data: BufferMut) -> Buffer {
        let end = self.offset + self.len as u64;
        for (start, piece) in &self.newer {
            let from = (*start).max(self.offset);
            let to = end.min(start + piece.len() as u64);
            let source = &piece[(from - start) as usize..(to - start) as usize];
            data[(from - self.offset) as usize..(to - self.offset) as usize]
                .copy_from_slice(source);
        }
        data.freeze()
    }
}
