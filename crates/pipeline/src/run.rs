//! Reading several blocks that lie one after the other with one operation: for reading ahead.

use format::block_pointer::BlockPointer;
use sys::Buffer;
use vdev::{BlockRange, IoClass};

use crate::pipeline::{cache_key, stay_of};
use crate::prefetch::Wish;
use crate::read::decode;
use crate::{Pipeline, ReadRequest};

/// The most bytes of one operation.
const RUN_BYTES: u64 = 1 << 20;

impl Pipeline {
    /// Brings wished blocks into the cache; answers how many could not be read. Blocks that are there, or that
    /// someone is reading, are left alone; who wants one of the others meanwhile waits for this.
    pub(crate) fn read_ahead(&self, wishes: &[Wish]) -> u64 {
        let mut failed = 0;
        let reserved: Vec<_> = wishes
            .iter()
            .filter_map(|wish| Some((wish, self.cache.reserve(cache_key(&wish.block)?)?)))
            .collect();
        let mut rest = reserved.into_iter().peekable();
        while let Some(first) = rest.next() {
            let start = first.0.block;
            let mut run = vec![first];
            while let Some(next) = rest.next_if(|(next, _)| {
                run.last()
                    .is_some_and(|(last, _)| follows(&start, &last.block, &next.block))
            }) {
                run.push(next);
            }
            let blocks: Vec<BlockPointer> = run.iter().map(|(wish, _)| wish.block).collect();
            let together = self.read_run(&blocks);
            for (wish, reservation) in run {
                let block = &wish.block;
                let piece = together
                    .as_ref()
                    .and_then(|stored| stored.get(place_in_run(&start, block)?));
                let data = piece.and_then(|piece| decode(block, Buffer::from_slice(piece)).ok());
                let data = data.or_else(|| {
                    let mut request = ReadRequest::new(wish.bookmark)
                        .in_class(IoClass::AsyncRead)
                        .speculative();
                    request.cached = false;
                    self.read(block, &request).ok()
                });
                if let Some(data) = data.filter(|data| data.len() as u64 == block.lsize()) {
                    let bytes = data.memory_size();
                    reservation.fill(data, bytes, stay_of(block));
                } else {
                    failed += 1;
                }
            }
        }
        failed
    }

    /// The stored bytes of neighbouring blocks, each verified; nothing for a single one, or when any is bad.
    fn read_run(&self, blocks: &[BlockPointer]) -> Option<Buffer> {
        let ([first, _, ..], Some(last)) = (blocks, blocks.last()) else {
            return None;
        };
        let start = first.dva(0)?;
        let len = place_in_run(first, last)?.end;
        // Every piece is verified before a side of a mirror is believed, for what one side gives may be
        // written over what another could not.
        let mut accept = |data: &[u8]| {
            blocks.iter().all(|block| {
                place_in_run(first, block)
                    .and_then(|place| data.get(place))
                    .is_some_and(|piece| self.verify(block, piece))
            })
        };
        let range = BlockRange {
            offset: start.offset,
            len,
            birth: first.physical_birth(),
        };
        let top = self.vdevs.top(start.vdev).ok()?;
        // What is bad among them is found, and counted, when they are read one by one.
        let outcome = top.try_read(range, IoClass::AsyncRead, &mut accept).ok()?;
        self.counters.blocks_read.add(blocks.len() as u64);
        Some(outcome.data)
    }
}

/// Whether `next` begins where `last` ends, on the same device, of the same birth, and is not too far from `start`.
fn follows(start: &BlockPointer, last: &BlockPointer, next: &BlockPointer) -> bool {
    let (Some(first), Some(mine), Some(theirs)) = (start.dva(0), last.dva(0), next.dva(0)) else {
        return false;
    };
    let plain = |block: &BlockPointer| !block.is_gang() && !block.is_encrypted();
    mine.vdev == theirs.vdev
        && mine.offset.checked_add(mine.asize) == Some(theirs.offset)
        && last.physical_birth() == next.physical_birth()
        && plain(last)
        && plain(next)
        && theirs.offset - first.offset + next.psize() <= RUN_BYTES
}

/// Where the bytes of `block` lie in a run that begins with `first`.
fn place_in_run(first: &BlockPointer, block: &BlockPointer) -> Option<std::ops::Range<usize>> {
    let offset = block.dva(0)?.offset.checked_sub(first.dva(0)?.offset)?;
    let start = usize::try_from(offset).ok()?;
    Some(start..start + usize::try_from(block.psize()).ok()?)
}
