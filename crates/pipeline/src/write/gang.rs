//! Gang blocks: when no free range is long enough, a block goes into pieces behind a header.

use std::sync::Arc;

use base::{ByteOrder, ObjectSetId};
use codec::Compression;
use format::block_pointer::{BlockPointer, Dva};
use format::gang::{self, GangHeader};
use format::object_type::ObjectType;
use sys::Buffer;
use vdev::WriteGroup;

use crate::{AllocationError, Pipeline, WriteError, WriteRequest};

impl Pipeline {
    /// Writes other bytes of the same length to the pieces of a gang, and its headers anew.
    pub(super) fn rewrite_gang(
        &self,
        request: &WriteRequest<'_>,
        block: &BlockPointer,
        mut header: GangHeader,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        let mut at = 0;
        for member in header.members.iter_mut().filter(|one| !one.is_hole()) {
            let piece = stored.slice(at..at + member.psize() as usize);
            at += piece.len();
            let kind = request.policy.checksum;
            member.set_checksum(kind, self.checksum(kind, &piece, ByteOrder::NATIVE));
            if let Some(below) = self
                .gangs
                .get(member, request.txg)
                .filter(|_| member.is_gang())
            {
                self.rewrite_gang(request, member, below, &piece, group)?;
            } else {
                self.queue_copies(request, member.dvas(), &piece, group)?;
            }
        }
        let encoded = Buffer::from_slice(&header.encode(block));
        self.queue_copies(request, block.dvas(), &encoded, group)?;
        self.gangs.put(block, header, request.txg);
        Ok(())
    }

    /// Gives `block`, whose bytes are `stored`, addresses of gang headers, and queues headers and
    /// pieces. A gang that does not come about frees all that it has got.
    pub(super) fn write_in_pieces(
        &self,
        request: &WriteRequest<'_>,
        block: &mut BlockPointer,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        let mut taken = Vec::new();
        let written = self.write_gang(request, block, stored, (group, &mut taken));
        if written.is_err() {
            // Also outside of a sync, which goes on: a log writes blocks of files.
            let txg = request.txg;
            let release = |dva| self.allocator.free(dva, txg, txg);
            taken.iter().for_each(release);
        }
        written
    }

    /// The same; notes what it takes.
    fn write_gang(
        &self,
        request: &WriteRequest<'_>,
        block: &mut BlockPointer,
        stored: &Buffer,
        (group, taken): (&Arc<WriteGroup>, &mut Vec<Dva>),
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
        taken.extend(headers.iter());
        let members = self.write_members(request, stored, (group, taken))?;
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
        if request.bookmark.object_set == ObjectSetId::MOS {
            self.gangs.put(block, members, request.txg);
        }
        self.counters.gangs_written.increment();
        Ok(())
    }

    fn write_members(
        &self,
        request: &WriteRequest<'_>,
        stored: &Buffer,
        (group, taken): (&Arc<WriteGroup>, &mut Vec<Dva>),
    ) -> Result<GangHeader, WriteError> {
        let mut header = GangHeader::default();
        let mut at = 0;
        for (slot, member) in header.members.iter_mut().enumerate() {
            let piece_bytes = gang::piece_size((stored.len() - at) as u64, slot) as usize;
            if piece_bytes == 0 {
                break;
            }
            let piece = stored.slice(at..at + piece_bytes);
            *member = self.write_member(request, &piece, (group, taken))?;
            at += piece_bytes;
        }
        Ok(header)
    }

    fn write_member(
        &self,
        request: &WriteRequest<'_>,
        piece: &Buffer,
        (group, taken): (&Arc<WriteGroup>, &mut Vec<Dva>),
    ) -> Result<BlockPointer, WriteError> {
        let size = piece.len() as u64;
        let kind = request.policy.checksum;
        let mut member = BlockPointer::for_block(ObjectType::NONE, 0, size, size);
        member.set_compression(Compression::Off);
        member.set_birth(request.txg, request.txg);
        member.set_checksum(kind, self.checksum(kind, piece, ByteOrder::NATIVE));
        match self.allocate(request, size, request.policy.copies) {
            Ok(allocation) => {
                taken.extend(allocation.iter());
                for (index, dva) in allocation.iter().enumerate() {
                    member.set_dva(index, Some(dva));
                }
                self.queue_copies(request, allocation.iter(), piece, group)?;
            }
            Err(AllocationError::NoSpace { .. }) => {
                self.write_gang(request, &mut member, piece, (group, taken))?;
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
}
