//! Freeing: every copy, and for gangs every member.

use base::{Bookmark, Txg};
use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};

use crate::read::GangBudget;
use crate::{Attempt, AttemptFailure, FreeError, Pipeline, ReadError, ReadRequest, Unreadable};

impl Pipeline {
    /// Frees the space of a block, in `txg`.
    ///
    /// # Errors
    /// When the block is shared by a dedup table (which must be asked first), or a gang header
    /// cannot be read: then its members leak, and what could be freed was.
    pub fn free(&self, block: &BlockPointer, txg: Txg) -> Result<(), FreeError> {
        self.free_patiently(block, txg, &|_| false)
    }

    /// The same; `again` is asked whether a gang header that could not be read is to be read again.
    ///
    /// # Errors
    /// As for [`Pipeline::free`].
    pub fn free_patiently(
        &self,
        block: &BlockPointer,
        txg: Txg,
        again: &dyn Fn(&ReadError) -> bool,
    ) -> Result<(), FreeError> {
        if block.is_dedup() {
            return Err(FreeError::Dedup);
        }
        self.forget(block);
        self.free_tree((block, txg), again, &mut GangBudget::of(block))
    }

    fn free_tree(
        &self,
        (block, txg): (&BlockPointer, Txg),
        again: &dyn Fn(&ReadError) -> bool,
        budget: &mut GangBudget,
    ) -> Result<(), FreeError> {
        if !block.is_gang() {
            let birth = block.physical_birth();
            let free = |dva| self.allocator.free(&dva, birth, txg);
            block.dvas().for_each(free);
            return Ok(());
        }
        let members = self.free_members((block, txg), again, budget);
        for dva in block.dvas() {
            // The header's own space; the rest of the address's size is the members'.
            let Ok(top) = self.vdevs.top(dva.vdev) else {
                continue;
            };
            let birth = block.physical_birth();
            // However long the header is: no longer than the smallest allocation.
            let asize = top.allocated_size(gang::SIZE as u64, birth);
            self.allocator.free(&Dva { asize, ..dva }, birth, txg);
        }
        members
    }

    fn free_members(
        &self,
        (leader, txg): (&BlockPointer, Txg),
        again: &dyn Fn(&ReadError) -> bool,
        budget: &mut GangBudget,
    ) -> Result<(), FreeError> {
        let header = loop {
            match self.header_to_free(leader, budget) {
                // Nothing of it is freed yet.
                Err(error) if again(&error) => {}
                header => break header?,
            }
        };
        // Each member is tried, so that one bad header leaks no more than it must.
        let freed = header
            .used()
            .map(|member| self.free_tree((member, txg), again, budget))
            .fold(Ok(()), Result::and);
        budget.leave();
        freed
    }

    /// The header of a gang that is freed, from any of its copies: one level deeper.
    fn header_to_free(
        &self,
        leader: &BlockPointer,
        budget: &mut GangBudget,
    ) -> Result<GangHeader, ReadError> {
        let request = ReadRequest::new(Bookmark::default()).speculative();
        let mut attempts = Vec::new();
        for dva in leader.dvas() {
            if !budget.enter() {
                attempts.push(Attempt {
                    dva,
                    failure: AttemptFailure::GangDepth,
                });
                break;
            }
            match self.read_gang_header(leader, &dva, &request) {
                Ok(header) => return Ok(header),
                Err(failure) => {
                    budget.leave();
                    attempts.push(Attempt { dva, failure });
                }
            }
        }
        Err(ReadError::Unreadable(Box::new(Unreadable {
            bookmark: request.bookmark,
            block: *leader,
            attempts,
        })))
    }
}
