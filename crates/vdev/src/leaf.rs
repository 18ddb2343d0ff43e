//! A leaf: one device, its state, its errors, its queue.

mod asked_read;
mod awaited;
mod device_handle;
mod io_gate;
mod meters;
mod missed;
mod typical;
mod unflushed;

use crate::group::WriteCompletion;
use crate::queue::{Queue, QueueConfig};
use crate::{Condition, Failure, Fence, IoClass, TxgRanges, VdevAux, VdevError, VdevState};
use base::{Guid, Txg};
use device::{BlockDevice, DeviceError};
use format::label;
use missed::Pass;
use std::sync::Arc;
use sys::Buffer;

pub(crate) use asked_read::AskedRead;
pub(crate) use awaited::{Awaited, ReadResult};
pub use device_handle::LeafConfig;
pub(crate) use device_handle::{COPIED, DeviceHandle};
pub(crate) use io_gate::Gate;
pub use meters::{ClassStatistics, ErrorCounts, LeafStatistics};

/// One device of a pool. Dropping it writes what is queued and ends its threads.
pub struct Leaf {
    handle: Arc<DeviceHandle>,
    queue: Arc<Queue>,
}

impl Leaf {
    /// A leaf on `device`, healthy; or one whose device is not there (`None`), unavailable.
    #[must_use]
    pub fn new(config: LeafConfig, device: Option<Arc<dyn BlockDevice>>) -> Arc<Self> {
        Self::with_queue(config, device, QueueConfig::default())
    }

    pub(crate) fn with_queue(
        config: LeafConfig,
        device: Option<Arc<dyn BlockDevice>>,
        queue: QueueConfig,
    ) -> Arc<Self> {
        let handle = Arc::new(DeviceHandle::new(config, device));
        let leaf = Self {
            queue: Queue::new(Arc::clone(&handle), queue),
            handle,
        };
        leaf.start_if_writable();
        Arc::new(leaf)
    }

    fn start_if_writable(&self) {
        if self
            .handle
            .device()
            .is_some_and(|device| device.is_writable())
        {
            self.queue.start();
        }
    }

    /// The leaf's guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.handle.config.guid
    }

    /// Where its device was last seen.
    #[must_use]
    pub fn path(&self) -> Arc<str> {
        Arc::clone(&self.handle.path)
    }

    /// Its sector size as a power of two.
    #[must_use]
    pub fn ashift(&self) -> u32 {
        self.handle.config.ashift
    }

    /// The device, if it is open.
    #[must_use]
    pub fn device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.handle.device()
    }

    /// The device's size rounded down to 256 KiB; 0 if it is not open.
    #[must_use]
    pub fn psize(&self) -> u64 {
        self.handle
            .device()
            .map_or(0, |device| label::usable_device_size(device.size()))
    }

    /// The size of the allocatable area: [`Leaf::psize`] less labels and boot area.
    #[must_use]
    pub fn asize(&self) -> u64 {
        self.psize().saturating_sub(label::RESERVED)
    }

    /// Says until when the leaf is written, if nobody has.
    pub(crate) fn set_fence(&self, fence: &Arc<Fence>) {
        self.handle.set_fence(fence);
    }

    /// How the leaf is.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.handle.condition()
    }

    /// Whether it is used, and has had too many errors to be relied upon.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        matches!(self.condition().state, VdevState::Degraded)
    }

    /// Sets how the leaf is (opened, taken offline, faulted).
    pub fn set_condition(&self, condition: Condition) {
        self.handle.set_condition(condition);
    }

    /// Whether the device is not there any more, as `error` says that it gave, or as it knows itself. It may come back
    /// and is not to blame, so a leaf in use is removed then, and not faulted: only such are looked for. The one place
    /// that says so.
    pub fn remove_if_gone(&self, error: Option<&DeviceError>) -> bool {
        self.handle.remove_if_gone(error)
    }

    /// Whether its state or its missing txgs changed since this was last asked: its configuration
    /// is to be written.
    pub fn take_changed(&self) -> bool {
        self.handle.take_changed()
    }

    /// Puts a (new) device under the leaf, or takes it away. What is queued goes to the old one.
    pub fn set_device(&self, device: Option<Arc<dyn BlockDevice>>) {
        self.queue.drain();
        self.handle.set_device(device);
        self.start_if_writable();
    }

    /// Of a distributed spare its number, from 0: it has no device, and others read and write what it holds.
    #[must_use]
    pub fn spare_room(&self) -> Option<usize> {
        self.handle.config.spare_room
    }

    /// Whether the leaf can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.handle.is_usable()
    }

    /// Whether the leaf can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let takes = |device: Arc<dyn BlockDevice>| device.is_writable();
        let is_room = self.spare_room().is_some();
        self.handle.is_usable() && (is_room || self.handle.device().is_some_and(takes))
    }

    /// Whether labels can be written to it: whether it can be written, and has a device of its own.
    #[must_use]
    pub fn takes_labels(&self) -> bool {
        self.is_writable() && self.spare_room().is_none()
    }

    /// Errors since import or the last clear.
    #[must_use]
    pub fn errors(&self) -> ErrorCounts {
        self.handle.meters.errors()
    }

    /// Everything that is counted of the leaf.
    #[must_use]
    pub fn statistics(&self) -> LeafStatistics {
        self.handle.meters.statistics(&self.handle.gate)
    }

    /// `zpool clear`: clears the error counts, ends a fault that errors caused, ends a flush
    /// failure, and writes again what may have been lost by it, or while the leaf was out of use.
    ///
    /// # Errors
    /// If writing again fails.
    pub fn clear(&self) -> Result<(), VdevError> {
        self.handle.meters.clear_errors();
        let condition = self.handle.condition();
        let by_errors = matches!(condition.state, VdevState::Faulted | VdevState::Degraded)
            || condition == Condition::REMOVED;
        let is_in_doubt = self.handle.is_in_doubt();
        if by_errors {
            // Of one without a device nothing can be written again, whatever is in doubt.
            let Some(device) = self.handle.device() else {
                return Ok(());
            };
            if !is_in_doubt && !device_handle::probe(&*device) {
                return Ok(());
            }
        }
        // Before it is in use again: what is written here is older than all that comes then.
        if is_in_doubt || (by_errors && self.handle.has_unflushed()) {
            self.handle.rewrite()?;
        }
        if by_errors {
            self.handle.set_condition(Condition::HEALTHY);
        }
        Ok(())
    }

    /// The txgs that the leaf missed.
    #[must_use]
    pub fn missing(&self) -> TxgRanges {
        self.handle.missing()
    }

    /// What the leaf missed is not known before it is read from the pool, with the help of this leaf: wrong bytes of
    /// blocks that it may have missed do not count until [`Leaf::missing_is_known`].
    pub fn await_missing(&self) {
        self.handle.missed.lock().await_known();
    }

    /// All that the leaf missed is set: what it gave wrong until now counts, unless it had missed it.
    pub fn missing_is_known(&self) {
        self.handle.missing_is_known();
    }

    /// Sets the txgs that the leaf missed (from its DTL, or after a resilver).
    pub fn set_missing(&self, missing: TxgRanges) {
        self.handle.set_missing(missing);
    }

    /// Notes that the leaf missed writes of `txg`.
    pub fn note_missing(&self, txg: Txg) {
        self.handle.note_missing(txg);
    }

    /// From here until [`Leaf::end_resilver`] it is noted what a resilver leaves behind.
    pub fn begin_resilver(&self) {
        self.handle.missed.lock().begin(Pass::Resilver);
    }

    /// What was begun by [`Leaf::begin_resilver`] goes on without this leaf: all that it missed is missing still.
    pub fn leave_resilver(&self) {
        self.handle.missed.lock().leave(Pass::Resilver);
    }

    /// From here until [`Leaf::end_rebuild`] it is noted what a rebuild leaves behind; not while a resilver does.
    pub fn begin_rebuild(&self) {
        self.handle.missed.lock().begin(Pass::Rebuild);
    }

    /// What was begun by [`Leaf::begin_rebuild`] ends without this leaf: all that it missed is missing still.
    pub fn leave_rebuild(&self) {
        self.handle.missed.lock().leave(Pass::Rebuild);
    }

    /// A rebuild has copied everything that was in use. What it could not copy, and what was missed since, is missing
    /// still. Answers whether a rebuild had begun.
    pub fn end_rebuild(&self) -> bool {
        self.handle.end(Pass::Rebuild)
    }

    /// Whether a rebuild gives the leaf what it missed.
    #[must_use]
    pub fn is_rebuilding(&self) -> bool {
        self.handle.missed.lock().is_in(Pass::Rebuild)
    }

    /// Whether it is noted what a resilver or rebuild leaves behind on the leaf.
    #[must_use]
    pub fn is_resilvering(&self) -> bool {
        self.handle.missed.lock().is_in_any()
    }

    /// Whether the resilver or rebuild that runs has left something behind on the leaf.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.handle.missed.lock().has_left()
    }

    /// Puts a device that was away under the leaf again, or takes it out of use for good. What it was given since its
    /// last good flush counts as missed.
    pub fn reopen(&self, device: Option<Arc<dyn BlockDevice>>) {
        self.set_device(device);
        self.handle.lose_unflushed();
    }

    /// Puts the device under the leaf again to which the connection broke, as `failure` says. What it was given since
    /// its last good flush may be lost: until [`Leaf::clear`] writes that again no flush succeeds.
    pub fn connect_again(&self, device: Arc<dyn BlockDevice>, failure: &DeviceError) {
        self.handle.unflushed.lock().set_doubt(failure);
        self.set_device(Some(device));
    }

    /// How often the leaf lost something that was copied to it ([`crate::RangeCopy`]): whoever it was for has no more
    /// of it than before.
    #[must_use]
    pub fn lost_copies(&self) -> u64 {
        self.handle.lost_copies()
    }

    /// A txg ends. `is_stored`: it stores the place of a resilver or rebuild. If the leaf has lost since the last txg
    /// what it was given before that place, which it had not flushed when it went out of use, the txg counts as missed
    /// until that pass ends, even if the leaf is back: it says that the place does not hold.
    pub fn note_lost(&self, txg: Txg, is_stored: bool) {
        self.handle.note_lost(txg, is_stored);
    }

    /// A resilver could not give the leaf a block of `birth`.
    pub fn note_left(&self, birth: Txg) {
        self.handle.missed.lock().note_left(birth);
    }

    /// A resilver did not see some blocks that are not younger than `birth`: all that was missed up
    /// to then is left behind.
    pub fn note_left_through(&self, birth: Txg) {
        self.handle.missed.lock().note_left_through(birth);
    }

    /// A resilver has seen everything that was missed when it began. What it left behind, and what
    /// was missed since, is missing still. Answers whether a resilver had begun.
    pub fn end_resilver(&self) -> bool {
        self.handle.end(Pass::Resilver)
    }

    /// Whether the leaf missed the writes of `txg`.
    #[must_use]
    pub fn misses(&self, txg: Txg) -> bool {
        self.handle.misses(txg)
    }

    /// Whether the leaf missed nothing: what it has of any place is what was written there last.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.handle.misses_some()
    }

    /// Makes the leaf's finished writes durable.
    ///
    /// # Errors
    /// If the device cannot. It stays failed until [`Leaf::clear`].
    pub fn flush(&self) -> Result<(), VdevError> {
        Ok(self.handle.flush()?)
    }

    /// Says how much is dirty, in thousandths of the limit: the more, the more writes at once.
    pub fn set_dirty(&self, permille: u32) {
        self.handle.gate.set_dirty(permille);
    }

    /// Reads `len` bytes at byte `offset` of the device, queued writes included.
    pub(crate) fn read(&self, offset: u64, len: usize, class: IoClass) -> ReadResult {
        let newer = self.newer(offset, len);
        if let Some(data) = covering(&newer, offset, len) {
            return Ok(data);
        }
        self.handle.read((offset, len), class, newer)
    }

    /// The same as one of several reads that are awaited together: what is known at once is given, else the read asks
    /// for its turn, of which `awaited` is told.
    pub(crate) fn ask_read(
        &self,
        (offset, len): (u64, usize),
        class: IoClass,
        awaited: (&Arc<Awaited>, usize),
    ) -> Result<AskedRead, ReadResult> {
        let newer = self.newer(offset, len);
        if let Some(data) = covering(&newer, offset, len) {
            return Err(Ok(data));
        }
        let asked = self.handle.ask_read((offset, len), class, newer, awaited);
        asked.map_err(Err)
    }

    /// What is queued of a range, oldest first.
    fn newer(&self, offset: u64, len: usize) -> Vec<(u64, Buffer)> {
        let newer = self.queue.newer_than_device(offset..offset + len as u64);
        if !newer.is_empty() {
            self.handle.meters.reads_from_queue.increment();
        }
        newer
    }

    /// Queues a write at byte `offset` of the device.
    pub(crate) fn write(&self, offset: u64, data: Buffer, completion: Arc<WriteCompletion>) {
        self.queue.push(offset, data, completion);
    }

    /// Writes at byte `offset` of the device at once: labels and repairs.
    pub(crate) fn write_now(
        &self,
        offset: u64,
        data: Buffer,
        class: IoClass,
        txg: Txg,
    ) -> Result<(), Failure> {
        let result = self.handle.write(offset, &[(data, txg)], class);
        if let Err(Failure::Device(_)) = &result {
            self.handle.meters.write_errors.increment();
        }
        result
    }

    /// Gives the bytes at `offset` of the allocatable area back to the device, when it is this operation's turn. Nobody
    /// may have been given them.
    ///
    /// # Errors
    /// What the device said; [`DeviceError::Unsupported`] if it cannot.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), VdevError> {
        let place = Self::device_offset(offset);
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        if offset.checked_add(len).is_none_or(|end| end > self.asize()) {
            return Err(VdevError::from(DeviceError::OutOfRange {
                device: self.path(),
                operation: device::Operation::Discard,
                offset,
                len,
                size: self.asize(),
            }));
        }
        // Never so, as nobody has the place; what is queued is worth more than what a discard saves.
        if self.has_newer(place, bytes) {
            return Ok(());
        }
        Ok(self.handle.discard(place, bytes)?)
    }

    /// Overwrites bytes of the allocatable area that nobody has with a filler, which repeats.
    ///
    /// # Errors
    /// What the device said; it is counted as an error of a write.
    pub fn overwrite(&self, range: std::ops::Range<u64>, filler: &[u8]) -> Result<(), VdevError> {
        let mut at = range.start;
        while at < range.end && at < self.asize() {
            let end = range.end.min(self.asize());
            let len = usize::try_from(end - at).map_or(filler.len(), |len| len.min(filler.len()));
            let place = Self::device_offset(at);
            let piece = filler.get(..len).unwrap_or_default();
            // As with a discard, what is queued is worth more.
            if piece.is_empty() || self.has_newer(place, len) {
                return Ok(());
            }
            if let Err(failure) = self.handle.overwrite(place, piece) {
                self.handle.write_failed(&failure);
                return Err(VdevError::Leaf(self.handle.failure(failure)));
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Whether discards can be hoped to work.
    #[must_use]
    pub fn can_discard(&self) -> bool {
        self.is_writable() && self.device().is_some_and(|device| device.can_discard())
    }

    /// Whether writes to this place of the device are under way.
    pub(crate) fn has_newer(&self, offset: u64, len: usize) -> bool {
        !self
            .queue
            .newer_than_device(offset..offset + len as u64)
            .is_empty()
    }

    pub(crate) const fn handle(&self) -> &Arc<DeviceHandle> {
        &self.handle
    }

    /// Byte of the device that a DVA's offset stands for.
    pub(crate) const fn device_offset(offset: u64) -> u64 {
        offset + label::DATA_START
    }

    /// The same of an offset of the scratch area.
    pub(crate) const fn scratch_offset(offset: u64) -> u64 {
        offset + label::BOOT_START
    }

    /// Writes everything that is queued, and waits until it is done.
    pub(crate) fn drain(&self) {
        self.queue.drain();
    }
}

/// The bytes of a range, if the newest of what is queued has all of them.
fn covering(newer: &[(u64, Buffer)], offset: u64, len: usize) -> Option<Buffer> {
    let (start, whole) = newer.last()?;
    let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
    (from + len <= whole.len()).then(|| whole.slice(from..from + len))
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf")
            .field("guid", &self.guid())
            .finish_non_exhaustive()
    }
}

/// How a leaf on `device` would be, before its labels are looked at: whether the device is large
/// enough for `asize_min` bytes of data, its sectors fit, and it can be read (and written).
#[must_use]
pub fn examine(device: &dyn BlockDevice, asize_min: u64, ashift: u32) -> Condition {
    let cannot = |aux| Condition::new(VdevState::CantOpen, aux);
    if label::usable_device_size(device.size()) < label::DEVICE_SIZE_MIN {
        return cannot(VdevAux::TooSmall);
    }
    if label::leaf_asize(device.size()) < asize_min {
        return cannot(VdevAux::BadLabel);
    }
    let sector = device.sector_size();
    if sector > 1 << *label::ASHIFT_RANGE.end() {
        return cannot(VdevAux::AshiftTooBig);
    }
    if !label::ASHIFT_RANGE.contains(&ashift) {
        return cannot(VdevAux::BadAshift);
    }
    if sector > 1 << ashift {
        return cannot(VdevAux::BadLabel);
    }
    if !device_handle::probe(device) {
        return Condition::new(VdevState::Faulted, VdevAux::ErrorsExceeded);
    }
    Condition::HEALTHY
}

impl Drop for Leaf {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests;
