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
        let size = match self.long_gang_headers() {
            true => self.gang_header_size(headers.iter()),
            false => gang::SIZE,
        };
        let members = self.write_members(request, stored, size, (group, taken))?;
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

    /// The members behind a header of `size` bytes: of one of [`gang::SIZE`] all alike; of a longer one, which names
    /// more than will be needed, the longest that there is room for. A member is a gang again where there is no room
    /// for its share of what is left.
    fn write_members(
        &self,
        request: &WriteRequest<'_>,
        stored: &Buffer,
        size: usize,
        (group, taken): (&Arc<WriteGroup>, &mut Vec<Dva>),
    ) -> Result<GangHeader, WriteError> {
        let mut header = GangHeader::of_size(size);
        let is_long = size > gang::SIZE;
        // As long as the smallest allocation: what is less is not worth a member.
        let unit = if is_long {
            size as u64
        } else {
            gang::PIECE_UNIT
        };
        let whole = stored.len() as u64;
        if whole <= unit {
            let source = AllocationError::NoSpace {
                psize: whole,
                copies: request.policy.copies.into(),
            };
            let bookmark = request.bookmark;
            return Err(WriteError::Allocation { bookmark, source });
        }
        let half = |bytes: u64| (bytes / 2).next_multiple_of(unit);
        let (mut at, mut longest) = (0, if is_long { half(whole) } else { 0 });
        let slots = header.members.len();
        for (slot, member) in header.members.iter_mut().enumerate() {
            let remaining = whole - at;
            if remaining == 0 {
                break;
            }
            let least = gang::least_piece(remaining, slots - slot, unit);
            (*member, at) = loop {
                let length = longest.max(least).min(remaining);
                let end = at + length;
                let piece = stored.slice(at as usize..end as usize);
                let may_split = length <= least;
                let written = self.write_member(request, &piece, may_split, (group, taken))?;
                if let Some(written) = written {
                    break (written, end);
                }
                longest = half(length);
            };
        }
        Ok(header)
    }

    /// A piece. None: there is no room for it in one, and it may not be split.
    fn write_member(
        &self,
        request: &WriteRequest<'_>,
        piece: &Buffer,
        may_split: bool,
        (group, taken): (&Arc<WriteGroup>, &mut Vec<Dva>),
    ) -> Result<Option<BlockPointer>, WriteError> {
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
            Err(AllocationError::NoSpace { .. }) if !may_split => return Ok(None),
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
        Ok(Some(member))
    }
}

#[cfg(test)]
mod tests;
