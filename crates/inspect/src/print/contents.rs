//! What an object holds, by its type.

use std::io::Write;

use base::ByteOrder;
use format::bpobj::BpobjPhys;
use format::dsl::{DatasetPhys, DirectoryPhys};
use format::history::HistoryPhys;
use format::nvlist::decode_xdr;
use format::object_type::ObjectType;
use format::zap::Value;

use crate::error::Result;
use crate::print::{Numbers, calendar, print_list};
use crate::raw::{RawFileSystem, RawObject, ZapEntry};

/// The most that is read of a packed list.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Paths longer than this many directories go in circles.
const PATH_DEPTH_MAX: usize = 256;

/// Prints the bonus and the content of an object as far as its types tell what they are.
pub(super) fn print_contents(
    out: &mut dyn Write,
    object: &RawObject,
    file_system: Option<&RawFileSystem>,
    numbers: Numbers,
) -> Result<()> {
    let dnode = &object.dnode;
    let bonus = dnode.bonus_bytes();
    match dnode.bonus_type {
        ObjectType::DSL_DIRECTORY => directory(out, bonus, numbers)?,
        ObjectType::DSL_DATASET => dataset(out, bonus, numbers)?,
        ObjectType::BPOBJ_HEADER => list_header(out, bonus, numbers)?,
        ObjectType::HISTORY_OFFSETS => history(out, bonus)?,
        ObjectType::SYSTEM_ATTRIBUTES | ObjectType::ZNODE => {
            if let Some(file_system) = file_system {
                file(out, object, file_system)?;
            }
        }
        _ => {}
    }
    if dnode.object_type == ObjectType::PACKED_NVLIST {
        let length = object
            .bonus_word(0)
            .min(object.length_max())
            .min(LIST_BYTES_MAX);
        match decode_xdr(&object.read_at(0, length as usize)?) {
            Ok(list) => print_list(out, &list, 8)?,
            Err(error) => writeln!(out, "\t\t{error}")?,
        }
    } else if dnode.object_type.is_zap() {
        zap(out, object)?;
    }
    Ok(())
}

fn directory(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    const PARTS: [&str; 5] = ["HEAD", "SNAP", "CHILD", "CHILD_RSRV", "REFRSRV"];
    let phys = DirectoryPhys::decode_padded(bonus, ByteOrder::NATIVE);
    writeln!(out, "\t\tcreation_time = {}", calendar(phys.creation_time))?;
    writeln!(out, "\t\thead_dataset_obj = {}", phys.head_dataset)?;
    writeln!(out, "\t\tparent_dir_obj = {}", phys.parent)?;
    writeln!(out, "\t\torigin_obj = {}", phys.origin)?;
    writeln!(out, "\t\tchild_dir_zapobj = {}", phys.child_map)?;
    for (name, value) in [
        ("used_bytes", phys.used_bytes),
        ("compressed_bytes", phys.compressed_bytes),
        ("uncompressed_bytes", phys.uncompressed_bytes),
        ("quota", phys.quota),
        ("reserved", phys.reserved),
    ] {
        writeln!(out, "\t\t{name} = {}", numbers.show(value))?;
    }
    writeln!(out, "\t\tprops_zapobj = {}", phys.properties)?;
    writeln!(out, "\t\tdeleg_zapobj = {}", phys.delegation)?;
    writeln!(out, "\t\tflags = {:x}", phys.flags)?;
    for (name, value) in PARTS.iter().zip(phys.used_breakdown) {
        writeln!(out, "\t\tused_breakdown[{name}] = {}", numbers.show(value))?;
    }
    writeln!(out, "\t\tclones = {}", phys.clones)?;
    Ok(())
}

fn dataset(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let phys = DatasetPhys::decode_padded(bonus, ByteOrder::NATIVE);
    writeln!(out, "\t\tdir_obj = {}", phys.directory)?;
    writeln!(out, "\t\tprev_snap_obj = {}", phys.previous_snapshot)?;
    writeln!(out, "\t\tprev_snap_txg = {}", phys.previous_snapshot_txg)?;
    writeln!(out, "\t\tnext_snap_obj = {}", phys.next_snapshot)?;
    writeln!(out, "\t\tsnapnames_zapobj = {}", phys.snapshot_names)?;
    writeln!(out, "\t\tnum_children = {}", phys.child_count)?;
    writeln!(out, "\t\tuserrefs_obj = {}", phys.user_references)?;
    writeln!(out, "\t\tcreation_time = {}", calendar(phys.creation_time))?;
    writeln!(out, "\t\tcreation_txg = {}", phys.creation_txg)?;
    writeln!(out, "\t\tdeadlist_obj = {}", phys.deadlist)?;
    for (name, value) in [
        ("used_bytes", phys.referenced_bytes),
        ("compressed_bytes", phys.compressed_bytes),
        ("uncompressed_bytes", phys.uncompressed_bytes),
        ("unique", phys.unique_bytes),
    ] {
        writeln!(out, "\t\t{name} = {}", numbers.show(value))?;
    }
    writeln!(out, "\t\tfsid_guid = {}", phys.fsid_guid)?;
    writeln!(out, "\t\tguid = {}", phys.guid)?;
    writeln!(out, "\t\tflags = {:x}", phys.flags)?;
    writeln!(out, "\t\tnext_clones_obj = {}", phys.next_clones)?;
    writeln!(out, "\t\tprops_obj = {}", phys.properties)?;
    writeln!(out, "\t\tbp = {}", phys.block_pointer)?;
    Ok(())
}

fn list_header(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let phys = BpobjPhys::decode_padded(bonus, ByteOrder::NATIVE);
    writeln!(out, "\t\tnum_blkptrs = {}", phys.pointer_count)?;
    writeln!(out, "\t\tbytes = {}", numbers.show(phys.bytes))?;
    if bonus.len() >= BpobjPhys::SIZE_V1 {
        writeln!(out, "\t\tcomp = {}", numbers.show(phys.compressed))?;
        writeln!(out, "\t\tuncomp = {}", numbers.show(phys.uncompressed))?;
    }
    if bonus.len() >= BpobjPhys::SIZE_V2 {
        writeln!(out, "\t\tsubobjs = {}", phys.subobjects)?;
        writeln!(out, "\t\tnum_subobjs = {}", phys.subobject_count)?;
        writeln!(out, "\t\tnum_freed = {}", phys.freed_count)?;
    }
    Ok(())
}

fn history(out: &mut dyn Write, bonus: &[u8]) -> Result<()> {
    let phys = HistoryPhys::decode_padded(bonus, ByteOrder::NATIVE);
    writeln!(out, "\t\tpool_create_len = {}", phys.create_length)?;
    writeln!(out, "\t\tphys_max_off = {}", phys.ring_size)?;
    writeln!(out, "\t\tbof = {}", phys.begin)?;
    writeln!(out, "\t\teof = {}", phys.end)?;
    writeln!(out, "\t\trecords_lost = {}", phys.records_lost)?;
    Ok(())
}

fn file(out: &mut dyn Write, object: &RawObject, file_system: &RawFileSystem) -> Result<()> {
    let attributes = match file_system.attributes(object) {
        Ok(attributes) => attributes,
        Err(error) => return Ok(writeln!(out, "\t{error}")?),
    };
    writeln!(
        out,
        "\tpath\t{}",
        path(object, attributes.parent, file_system)
    )?;
    if let Some(target) = &attributes.symlink {
        writeln!(out, "\ttarget\t{}", String::from_utf8_lossy(target))?;
    }
    writeln!(out, "\tuid     {}", attributes.uid)?;
    writeln!(out, "\tgid     {}", attributes.gid)?;
    for (name, time) in [
        ("atime", attributes.atime),
        ("mtime", attributes.mtime),
        ("ctime", attributes.ctime),
        ("crtime", attributes.crtime),
    ] {
        writeln!(out, "\t{name}\t{}", calendar(time[0]))?;
    }
    writeln!(out, "\tgen\t{}", attributes.generation)?;
    writeln!(out, "\tmode\t{:o}", attributes.mode)?;
    writeln!(out, "\tsize\t{}", attributes.size)?;
    writeln!(out, "\tparent\t{}", attributes.parent)?;
    writeln!(out, "\tlinks\t{}", attributes.links)?;
    writeln!(out, "\tpflags\t{:x}", attributes.flags)?;
    if let Some(project) = attributes.project {
        writeln!(out, "\tprojid\t{project}")?;
    }
    if attributes.xattr_directory != 0 {
        writeln!(out, "\txattr\t{}", attributes.xattr_directory)?;
    }
    if attributes.device != 0 {
        writeln!(out, "\trdev\t{:#018x}", attributes.device)?;
    }
    if !attributes.packed_xattrs.is_empty()
        && let Ok(list) = decode_xdr(&attributes.packed_xattrs)
    {
        let length = attributes.packed_xattrs.len();
        writeln!(out, "\tSA xattrs: {length} bytes, {} entries\n", list.len())?;
        for (name, value) in list.iter() {
            let name = String::from_utf8_lossy(name);
            writeln!(out, "\t\t{name} = {}", xattr_text(value))?;
        }
    }
    Ok(())
}

/// An attribute's value: as it is if all of it can be printed, else every byte in octal.
fn xattr_text(value: &format::nvlist::Value) -> String {
    let format::nvlist::Value::ByteArray(bytes) = value else {
        return "?".to_owned();
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("\\{byte:03o}")).collect(),
    }
}

/// The path by way of the parents that files remember.
fn path(object: &RawObject, parent: u64, file_system: &RawFileSystem) -> String {
    let mut names = Vec::new();
    let (mut id, mut parent) = (object.id.0, parent);
    while id != file_system.root.0 {
        let found = (names.len() < PATH_DEPTH_MAX)
            .then(|| name_in(file_system, parent, id))
            .flatten();
        let Some((name, grandparent)) = found else {
            return format!("???<object#{}>", object.id);
        };
        names.push(name);
        (id, parent) = (parent, grandparent);
    }
    names.reverse();
    format!("/{}", names.join("/"))
}

/// What a directory calls an object, and the directory's own parent.
fn name_in(file_system: &RawFileSystem, directory: u64, id: u64) -> Option<(String, u64)> {
    const OBJECT_MASK: u64 = (1 << 48) - 1;
    let object = file_system.set.object(base::ObjectId(directory)).ok()?;
    let mut name = None;
    object.zap_entries_past(&mut |_| {}, &mut |entry| {
        if entry
            .value
            .as_word()
            .is_some_and(|word| word & OBJECT_MASK == id)
        {
            name.get_or_insert_with(|| entry.key.text());
        }
    });
    let parent = file_system.attributes(&object).ok()?.parent;
    Some((name?, parent))
}

fn zap(out: &mut dyn Write, object: &RawObject) -> Result<()> {
    let mut entries = Vec::new();
    let mut damage = Vec::new();
    object.zap_entries_past(&mut |error| damage.push(error), &mut |entry| {
        entries.push(entry)
    });
    entries.sort_by_key(|entry| (entry.hash, entry.differentiator));
    if object.dnode.max_block_id == 0 {
        writeln!(
            out,
            "\tmicrozap: {} bytes, {} entries\n",
            object.block_size(),
            entries.len()
        )?;
    } else {
        writeln!(
            out,
            "\tFat ZAP: {} blocks, {} entries\n",
            object.dnode.max_block_id + 1,
            entries.len()
        )?;
    }
    for entry in &entries {
        writeln!(
            out,
            "\t\t{} = {}",
            entry.key.text(),
            value_text(entry, object.dnode.object_type)
        )?;
    }
    for error in damage {
        writeln!(out, "\t\t{error}")?;
    }
    Ok(())
}

fn value_text(entry: &ZapEntry, object_type: ObjectType) -> String {
    const KINDS: [&str; 16] = [
        "not specified",
        "FIFO",
        "Character Device",
        "3 (invalid)",
        "Directory",
        "5 (invalid)",
        "Block Device",
        "7 (invalid)",
        "Regular File",
        "9 (invalid)",
        "Symbolic Link",
        "11 (invalid)",
        "Socket",
        "Door",
        "Event Port",
        "15 (invalid)",
    ];
    let value: &Value = &entry.value;
    match (value.integer_size(), value.as_word()) {
        (_, Some(word)) if object_type == ObjectType::DIRECTORY => {
            let kind = KINDS[(word >> 60) as usize];
            format!("{} (type: {kind})", word & ((1 << 48) - 1))
        }
        (_, Some(word)) if object_type == ObjectType::SA_REGISTRATION => {
            let (length, class, number) = (word >> 24 & 0xFFFF, word >> 16 & 0xFF, word & 0xFFFF);
            format!(" {word:x} : [{length}:{class}:{number}]")
        }
        (2, _) if object_type == ObjectType::SA_LAYOUTS => {
            let numbers = value.to_words();
            format!(
                "[ {}]",
                numbers
                    .iter()
                    .map(|number| format!("{number}  "))
                    .collect::<String>()
            )
            .replace("  ]", " ]")
        }
        (1, _) => match value.as_text() {
            Some(text) if !text.chars().any(char::is_control) => text.to_owned(),
            _ => value
                .stored()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        },
        _ => value
            .to_words()
            .iter()
            .map(|word| format!("{word} "))
            .collect(),
    }
}
