//! What the BEGIN of a stream says.

use std::sync::Arc;

use base::Guid;
use dsl::tasks::{BeginReceive, EndReceive, ResumeReceive};
use dsl::{Dataset, DatasetFeature, Dsl, ResumePoint, ResumeState};
use format::ObjectSetKind;
use format::features::{
    EMBEDDED_DATA, Feature, LARGE_BLOCKS, LARGE_DNODE, LARGE_MICROZAP, LONGNAME, LZ4_COMPRESS,
    ZSTD_COMPRESS,
};
use format::stream::{
    BeginRecord, FLAG_CASE_INSENSITIVE, FLAG_CLONE, FLAG_FREE_RECORDS, FLAG_SPILL_BLOCK,
};
use stream::{Features, begin_name, decode_list};

use super::{ReceiveError, Substream};

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
        if features.unknown() != Features::NONE || features.has(Features::DEDUP) {
            return Err(ReceiveError::UnknownFeature);
        }
        for (feature, what) in [
            (Features::RAW, "encrypted blocks"),
            (Features::REDACTED, "redacted data"),
        ] {
            if features.has(feature) {
                return Err(ReceiveError::Unsupported(what));
            }
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
            .has(Features::RESUMING)
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
        let needed: [(Features, &Feature); 7] = [
            (Features::EMBED_DATA, &EMBEDDED_DATA),
            (Features::LZ4, &LZ4_COMPRESS),
            (Features::LARGE_BLOCKS, &LARGE_BLOCKS),
            (Features::LARGE_DNODE, &LARGE_DNODE),
            (Features::ZSTD, &ZSTD_COMPRESS),
            (Features::LONG_NAME, &LONGNAME),
            (Features::LARGE_MICROZAP, &LARGE_MICROZAP),
        ];
        let services = &dsl.mos().services;
        for (feature, of_pool) in needed {
            if self.features.has(feature) && !services.is_enabled(of_pool) {
                return Err(ReceiveError::Upgrade(of_pool.guid));
            }
        }
        Ok(())
    }

    /// The task that begins to receive it.
    #[must_use]
    pub fn begin(&self, place: &Place) -> BeginReceive {
        let counted = [
            (Features::LONG_NAME, DatasetFeature::LongName),
            (Features::LARGE_MICROZAP, DatasetFeature::LargeMicrozap),
        ];
        let features = counted
            .into_iter()
            .filter(|(feature, _)| self.features.has(*feature))
            .map(|(_, counted)| counted);
        BeginReceive {
            path: place.path.clone(),
            snapshot: place.snapshot.clone(),
            kind: self.kind,
            from_guid: self.from_guid,
            origin: place.origin.clone(),
            force: place.force,
            case_insensitive: self.flags & FLAG_CASE_INSENSITIVE != 0,
            large_blocks: self.features.has(Features::LARGE_BLOCKS),
            features: features.collect(),
            unencrypted: place.unencrypted,
            resumable: place.resumable.then(|| self.state()),
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
        }
    }

    /// What the writing of it depends on.
    #[must_use]
    pub const fn substream(&self, place: &Place) -> Substream {
        Substream {
            is_full: self.is_full(),
            is_full_over_clone: self.is_full() && place.origin.is_some(),
            says_spill: self.flags & FLAG_SPILL_BLOCK != 0,
            is_resumable: place.resumable || self.resumes_at.is_some(),
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
            large_blocks: self.features.has(Features::LARGE_BLOCKS),
            embedded: self.features.has(Features::EMBED_DATA),
            compressed: self.features.has(Features::COMPRESSED),
            raw: self.features.has(Features::RAW),
        }
    }
}
