//! Blocks of encrypted datasets: encrypted or proven, whatever is asked for.

use std::sync::Arc;

use codec::{Checksum, ChecksumValue, Compression};
use crypto::{BlockSeal, DatasetKeys, SealMark};
use format::block_pointer::{BLOCK_SIZE_MAX, BlockPointer, Protection, SealedForm};
use sys::{Buffer, BufferMut};

use super::SECTOR_BYTES;
use crate::{DedupMode, Key, Pipeline, WriteError, WriteRequest};

/// The third address of an encrypted block is its salt and vector.
const COPIES_MAX: u8 = 2;

/// How the blocks of an object set are sealed.
pub(super) enum Sealing {
    /// They are not.
    Plain,
    /// With these keys.
    With(Arc<DatasetKeys>),
    /// The key is not loaded: this is a root block, of which only changes that no code covers.
    Kept,
    /// The key is not loaded: this is an indirect block, whose code takes none.
    Children,
    /// They were sealed elsewhere.
    Given(SealedForm),
}

/// What is stored of a block, and what its pointer has to say of that.
pub(super) struct Sealed {
    pub(super) stored: Buffer,
    pub(super) seal: Option<BlockSeal>,
}

impl Sealing {
    /// The request by the rules of encrypted datasets.
    pub(super) fn restrict<'a>(&self, request: &WriteRequest<'a>) -> WriteRequest<'a> {
        let mut request = *request;
        if matches!(self, Self::Plain) {
            return request;
        }
        let policy = &mut request.policy;
        policy.embed = false;
        policy.nopwrite = false;
        if matches!(self, Self::Given(_)) {
            policy.compression = Compression::Off;
            policy.dedup = DedupMode::Off;
        }
        match Protection::of(request.object_type, request.level) {
            Protection::Encrypted => {
                policy.copies = policy.copies.min(COPIES_MAX);
                policy.gang_copies = policy.gang_copies.min(COPIES_MAX);
                if request.object_type == format::ObjectType::DNODE {
                    policy.compression = Compression::Off;
                }
            }
            Protection::Inside => policy.compression = Compression::Off,
            Protection::None | Protection::Authenticated | Protection::Children => {}
        }
        request
    }

    pub(super) fn keys(&self) -> Option<&DatasetKeys> {
        match self {
            Self::With(keys) => Some(keys),
            Self::Plain | Self::Kept | Self::Children | Self::Given(_) => None,
        }
    }

    /// Bytes of a block's contents.
    pub(super) fn lsize(&self, request: &WriteRequest<'_>) -> u64 {
        match self {
            Self::Given(form) => form.lsize,
            Self::Plain | Self::With(_) | Self::Kept | Self::Children => request.data.len() as u64,
        }
    }

    /// How the stored bytes of a block are compressed, if that was not done here.
    pub(super) fn compression(&self) -> Compression {
        match self {
            Self::Given(form) => form.compression,
            Self::Plain | Self::With(_) | Self::Kept | Self::Children => Compression::Off,
        }
    }

    /// Seals what is to be stored of a block.
    pub(super) fn seal(
        &self,
        request: &WriteRequest<'_>,
        stored: Buffer,
    ) -> Result<Sealed, WriteError> {
        let keys = match self {
            Self::Plain => return Ok(Sealed { stored, seal: None }),
            Self::Kept => {
                let seal = BlockSeal {
                    mark: None,
                    mac: None,
                };
                return Ok(Sealed {
                    stored,
                    seal: Some(seal),
                });
            }
            Self::Children => {
                let seal = Some(crypto::seal_children(request.data));
                return Ok(Sealed { stored, seal });
            }
            Self::Given(form) => {
                let seal = Some(seal_of(request, form));
                return Ok(Sealed { stored, seal });
            }
            Self::With(keys) => keys,
        };
        let failed = |source| WriteError::Sealing {
            bookmark: request.bookmark,
            source,
        };
        let protection = Protection::of(request.object_type, request.level);
        let (stored, seal) = match protection {
            Protection::Children => (stored, Ok(keys.seal_children(request.data))),
            Protection::None | Protection::Authenticated => {
                let seal = keys.seal_plain(&stored);
                (stored, seal)
            }
            Protection::Inside => {
                let mut block = BufferMut::from_slice(&stored);
                let seal = keys.seal_root(&mut block);
                (block.freeze(), seal)
            }
            Protection::Encrypted => {
                let mut block = stored
                    .try_into_mut()
                    .unwrap_or_else(|shared| BufferMut::from_slice(&shared));
                let seal = keys.seal(request.object_type, &mut block);
                (block.freeze(), seal)
            }
        };
        Ok(Sealed {
            stored,
            seal: Some(seal.map_err(failed)?),
        })
    }
}

/// The seal of a block that was sealed elsewhere. One that is only proven has no salt and no vector.
fn seal_of(request: &WriteRequest<'_>, form: &SealedForm) -> BlockSeal {
    let is_encrypted = Protection::of(request.object_type, request.level) == Protection::Encrypted;
    let mark = SealMark {
        salt: form.salt,
        iv: form.iv,
    };
    BlockSeal {
        mark: is_encrypted.then_some(mark),
        mac: Some(form.mac),
    }
}

impl Pipeline {
    /// How a block is to be sealed.
    pub(super) fn sealing(&self, request: &WriteRequest<'_>) -> Result<Sealing, WriteError> {
        if let Some(form) = request.form {
            return given(request, form);
        }
        let place = (request.object_type, request.level);
        let is_encrypted = request.policy.encrypt || request.previous.is_encrypted();
        match self.key(request.bookmark.object_set) {
            Key::Loaded(keys) => Ok(Sealing::With(keys)),
            Key::Locked if Protection::of(place.0, place.1) == Protection::Inside => {
                Ok(Sealing::Kept)
            }
            Key::Locked if Protection::of(place.0, place.1) == Protection::Children => {
                Ok(Sealing::Children)
            }
            Key::None if !is_encrypted => Ok(Sealing::Plain),
            // Never plain because somebody forgot to ask for the key.
            Key::Locked | Key::None => Err(WriteError::Locked {
                bookmark: request.bookmark,
            }),
        }
    }
}

/// A block that was sealed elsewhere, if it is one that can be.
fn given(request: &WriteRequest<'_>, form: SealedForm) -> Result<Sealing, WriteError> {
    let psize = request.data.len() as u64;
    let is_sized = match form.compression {
        Compression::Off => psize == form.lsize,
        Compression::Empty
        | Compression::Lzjb
        | Compression::Gzip(_)
        | Compression::Zle
        | Compression::Lz4
        | Compression::Zstd(_) => psize <= form.lsize,
    };
    let sized =
        is_sized && form.lsize.is_multiple_of(SECTOR_BYTES as u64) && form.lsize <= BLOCK_SIZE_MAX;
    if sized && request.level == 0 {
        return Ok(Sealing::Given(form));
    }
    Err(WriteError::Size {
        bookmark: request.bookmark,
        size: request.data.len(),
    })
}

/// Puts a block's checksum, and what its seal says, into its pointer, which has its fill count.
pub(super) fn describe(
    block: &mut BlockPointer,
    (kind, sum): (Checksum, ChecksumValue),
    seal: Option<&BlockSeal>,
) {
    let Some(seal) = seal else {
        block.set_checksum(kind, sum);
        return;
    };
    block.set_encrypted();
    let Some(mac) = seal.mac else {
        block.set_checksum(kind, sum);
        return;
    };
    let ChecksumValue([a, b, c, d]) = sum;
    let half = if kind.is_dedup_safe() {
        [a, b, 0, 0]
    } else {
        [a ^ c, b ^ d, 0, 0]
    };
    block.set_checksum(kind, ChecksumValue(half));
    block.set_mac(mac);
    if let Some(mark) = seal.mark {
        block.set_salt_and_iv(mark.salt, mark.iv);
    }
}

#[cfg(test)]
mod tests;
