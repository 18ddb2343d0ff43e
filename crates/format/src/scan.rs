//! Scans (scrubs and resilvers), as the MOS directory says how the last one stands.

use base::ByteOrder;

use crate::record::record;
use crate::zap::Value;

/// A function of [`ScanPhys`].
pub const FUNCTION_SCRUB: u64 = 1;
/// A function of [`ScanPhys`].
pub const FUNCTION_RESILVER: u64 = 2;
/// A state of [`ScanPhys`].
pub const STATE_SCANNING: u64 = 1;
/// A state of [`ScanPhys`].
pub const STATE_FINISHED: u64 = 2;
/// A state of [`ScanPhys`].
pub const STATE_CANCELED: u64 = 3;
/// A flag of [`ScanPhys`]: the dataset under way is looked at again, for what is younger than the
/// current range.
pub const FLAG_AGAIN: u64 = 1;
/// A flag of [`ScanPhys`].
pub const FLAG_PAUSED: u64 = 2;

record! {
    /// The last scan: the MOS directory's entry `scan`. Words of a ZAP value, so always the most significant byte
    /// first.
    #[doc(alias = "dsl_scan_phys_t")]
    #[derive(Copy, Default)]
    pub struct ScanPhys [192] {
        /// 0 none, 1 scrub, 2 resilver, 3 error scrub.
        #[doc(alias = "scn_func")]
        function: u64 = 0,
        /// 0 none, 1 running, 2 finished, 3 cancelled.
        #[doc(alias = "scn_state")]
        state: u64 = 8,
        /// The object of queued datasets.
        #[doc(alias = "scn_queue_obj")]
        queue: u64 = 16,
        /// Blocks born after this txg …
        #[doc(alias = "scn_min_txg")]
        txg_min: u64 = 24,
        /// … and up to this one.
        #[doc(alias = "scn_max_txg")]
        txg_max: u64 = 32,
        /// The same range for the dataset under way.
        #[doc(alias = "scn_cur_min_txg")]
        current_min: u64 = 40,
        /// Its end.
        #[doc(alias = "scn_cur_max_txg")]
        current_max: u64 = 48,
        /// When it began, seconds since 1970.
        #[doc(alias = "scn_start_time")]
        started: u64 = 56,
        /// When it ended.
        #[doc(alias = "scn_end_time")]
        ended: u64 = 64,
        /// Bytes to be looked at.
        #[doc(alias = "scn_to_examine")]
        to_examine: u64 = 72,
        /// Bytes looked at.
        #[doc(alias = "scn_examined")]
        examined: u64 = 80,
        /// Bytes passed over.
        #[doc(alias = "scn_skipped")]
        skipped: u64 = 88,
        /// Bytes repaired.
        #[doc(alias = "scn_processed")]
        processed: u64 = 96,
        /// Blocks that could not be read.
        #[doc(alias = "scn_errors")]
        errors: u64 = 104,
        /// How far it came in the dedup tables: the last class to be looked at; class, type, checksum and
        /// cursor of the place.
        #[doc(alias = "scn_ddt_bookmark")]
        dedup: [u64; 5] = 112,
        /// Where it goes on: object set, object, level, block.
        #[doc(alias = "scn_bookmark")]
        bookmark: [u64; 4] = 152,
        /// Flags; 1 = the dataset once more, 2 = paused.
        #[doc(alias = "scn_flags")]
        flags: u64 = 184,
    }
}

impl ScanPhys {
    /// From the value of the entry; `None` when that is of a form that nothing writes any more.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let bytes = value.stored();
        let is_whole = value.integer_size() == 8 && bytes.len() == Self::SIZE;
        is_whole.then(|| Self::decode_padded(bytes, ByteOrder::Big))
    }

    /// The value of the entry.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::of_words(&self.to_bytes(ByteOrder::Big))
    }

    /// Whether it is under way (or paused).
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == STATE_SCANNING && matches!(self.function, FUNCTION_SCRUB | FUNCTION_RESILVER)
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_running() && self.flags & FLAG_PAUSED != 0
    }
}

#[cfg(test)]
mod tests;
