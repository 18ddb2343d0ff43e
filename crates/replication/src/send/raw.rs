//! Raw streams: blocks of an encrypted dataset as they are stored, which takes no key.

use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId};
use dsl::Dataset;
use format::block_pointer::{BlockPointer, Protection};
use format::dnode::{BLOCK_POINTER_SIZE, SLOT_SIZE, Slot, slots};
use format::dsl::key;
use format::stream::{BlockKey, ObjectRangeRecord, ObjectRecord, SpillRecord, WriteRecord};
use format::zap::{BLOCK_MICRO, micro::Micro};
use format::{DnodePhys, NvList, ObjectSetPhys};
use pipeline::ReadRequest;
use pool::Pool;
use stream::Record;
use sys::Buffer;

use super::error::SendError;

/// The version of file systems that have spill blocks.
pub(super) const VERSION_SPILL: u64 = 5;
/// Bytes of a dnode before its pointers.
const CORE_BYTES: usize = 64;
/// The number of the compression of blocks that are stored as they are.
const UNCOMPRESSED: u8 = 2;

/// What the receiver is to know of a dataset's keys, and of the shape of its array of dnodes.
pub(super) fn keys(
    dataset: &Dataset,
    root: &ObjectSetPhys,
    from_ivset: u64,
) -> Result<NvList, SendError> {
    let record = dataset.directory().key_record()?;
    let record = record.ok_or(SendError::NotEncrypted)?;
    let (stored, material) = (record.stored()?, record.material()?);
    let mut list = NvList::new();
    list.set("DSL_CRYPTO_SUITE", stored.suite);
    list.set("DSL_CRYPTO_GUID", stored.guid);
    list.set("DSL_CRYPTO_VERSION", stored.version);
    let wrapped = &stored.wrapped;
    for (name, bytes) in [
        ("DSL_CRYPTO_MASTER_KEY_1", &wrapped.master[..]),
        ("DSL_CRYPTO_HMAC_KEY_1", &wrapped.hmac),
        ("DSL_CRYPTO_IV", &wrapped.iv),
        ("DSL_CRYPTO_MAC", &wrapped.mac),
        ("portable_mac", &root.portable_mac),
    ] {
        list.set(name, format::nvlist::Value::Uint8Array(bytes.to_vec()));
    }
    let meta = &root.meta_dnode;
    let ivset = dataset.extra_word(key::IVSET_GUID)?.unwrap_or(0);
    for (name, word) in [
        ("keyformat", material.format.number()),
        ("pbkdf2iters", material.iterations),
        ("pbkdf2salt", material.salt),
        ("mdn_checksum", meta.checksum.into()),
        ("mdn_compress", meta.compress.into()),
        ("mdn_nlevels", meta.levels.into()),
        ("mdn_blksz", meta.data_block_size().into()),
        ("mdn_indblkshift", meta.indirect_shift.into()),
        ("mdn_nblkptr", meta.pointer_count.into()),
        ("mdn_maxblkid", meta.max_block_id),
        ("to_ivset_guid", ivset),
        ("from_ivset_guid", from_ivset),
    ] {
        list.set(name, word);
    }
    Ok(list)
}

/// The version of a file system, whose master node is proven and not encrypted; 0 if there is none.
pub(super) fn version(
    pool: &Arc<Pool>,
    dataset: &Dataset,
    root: &ObjectSetPhys,
) -> Result<u64, SendError> {
    const MASTER: usize = 1;
    let set = ObjectSetId(dataset.id().0);
    let read = |pointer: &BlockPointer, place| -> Result<Buffer, SendError> {
        Ok(pool
            .pipeline()
            .read(pointer, &ReadRequest::new(place).for_structure())?)
    };
    let first = |dnode: &DnodePhys, object| -> Result<Option<Buffer>, SendError> {
        let mut pointer = dnode.pointers[0];
        for level in (1..dnode.levels).rev() {
            if pointer.is_hole() {
                return Ok(None);
            }
            let data = read(&pointer, Bookmark::new(set, object, level, 0))?;
            pointer = dmu::raw::entry(&data, 0).unwrap_or(BlockPointer::HOLE);
        }
        if pointer.is_hole() {
            return Ok(None);
        }
        read(&pointer, Bookmark::new(set, object, 0, 0)).map(Some)
    };
    let Some(dnodes) = first(&root.meta_dnode, ObjectId(0))? else {
        return Ok(0);
    };
    let found = slots(&dnodes).find(|(slot, _)| *slot == MASTER);
    let Some((_, Slot::Allocated { .. })) = found else {
        return Ok(0);
    };
    let Some(block) = first(&dmu::raw::dnode(&dnodes, MASTER)?, ObjectId(MASTER as u64))? else {
        return Ok(0);
    };
    let word = block.first_chunk().map(|word| ByteOrder::NATIVE.u64(*word));
    if word != Some(BLOCK_MICRO) {
        // Only version 5 has so much to say there.
        return Ok(VERSION_SPILL);
    }
    let micro = Micro::new(&block)?;
    let mut entries = (0..micro.slot_count()).filter_map(|slot| micro.entry(slot));
    let entry = entries.find(|entry| entry.name == b"VERSION");
    Ok(entry.map_or(0, |entry| entry.value))
}

/// Refuses a block that a raw stream cannot have.
pub(super) fn check(pointer: &BlockPointer) -> Result<(), SendError> {
    if pointer.is_embedded() || !pointer.is_encrypted() {
        return Err(SendError::NotEncrypted);
    }
    if pointer.byte_order() != ByteOrder::NATIVE {
        return Err(SendError::OtherOrder);
    }
    Ok(())
}

/// What stands before the dnodes of a block.
pub(super) fn range(first: u64, slots: u64, pointer: &BlockPointer, to_guid: base::Guid) -> Record {
    Record::ObjectRange(ObjectRangeRecord {
        first: ObjectId(first),
        slots,
        to_guid,
        salt: pointer.salt(),
        iv: pointer.iv(),
        mac: pointer.mac(),
        flags: 0,
    })
}

/// An object as it is stored: its record and its bonus, from the bytes of its dnode.
pub(super) fn object(
    record: ObjectRecord,
    dnode: &DnodePhys,
    stored: &[u8],
) -> (ObjectRecord, Vec<u8>) {
    let from = CORE_BYTES + BLOCK_POINTER_SIZE * usize::from(dnode.pointer_count);
    let spill = if dnode.spill.is_some() {
        BLOCK_POINTER_SIZE
    } else {
        0
    };
    let end = (usize::from(dnode.extra_slots) + 1) * SLOT_SIZE - spill;
    let bonus = if dnode.bonus_len == 0 {
        &[]
    } else {
        stored.get(from..end).unwrap_or_default()
    };
    let record = ObjectRecord {
        block_size: dnode.data_block_size(),
        raw_bonus_length: u32::try_from(bonus.len()).unwrap_or(0),
        indirect_shift: dnode.indirect_shift,
        levels: dnode.levels,
        pointers: dnode.pointer_count,
        max_block: dnode.max_block_id,
        ..record
    };
    (record, bonus.to_vec())
}

/// A block of data as it is stored.
pub(super) fn write(keyed: WriteRecord, pointer: &BlockPointer) -> Record {
    let (salt, iv) = mark(pointer);
    Record::Write(WriteRecord {
        key: BlockKey::AT.encrypted.set(keyed.key, 1),
        compression: compression(pointer),
        compressed_size: pointer.psize(),
        salt,
        iv,
        mac: pointer.mac(),
        ..keyed
    })
}

/// A spill block as it is stored.
pub(super) fn spill(plain: SpillRecord, pointer: &BlockPointer) -> Record {
    let (salt, iv) = mark(pointer);
    Record::Spill(SpillRecord {
        compression: compression(pointer),
        compressed_size: pointer.psize(),
        salt,
        iv,
        mac: pointer.mac(),
        ..plain
    })
}

fn compression(pointer: &BlockPointer) -> u8 {
    match pointer.compression_id() {
        0 => UNCOMPRESSED,
        number => number,
    }
}

/// The salt and vector of what is encrypted, and not only proven.
fn mark(pointer: &BlockPointer) -> ([u8; 8], [u8; 12]) {
    if pointer.protection() == Protection::Encrypted {
        (pointer.salt(), pointer.iv())
    } else {
        ([0; 8], [0; 12])
    }
}
