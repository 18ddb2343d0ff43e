//! Looking at every copy of a block on every device, and mending those that are wrong.
//!
//! The caller sees to it that the block is not freed and its space not used again meanwhile.

use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};
use sys::Buffer;
use vdev::{BlockRange, IoClass};

use crate::{Bookmark, Pipeline, ReadError, ReadRequest, Unreadable};

/// Gang headers inside gang headers, at most.
const GANG_DEPTH_MAX: u32 = 8;

/// What became of a block's copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes allocated to what was looked at.
    pub examined_bytes: u64,
    /// Bytes written over wrong copies.
    pub repaired_bytes: u64,
    /// Pieces of which no copy is right.
    pub unreadable: u64,
    /// Copies that are wrong still.
    pub unrepaired: u64,
}

impl std::ops::AddAssign for Scrubbed {
    fn add_assign(&mut self, other: Self) {
        self.examined_bytes += other.examined_bytes;
        self.repaired_bytes += other.repaired_bytes;
        self.unreadable += other.unreadable;
        self.unrepaired += other.unrepaired;
    }
}

impl Pipeline {
    /// Verifies every copy of a block, on every device that holds it, and repairs the wrong ones
    /// from a right one. A block without any right copy is noted in the error log.
    pub fn scrub(&self, block: &BlockPointer, bookmark: Bookmark) -> Scrubbed {
        let mut sum = Scrubbed::default();
        if block.is_hole() || block.is_embedded() {
            return sum;
        }
        self.scrub_tree(block, bookmark, 0, &mut sum);
        if sum.unreadable > 0 {
            self.counters.unreadable.increment();
            if let Some(log) = &self.error_log {
                log.record(&ReadError::Unreadable(Box::new(Unreadable {
                    bookmark,
                    block: *block,
                    attempts: Vec::new(),
                })));
            }
        }
        sum
    }

    fn scrub_tree(&self, block: &BlockPointer, bookmark: Bookmark, depth: u32, sum: &mut Scrubbed) {
        if !block.is_gang() {
            let length = block.psize() as usize;
            let good = self.scrub_copies(block, length, sum, &mut |data| self.verify(block, data));
            sum.unreadable += u64::from(!good);
            return;
        }
        let mut right = |data: &[u8]| GangHeader::decode(data, block).is_ok();
        if depth > GANG_DEPTH_MAX || !self.scrub_copies(block, gang::SIZE, sum, &mut right) {
            sum.unreadable += 1;
            return;
        }
        let request = ReadRequest::new(bookmark)
            .in_class(IoClass::Scan)
            .speculative();
        match self.gang_header(block, &request) {
            Ok(header) => {
                for member in header.used() {
                    self.scrub_tree(member, bookmark, depth + 1, sum);
                }
            }
            Err(_) => sum.unreadable += 1,
        }
    }

    /// Looks at the same `length` bytes at every address; true when some copy is right.
    fn scrub_copies(
        &self,
        block: &BlockPointer,
        length: usize,
        sum: &mut Scrubbed,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let mut right: Option<Buffer> = None;
        let mut wrong: Vec<Dva> = Vec::new();
        for dva in block.dvas() {
            let Ok(top) = self.vdevs.top(dva.vdev) else {
                continue;
            };
            sum.examined_bytes += top.allocated_size(length as u64);
            let range = BlockRange {
                offset: dva.offset,
                len: length,
                birth: block.physical_birth(),
            };
            let Ok(outcome) = top.scrub(range, accept) else {
                continue;
            };
            sum.repaired_bytes += (outcome.healed * length) as u64;
            sum.unrepaired += outcome.unrepaired as u64;
            match outcome.data {
                Some(data) => right = right.or(Some(data)),
                None => wrong.push(dva),
            }
        }
        let Some(right) = right else { return false };
        if self.heals() {
            for dva in wrong {
                if let Ok(top) = self.vdevs.top(dva.vdev) {
                    let healed = top.heal(dva.offset, &right);
                    sum.repaired_bytes += (healed * length) as u64;
                }
            }
        }
        true
    }
}
