//! Reading a block from what was read over before.

use format::block_pointer::BlockPointer;
use sys::Buffer;
use vdev::Verdict;

use super::decode;
use crate::Pipeline;

impl Pipeline {
    /// The content of a block that lay in a gap that was read over.
    pub(crate) fn read_kept(&self, block: &BlockPointer) -> Option<Buffer> {
        if block.is_gang() || block.is_encrypted() || block.checksum().ok()?.is_embedded() {
            return None;
        }
        let dva = block.dva(0)?;
        let (place, birth) = ((dva.vdev, dva.offset), block.physical_birth());
        let stored = self.kept.get(place, block.psize(), birth)?;
        let is_right = self.verdict(block, &stored) == Verdict::Proven;
        let found = Some(stored).filter(|_| is_right);
        let found = found.and_then(|stored| decode(block, stored).ok());
        let found = found.filter(|data| data.len() as u64 == block.lsize());
        match &found {
            Some(_) => self.kept.earn(),
            None => self.kept.wrong.increment(),
        }
        found
    }
}
