//! Blocks of which no copy is right, written again from what somebody else has of them: a send stream.
//!
//! Nothing is written that the block's own checksum does not prove. The caller sees to it that the block is not freed
//! and its space not used again meanwhile.

use base::Bookmark;
use codec::{Compression, ZstdLevel};
use format::block_pointer::{BlockPointer, Protection};
use sys::{Buffer, BufferMut};
use vdev::{BlockRange, IoClass, Verdict};

use crate::read::{GangBudget, check};
use crate::scratch::with_scratch;
use crate::{Key, Pipeline, ReadError, ReadRequest};

/// What is offered for a block.
#[derive(Clone, Copy, Debug)]
pub enum Offered<'a> {
    /// Its bytes as they are stored.
    Stored(&'a [u8]),
    /// What it holds, in the byte order that it is stored in.
    Content(&'a [u8]),
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healing {
    /// Some copy is right.
    Sound,
    /// No copy was; now they are.
    Healed,
    /// What was offered is not what the block had, or cannot be brought into the form that it was stored in.
    OtherBytes,
    /// The bytes are at hand, but the devices did not take them.
    Refused,
}

impl Pipeline {
    /// Writes a block again of which no copy is right.
    ///
    /// # Errors
    /// The pointer cannot be followed.
    pub fn heal(
        &self,
        block: &BlockPointer,
        bookmark: Bookmark,
        offered: Offered<'_>,
    ) -> Result<Healing, ReadError> {
        if block.is_hole() || block.is_embedded() {
            return Ok(Healing::Sound);
        }
        let request = ReadRequest::new(bookmark)
            .in_class(IoClass::AsyncRead)
            .uncached()
            .speculative();
        check(block, &request)?;
        if self.read_stored(block, &request).is_ok() {
            return Ok(Healing::Sound);
        }
        let Some(stored) = self.reproduced(block, bookmark, offered) else {
            return Ok(Healing::OtherBytes);
        };
        self.write_again(block, &stored, &request, &mut GangBudget::of(block));
        if self.read_stored(block, &request.unpromised()).is_err() {
            return Ok(Healing::Refused);
        }
        self.counters.copies_healed.increment();
        Ok(Healing::Healed)
    }

    /// The bytes that the block had, if what is offered leads to them.
    fn reproduced(
        &self,
        block: &BlockPointer,
        bookmark: Bookmark,
        offered: Offered<'_>,
    ) -> Option<Buffer> {
        let proven = |stored: &Buffer| self.verdict(block, stored) == Verdict::Proven;
        let content = match offered {
            Offered::Stored(stored) => {
                let stored = Buffer::from_slice(stored);
                let is_sized = stored.len() as u64 == block.psize();
                return Some(stored).filter(|stored| is_sized && proven(stored));
            }
            Offered::Content(content) if content.len() as u64 == block.lsize() => content,
            Offered::Content(_) => return None,
        };
        let kind = block.compression().ok()?;
        let packed = |kind| self.stored_form(block, bookmark, pack(block, kind, content)?);
        match kind {
            Compression::Zstd(_) => {
                zstd_levels().find_map(|level| packed(Compression::Zstd(level)).filter(proven))
            }
            Compression::Off
            | Compression::Empty
            | Compression::Lzjb
            | Compression::Gzip(_)
            | Compression::Zle
            | Compression::Lz4 => packed(kind).filter(proven),
        }
    }

    /// Bytes as they are stored: those of an encrypted block are encrypted, as they were.
    fn stored_form(
        &self,
        block: &BlockPointer,
        bookmark: Bookmark,
        mut packed: BufferMut,
    ) -> Option<Buffer> {
        if block.protection() == Protection::Encrypted {
            let Key::Loaded(keys) = self.key(bookmark.object_set) else {
                return None;
            };
            keys.seal_again(block, &mut packed).ok()?;
        }
        Some(packed.freeze())
    }

    /// Writes proven bytes to all places of a block. What cannot be written stays wrong, and is found to be.
    fn write_again(
        &self,
        block: &BlockPointer,
        stored: &Buffer,
        request: &ReadRequest,
        budget: &mut GangBudget,
    ) {
        if !block.is_gang() {
            for dva in block.dvas() {
                let range = BlockRange {
                    offset: dva.offset,
                    len: stored.len(),
                    birth: block.physical_birth(),
                };
                if let Ok(top) = self.vdevs.top(dva.vdev) {
                    top.heal(range, stored);
                }
            }
            return;
        }
        if !budget.enter() {
            return;
        }
        if let Ok(header) = self.gang_header(block, request) {
            let mut at = 0;
            for member in header.used() {
                let end = at + member.psize() as usize;
                let Some(piece) = (end <= stored.len()).then(|| stored.slice(at..end)) else {
                    break;
                };
                at = end;
                if member.is_gang() || self.verdict(member, &piece) == Verdict::Proven {
                    self.write_again(member, &piece, request, budget);
                }
            }
        }
        budget.leave();
    }
}

/// Contents as a block of that pointer has them: compressed, with zeros behind.
fn pack(block: &BlockPointer, kind: Compression, content: &[u8]) -> Option<BufferMut> {
    let psize = block.psize() as usize;
    if kind.is_off() {
        return (psize == content.len()).then(|| BufferMut::from_slice(content));
    }
    // As much room as who wrote it had: an encoder that has less may choose otherwise.
    let room = (content.len() - content.len() / 8).max(psize);
    with_scratch(room, |scratch| {
        let length = codec::compress(kind, content, scratch)?;
        let compressed = scratch.get(..length).filter(|_| length <= psize)?;
        let mut packed = BufferMut::scratch(psize);
        let (front, behind) = packed.split_at_mut(length);
        front.copy_from_slice(compressed);
        behind.fill(0);
        Some(packed)
    })
}

/// All levels, the usual ones first: a pointer does not say which it was.
fn zstd_levels() -> impl Iterator<Item = ZstdLevel> {
    let all = (1..=u8::MAX).filter_map(ZstdLevel::from_code);
    std::iter::once(ZstdLevel::DEFAULT).chain(all.filter(|level| *level != ZstdLevel::DEFAULT))
}

#[cfg(test)]
mod tests;
