//! What form a block is stored in: embedded, compressed or plain.

use codec::Compression;
use format::block_pointer::{BlockPointer, EMBEDDED_PAYLOAD_MAX};
use sys::{Buffer, BufferMut};

use super::UNCOMPRESSED_PASS_MIN;
use crate::scratch::with_scratch;
use crate::{Granularity, Pipeline, WriteRequest};

/// The form that a block is stored in.
pub(super) enum Stored {
    /// In its pointer.
    Embedded(BlockPointer),
    /// Compressed and padded with zeros to whole allocation units.
    Packed(Buffer, Compression),
    /// As it is.
    Plain,
}

impl Pipeline {
    pub(super) fn compress(&self, request: &WriteRequest<'_>) -> Stored {
        let kind = request.policy.compression;
        let settled =
            request.pass >= UNCOMPRESSED_PASS_MIN && request.previous.birth() == request.txg;
        if kind.is_off() || settled {
            return Stored::Plain;
        }
        let lsize = request.data.len();
        let embeds = request.policy.embed && request.level == 0 && request.object_type.may_embed();
        let granularity = self.granularity();
        let Some(budget) = budget(kind, lsize, granularity, embeds) else {
            return Stored::Plain;
        };
        with_scratch(budget, |scratch| {
            let Some(length) = codec::compress(kind, request.data, scratch) else {
                return Stored::Plain;
            };
            if embeds && length <= EMBEDDED_PAYLOAD_MAX {
                let payload = &scratch[..length];
                let (txg, lsize) = (request.txg, lsize as u64);
                let pointer =
                    BlockPointer::embedded(request.object_type, lsize, kind, txg, payload);
                if let Some(pointer) = pointer {
                    return Stored::Embedded(pointer);
                }
            }
            let padded = (length as u64)
                .next_multiple_of(granularity.unit)
                .max(granularity.smallest) as usize;
            if padded >= lsize {
                return Stored::Plain;
            }
            let mut packed = BufferMut::scratch(padded);
            packed[..length].copy_from_slice(&scratch[..length]);
            packed[length..].fill(0);
            Stored::Packed(packed.freeze(), kind)
        })
    }
}

/// The longest result that pays: an eighth must be saved, in whole allocation units. `None` when
/// nothing can pay.
fn budget(
    kind: Compression,
    lsize: usize,
    granularity: Granularity,
    embeds: bool,
) -> Option<usize> {
    let wanted = (lsize - lsize / 8) as u64;
    if kind == Compression::Zle {
        return Some(wanted as usize);
    }
    let rounded = wanted - wanted % granularity.unit;
    if rounded >= granularity.smallest {
        Some(rounded as usize)
    } else if embeds {
        Some(EMBEDDED_PAYLOAD_MAX)
    } else {
        None
    }
}
