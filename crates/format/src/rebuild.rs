//! Sequential rebuilds of top-level vdevs, as the table of the vdev says how they stand.
//!
//! A rebuild copies what is in use of a vdev to devices that lack it, in the order of places. The entry is an array of
//! words, which every ZAP stores with the most significant byte first, whatever machine wrote the pool.

use base::ByteOrder;

use crate::FormatError;
use crate::record::{Plain, Shown, record};
use crate::zap::Value;

/// How a rebuild stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "vdev_rebuild_state_t")]
pub enum RebuildState {
    /// There never was one.
    #[default]
    None,
    /// It is under way.
    Active,
    /// It was given up.
    Cancelled,
    /// It has ended.
    Complete,
    /// A number that stands for nothing: [`Rebuild::from_value`] refuses it.
    Other(u64),
}

impl RebuildState {
    /// By its number.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Active,
            2 => Self::Cancelled,
            3 => Self::Complete,
            other => Self::Other(other),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Active => 1,
            Self::Cancelled => 2,
            Self::Complete => 3,
            Self::Other(number) => number,
        }
    }
}

impl Plain for RebuildState {
    const WIDTH: usize = 8;
    const KIND: &'static str = "u64";
    fn get(bytes: &[u8], order: ByteOrder) -> Self {
        Self::from_number(u64::get(bytes, order))
    }
    fn put(&self, bytes: &mut [u8], order: ByteOrder) {
        self.number().put(bytes, order);
    }
    fn show(&self) -> Shown {
        Shown::Number(self.number())
    }
}

record! {
    /// The last rebuild of a top-level vdev: words of a ZAP value, so always the most significant byte first.
    #[doc(alias = "vdev_rebuild_phys_t")]
    #[derive(Copy, Default)]
    pub struct Rebuild [96] {
        /// How it stands: 0 never, 1 under way, 2 given up, 3 ended.
        #[doc(alias = "vrp_rebuild_state")]
        state: RebuildState = 0,
        /// Everything before this byte of the vdev was copied.
        #[doc(alias = "vrp_last_offset")]
        offset: u64 = 8,
        /// What it is for was missed after this txg …
        #[doc(alias = "vrp_min_txg")]
        txg_min: u64 = 16,
        /// … and up to this one.
        #[doc(alias = "vrp_max_txg")]
        txg_max: u64 = 24,
        /// When it began: seconds since 1970.
        #[doc(alias = "vrp_start_time")]
        started_s: u64 = 32,
        /// When it ended; 0 before.
        #[doc(alias = "vrp_end_time")]
        ended_s: u64 = 40,
        /// How long it ran, milliseconds.
        #[doc(alias = "vrp_scan_time_ms")]
        taken_ms: u64 = 48,
        /// Bytes of the vdev that are in use and were come to.
        #[doc(alias = "vrp_bytes_scanned")]
        scanned: u64 = 56,
        /// Bytes of the vdev that were read.
        #[doc(alias = "vrp_bytes_issued")]
        issued: u64 = 64,
        /// Bytes that were written to devices.
        #[doc(alias = "vrp_bytes_rebuilt")]
        rebuilt: u64 = 72,
        /// Bytes of the vdev in use when it began.
        #[doc(alias = "vrp_bytes_est")]
        estimated: u64 = 80,
        /// Ranges that could not be copied.
        #[doc(alias = "vrp_errors")]
        errors: u64 = 88,
    }
}

impl Rebuild {
    /// From the value of the entry.
    ///
    /// # Errors
    /// It is of another size, the state is none, or the range of txgs is.
    pub fn from_value(value: &Value) -> Result<Self, FormatError> {
        let bytes = value.stored();
        if value.integer_size() != 8 || bytes.len() != Self::SIZE {
            return Err(invalid("size", bytes.len() as u64));
        }
        let rebuild = Self::decode(bytes, ByteOrder::Big)?;
        if let RebuildState::Other(number) = rebuild.state {
            return Err(invalid("state", number));
        }
        if rebuild.txg_min > rebuild.txg_max {
            return Err(invalid("min_txg", rebuild.txg_min));
        }
        Ok(rebuild)
    }

    /// The value of the entry.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::of_words(&self.to_bytes(ByteOrder::Big))
    }

    /// Whether it is under way.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == RebuildState::Active
    }
}

const fn invalid(field: &'static str, value: u64) -> FormatError {
    FormatError::Invalid {
        what: "state of a rebuild",
        field,
        value,
    }
}

#[cfg(test)]
mod tests;
