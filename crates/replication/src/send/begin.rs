//! The head of a stream: what it makes use of, and who it is.

use std::sync::Arc;

use base::{Guid, ObjectId};
use dmu::Zap;
use dsl::DatasetFeature;
use format::dsl::DatasetPhys;
use format::features::{EMBEDDED_DATA, LZ4_COMPRESS};
use format::stream::{
    BeginRecord, FLAG_CASE_INSENSITIVE, FLAG_CLONE, FLAG_FREE_RECORDS, FLAG_SPILL_BLOCK, MAGIC,
};
use format::{NvList, ObjectSetKind};
use pool::Pool;
use stream::{Features, Header, name_field};

use super::{SendError, SendJob};

/// The version of file systems that have spill blocks.
const VERSION_SPILL: u64 = 5;

/// How blocks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The largest block; larger ones are cut.
    pub(super) block_max: u32,
    /// Blocks inside of their pointers stay so.
    pub(super) embedded: bool,
    /// Compressed blocks stay so.
    pub(super) compressed: bool,
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

/// What a job's stream begins with.
pub(super) fn begin(pool: &Arc<Pool>, job: &SendJob) -> Result<Begun, SendError> {
    let dataset = &job.dataset;
    let phys = dataset.phys()?;
    let in_use = dataset.features()?;
    let uses = |feature: DatasetFeature| in_use.contains(&feature);
    let is_active = |feature| pool.features().is_active(feature);
    if uses(DatasetFeature::RedactedDatasets) {
        return Err(SendError::Redacted);
    }
    let large = job.options.large_blocks && uses(DatasetFeature::LargeBlocks);
    if uses(DatasetFeature::LargeMicrozap) && !large {
        return Err(SendError::Needs("large micro ZAPs", "-L"));
    }
    // In an encrypted dataset no block lies in its pointer.
    let embedded = job.options.embedded && !dataset.is_encrypted()? && is_active(&EMBEDDED_DATA);
    let compressed = job.options.compressed && !dataset.is_encrypted()?;
    let objects = dataset.object_set()?;
    let kind = objects.kind();
    let features = Features::NONE
        .with_if(Features::SA_SPILL, version(&objects)? >= VERSION_SPILL)
        .with_if(Features::EMBED_DATA, embedded)
        .with_if(
            Features::LZ4,
            (embedded || compressed) && is_active(&LZ4_COMPRESS),
        )
        .with_if(Features::LARGE_BLOCKS, large)
        .with_if(Features::RESUMING, job.resume.is_some())
        .with_if(Features::COMPRESSED, compressed)
        .with_if(Features::LARGE_DNODE, uses(DatasetFeature::LargeDnode))
        .with_if(
            Features::ZSTD,
            compressed && uses(DatasetFeature::ZstdCompress),
        )
        .with_if(Features::LONG_NAME, uses(DatasetFeature::LongName))
        .with_if(
            Features::LARGE_MICROZAP,
            uses(DatasetFeature::LargeMicrozap),
        );
    let flag = |flag: u32, is_set: bool| if is_set { flag } else { 0 };
    let record = BeginRecord {
        payload_length: 0,
        magic: MAGIC,
        version_info: Header::Substream.version_info(features),
        creation_time: phys.creation_time,
        object_set_kind: u32::try_from(kind.number()).unwrap_or(0),
        flags: FLAG_FREE_RECORDS
            | FLAG_SPILL_BLOCK
            | flag(FLAG_CLONE, job.from.is_some_and(|from| from.is_origin))
            | flag(
                FLAG_CASE_INSENSITIVE,
                phys.has_flag(DatasetPhys::FLAG_CASE_INSENSITIVE),
            ),
        to_guid: phys.guid,
        from_guid: job.from.map_or(Guid(0), |from| from.guid),
        name: name_field(job.name.as_bytes()),
    };
    let list = job.resume.map(|(object, offset)| {
        let mut list = NvList::new();
        list.set("resume_object", object.0);
        list.set("resume_offset", offset);
        list
    });
    let form = Form {
        block_max: if large { BLOCK_MAX } else { SMALL_BLOCK_MAX },
        embedded,
        compressed,
        features,
    };
    Ok(Begun { record, list, form })
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
