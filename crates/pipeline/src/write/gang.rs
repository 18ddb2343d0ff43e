//! Gang blocks: when no free range is long enough, a block goes into pieces behind a header.

use std::sync::Arc;

use base::ByteOrder;
use codec::Compression;
use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};
use format::object_type::ObjectType;
use sys::Buffer;
use vdev::WriteGroup;

use crate::{Allocation, AllocationError, Pipeline, WriteError, WriteRequest};

impl Pipeline {
    /// Gives `block`, whose bytes are `stored`, addresses of gang headers, and queues headers and
    /// pieces.
    pub(super) fn write_gang(
        &self,
        request: &WriteRequest<'_>,
        block: &mut BlockPointer,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        let failed = |source| WriteError::Allocation {
            bookmark: request.bookmark,
            source,
        };
        let policy = &request.policy;
        let copies = policy.copies.clamp(1, 3);
        if stored.len() as u64 <= gang::PIECE_UNIT {
            // It cannot be cut any smaller: the pool is full.
            let psize = stored.len() as u64;
            return Err(failed(AllocationError::NoSpace {
                psize,
                copies: copies.into(),
            }));
        }
        let headers = self
            .allocate(
                request,
                gang::SIZE as u64,
                policy.gang_copies.clamp(copies, 3),
            )
            .map_err(failed)?;
        let mut members = GangHeader::default();
        if let Err(error) = self.write_members(request, stored, &mut members, group) {
            self.give_back(request, &headers, &members);
            return Err(error);
        }
        for (index, header) in headers.iter().enumerate() {
            // A leader's address accounts for the header and for its share of the members.
            let below: u64 = members
                .used()
                .filter_map(|member| member.dva(index))
                .map(|dva| dva.asize)
                .sum();
            block.set_dva(
                index,
                Some(Dva {
                    asize: header.asize + below,
                    gang: true,
                    ..header
                }),
            );
        }
        let header = Buffer::from_slice(&members.encode(block));
        self.queue_copies(request, headers.iter(), &header, group)?;
        self.counters.gangs_written.increment();
        Ok(())
    }

    fn write_members(
        &self,
        request: &WriteRequest<'_>,
        stored: &Buffer,
        header: &mut GangHeader,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        let mut at = 0;
        for (slot, member) in header.members.iter_mut().enumerate() {
            let piece_bytes = gang::piece_size((stored.len() - at) as u64, slot) as usize;
            if piece_bytes == 0 {
                break;
            }
            let piece = stored.slice(at..at + piece_bytes);
            *member = self.write_member(request, &piece, group)?;
            at += piece_bytes;
        }
        Ok(())
    }

    fn write_member(
        &self,
        request: &WriteRequest<'_>,
        piece: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<BlockPointer, WriteError> {
        let size = piece.len() as u64;
        let kind = request.policy.checksum;
        let mut member = BlockPointer::for_block(ObjectType::NONE, 0, size, size);
        member.set_compression(Compression::Off);
        member.set_birth(request.txg, request.txg);
        member.set_checksum(kind, self.checksum(kind, piece, ByteOrder::NATIVE));
        match self.allocate(request, size, request.policy.copies) {
            Ok(allocation) => {
                for (index, dva) in allocation.iter().enumerate() {
                    member.set_dva(index, Some(dva));
                }
                self.queue_copies(request, allocation.iter(), piece, group)?;
            }
            Err(AllocationError::NoSpace { .. }) => {
                self.write_gang(request, &mut member, piece, group)?;
            }
            Err(source) => {
                return Err(WriteError::Allocation {
                    bookmark: request.bookmark,
                    source,
                });
            }
        }
        Ok(member)
    }

    /// Frees what a gang that did not come about has got so far.
    fn give_back(&self, request: &WriteRequest<'_>, headers: &Allocation, members: &GangHeader) {
        for header in headers.iter() {
            self.allocator.free(&header, request.txg);
        }
        for member in members.used() {
            // Members that are gangs themselves leak: their headers are not on disk yet, and this
            // sync fails for want of space anyhow.
            if !member.is_gang() {
                member
                    .dvas()
                    .for_each(|dva| self.allocator.free(&dva, request.txg));
            }
        }
    }
}
