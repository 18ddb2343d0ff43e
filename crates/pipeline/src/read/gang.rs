//! Gang blocks: a header of pointers whose members together are the block.

use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};
use sys::{Buffer, BufferMut};
use vdev::{BlockRange, Verdict};

use crate::{AttemptFailure, Pipeline, ReadRequest};

/// How much work a gang may still cause: a header splits its block into at least two pieces of at
/// least 512 bytes (or has a single one, now and then, in OpenZFS 2.4), so that a sound tree has fewer
/// headers than sectors, even if the first two copies of each are bad. A header that (by damage or
/// design) contains itself ends here.
pub(crate) struct GangBudget {
    headers: u64,
    depth: u32,
}

/// Each level holds about a third of the one above: 16 MiB are 512 bytes after ten of them.
const DEPTH_MAX: u32 = 20;

impl GangBudget {
    /// What the block needs at most.
    pub(crate) fn of(block: &BlockPointer) -> Self {
        Self {
            headers: 3 * (block.psize() / gang::PIECE_UNIT) + 16,
            depth: 0,
        }
    }

    /// One header more, one level deeper; `false` when that is too much.
    pub(crate) fn enter(&mut self) -> bool {
        if self.headers == 0 || self.depth >= DEPTH_MAX {
            return false;
        }
        self.headers -= 1;
        self.depth += 1;
        true
    }

    /// Back from a level.
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }
}

impl Pipeline {
    /// How long the gang header at these addresses may be: as the smallest allocation that their vdevs make. What lies
    /// there may be one of the shortest all the same.
    pub fn gang_header_size(&self, addresses: impl Iterator<Item = Dva>) -> usize {
        let tops = addresses.filter_map(|dva| self.vdevs.top(dva.vdev).ok());
        let smallest = tops.map(|top| top.layout().granule()).min();
        let smallest = usize::try_from(smallest.unwrap_or(0)).unwrap_or(gang::SIZE_MAX);
        smallest.clamp(gang::SIZE, gang::SIZE_MAX)
    }

    /// The block behind the gang header at `dva`.
    pub(super) fn read_gang(
        &self,
        leader: &BlockPointer,
        dva: &Dva,
        request: &ReadRequest,
        budget: &mut GangBudget,
    ) -> Result<Buffer, AttemptFailure> {
        if !budget.enter() {
            return Err(AttemptFailure::GangDepth);
        }
        let result = self.read_members(leader, dva, request, budget);
        budget.leave();
        result
    }

    fn read_members(
        &self,
        leader: &BlockPointer,
        dva: &Dva,
        request: &ReadRequest,
        budget: &mut GangBudget,
    ) -> Result<Buffer, AttemptFailure> {
        let header = self.read_gang_header(leader, dva, request)?;
        let whole = leader.psize();
        let members: u64 = header.used().map(|member| member.psize()).sum();
        if members != whole {
            return Err(AttemptFailure::GangSize { members, whole });
        }
        let mut data = BufferMut::scratch(whole as usize);
        let mut at = 0;
        for member in header.used() {
            let piece = self
                .any_copy(member, request, budget, &mut |stored| Ok(stored))
                .map_err(|error| AttemptFailure::GangMember(Box::new(error)))?;
            // Sizes were summed above, and a read gives exactly the pointer's physical size.
            data[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        Ok(data.freeze())
    }

    /// The header at one of the leader's addresses, verified.
    pub(crate) fn read_gang_header(
        &self,
        leader: &BlockPointer,
        dva: &Dva,
        request: &ReadRequest,
    ) -> Result<GangHeader, AttemptFailure> {
        let top = self.vdevs.top(dva.vdev)?;
        let range_of = |len| BlockRange {
            offset: dva.offset,
            len,
            birth: leader.physical_birth(),
        };
        let mut accept = |data: &[u8]| Verdict::proof(GangHeader::decode(data, leader).is_ok());
        let mut range = range_of(self.gang_header_size(leader.dvas()));
        let mut outcome = top.read(range, request.class, &mut accept);
        let shortest = range_of(gang::SIZE);
        // One of a single sector may be readable where a row of them is not, or is not kept.
        if outcome.is_err() && top.layout().whole_sectors(shortest.len as u64) < range.len as u64 {
            range = shortest;
            outcome = top.read(range, request.class, &mut accept);
        }
        let outcome = outcome.inspect_err(|error| self.none_had(&top, error, (leader, request)))?;
        self.repair(&top, &outcome, range, (leader, request));
        GangHeader::decode(&outcome.data, leader).map_err(AttemptFailure::GangHeader)
    }
}
