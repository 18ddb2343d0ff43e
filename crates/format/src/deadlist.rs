//! Deadlists and livelists: a ZAP from the hexadecimal txg to a bpobj, with totals in the bonus.

use base::Txg;

use crate::record::record;

record! {
    /// The bonus of a deadlist or livelist.
    #[doc(alias = "dsl_deadlist_phys_t")]
    pub struct DeadlistPhys [320] {
        #[doc(alias = "dl_used")]
        /// Allocated bytes of all entries.
        used: u64 = 0,
        #[doc(alias = "dl_comp")]
        /// Physical bytes.
        compressed: u64 = 8,
        #[doc(alias = "dl_uncomp")]
        /// Logical bytes.
        uncompressed: u64 = 16,
    }
}

/// The key of a ZAP whose keys are numbers: lower-case hexadecimal without leading zeros.
#[must_use]
pub fn integer_key(number: u64) -> String {
    format!("{number:x}")
}

/// The number of such a key.
#[must_use]
#[inline]
pub fn parse_integer_key(key: &[u8]) -> Option<u64> {
    if key.is_empty() {
        return None;
    }
    key.iter().try_fold(0u64, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        // The digits before must leave room for this one.
        (number >> 60 == 0).then_some(number << 4 | u64::from(digit))
    })
}

/// The greatest of the ascending `keys` below `birth`: the entry that takes a block born then.
#[must_use]
pub fn entry_for(keys: &[Txg], birth: Txg) -> Option<usize> {
    keys.partition_point(|key| *key < birth).checked_sub(1)
}

#[cfg(test)]
mod tests;
