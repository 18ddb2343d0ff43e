//! The head of a stream: what it makes use of, and who it is.

use std::sync::Arc;

use base::{Guid, ObjectId};
use dmu::Zap;
use dsl::DatasetFeature;
use format::dsl::DatasetPhys;
use format::features::{EMBEDDED_DATA, LZ4_COMPRESS};
use format::nvlist::Value;
use format::stream::{
    BeginRecord, FLAG_CASE_INSENSITIVE, FLAG_CLONE, FLAG_FREE_RECORDS, FLAG_SPILL_BLOCK, MAGIC,
};
use format::{NvList, ObjectSetKind};
use pool::Pool;
use stream::{Features, Header, name_field};

use super::raw::{self, VERSION_SPILL};
use super::{SendError, SendJob};
use crate::features::InStreams;

/// How blocks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The largest block; larger ones are cut.
    pub(super) block_max: u32,
    /// Blocks inside of their pointers stay so.
    pub(super) embedded: bool,
    /// Compressed blocks stay so.
    pub(super) compressed: bool,
    /// Blocks are as they are encrypted.
    pub(super) raw: bool,
    /// What the stream makes use of.
    pub(super) features: Features,
}

/// Blocks that every receiver takes.
pub(super) const SMALL_BLOCK_MAX: u32 = 128 << 10;
/// The largest block that there is.
const BLOCK_MAX: u32 = 16 << 20;

pub(super) struct Begun {
    pub(super) record: BeginRecord,
    pub(super) list: Option<NvList>,
    pub(super) form: Form,
}

/// How a job's blocks are sent, by what was asked for and what there is.
fn form(pool: &Pool, job: &SendJob, version: u64) -> Result<Form, SendError> {
    let dataset = &job.dataset;
    let in_use = dataset.features()?;
    let uses = |feature: DatasetFeature| in_use.contains(&feature);
    let is_active = |feature| pool.features().is_active(feature);
    let (asked, is_encrypted) = (job.options, dataset.is_encrypted()?);
    let raw = asked.raw && is_encrypted;
    let large = (asked.large_blocks || asked.raw) && uses(DatasetFeature::LargeBlocks);
    if uses(DatasetFeature::LargeMicrozap) && !large {
        return Err(SendError::Needs("large micro ZAPs", "-L"));
    }
    // In an encrypted dataset no block lies in its pointer.
    let embedded = (asked.embedded || asked.raw) && !is_encrypted && is_active(&EMBEDDED_DATA);
    let compressed = raw || ((asked.compressed || asked.raw) && !is_encrypted);
    let features = Features::empty()
        .with_if(Features::SA_SPILL, version >= VERSION_SPILL)
        .with_if(Features::EMBED_DATA, embedded)
        .with_if(
            Features::LZ4,
            (embedded || compressed) && is_active(&LZ4_COMPRESS),
        )
        .with_if(Features::LARGE_BLOCKS, large)
        .with_if(Features::RESUMING, job.resume.is_some())
        .with_if(Features::COMPRESSED, compressed)
        .with_if(Features::RAW, raw)
        .with_if(
            Features::ZSTD,
            compressed && uses(DatasetFeature::ZstdCompress),
        );
    let contents = in_use
        .iter()
        .map(|feature| InStreams::of(*feature).flag_of_contents());
    let features = contents.fold(features, Features::union);
    Ok(Form {
        block_max: if large || raw {
            BLOCK_MAX
        } else {
            SMALL_BLOCK_MAX
        },
        embedded,
        compressed,
        raw,
        features,
    })
}

/// What is sent raw says of its keys, what it is and its version as a file system; that takes no key.
fn raw_head(pool: &Arc<Pool>, job: &SendJob) -> Result<(NvList, ObjectSetKind, u64), SendError> {
    let dataset = &job.dataset;
    let root = dataset.root()?.ok_or(SendError::NotEncrypted)?;
    let from_ivset = job.from.map_or(0, |from| from.ivset);
    let keys = raw::keys(dataset, &root, from_ivset)?;
    let version = match root.kind {
        ObjectSetKind::FileSystem => raw::version(pool, dataset, &root)?,
        ObjectSetKind::Volume
        | ObjectSetKind::None
        | ObjectSetKind::Meta
        | ObjectSetKind::Other => 0,
    };
    Ok((keys, root.kind, version))
}

/// What a job's stream begins with.
pub(super) fn begin(pool: &Arc<Pool>, job: &SendJob) -> Result<Begun, SendError> {
    let dataset = &job.dataset;
    let phys = dataset.phys()?;
    let redacted_by = redacted_by(job)?;
    let (keys, kind, version) = if job.options.raw && dataset.is_encrypted()? {
        let (keys, kind, version) = raw_head(pool, job)?;
        (Some(keys), kind, version)
    } else {
        let objects = dataset.object_set()?;
        (None, objects.kind(), version(&objects)?)
    };
    let mut form = form(pool, job, version)?;
    form.features = form
        .features
        .with_if(Features::REDACTED, redacted_by.is_some());
    let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
    let record = BeginRecord {
        payload_length: 0,
        magic: MAGIC,
        version_info: Header::Substream.version_info(form.features),
        creation_time: phys.creation_time,
        object_set_kind: u32::try_from(kind.number()).unwrap_or(0),
        flags: FLAG_FREE_RECORDS
            | FLAG_SPILL_BLOCK
            | flag(FLAG_CLONE, job.from.is_some_and(|from| from.is_origin))
            | flag(
                FLAG_CASE_INSENSITIVE,
                phys.has_flag(DatasetPhys::FLAG_CASE_INSENSITIVE),
            ),
        to_guid: job.saved.map_or(phys.guid, |saved| saved.to_guid),
        from_guid: job.from.map_or(Guid(0), |from| from.guid),
        name: name_field(job.name.as_bytes()),
    };
    let mut list = NvList::new();
    if let Some((object, offset)) = job.resume {
        list.set("resume_object", object.0);
        list.set("resume_offset", offset);
    }
    if let Some(guids) = &redacted_by {
        list.set("redact_snaps", words(guids));
    }
    if let Some(guids) = &redacted_from(job) {
        list.set("redact_from_snaps", words(guids));
    }
    if let Some(keys) = keys {
        list.set("crypt_keydata", keys);
    }
    let list = (!list.is_empty()).then_some(list);
    Ok(Begun { record, list, form })
}

/// The snapshots by which a stream is redacted; none: it is whole.
fn redacted_by(job: &SendJob) -> Result<Option<Vec<Guid>>, SendError> {
    let own = job.dataset.redacted_by()?;
    let left_out = job.redaction.left_out.as_ref();
    let has_any = own.is_some() || left_out.is_some() || redacted_from(job).is_some();
    let is_raw = job.options.raw && job.dataset.is_encrypted()?;
    if has_any && is_raw {
        // What proves the blocks above would not fit what is there.
        return Err(SendError::RawRedacted);
    }
    match (own, left_out) {
        (Some(_), Some(_)) => Err(SendError::Redacted),
        (Some(own), None) => Ok(Some(own)),
        (None, left_out) => Ok(left_out.map(|list| list.snapshots().to_vec())),
    }
}

/// The snapshots by which what the stream starts from is redacted.
fn redacted_from(job: &SendJob) -> Option<Vec<Guid>> {
    let list = job.redaction.sent_again.as_ref();
    let list = list.map(|list| list.snapshots().to_vec());
    list.or_else(|| job.redaction.from.clone())
}

fn words(guids: &[Guid]) -> Value {
    Value::Uint64Array(guids.iter().map(|guid| guid.0).collect())
}

/// The version of a file system; 0 of anything else.
fn version(objects: &Arc<dmu::ObjectSet>) -> Result<u64, SendError> {
    const MASTER: ObjectId = ObjectId(1);
    if objects.kind() != ObjectSetKind::FileSystem {
        return Ok(0);
    }
    let master = Zap::open(&objects.object(MASTER)?)?;
    Ok(master.lookup(b"VERSION")?.unwrap_or(0))
}
