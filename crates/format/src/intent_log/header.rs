//! The anchor of an intent log, inside its object set.

use crate::block_pointer::BlockPointer;
use crate::record::record;
use base::Txg;

record! {
    /// Where an object set's intent log starts, and how far it was claimed and replayed.
    #[doc(alias = "zil_header_t")]
    pub struct LogHeader [192] {
        #[doc(alias = "zh_claim_txg")]
        /// The txg in which the chain was claimed; 0 = never since it was made.
        claim_txg: Txg = 0,
        #[doc(alias = "zh_replay_seq")]
        /// The highest record sequence already replayed.
        replay_sequence: u64 = 8,
        #[doc(alias = "zh_log")]
        /// The first block of the chain; a hole when there is no log.
        log: BlockPointer = 16,
        #[doc(alias = "zh_claim_blk_seq")]
        /// The highest block sequence claimed.
        claim_block_sequence: u64 = 144,
        #[doc(alias = "zh_flags")]
        /// See the `FLAG_` constants.
        flags: u64 = 152,
        #[doc(alias = "zh_claim_lr_seq")]
        /// The highest record sequence claimed, when [`LogHeader::FLAG_CLAIM_RECORD_VALID`].
        claim_record_sequence: u64 = 160,
    }
}

impl LogHeader {
    /// Replay is owed at the next mount.
    pub const FLAG_REPLAY_NEEDED: u64 = 1;
    /// `claim_record_sequence` is valid.
    pub const FLAG_CLAIM_RECORD_VALID: u64 = 2;
    /// No log.
    pub const EMPTY: Self = Self {
        claim_txg: Txg(0),
        replay_sequence: 0,
        log: BlockPointer::HOLE,
        claim_block_sequence: 0,
        flags: 0,
        claim_record_sequence: 0,
    };
}
