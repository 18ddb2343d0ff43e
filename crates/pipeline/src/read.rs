//! Reading: holes, embedded blocks, every copy of the others, verified, decompressed, in host order.

mod gang;
mod kept;
mod sealed;
mod second_level;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::ByteOrder;
use codec::{Checksum, ChecksumValue};
use crypto::DatasetKeys;
use format::block_pointer::{
    BLOCK_SIZE_MAX, BlockPointer, Dva, EMBEDDED_PAYLOAD_MAX, EmbeddedKind,
};
use format::embedded_checksum;
use format::gang::GangHeader;
use format::object_type::ObjectType;
use format::swap;
use sys::{Buffer, BufferMut};
use vdev::{BlockRange, IoClass, Verdict, WriteGroup};

pub(crate) use gang::GangBudget;
pub(crate) use sealed::is_ciphertext;

use sealed::decode_sealed;

use crate::pipeline::{memory_of, sealed_cache_key};
use crate::{Attempt, AttemptFailure, Key, Mismatch, Pipeline, ReadError, ReadRequest, Unreadable};

impl Pipeline {
    /// The block's content: logical size, host byte order.
    ///
    /// # Errors
    /// When no copy gives bytes that pass the checksum, saying where each failed; when the block
    /// is encrypted, redacted, or its pointer makes no sense.
    pub fn read(&self, block: &BlockPointer, request: &ReadRequest) -> Result<Buffer, ReadError> {
        let result = self.read_unlogged(block, request);
        if let Err(error) = &result {
            self.note(error, block, request);
        }
        result
    }

    /// The block's bytes as they are stored (physical size): verified, not decompressed, not
    /// swapped. Works for encrypted blocks too.
    ///
    /// # Errors
    /// As for [`Pipeline::read`]. Holes and embedded blocks have no stored bytes and give none.
    pub fn read_stored(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
    ) -> Result<Buffer, ReadError> {
        let result = check(block, request).and_then(|()| {
            if block.is_hole() || block.is_embedded() {
                return Ok(Buffer::zeroed(0));
            }
            self.any_copy(block, request, &mut GangBudget::of(block), &mut |stored| {
                Ok(stored)
            })
        });
        if let Err(error) = &result {
            self.note(error, block, request);
        }
        result
    }

    /// Whether stored bytes are the ones that the pointer describes. Without a checksum they pass.
    #[must_use]
    pub fn verify(&self, block: &BlockPointer, stored: &[u8]) -> bool {
        self.verdict(block, stored) != Verdict::Wrong
    }

    /// What the pointer says of stored bytes.
    #[must_use]
    pub fn verdict(&self, block: &BlockPointer, stored: &[u8]) -> Verdict {
        block
            .checksum()
            .map_or(Verdict::Wrong, |kind| self.judge(block, kind, stored).0)
    }

    /// The gang header that the pointer leads to, from any of its copies.
    ///
    /// # Errors
    /// When no copy is that header.
    pub fn gang_header(
        &self,
        leader: &BlockPointer,
        request: &ReadRequest,
    ) -> Result<GangHeader, ReadError> {
        let mut attempts = Vec::new();
        for dva in leader.dvas() {
            match self.read_gang_header(leader, &dva, request) {
                Ok(header) => return Ok(header),
                Err(failure) => attempts.push(Attempt { dva, failure }),
            }
        }
        let unreadable = Unreadable {
            bookmark: request.bookmark,
            block: *leader,
            attempts,
        };
        Err(ReadError::Unreadable(Box::new(unreadable)))
    }

    fn note(&self, error: &ReadError, block: &BlockPointer, request: &ReadRequest) {
        if request.speculative {
            return;
        }
        if matches!(error, ReadError::Unreadable(_)) {
            // What was freed or rewritten meanwhile is read again by who finds that it was.
            if !error.is_of_devices() && !self.is_settled(block, request) {
                return;
            }
            self.counters.unreadable.increment();
        }
        // What is on devices that are away is not lost: the list of damaged files would say so for good.
        if error.is_of_absence() {
            return;
        }
        if let Some(log) = &self.error_log {
            log.record(error);
        }
    }

    fn read_unlogged(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
    ) -> Result<Buffer, ReadError> {
        if block.is_hole() {
            let size = block.lsize().min(BLOCK_SIZE_MAX);
            return Ok(Buffer::zeroed(size as usize));
        }
        check(block, request)?;
        let keys = self.keys_for(block, request)?;
        if block.is_embedded() {
            return read_embedded(block, request);
        }
        let load = || {
            if let Some(data) = self.read_second_level(block, request, keys.as_deref()) {
                return Ok(data);
            }
            self.any_copy(block, request, &mut GangBudget::of(block), &mut |stored| {
                let data = decode_sealed(block, stored.clone(), keys.as_deref())?;
                self.offer(block, request, &stored);
                Ok(data)
            })
        };
        let key = sealed_cache_key(block, keys.as_deref());
        let Some(key) = key.filter(|_| request.cached) else {
            return load();
        };
        if !request.speculative {
            self.prefetched.asked(key.hash());
        }
        let stay = || self.stay_of(block, request.bookmark.object_set);
        let found = self.cache.get_or_load(key, stay, || {
            let data = self.read_kept(block).map_or_else(load, Ok);
            data.map(|data| {
                let bytes = memory_of(block, &data);
                (data, bytes)
            })
        })?;
        // Two pointers to one address and birth with different sizes: one of them is damaged.
        if found.len() as u64 == block.lsize() {
            Ok(found)
        } else {
            load()
        }
    }

    /// The keys that open a block, or prove it. None: it has no need of keys, or can be read without.
    fn keys_for(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
    ) -> Result<Option<Arc<DatasetKeys>>, ReadError> {
        let bookmark = request.bookmark;
        match self.key(bookmark.object_set) {
            // Whoever could make us believe plain blocks could put anything there.
            Key::Loaded(_) if !block.is_encrypted() => Err(ReadError::NotEncrypted { bookmark }),
            Key::Loaded(keys) => Ok(Some(keys)),
            // Pointers in blocks of dnodes are plain. What nobody opened is not cached.
            Key::None | Key::Locked
                if is_ciphertext(block)
                    && !(request.structure && block.object_type() == ObjectType::DNODE) =>
            {
                Err(ReadError::Encrypted { bookmark })
            }
            Key::None | Key::Locked => Ok(None),
        }
    }

    /// Tries the copies in order until one passes the checksum and `decode`.
    fn any_copy(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
        budget: &mut GangBudget,
        decode: &mut dyn FnMut(Buffer) -> Result<Buffer, AttemptFailure>,
    ) -> Result<Buffer, ReadError> {
        let mut attempts = Vec::new();
        for dva in block.dvas() {
            let stored = if dva.gang {
                self.read_gang(block, &dva, request, budget)
            } else {
                self.read_copy(block, &dva, request)
            };
            let decoded = stored.and_then(|stored| {
                let data = decode(stored.clone())?;
                Ok((stored, data))
            });
            match decoded {
                Ok((stored, data)) => {
                    self.counters.blocks_read.increment();
                    self.blame_copies(block, &attempts, request);
                    self.heal_copies(block, &stored, &attempts, request);
                    return Ok(data);
                }
                Err(failure) => attempts.push(Attempt { dva, failure }),
            }
        }
        let unreadable = Unreadable {
            bookmark: request.bookmark,
            block: *block,
            attempts,
        };
        Err(ReadError::Unreadable(Box::new(unreadable)))
    }

    /// One copy that lies in one piece.
    fn read_copy(
        &self,
        block: &BlockPointer,
        dva: &Dva,
        request: &ReadRequest,
    ) -> Result<Buffer, AttemptFailure> {
        let class = request.class;
        let kind = block.checksum().map_err(AttemptFailure::Pointer)?;
        // A chain of log blocks ends where the next was not written.
        let request = &if kind.is_embedded() {
            request.unpromised()
        } else {
            *request
        };
        let expected = block.checksum_value();
        let mut actual = None;
        let mut accept = |data: &[u8]| {
            let (verdict, sum) = self.judge(block, kind, data);
            actual = Some(sum);
            verdict
        };
        let top = self.vdevs.top(dva.vdev)?;
        let range = BlockRange {
            offset: dva.offset,
            len: block.psize() as usize,
            birth: block.physical_birth(),
        };
        match top.read(range, class, &mut accept) {
            Ok(outcome) => {
                self.repair(&top, &outcome, range, (block, request));
                Ok(outcome.data)
            }
            Err(error) => {
                self.none_had(&top, &error, (block, request));
                Err(match actual {
                    Some(actual) if error.is_checksum() => {
                        AttemptFailure::Checksum(Box::new(Mismatch {
                            kind,
                            expected,
                            actual,
                            source: error,
                        }))
                    }
                    _ => AttemptFailure::Device(error),
                })
            }
        }
    }

    /// Whether stored bytes pass the pointer's checksum, and what it is.
    fn judge(&self, block: &BlockPointer, kind: Checksum, data: &[u8]) -> (Verdict, ChecksumValue) {
        if kind.is_embedded() {
            // A log block: the pointer holds its identity, which is the verifier.
            let identity = block.checksum_value();
            let verified = if block.is_encrypted() {
                embedded_checksum::verify_encrypted(kind, data, identity.0)
            } else {
                embedded_checksum::verify(kind, data, identity.0)
            };
            return (Verdict::proof(verified.is_ok()), identity);
        }
        let sum = self.checksum(kind, data, block.byte_order());
        if kind.is_off() {
            return (Verdict::Unproven, sum);
        }
        (Verdict::proof(matches(block, kind, sum)), sum)
    }

    /// Writes a good copy over the bad ones that were met before it, if that is allowed. Their failure to take it is
    /// the devices' to count: the read has succeeded.
    fn heal_copies(
        &self,
        block: &BlockPointer,
        stored: &Buffer,
        attempts: &[Attempt],
        request: &ReadRequest,
    ) {
        if attempts.is_empty() || block.is_gang() {
            return;
        }
        let Some(permit) = self.permit(block, request) else {
            return;
        };
        let group = WriteGroup::new(block.physical_birth());
        for attempt in attempts {
            let Ok(top) = self.vdevs.top(attempt.dva.vdev) else {
                continue;
            };
            top.write(attempt.dva.offset, stored.clone(), IoClass::Scan, &group);
            self.counters.copies_healed.increment();
        }
        let _counted_by_the_vdev = group.wait();
        drop(permit);
    }
}

/// Whether the pointer can be followed at all.
pub(crate) fn check(block: &BlockPointer, request: &ReadRequest) -> Result<(), ReadError> {
    let bookmark = request.bookmark;
    if block.is_redacted() {
        return Err(ReadError::Redacted { bookmark });
    }
    // Births are the pool's to judge: a block from the future is found by its checksum.
    block
        .check(base::Txg(u64::MAX))
        .map_err(|source| ReadError::BadPointer { bookmark, source })
}

/// Whether a computed sum is the one in the pointer. Pointers that carry a MAC have only the first
/// two words for the sum; weak sums are folded into them.
fn matches(block: &BlockPointer, kind: Checksum, sum: ChecksumValue) -> bool {
    let stored = block.checksum_value();
    if !block.is_encrypted() || block.object_type() == ObjectType::OBJECT_SET {
        return sum == stored;
    }
    let [a, b, c, d] = sum.0;
    let folded = if kind.is_dedup_safe() {
        [a, b]
    } else {
        [a ^ c, b ^ d]
    };
    folded == stored.0[..2]
}

/// Stored bytes to content: decompressed and in host order.
pub(crate) fn decode(block: &BlockPointer, stored: Buffer) -> Result<Buffer, AttemptFailure> {
    let kind = block.compression().map_err(AttemptFailure::Pointer)?;
    let native = block.byte_order() == ByteOrder::NATIVE;
    if kind.is_off() && native {
        return Ok(stored);
    }
    let mut data = if kind.is_off() {
        stored
            .try_into_mut()
            .unwrap_or_else(|shared| BufferMut::from_slice(&shared))
    } else {
        let mut data = BufferMut::scratch(block.lsize() as usize);
        codec::decompress(kind, &stored, &mut data)?;
        data
    };
    if !native {
        swap::block(block.object_type(), block.level(), &mut data);
    }
    Ok(data.freeze())
}

fn read_embedded(block: &BlockPointer, request: &ReadRequest) -> Result<Buffer, ReadError> {
    let bookmark = request.bookmark;
    if block.embedded_kind() != Some(EmbeddedKind::Data) {
        let value = block.words[6];
        let source = format::FormatError::Invalid {
            what: "block pointer",
            field: "embedded type",
            value,
        };
        return Err(ReadError::BadPointer { bookmark, source });
    }
    let mut payload = [0_u8; EMBEDDED_PAYLOAD_MAX];
    let length = block.embedded_payload(&mut payload);
    let kind = block
        .compression()
        .map_err(|source| ReadError::BadPointer { bookmark, source })?;
    let mut data = BufferMut::scratch(block.lsize() as usize);
    let (size, source) = (data.len(), &payload[..length]);
    let bad = |source| ReadError::BadEmbedded { bookmark, source };
    if kind.is_off() && size > length {
        // Plain bytes shorter than the block: zeros follow.
        data.fill(0);
        data[..length].copy_from_slice(source);
    } else {
        codec::decompress(kind, source, &mut data).map_err(bad)?;
    }
    if block.byte_order() != ByteOrder::NATIVE {
        swap::block(block.object_type(), 0, &mut data);
    }
    Ok(data.freeze())
}
