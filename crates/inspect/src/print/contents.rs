//! What an object holds, by its type.

use std::io::Write;

use base::ByteOrder;
use format::bpobj::BpobjPhys;
use format::dsl::{DatasetPhys, DirectoryPhys};
use format::history::HistoryPhys;
use format::nvlist::decode_xdr;
use format::object_type::ObjectType;
use format::sa::RegistrationWord;
use format::zap::Value;
use format::znode::DirectoryEntry;

use super::fields::{Form, print_fields};
use crate::error::Result;
use crate::print::{Numbers, calendar, print_list};
use crate::raw::{RawFileSystem, RawObject, ZapEntry, path};

/// The most that is read of a packed list.
const LIST_BYTES_MAX: u64 = 64 << 20;

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
        ObjectType::HISTORY_OFFSETS => history(out, bonus, numbers)?,
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

/// As zdb names and shows the fields of a directory.
fn directory_line(name: &'static str) -> (&'static str, Form) {
    const PARTS: [&str; 5] = ["HEAD", "SNAP", "CHILD", "CHILD_RSRV", "REFRSRV"];
    match name {
        "creation_time" => (name, Form::Time),
        "parent_obj" => ("parent_dir_obj", Form::Plain),
        "used_bytes" | "compressed_bytes" | "uncompressed_bytes" | "quota" | "reserved" => {
            (name, Form::Space)
        }
        "flags" => (name, Form::Hex),
        "used_breakdown" => (name, Form::Parts(&PARTS)),
        _ => (name, Form::Plain),
    }
}

fn directory(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let phys = DirectoryPhys::decode_padded(bonus, ByteOrder::NATIVE);
    print_fields(out, &phys.values(), "dd_", numbers, directory_line)
}

/// As zdb names and shows the fields of a dataset.
fn dataset_line(name: &'static str) -> (&'static str, Form) {
    match name {
        "creation_time" => (name, Form::Time),
        "referenced_bytes" => ("used_bytes", Form::Space),
        "compressed_bytes" | "uncompressed_bytes" => (name, Form::Space),
        "unique_bytes" => ("unique", Form::Space),
        "flags" => (name, Form::Hex),
        _ => (name, Form::Plain),
    }
}

fn dataset(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let at = DatasetPhys::AT;
    let phys = DatasetPhys::decode_padded(bonus, ByteOrder::NATIVE);
    let mut values = phys.values();
    // As zdb orders them: two are not where they lie.
    values.sort_by_key(|(field, _)| match field.offset {
        offset if offset == at.user_references.offset => at.child_count.offset.saturating_add(1),
        offset if offset == at.block_pointer.offset => DatasetPhys::SIZE,
        offset => offset,
    });
    print_fields(out, &values, "ds_", numbers, dataset_line)
}

/// As zdb shows the fields of a list of block pointers.
fn list_line(name: &'static str) -> (&'static str, Form) {
    match name {
        "bytes" | "comp" | "uncomp" => (name, Form::Space),
        _ => (name, Form::Plain),
    }
}

fn list_header(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let phys = BpobjPhys::decode_padded(bonus, ByteOrder::NATIVE);
    let mut values = phys.values();
    // Older forms end before what later ones added; the last field has no form of its own.
    let end = match bonus.len() {
        BpobjPhys::SIZE_V2.. => BpobjPhys::SIZE,
        BpobjPhys::SIZE_V1.. => BpobjPhys::SIZE_V1,
        _ => BpobjPhys::SIZE_V0,
    };
    values.retain(|(field, _)| field.offset < end);
    print_fields(out, &values, "bpo_", numbers, list_line)
}

fn history(out: &mut dyn Write, bonus: &[u8], numbers: Numbers) -> Result<()> {
    let phys = HistoryPhys::decode_padded(bonus, ByteOrder::NATIVE);
    print_fields(out, &phys.values(), "sh_", numbers, |name| {
        (name, Form::Plain)
    })
}

fn file(out: &mut dyn Write, object: &RawObject, file_system: &RawFileSystem) -> Result<()> {
    let attributes = match file_system.attributes(object) {
        Ok(attributes) => attributes,
        Err(error) => return Ok(writeln!(out, "\t{error}")?),
    };
    let path = path(object, file_system);
    let path = path.unwrap_or_else(|| format!("???<object#{}>", object.id));
    writeln!(out, "\tpath\t{path}")?;
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
            object.dnode.max_block_id.saturating_add(1),
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
            let at = DirectoryEntry::AT;
            let kind = KINDS[at.kind.get(word) as usize];
            format!("{} (type: {kind})", at.object.get(word))
        }
        (_, Some(word)) if object_type == ObjectType::SA_REGISTRATION => {
            let at = RegistrationWord::AT;
            let (length, class, number) =
                (at.length.get(word), at.class.get(word), at.number.get(word));
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

#[cfg(test)]
mod tests;
