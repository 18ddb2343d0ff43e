//! Blocks that are encrypted in part: of dnodes, and of intent logs.

use std::ops::Range;

use crate::error::BlockFault;

/// What a block consists of.
pub(crate) struct Parts {
    /// What is authenticated and plain.
    pub(crate) known: Vec<u8>,
    /// Where what is encrypted is, in order: it is one message.
    pub(crate) sealed: Vec<Range<usize>>,
}

impl Parts {
    /// Opens or seals what is encrypted, in place: `change` is given what is authenticated, and the message.
    pub(crate) fn change<T>(
        &self,
        block: &mut [u8],
        change: impl FnOnce(&[u8], &mut [u8]) -> Result<T, BlockFault>,
    ) -> Result<T, BlockFault> {
        let layout = || BlockFault::Layout("a part out of the block");
        let mut message = Vec::new();
        for range in &self.sealed {
            message.extend_from_slice(block.get(range.clone()).ok_or_else(layout)?);
        }
        let changed = change(&self.known, &mut message)?;
        let mut rest = &message[..];
        for range in &self.sealed {
            let place = block.get_mut(range.clone()).ok_or_else(layout)?;
            let (part, after) = rest.split_at_checked(place.len()).ok_or_else(layout)?;
            place.copy_from_slice(part);
            rest = after;
        }
        Ok(changed)
    }
}
