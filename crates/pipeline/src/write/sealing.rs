//! Blocks of encrypted datasets: encrypted or proven, whatever is asked for.

use std::sync::Arc;

use codec::{Checksum, ChecksumValue, Compression};
use crypto::{BlockSeal, DatasetKeys};
use format::block_pointer::{BlockPointer, Protection};
use sys::{Buffer, BufferMut};

use crate::{Key, Pipeline, WriteError, WriteRequest};

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
            Self::Plain | Self::Kept => None,
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

impl Pipeline {
    /// How a block is to be sealed.
    pub(super) fn sealing(&self, request: &WriteRequest<'_>) -> Result<Sealing, WriteError> {
        let place = (request.object_type, request.level);
        let is_encrypted = request.policy.encrypt || request.previous.is_encrypted();
        match self.key(request.bookmark.object_set) {
            Key::Loaded(keys) => Ok(Sealing::With(keys)),
            Key::Locked if Protection::of(place.0, place.1) == Protection::Inside => {
                Ok(Sealing::Kept)
            }
            Key::None if !is_encrypted => Ok(Sealing::Plain),
            // Never plain because somebody forgot to ask for the key.
            Key::Locked | Key::None => Err(WriteError::Locked {
                bookmark: request.bookmark,
            }),
        }
    }
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
