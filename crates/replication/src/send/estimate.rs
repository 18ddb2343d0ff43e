//! How long a stream will be, as OpenZFS tells it before it sends.

use dsl::property::dataset::{RECORDSIZE, VOLBLOCKSIZE};
use format::ObjectSetKind;
use format::stream::RECORD_SIZE;

use super::{SendError, SendJob};

/// Bytes of a block pointer, which a block has in the pool, and of a record, which it has in a stream.
const POINTER_BYTES: u64 = 128;
const RECORD_BYTES: u64 = RECORD_SIZE as u64;

/// The bytes of a job's stream, roughly: by the sizes that are accounted for.
///
/// # Errors
/// The dataset, or a snapshot between, cannot be read.
pub fn estimate(job: &SendJob) -> Result<u64, SendError> {
    let phys = job.dataset.phys()?;
    let then = job.from.and_then(|from| Some((from.txg, from.sizes?)));
    let (compressed, uncompressed) = match then {
        None => (phys.compressed_bytes, phys.uncompressed_bytes),
        Some((txg, sizes)) => job.dataset.written_sizes_since(txg, sizes)?,
    };
    let head = job.dataset.directory();
    let record_size = match job.dataset.root()?.map(|root| root.kind) {
        Some(ObjectSetKind::Volume) => head.get(VOLBLOCKSIZE)?.value,
        _ => head.get(RECORDSIZE)?.value,
    };
    let record_size = record_size.max(512);
    let records = uncompressed / record_size;
    // What is sent raw stays compressed, also where nothing is encrypted.
    let bytes = if job.options.compressed || job.options.raw {
        compressed
    } else {
        uncompressed
    };
    Ok(bytes
        .saturating_sub(records * POINTER_BYTES)
        .saturating_add(records * RECORD_BYTES)
        .saturating_add(2 * RECORD_BYTES))
}
