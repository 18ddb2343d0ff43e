//! Intent logs.

use std::io::Write;

use base::ObjectId;
use format::intent_log::{Body, CreateFields, ObjectAndSlots, Record, SetXattrFields};

use crate::error::Result;
use crate::log::{LogBlock, for_each_block};
use crate::print::calendar;
use crate::raw::RawObjectSet;

const KINDS: [&str; 25] = [
    "Total",
    "TX_CREATE",
    "TX_MKDIR",
    "TX_MKXATTR",
    "TX_SYMLINK",
    "TX_REMOVE",
    "TX_RMDIR",
    "TX_LINK",
    "TX_RENAME",
    "TX_WRITE",
    "TX_TRUNCATE",
    "TX_SETATTR",
    "TX_ACL_V0",
    "TX_ACL_ACL",
    "TX_CREATE_ACL",
    "TX_CREATE_ATTR",
    "TX_CREATE_ACL_ATTR",
    "TX_MKDIR_ACL",
    "TX_MKDIR_ATTR",
    "TX_MKDIR_ACL_ATTR",
    "TX_WRITE2",
    "TX_SETSAXATTR",
    "TX_RENAME_EXCHANGE",
    "TX_RENAME_WHITEOUT",
    "TX_CLONE_RANGE",
];

/// Prints the header of an object set's log, its blocks (level 2) and its records (level 3).
pub(crate) fn print_log(out: &mut dyn Write, set: &RawObjectSet, level: u32) -> Result<()> {
    let header = &set.phys.log_header;
    if header.log.is_hole() {
        return Ok(());
    }
    writeln!(
        out,
        "\n    ZIL header: claim_txg {}, claim_blk_seq {}, claim_lr_seq {} replay_seq {}, flags {:#x}",
        header.claim_txg,
        header.claim_block_sequence,
        header.claim_record_sequence,
        header.replay_sequence,
        header.flags
    )?;
    if level < 2 {
        return Ok(());
    }
    let mut result = Ok(());
    writeln!(out)?;
    for_each_block(set, &mut |block| {
        if result.is_ok() {
            result = print_block(out, &block, level);
        }
    });
    result
}

fn print_block(out: &mut dyn Write, block: &LogBlock, level: u32) -> Result<()> {
    if level >= 4 {
        let state = if block.is_written() {
            ""
        } else {
            " (not written)"
        };
        writeln!(out, "\tBlock {}{state}", block.pointer)?;
    }
    let mut result = Ok(());
    block.for_each_record(&mut |record| {
        if result.is_ok() {
            result = print_record(out, record);
        }
    });
    result
}

fn print_record(out: &mut dyn Write, record: &Record<'_>) -> Result<()> {
    let header = &record.header;
    let kind = KINDS
        .get(record.kind() as usize)
        .copied()
        .unwrap_or("unknown");
    let fold = if header.kind == record.kind() {
        ""
    } else {
        "CI-"
    };
    writeln!(
        out,
        "\t\t{fold}{kind:<20}len {:>6}, txg {}, seq {}",
        header.length, header.txg, header.sequence
    )?;
    match &record.body {
        Body::Create(fields) | Body::CreateAcl(fields, _) => print_create(out, record, fields)?,
        Body::Remove(fields) => {
            let name = name_at(record, 0).0;
            writeln!(out, "\t\t\tdoid {}, name {name}", fields.directory)?;
        }
        Body::Link(fields) => {
            let (directory, object) = (fields.directory, fields.object);
            let name = name_at(record, 0).0;
            writeln!(
                out,
                "\t\t\tdoid {directory}, link_obj {object}, name {name}"
            )?;
        }
        Body::Rename(fields) => print_rename(out, record, (fields.source, fields.target))?,
        Body::Whiteout(fields) => print_rename(out, record, (fields.source, fields.target))?,
        Body::Write(fields) => {
            let (object, offset, length) = (fields.object, fields.offset, fields.length);
            writeln!(
                out,
                "\t\t\tfoid {object}, offset {offset:x}, length {length:x}"
            )?;
            if !fields.pointer.is_hole() {
                writeln!(out, "\t\t\thas blkptr, {}", fields.pointer)?;
            }
        }
        Body::Truncate(fields) => {
            let (object, offset, length) = (fields.object, fields.offset, fields.length);
            writeln!(
                out,
                "\t\t\tfoid {object}, offset {offset:#x}, length {length:#x}"
            )?;
        }
        Body::SetAttributes(fields) => {
            writeln!(out, "\t\t\tfoid {}, mask {:#x}", fields.object, fields.mask)?;
        }
        Body::OldAcl(fields) => print_acl(out, fields.object, fields.ace_count)?,
        Body::Acl(fields) => print_acl(out, fields.object, fields.ace_count)?,
        Body::SetXattr(fields) => print_xattr(out, record, fields)?,
        Body::CloneRange(fields) => {
            let (object, offset, length) = (fields.object, fields.offset, fields.length);
            let size = fields.block_size;
            writeln!(
                out,
                "\t\t\tfoid {object}, offset {offset:x}, length {length:x}, blksz {size:x}"
            )?;
        }
    }
    Ok(())
}

/// A name in the record's tail, and where the next one starts.
fn name_at(record: &Record<'_>, offset: usize) -> (String, usize) {
    match record.name_at(offset) {
        Some((name, next)) => (String::from_utf8_lossy(name).into_owned(), next),
        None => ("?".to_owned(), offset),
    }
}

fn print_acl(out: &mut dyn Write, object: ObjectId, entries: u64) -> Result<()> {
    Ok(writeln!(out, "\t\t\tfoid {object}, aclcnt {entries}")?)
}

/// What a record says that takes a name from one directory into another.
fn print_rename(
    out: &mut dyn Write,
    record: &Record<'_>,
    (source, target): (ObjectId, ObjectId),
) -> Result<()> {
    let (old, next) = name_at(record, 0);
    let new = name_at(record, next).0;
    writeln!(out, "\t\t\tsdoid {source}, tdoid {target}")?;
    writeln!(out, "\t\t\tsrc {old} tgt {new}")?;
    Ok(())
}

fn print_xattr(out: &mut dyn Write, record: &Record<'_>, fields: &SetXattrFields) -> Result<()> {
    let (name, next) = name_at(record, 0);
    writeln!(out, "\t\t\tfoid {}", fields.object)?;
    writeln!(out, "\t\t\tXAT_NAME  {name}")?;
    let value = record.tail.get(next..).unwrap_or(&[]);
    let value = value.get(..fields.value_size as usize).unwrap_or(value);
    writeln!(out, "\t\t\tXAT_VALUE  {}", String::from_utf8_lossy(value))?;
    Ok(())
}

fn print_create(out: &mut dyn Write, record: &Record<'_>, fields: &CreateFields) -> Result<()> {
    let (name, next) = match record.name_at(0) {
        Some((name, next)) => (String::from_utf8_lossy(name).into_owned(), next),
        None => ("?".to_owned(), 0),
    };
    let target = record
        .name_at(next)
        .filter(|(target, _)| !target.is_empty());
    match target {
        Some((target, _)) if record.kind() == 4 => {
            writeln!(out, "\t\t\t{name} -> {}", String::from_utf8_lossy(target))?;
        }
        _ => writeln!(out, "\t\t\t{name}")?,
    }
    writeln!(out, "\t\t\t{}", calendar(fields.creation_time[0]))?;
    let at = ObjectAndSlots::AT;
    let object = at.object.get(fields.object_and_slots);
    let slots = at.slots.get(fields.object_and_slots).saturating_add(1);
    let (directory, mode) = (fields.directory, fields.mode);
    writeln!(
        out,
        "\t\t\tdoid {directory}, foid {object}, slots {slots}, mode {mode:o}"
    )?;
    let (uid, gid, generation, device) = (fields.uid, fields.gid, fields.generation, fields.device);
    writeln!(
        out,
        "\t\t\tuid {uid}, gid {gid}, gen {generation}, rdev {device:#x}"
    )?;
    Ok(())
}
