//! Gang blocks: a header of up to three pointers whose members together are the block.

use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};
use sys::{Buffer, BufferMut};
use vdev::BlockRange;

use crate::{AttemptFailure, Pipeline, ReadRequest};

/// Each level holds at most a third of the one above: 16 MiB are 512 bytes after nine of them.
/// Twice that many is damage.
const DEPTH_MAX: u32 = 20;

impl Pipeline {
    /// The block behind the gang header at `dva`.
    pub(super) fn read_gang(
        &self,
        leader: &BlockPointer,
        dva: &Dva,
        request: &ReadRequest,
        depth: u32,
    ) -> Result<Buffer, AttemptFailure> {
        if depth >= DEPTH_MAX {
            return Err(AttemptFailure::GangDepth);
        }
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
                .any_copy(member, request, depth + 1, &mut |stored| Ok(stored))
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
        let range = BlockRange {
            offset: dva.offset,
            len: gang::SIZE,
            birth: leader.physical_birth(),
        };
        let mut accept = |data: &[u8]| GangHeader::decode(data, leader).is_ok();
        let outcome = top.read(range, request.class, &mut accept)?;
        GangHeader::decode(&outcome.data, leader).map_err(AttemptFailure::GangHeader)
    }
}
