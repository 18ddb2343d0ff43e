//! The pool's history: a ring of length-prefixed records, of which the first ones stay for ever.

use base::ByteOrder;

use crate::FormatError;
use crate::nvlist::{NvList, decode_native, encode_native};
use crate::record::{get_at, record};

/// Names of the pairs of a record.
pub mod keys {
    /// Seconds since 1970.
    pub const TIME: &str = "history time";
    /// The txg of an internal event.
    pub const TXG: &str = "history txg";
    /// A command line.
    pub const COMMAND: &str = "history command";
    /// The user's number.
    pub const WHO: &str = "history who";
    /// The zone ("linux").
    pub const ZONE: &str = "history zone";
    /// The host's name.
    pub const HOST: &str = "history hostname";
    /// Name of an internal event.
    pub const INTERNAL_NAME: &str = "internal_name";
    /// Text of an internal event.
    pub const INTERNAL_TEXT: &str = "history internal str";
    /// The dataset of an internal event.
    pub const DATASET_NAME: &str = "dsname";
    /// Its object number.
    pub const DATASET_ID: &str = "dsid";
    /// Name of an administrative request.
    pub const REQUEST: &str = "ioctl";
    /// Its arguments.
    pub const REQUEST_INPUT: &str = "in_nvl";
    /// Its results.
    pub const REQUEST_OUTPUT: &str = "out_nvl";
    /// Its error number.
    pub const ERROR: &str = "errno";
    /// How long it took.
    pub const ELAPSED_NS: &str = "elapsed_ns";
}

/// Block size of the history object.
pub const BLOCK_SIZE: u32 = 128 << 10;
/// Smallest and largest ring.
pub const RING_SIZE_MIN: u64 = 128 << 10;
/// See [`RING_SIZE_MIN`].
pub const RING_SIZE_MAX: u64 = 1 << 30;
/// Bytes of a record's length.
pub const LENGTH_SIZE: u64 = 8;

record! {
    /// The bonus of the history object: logical offsets, which only grow.
    #[doc(alias = "spa_history_phys_t")]
    pub struct HistoryPhys [40] {
        /// Bytes up to the end of the record of the pool's creation, never overwritten.
        #[doc(alias = "sh_pool_create_len")]
        create_length: u64 = 0,
        /// Where the ring wraps.
        #[doc(alias = "sh_phys_max_off")]
        ring_size: u64 = 8,
        /// The oldest record.
        #[doc(alias = "sh_bof")]
        begin: u64 = 16,
        /// One past the newest record.
        #[doc(alias = "sh_eof")]
        end: u64 = 24,
        /// Records overwritten so far.
        #[doc(alias = "sh_records_lost")]
        records_lost: u64 = 32,
    }
}

impl HistoryPhys {
    /// A fresh history of a pool with this much space.
    #[must_use]
    pub fn new(pool_space: u64) -> Self {
        Self {
            create_length: 0,
            ring_size: (pool_space / 1000).clamp(RING_SIZE_MIN, RING_SIZE_MAX),
            begin: 0,
            end: 0,
            records_lost: 0,
        }
    }

    /// The object's byte that holds logical byte `logical`.
    #[must_use]
    pub const fn physical(&self, logical: u64) -> u64 {
        let ring = self.ring_size.saturating_sub(self.create_length);
        if logical < self.create_length || ring == 0 {
            return logical;
        }
        (logical - self.create_length) % ring + self.create_length
    }

    /// Whether the numbers can belong together.
    ///
    /// # Errors
    /// When they cannot.
    pub const fn check(&self) -> Result<(), FormatError> {
        let ordered = self.begin <= self.end && self.create_length < self.ring_size;
        let ring = self.ring_size.saturating_sub(self.create_length);
        if ordered && self.ring_size <= RING_SIZE_MAX && self.end - self.begin <= ring {
            return Ok(());
        }
        Err(FormatError::Invalid {
            what: "history",
            field: "offsets",
            value: self.end,
        })
    }
}

/// A record as stored: its length, then the list.
#[must_use]
pub fn encode_record(record: &NvList) -> Vec<u8> {
    let list = encode_native(record);
    let mut bytes = (list.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&list);
    bytes
}

/// The length that is stored in front of a record.
#[must_use]
pub fn record_length(prefix: &[u8]) -> u64 {
    get_at(prefix, 0, ByteOrder::Little)
}

/// Reads the list of a record, without its length.
///
/// # Errors
/// When the bytes are not a native list.
pub fn decode_record(list: &[u8]) -> Result<NvList, FormatError> {
    decode_native(list)
}

#[cfg(test)]
mod tests;
