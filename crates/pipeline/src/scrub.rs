//! Looking at every copy of a block on every device, and repairing those that are wrong.
//!
//! The caller sees to it that the block is not freed and its space not used again meanwhile.

use base::{Bookmark, Txg};
use format::block_pointer::{BlockPointer, Dva};
use format::gang::GangHeader;
use sys::Buffer;
use vdev::{BlockRange, IoClass, Repaired, Top, Verdict};

use crate::pipeline::cache_key;
use crate::read::{GangBudget, check, decode, is_ciphertext};
use crate::{Pipeline, ReadError, ReadRequest, Unreadable};

#[cfg(test)]
mod tests;

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

impl Scrubbed {
    /// Counts what was done to copies of `length` bytes each.
    fn count(&mut self, repaired: Repaired, length: usize) {
        self.repaired_bytes += (repaired.healed * length) as u64;
        self.unrepaired += repaired.unrepaired as u64;
    }
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
        self.scrub_promised(block, bookmark, true)
    }

    /// The same for a block of an intent log whose writing may not have ended, on any device or on all: wrong copies
    /// count against no device, and a block without right copies is not noted.
    pub fn scrub_unpromised(&self, block: &BlockPointer, bookmark: Bookmark) -> Scrubbed {
        self.scrub_promised(block, bookmark, false)
    }

    fn scrub_promised(&self, block: &BlockPointer, bookmark: Bookmark, promised: bool) -> Scrubbed {
        let mut sum = Scrubbed::default();
        if block.is_hole() || block.is_embedded() {
            return sum;
        }
        let look = Look { bookmark, promised };
        self.scrub_tree(block, look, &mut GangBudget::of(block), &mut sum);
        if !promised {
            sum.unreadable = 0;
        }
        if sum.unreadable > 0 {
            self.note_unreadable(block, bookmark);
        }
        sum
    }

    /// The same for one copy of a block, which is repaired from the others if need be; for a gang all that it is made
    /// of. That no copy is right is counted, and noted, with the first.
    pub fn scrub_copy(&self, block: &BlockPointer, bookmark: Bookmark, index: usize) -> Scrubbed {
        if block.is_gang() {
            return self.scrub(block, bookmark);
        }
        let mut sum = Scrubbed::default();
        let Some(dva) = block.dvas().nth(index) else {
            return sum;
        };
        let length = block.psize() as usize;
        let range = BlockRange {
            offset: dva.offset,
            len: length,
            birth: block.physical_birth(),
        };
        let top = self.vdevs.top(dva.vdev).ok();
        if let Some(top) = &top {
            sum.examined_bytes += top.allocated_size(length as u64, block.physical_birth());
            let mut accept = |data: &[u8]| self.verdict(block, data);
            if let Ok(outcome) = top.scrub(range, true, &mut accept) {
                sum.count(outcome.repaired, length);
                if outcome.data.is_some() {
                    return sum;
                }
            }
        }
        let request = ReadRequest::new(bookmark)
            .in_class(IoClass::Scan)
            .uncached()
            .speculative();
        let right = self.read_stored(block, &request);
        if right.is_err() && index == 0 {
            sum.unreadable += 1;
            self.note_unreadable(block, bookmark);
        }
        if let Some(top) = &top {
            sum.count(self.heal_copy(top, range, right.as_ref().ok()), length);
        }
        sum
    }

    /// The content of a block of which this is what lies at one of its places, if that is right.
    #[must_use]
    pub fn content(&self, block: &BlockPointer, stored: Buffer) -> Option<Buffer> {
        let request = ReadRequest::new(Bookmark::default());
        let is_plain = check(block, &request).is_ok() && !is_ciphertext(block);
        if !is_plain || !self.verify(block, &stored) {
            return None;
        }
        let data = decode(block, stored).ok()?;
        (data.len() as u64 == block.lsize()).then_some(data)
    }

    /// Whether the cache has a block.
    #[must_use]
    pub fn is_cached(&self, block: &BlockPointer) -> bool {
        cache_key(block).is_some_and(|key| self.cache.contains(&key))
    }

    /// Counts a block that no device has, and notes it in the error log.
    pub fn note_unreadable(&self, block: &BlockPointer, bookmark: Bookmark) {
        self.counters.unreadable.increment();
        if let Some(log) = &self.error_log {
            log.record(&ReadError::Unreadable(Box::new(Unreadable {
                bookmark,
                block: *block,
                attempts: Vec::new(),
            })));
        }
    }

    fn scrub_tree(
        &self,
        block: &BlockPointer,
        look: Look,
        budget: &mut GangBudget,
        sum: &mut Scrubbed,
    ) {
        if !block.is_gang() {
            let length = block.psize() as usize;
            let mut accept = |data: &[u8]| self.verdict(block, data);
            let good = self.scrub_copies(block, (length, look.promised), sum, &mut accept);
            sum.unreadable += u64::from(!good);
            return;
        }
        let mut right = |data: &[u8]| Verdict::proof(GangHeader::decode(data, block).is_ok());
        let header = (self.gang_header_size(block.dvas()), look.promised);
        let is_entered = budget.enter();
        let good = is_entered && self.scrub_copies(block, header, sum, &mut right);
        // Whoever has a wrong header was counted above.
        let request = ReadRequest::new(look.bookmark)
            .in_class(IoClass::Scan)
            .unpromised();
        let header = good.then(|| self.gang_header(block, &request).ok());
        let Some(header) = header.flatten() else {
            // The members, of the same txg, were not seen.
            self.leave_behind(block.physical_birth());
            sum.unreadable += 1;
            if is_entered {
                budget.leave();
            }
            return;
        };
        for member in header.used() {
            self.scrub_tree(member, look, budget, sum);
        }
        budget.leave();
    }

    /// Notes that a scan did not see some block of `birth`: no device that missed it has it now.
    fn leave_behind(&self, birth: Txg) {
        self.vdevs.leave_behind(birth);
    }

    /// Looks at the same `length` bytes at every address; true when some copy is right.
    fn scrub_copies(
        &self,
        block: &BlockPointer,
        (length, promised): (usize, bool),
        sum: &mut Scrubbed,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> bool {
        let mut right: Option<Buffer> = None;
        let mut wrong: Vec<Dva> = Vec::new();
        let range_of = |dva: &Dva| BlockRange {
            offset: dva.offset,
            len: length,
            birth: block.physical_birth(),
        };
        for dva in block.dvas() {
            let Ok(top) = self.vdevs.top(dva.vdev) else {
                continue;
            };
            sum.examined_bytes += top.allocated_size(length as u64, block.physical_birth());
            let Ok(outcome) = top.scrub(range_of(&dva), promised, accept) else {
                continue;
            };
            sum.count(outcome.repaired, length);
            match outcome.data {
                Some(data) => right = right.or(Some(data)),
                None => wrong.push(dva),
            }
        }
        for dva in wrong {
            if let Ok(top) = self.vdevs.top(dva.vdev) {
                let healed = self.heal_copy(&top, range_of(&dva), right.as_ref());
                sum.count(healed, length);
            }
        }
        right.is_some()
    }

    /// Gives a copy that no device has right what another copy has. Where that cannot be, the devices that missed it
    /// lack it still.
    fn heal_copy(&self, top: &Top, range: BlockRange, right: Option<&Buffer>) -> Repaired {
        match right {
            Some(right) if self.heals() => top.heal(range, right),
            Some(_) | None => {
                top.leave_range_behind(range);
                Repaired::default()
            }
        }
    }
}

/// What is looked at, and whether it must be there.
#[derive(Clone, Copy)]
struct Look {
    bookmark: Bookmark,
    promised: bool,
}
