//! Sequential rebuilds of top-level vdevs, as the table of the vdev says how they stand.
//!
//! A rebuild copies what is in use of a vdev to devices that lack it, in the order of places. The entry is an array of
//! words, which every ZAP stores with the most significant byte first, whatever machine wrote the pool.

use crate::FormatError;

/// Words of the entry.
const WORDS: usize = 12;

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
}

impl RebuildState {
    /// By its number.
    ///
    /// # Errors
    /// No state has it.
    pub fn from_number(number: u64) -> Result<Self, FormatError> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Active),
            2 => Ok(Self::Cancelled),
            3 => Ok(Self::Complete),
            value => Err(invalid("state", value)),
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
        }
    }
}

/// The last rebuild of a top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "vdev_rebuild_phys_t")]
pub struct Rebuild {
    /// How it stands.
    pub state: RebuildState,
    /// Everything before this byte of the vdev was copied.
    #[doc(alias = "vrp_last_offset")]
    pub offset: u64,
    /// What it is for was missed after this txg …
    #[doc(alias = "vrp_min_txg")]
    pub txg_min: u64,
    /// … and up to this one.
    #[doc(alias = "vrp_max_txg")]
    pub txg_max: u64,
    /// When it began: seconds since 1970.
    #[doc(alias = "vrp_start_time")]
    pub started_s: u64,
    /// When it ended; 0 before.
    #[doc(alias = "vrp_end_time")]
    pub ended_s: u64,
    /// How long it ran, milliseconds.
    #[doc(alias = "vrp_scan_time_ms")]
    pub taken_ms: u64,
    /// Bytes of the vdev that are in use and were come to.
    #[doc(alias = "vrp_bytes_scanned")]
    pub scanned: u64,
    /// Bytes of the vdev that were read.
    #[doc(alias = "vrp_bytes_issued")]
    pub issued: u64,
    /// Bytes that were written to devices.
    #[doc(alias = "vrp_bytes_rebuilt")]
    pub rebuilt: u64,
    /// Bytes of the vdev in use when it began.
    #[doc(alias = "vrp_bytes_est")]
    pub estimated: u64,
    /// Ranges that could not be copied.
    #[doc(alias = "vrp_errors")]
    pub errors: u64,
}

impl Rebuild {
    /// From the words of the entry.
    ///
    /// # Errors
    /// They are of another number, the state is none, or the range of txgs is.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        let &[
            state,
            offset,
            txg_min,
            txg_max,
            started_s,
            ended_s,
            taken_ms,
            scanned,
            issued,
            rebuilt,
            estimated,
            errors,
        ] = words
        else {
            return Err(invalid("words", words.len() as u64));
        };
        if txg_min > txg_max {
            return Err(invalid("min_txg", txg_min));
        }
        Ok(Self {
            state: RebuildState::from_number(state)?,
            offset,
            txg_min,
            txg_max,
            started_s,
            ended_s,
            taken_ms,
            scanned,
            issued,
            rebuilt,
            estimated,
            errors,
        })
    }

    /// The words of the entry.
    #[must_use]
    pub const fn to_words(&self) -> [u64; WORDS] {
        [
            self.state.number(),
            self.offset,
            self.txg_min,
            self.txg_max,
            self.started_s,
            self.ended_s,
            self.taken_ms,
            self.scanned,
            self.issued,
            self.rebuilt,
            self.estimated,
            self.errors,
        ]
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
