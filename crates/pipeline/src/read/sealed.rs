//! Blocks of encrypted datasets: opened with the dataset's keys, or proven by them.

use crypto::DatasetKeys;
use format::block_pointer::{BlockPointer, Protection};
use sys::{Buffer, BufferMut};

use super::decode;
use crate::AttemptFailure;

/// Stored bytes to content; with keys only what was written with them.
pub(super) fn decode_sealed(
    block: &BlockPointer,
    stored: Buffer,
    keys: Option<&DatasetKeys>,
) -> Result<Buffer, AttemptFailure> {
    let Some(keys) = keys else {
        return decode(block, stored);
    };
    let plain = if is_ciphertext(block) {
        let mut data = BufferMut::from_slice(&stored);
        keys.open(block, &mut data)?;
        data.freeze()
    } else {
        keys.prove(block, &stored)?;
        stored
    };
    let content = decode(block, plain)?;
    keys.prove_children(block, &content)?;
    Ok(content)
}

/// Whether the stored bytes are ciphertext. Authenticated blocks and indirect blocks are not.
pub(crate) fn is_ciphertext(block: &BlockPointer) -> bool {
    block.protection() == Protection::Encrypted
}

#[cfg(test)]
mod tests;
