//! What the BEGIN of a stream says.

use std::sync::Arc;

use base::Guid;
use crypto::{KeyFormat, KeyMaterial, PBKDF2_ITERATIONS_SECONDS, StoredKeys, WrappedKeys};
use dmu::SealedShape;
use dsl::tasks::{BeginReceive, EndReceive, ResumeReceive, SealedStream, StreamRedaction};
use dsl::{Dataset, DatasetFeature, Dsl, ResumePoint, ResumeState};
use format::features::{EMBEDDED_DATA, Feature, LZ4_COMPRESS};
use format::nvlist::Value;
use format::redaction::SNAPSHOTS_MAX;
use format::stream::{
    BeginRecord, FLAG_CASE_INSENSITIVE, FLAG_CLONE, FLAG_FREE_RECORDS, FLAG_SPILL_BLOCK,
};
use format::{NvList, ObjectSetKind, version};
use stream::{Features, begin_name, decode_list};

use super::objects::{CHECKSUMS, COMPRESSIONS};
use super::{ReceiveError, Substream};
use crate::features::InStreams;

/// The head of a stream.
#[derive(Clone, Debug)]
pub struct Head {
    /// The dataset's name where it was sent from.
    pub dataset: String,
    /// The snapshot's short name there.
    pub snapshot: String,
    /// The snapshot's guid.
    pub to_guid: Guid,
    /// The guid of the snapshot that the stream begins at; 0 of a full one.
    pub from_guid: Guid,
    /// When the snapshot was taken, in seconds.
    pub creation_time: u64,
    /// What it is.
    pub kind: ObjectSetKind,
    /// What the stream makes use of.
    pub features: Features,
    /// Where the stream goes on, if it is the rest of one.
    pub resumes_at: Option<(u64, u64)>,
    /// What it says of its keys, if its blocks are as they are encrypted.
    pub sealed: Option<SealedStream>,
    /// What it leaves out.
    pub redaction: StreamRedaction,
    flags: u32,
}

/// Where a stream is received.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path of the head.
    pub path: String,
    /// The short name of the snapshot.
    pub snapshot: String,
    /// The snapshot that a new dataset is to be a clone of.
    pub origin: Option<String>,
    /// What is there may go.
    pub force: bool,
    /// What is new is not encrypted, whatever is above it.
    pub unencrypted: bool,
    /// If it is interrupted, it may go on.
    pub resumable: bool,
}

impl Head {
    /// What a BEGIN with its payload says.
    ///
    /// # Errors
    /// It says what no sender does, or what cannot be received.
    pub fn of(begin: &BeginRecord, payload: &[u8]) -> Result<Self, ReceiveError> {
        let features = Features::of(begin.version_info);
        if features.unknown() != Features::empty() || features.contains(Features::DEDUP) {
            return Err(ReceiveError::UnknownFeature);
        }
        let name = std::str::from_utf8(begin_name(begin)).ok();
        let name = name.and_then(|name| name.split_once('@'));
        let Some((dataset, snapshot)) = name else {
            return Err(ReceiveError::Invalid("a stream of no snapshot"));
        };
        let kind = match begin.object_set_kind {
            2 => ObjectSetKind::FileSystem,
            3 => ObjectSetKind::Volume,
            _ => return Err(ReceiveError::Invalid("neither a file system nor a volume")),
        };
        let list = decode_list(payload)?;
        let word = |name: &str| list.as_ref().and_then(|list| list.u64(name));
        let resumes_at = features
            .contains(Features::RESUMING)
            .then(|| word("resume_object").zip(word("resume_offset")))
            .map(|at| at.ok_or(ReceiveError::Invalid("a rest that begins nowhere")))
            .transpose()?;
        Ok(Self {
            dataset: dataset.to_owned(),
            snapshot: snapshot.to_owned(),
            to_guid: begin.to_guid,
            from_guid: begin.from_guid,
            creation_time: begin.creation_time,
            kind,
            features,
            resumes_at,
            redaction: redaction(begin, features, list.as_ref())?,
            sealed: features
                .contains(Features::RAW)
                .then(|| sealed(begin, features, list.as_ref()))
                .transpose()?,
            flags: begin.flags,
        })
    }

    /// The snapshot's full name where it was sent from.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}@{}", self.dataset, self.snapshot)
    }

    /// Whether it is a clone's first stream: it begins at a snapshot of another dataset.
    #[must_use]
    pub const fn is_clone(&self) -> bool {
        self.flags & FLAG_CLONE != 0
    }

    /// Whether it begins at nothing.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.from_guid.0 == 0
    }

    /// Refuses what needs a feature that the pool has not enabled.
    ///
    /// # Errors
    /// The pool has to be upgraded first.
    pub fn check_features(&self, dsl: &Dsl) -> Result<(), ReceiveError> {
        // What no dataset is counted for, and what datasets are.
        let of_pools: [(Features, &Feature); 2] = [
            (Features::EMBED_DATA, &EMBEDDED_DATA),
            (Features::LZ4, &LZ4_COMPRESS),
        ];
        let of_datasets = DatasetFeature::ALL
            .into_iter()
            .filter_map(|feature| Some((InStreams::of(feature).flag()?, feature.feature())));
        let services = &dsl.mos().services;
        if self.features.contains(Features::SA_SPILL)
            && services.version() < version::SYSTEM_ATTRIBUTES
        {
            return Err(ReceiveError::UpgradeTo(version::SYSTEM_ATTRIBUTES));
        }
        for (feature, of_pool) in of_pools.into_iter().chain(of_datasets) {
            if self.features.contains(feature) && !services.is_enabled(of_pool) {
                return Err(ReceiveError::Upgrade(of_pool.guid));
            }
        }
        Ok(())
    }

    /// The task that begins to receive it.
    #[must_use]
    pub fn begin(&self, place: &Place) -> BeginReceive {
        let features = DatasetFeature::ALL
            .into_iter()
            .filter(|feature| InStreams::of(*feature).is_counted_at_first(self.features));
        BeginReceive {
            path: place.path.clone(),
            snapshot: place.snapshot.clone(),
            kind: self.kind,
            from_guid: self.from_guid,
            origin: place.origin.clone(),
            force: place.force,
            case_insensitive: self.flags & FLAG_CASE_INSENSITIVE != 0,
            large_blocks: self.features.contains(Features::LARGE_BLOCKS),
            features: features.collect(),
            unencrypted: place.unencrypted,
            resumable: place.resumable.then(|| self.state()),
            sealed: self.sealed,
            redaction: self.redaction.clone(),
        }
    }

    /// The task that goes on with it.
    #[must_use]
    pub fn resume(&self, path: &str, at: (u64, u64)) -> ResumeReceive {
        ResumeReceive {
            path: path.to_owned(),
            to_guid: self.to_guid,
            from_guid: self.from_guid,
            at,
            sealed: self.sealed,
            redacted_by: self.redaction.by.clone(),
        }
    }

    /// The task that ends it.
    #[must_use]
    pub fn end(&self, receiving: &Arc<Dataset>, place: &Place) -> EndReceive {
        EndReceive {
            receiving: Arc::clone(receiving),
            snapshot: place.snapshot.clone(),
            guid: self.to_guid,
            creation_time: self.creation_time,
            force: place.force,
            sealed: self.sealed,
        }
    }

    /// What the writing of it depends on.
    #[must_use]
    pub fn substream(&self, place: &Place) -> Substream {
        Substream {
            is_full: self.is_full(),
            is_full_over_clone: self.is_full() && place.origin.is_some(),
            says_spill: self.flags & FLAG_SPILL_BLOCK != 0,
            is_resumable: place.resumable || self.resumes_at.is_some(),
            is_sealed: self.sealed.is_some(),
            is_redacted: self.redaction.by.is_some(),
        }
    }

    /// Whether it says of everything that it does not have that it is not there.
    #[must_use]
    pub const fn says_free(&self) -> bool {
        self.flags & FLAG_FREE_RECORDS != 0
    }

    fn state(&self) -> ResumeState {
        ResumeState {
            to_guid: self.to_guid,
            from_guid: self.from_guid,
            to_name: self.name(),
            point: ResumePoint {
                object: 1,
                offset: 0,
                bytes: 0,
            },
            large_blocks: self.features.contains(Features::LARGE_BLOCKS),
            embedded: self.features.contains(Features::EMBED_DATA),
            compressed: self.features.contains(Features::COMPRESSED),
            raw: self.features.contains(Features::RAW),
            redacted_from: self.redaction.from.clone(),
        }
    }
}

/// What the head of a stream says of what it leaves out.
fn redaction(
    begin: &BeginRecord,
    features: Features,
    list: Option<&NvList>,
) -> Result<StreamRedaction, ReceiveError> {
    let guids = |name: &str| match list.and_then(|list| list.get(name)) {
        Some(Value::Uint64Array(words)) if words.len() <= SNAPSHOTS_MAX => {
            Some(words.iter().copied().map(Guid).collect::<Vec<_>>())
        }
        Some(_) | None => None,
    };
    let by = guids("redact_snaps").filter(|guids| !guids.is_empty());
    if features.contains(Features::REDACTED) && by.is_none() {
        return Err(ReceiveError::Invalid(
            "a redacted stream that does not say by which snapshots",
        ));
    }
    Ok(StreamRedaction {
        to_guid: begin.to_guid,
        by,
        from: guids("redact_from_snaps"),
    })
}

/// What the head of a raw stream says of its keys.
fn sealed(
    begin: &BeginRecord,
    features: Features,
    list: Option<&NvList>,
) -> Result<SealedStream, ReceiveError> {
    let invalid = || ReceiveError::Invalid("a raw stream that lacks something of its keys");
    if features.contains(Features::EMBED_DATA) || begin.flags & FLAG_SPILL_BLOCK == 0 {
        return Err(ReceiveError::Invalid(
            "a raw stream with what none can have",
        ));
    }
    let keys = list.and_then(|list| list.list("crypt_keydata"));
    let keys = keys.ok_or_else(invalid)?;
    let word = |name: &str| keys.u64(name).ok_or_else(invalid);
    let small = |name: &str| {
        let number = u8::try_from(word(name)?);
        number.map_err(|_| invalid())
    };
    if word("DSL_CRYPTO_VERSION")? != 1 {
        return Err(ReceiveError::Unsupported(
            "encryption from before OpenZFS 0.8",
        ));
    }
    let (checksum, compress) = (small("mdn_checksum")?, small("mdn_compress")?);
    if checksum >= CHECKSUMS || compress >= COMPRESSIONS {
        return Err(ReceiveError::Invalid(
            "an array of dnodes of no valid shape",
        ));
    }
    let format = KeyFormat::from_number(word("keyformat")?).map_err(|_| invalid())?;
    let iterations = word("pbkdf2iters")?;
    if format.is_derived() && iterations > PBKDF2_ITERATIONS_SECONDS {
        return Err(ReceiveError::Iterations(iterations));
    }
    Ok(SealedStream {
        keys: StoredKeys {
            suite: word("DSL_CRYPTO_SUITE")?,
            guid: word("DSL_CRYPTO_GUID")?,
            version: 1,
            wrapped: WrappedKeys {
                iv: bytes(keys, "DSL_CRYPTO_IV").ok_or_else(invalid)?,
                mac: bytes(keys, "DSL_CRYPTO_MAC").ok_or_else(invalid)?,
                master: bytes(keys, "DSL_CRYPTO_MASTER_KEY_1").ok_or_else(invalid)?,
                hmac: bytes(keys, "DSL_CRYPTO_HMAC_KEY_1").ok_or_else(invalid)?,
            },
        },
        material: KeyMaterial {
            format,
            salt: word("pbkdf2salt")?,
            iterations,
        },
        shape: SealedShape {
            portable_mac: bytes(keys, "portable_mac").ok_or_else(invalid)?,
            checksum,
            compress,
            levels: small("mdn_nlevels")?,
            block_size: u32::try_from(word("mdn_blksz")?).map_err(|_| invalid())?,
            indirect_shift: small("mdn_indblkshift")?,
            pointer_count: small("mdn_nblkptr")?,
            max_block: word("mdn_maxblkid")?,
        },
        vectors: word("to_ivset_guid")?,
        from_vectors: word("from_ivset_guid")?,
    })
}

fn bytes<const N: usize>(list: &NvList, name: &str) -> Option<[u8; N]> {
    list.bytes(name)?.try_into().ok()
}
