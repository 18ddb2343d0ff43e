//! Reading several blocks that lie one after the other, or near each other, with one operation: for reading ahead.

use base::{Bookmark, Txg};
use cache::{BlockKey, Reservation};
use format::block_pointer::BlockPointer;
use sys::Buffer;
use vdev::{BlockRange, IoClass, Verdict};

use crate::pipeline::memory_of;
use crate::prefetch::{PrefetchRequest, Stretch};
use crate::read::decode;
use crate::tunables::{GAP_BYTES, KEPT_BYTES, PREFETCH_CACHE_SHARE, RUN_BYTES};
use crate::{Pipeline, ReadRequest};

impl Pipeline {
    /// The name in the cache of a requested block.
    pub(crate) fn name_of(&self, request: &PrefetchRequest) -> Option<BlockKey> {
        self.cache_key_in(&request.block, request.bookmark.object_set)
    }

    /// Brings requested blocks into the cache; answers how many could not be read. Blocks that are there, or that
    /// someone is reading, are left alone; who wants one of the others meanwhile waits for this.
    pub(crate) fn read_ahead(&self, requests: &[PrefetchRequest]) -> u64 {
        let mut failed = 0;
        let reserved: Vec<_> = requests
            .iter()
            .filter_map(|request| Some((request, self.cache.reserve(self.name_of(request)?)?)))
            .collect();
        let mut rest = reserved.into_iter().peekable();
        while let Some(first) = rest.next() {
            let start = first.0.block;
            if let Some(data) = self.copied(first.0) {
                failed += u64::from(self.fill(first.0, first.1, Some(data)).is_none());
                continue;
            }
            let mut run = vec![first];
            while let Some(next) = rest.next_if(|(next, _)| {
                run.last().is_some_and(|(last, _)| {
                    follows(&start, &last.block, &next.block) && !self.has_copy(&next.block)
                })
            }) {
                run.push(next);
            }
            let blocks: Vec<BlockPointer> = run.iter().map(|(request, _)| request.block).collect();
            let seen = run.iter().map(|(request, _)| request.seen).min();
            let together = self.read_run(&blocks, seen.unwrap_or_default());
            for (request, reservation) in run {
                let block = &request.block;
                let piece = together
                    .as_ref()
                    .and_then(|stored| stored.get(place_in_run(&start, block)?));
                let data = piece.and_then(|piece| self.taken(request, piece));
                let filled = self.fill(request, reservation, data);
                failed += u64::from(filled.is_none());
            }
        }
        failed
    }

    /// The content of a block that was read with others, and proven, which cache devices are offered.
    fn taken(&self, request: &PrefetchRequest, stored: &[u8]) -> Option<Buffer> {
        let stored = Buffer::from_slice(stored);
        let data = decode(&request.block, stored.clone()).ok()?;
        self.offer(&request.block, &ahead(request), &stored);
        Some(data)
    }

    /// The content of a block that need not be read from the pool.
    fn known_content(&self, request: &PrefetchRequest) -> Option<Buffer> {
        let kept = self.read_kept(&request.block);
        kept.or_else(|| self.copied(request))
    }

    /// The content of a block of which a cache device has a copy.
    fn copied(&self, request: &PrefetchRequest) -> Option<Buffer> {
        // Of an encrypted one its own read finds that.
        let is_plain = !request.block.is_encrypted();
        is_plain
            .then(|| self.read_second_level(&request.block, &ahead(request), None))
            .flatten()
    }

    /// Puts the content of a requested block into its reserved place: `data`, if that is it, or what the block's own
    /// read gives.
    fn fill(
        &self,
        request: &PrefetchRequest,
        reservation: Reservation<'_, Buffer>,
        data: Option<Buffer>,
    ) -> Option<Buffer> {
        let block = &request.block;
        let data = data.or_else(|| self.read(block, &ahead(request)).ok());
        let data = data.filter(|data| data.len() as u64 == block.lsize())?;
        let stay = self.stay_of(block, request.bookmark.object_set);
        reservation.fill(data.clone(), memory_of(block, &data), stay);
        Some(data)
    }

    /// Brings the blocks of a stretch into the cache, as [`Pipeline::read_ahead`]; `see` is shown each of them.
    pub(crate) fn read_stretch(
        &self,
        stretch: &Stretch,
        see: &mut dyn FnMut(&PrefetchRequest, &Buffer),
    ) -> u64 {
        let mut failed = 0;
        let mut reserved = Vec::with_capacity(stretch.requests.len());
        for request in &stretch.requests {
            let Some(key) = self.name_of(request) else {
                continue;
            };
            match self.cache.reserve(key) {
                Some(reservation) => match self.known_content(request) {
                    Some(data) => match self.fill(request, reservation, Some(data)) {
                        Some(data) => see(request, &data),
                        None => failed += 1,
                    },
                    None => reserved.push((request, reservation)),
                },
                None => {
                    let found = self.cache.get(&key);
                    found.iter().for_each(|data| see(request, data));
                }
            }
        }
        let wanted: Vec<&PrefetchRequest> = reserved.iter().map(|(request, _)| *request).collect();
        let together = self.read_between(stretch, &wanted);
        for (request, reservation) in reserved {
            let block = &request.block;
            let piece = together.as_ref().and_then(|(start, stored)| {
                let at = usize::try_from(block.dva(0)?.offset.checked_sub(*start)?).ok()?;
                stored.get(at..at + usize::try_from(block.psize()).ok()?)
            });
            let data = piece
                .filter(|piece| self.verdict(block, piece) == Verdict::Proven)
                .and_then(|piece| self.taken(request, piece));
            match self.fill(request, reservation, data) {
                Some(data) => see(request, &data),
                None => failed += 1,
            }
        }
        failed
    }

    /// What there is between the first and the last of several blocks of a stretch, and where that begins. Nothing of
    /// it is believed, or written anywhere, because it was read here.
    fn read_between(
        &self,
        stretch: &Stretch,
        wanted: &[&PrefetchRequest],
    ) -> Option<(u64, Buffer)> {
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
            return None;
        };
        let is_alone = wanted.len() == 1;
        if is_alone && (first.block.is_gang() || first.block.is_encrypted()) {
            return None;
        }
        let (from, to) = (first.block.dva(0)?, last.block.dva(0)?);
        let hull = from.offset..to.offset.checked_add(last.block.psize())?;
        let seen = wanted.iter().map(|request| request.seen).min()?;
        let share = self.cache.limit_bytes() / PREFETCH_CACHE_SHARE.get();
        let kept_max = KEPT_BYTES.get().min(share);
        let top = self.vdevs.top(from.vdev).ok()?;
        let is_keepable = seen != Txg(0) && hull.end <= top.asize();
        let around = is_keepable
            .then(|| self.kept.around(from.vdev, hull.clone(), seen, kept_max))
            .flatten();
        if is_alone && around.is_none() {
            return None;
        }
        // A disk that goes on where it was does not seek; what it read there need not be read again.
        let gap = from.offset.saturating_sub(stretch.start);
        let read = around.unwrap_or_else(|| {
            let start = if gap <= GAP_BYTES.get() {
                stretch.start.min(hull.start)
            } else {
                hull.start
            };
            let kept = &self.kept;
            let rest = kept.missing(from.vdev, start..hull.end, &hull, seen);
            if rest.start == hull.start {
                start..hull.end
            } else {
                rest
            }
        });
        let (start, end) = (read.start, read.end.min(top.asize().max(hull.end)));
        let range = BlockRange {
            offset: start,
            len: usize::try_from(end.checked_sub(start)?).ok()?,
            birth: first.block.physical_birth(),
        };
        let data = top.read_unjudged(range, IoClass::AsyncRead).ok()?;
        self.counters.blocks_read.add(wanted.len() as u64);
        self.kept.keep((from.vdev, start), &data, seen, kept_max);
        Some((start, data))
    }

    /// The stored bytes of neighbouring blocks, each verified; nothing for a single one, or when any is bad.
    fn read_run(&self, blocks: &[BlockPointer], seen: Txg) -> Option<Buffer> {
        let ([first, _, ..], Some(last)) = (blocks, blocks.last()) else {
            return None;
        };
        let start = first.dva(0)?;
        let len = place_in_run(first, last)?.end;
        // Every piece is verified before a side of a mirror is believed, for what one side gives may be
        // written over what another could not.
        let mut accept = |data: &[u8]| {
            let pieces = blocks.iter().map(|block| {
                let piece = place_in_run(first, block).and_then(|place| data.get(place));
                piece.map_or(Verdict::Wrong, |piece| self.verdict(block, piece))
            });
            pieces.fold(Verdict::Proven, Verdict::and)
        };
        let range = BlockRange {
            offset: start.offset,
            len,
            birth: first.physical_birth(),
        };
        let top = self.vdevs.top(start.vdev).ok()?;
        if !top.layout().is_copies() {
            return None;
        }
        // What is bad among them in all places is found when they are read one by one.
        let outcome = top.read(range, IoClass::AsyncRead, &mut accept).ok()?;
        let request = ReadRequest::new(Bookmark::default())
            .seen(seen)
            .unpromised();
        self.repair(&top, &outcome, range, (first, &request));
        self.counters.blocks_read.add(blocks.len() as u64);
        Some(outcome.data)
    }
}

/// How a block is read ahead on its own.
const fn ahead(request: &PrefetchRequest) -> ReadRequest {
    let mut read = ReadRequest::new(request.bookmark)
        .in_class(IoClass::AsyncRead)
        .seen(request.seen)
        .unpromised();
    read.cached = false;
    read
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
        && theirs.offset - first.offset + next.psize() <= RUN_BYTES.get()
}

/// Where the bytes of `block` lie in a run that begins with `first`.
fn place_in_run(first: &BlockPointer, block: &BlockPointer) -> Option<std::ops::Range<usize>> {
    let offset = block.dva(0)?.offset.checked_sub(first.dva(0)?.offset)?;
    let start = usize::try_from(offset).ok()?;
    Some(start..start + usize::try_from(block.psize()).ok()?)
}
