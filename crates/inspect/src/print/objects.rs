//! Datasets and their objects: a line each, or everything.

use std::io::Write;

use base::{ByteOrder, ObjectId};
use codec::Checksum;
use format::block_pointer::{self, BlockPointer, DVA_COUNT};
use format::deadlist::DeadlistPhys;
use format::dnode::{DnodeFlags, DnodePhys, SLOT_SIZE};
use format::object_set::ObjectSetKind;
use format::object_type::ObjectType;
use format::record::get_at;
use pipeline::ReadRequest;

use super::contents::print_contents;
use super::labels::compact;
use crate::error::{InspectError, Result};
use crate::print::{Numbers, nice};
use crate::raw::{DatasetEntry, RawFileSystem, RawObject, RawObjectSet, RawPool};

const HEADING: &str = "\n    Object  lvl   iblk   dblk  dsize  dnsize  lsize   %full  type";
/// At these levels of detail the following comes in.
const LEVEL_OBJECTS: u32 = 2;
const LEVEL_CONTENTS: u32 = 4;
const LEVEL_BLOCKS: u32 = 5;
const LEVEL_COPIES: u32 = 6;

/// How much of which objects to print.
pub(crate) struct ObjectOptions<'a> {
    /// How often -d was given.
    pub(crate) level: u32,
    pub(crate) numbers: Numbers,
    /// Which objects; all when empty.
    pub(crate) chosen: &'a [std::ops::RangeInclusive<u64>],
}

impl ObjectOptions<'_> {
    fn wants(&self, id: u64) -> bool {
        self.chosen.is_empty() || self.chosen.iter().any(|range| range.contains(&id))
    }
}

/// What the first line of a dataset says.
pub(crate) struct DatasetLine<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: u64,
    pub(crate) creation_txg: u64,
    pub(crate) referenced: u64,
}

/// Prints the meta object set. Whether all of it could be read.
pub(crate) fn print_mos(
    out: &mut dyn Write,
    pool: &RawPool,
    options: &ObjectOptions<'_>,
) -> Result<bool> {
    let referenced = pool.mos_bytes().unwrap_or(0);
    let line = DatasetLine {
        name: "mos",
        id: 0,
        creation_txg: 4,
        referenced,
    };
    print_set(out, &pool.mos, &line, options, None)
}

/// Prints a dataset. Whether all of it could be read.
pub(crate) fn print_dataset(
    out: &mut dyn Write,
    pool: &RawPool,
    dataset: &DatasetEntry,
    options: &ObjectOptions<'_>,
) -> Result<bool> {
    let phys = &dataset.phys;
    let line = DatasetLine {
        name: &dataset.name,
        id: dataset.id.0,
        creation_txg: phys.creation_txg.0,
        referenced: phys.referenced_bytes,
    };
    let deadlist = (phys.deadlist.0 != 0)
        .then(|| pool.mos.object(phys.deadlist))
        .transpose();
    match RawObjectSet::open(
        &pool.pipeline,
        base::ObjectSetId(dataset.id.0),
        phys.block_pointer,
    ) {
        Ok(set) => print_set(out, &set, &line, options, deadlist.ok().flatten().as_ref()),
        Err(error) => {
            writeln!(out, "Dataset {} cannot be read: {error}", dataset.name)?;
            Ok(false)
        }
    }
}

/// A type's name without the part that new-style types share.
fn type_name(object_type: ObjectType) -> &'static str {
    let name = object_type.name();
    name.strip_suffix(" (metadata)").unwrap_or(name)
}

fn kind_name(kind: ObjectSetKind) -> &'static str {
    match kind {
        ObjectSetKind::None => "NONE",
        ObjectSetKind::Meta => "META",
        ObjectSetKind::FileSystem => "ZPL",
        ObjectSetKind::Volume => "ZVOL",
        ObjectSetKind::Other => "OTHER",
    }
}

fn print_set(
    out: &mut dyn Write,
    set: &RawObjectSet,
    line: &DatasetLine<'_>,
    options: &ObjectOptions<'_>,
    deadlist: Option<&RawObject>,
) -> Result<bool> {
    let root = if options.level >= LEVEL_CONTENTS {
        format!(", rootbp {}", set.root)
    } else {
        String::new()
    };
    writeln!(
        out,
        "Dataset {} [{}], ID {}, cr_txg {}, {}, {} objects{root}",
        line.name,
        kind_name(set.phys.kind),
        line.id,
        line.creation_txg,
        options.numbers.show(line.referenced),
        set.root.fill(),
    )?;
    if options.level < LEVEL_OBJECTS {
        return Ok(true);
    }
    if let Some(deadlist) = deadlist
        && options.level >= LEVEL_CONTENTS
        && options.chosen.is_empty()
    {
        print_deadlist(out, deadlist, options)?;
    }
    let file_system = if set.phys.kind == ObjectSetKind::FileSystem {
        RawFileSystem::open(set).ok()
    } else {
        None
    };
    let mut printer = Printer {
        out,
        options,
        file_system,
        headed: false,
    };
    printer.specials(set)?;
    let mut result = Ok(());
    let mut damage = Vec::new();
    let mut slots = Slots::default();
    set.for_each_object(&mut |error| damage.push(error), &mut |object| {
        slots.note(&object);
        if result.is_ok() && options.wants(object.id.0) {
            result = printer.print(&object);
        }
    });
    result?;
    if options.chosen.is_empty() {
        slots.print(printer.out)?;
    }
    for error in &damage {
        writeln!(printer.out, "\t{error}")?;
    }
    Ok(damage.is_empty())
}

/// How full the table of dnodes is.
#[derive(Default)]
struct Slots {
    used: u64,
    last: u64,
}

impl Slots {
    fn note(&mut self, object: &RawObject) {
        let slots = object.dnode.slot_count() as u64;
        self.used = self.used.saturating_add(slots);
        self.last = object.id.0.saturating_add(slots.saturating_sub(1));
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let empty = if self.last == 0 {
            0.0
        } else {
            100.0 * self.last.saturating_sub(self.used) as f64 / self.last as f64
        };
        writeln!(out, "\n    Dnode slots:")?;
        writeln!(out, "\tTotal used:    {:>10}", self.used)?;
        writeln!(out, "\tMax used:      {:>10}", self.last)?;
        writeln!(out, "\tPercent empty: {empty:>10.6}\n")?;
        Ok(())
    }
}

struct Printer<'a> {
    out: &'a mut dyn Write,
    options: &'a ObjectOptions<'a>,
    file_system: Option<RawFileSystem>,
    headed: bool,
}

impl Printer<'_> {
    /// The object of dnodes (0) and those of accounting (−1, −2, −3).
    fn specials(&mut self, set: &RawObjectSet) -> Result<()> {
        if !self.options.chosen.is_empty() && !self.options.wants(0) {
            return Ok(());
        }
        self.print(&set.meta())?;
        let specials = [
            &set.phys.user_used,
            &set.phys.group_used,
            &set.phys.project_used,
        ];
        for (index, dnode) in specials.into_iter().enumerate() {
            if let Some(dnode) = dnode {
                let id = ObjectId(u64::MAX.saturating_sub(index as u64));
                self.print(&set.with_dnode(id, dnode.clone()))?;
            }
        }
        Ok(())
    }

    fn print(&mut self, object: &RawObject) -> Result<()> {
        let detailed = self.options.level >= LEVEL_CONTENTS;
        if detailed || !self.headed {
            writeln!(self.out, "{HEADING}")?;
            self.headed = true;
        }
        self.row(object)?;
        if !detailed {
            return Ok(());
        }
        let dnode = &object.dnode;
        if dnode.bonus_type != ObjectType::NONE && dnode.bonus_len > 0 {
            let (length, name) = (dnode.bonus_len, type_name(dnode.bonus_type));
            writeln!(self.out, "{:>50}   bonus  {name}", nice(length.into()))?;
        }
        let flags: String = [
            (DnodeFlags::USED_BYTES, "USED_BYTES "),
            (DnodeFlags::USER_ACCOUNTED, "USERUSED_ACCOUNTED "),
            (DnodeFlags::USER_OBJECT_ACCOUNTED, "USEROBJUSED_ACCOUNTED "),
            (DnodeFlags::SPILL, "SPILL_BLKPTR"),
        ]
        .iter()
        .filter(|(mask, _)| dnode.flags.contains(*mask))
        .map(|(_, name)| *name)
        .collect();
        writeln!(self.out, "\tdnode flags: {flags}")?;
        writeln!(self.out, "\tdnode maxblkid: {}", dnode.max_block_id)?;
        if object.id.0 != 0 {
            print_contents(
                self.out,
                object,
                self.file_system.as_ref(),
                self.options.numbers,
            )?;
        }
        if self.options.level >= LEVEL_BLOCKS {
            self.blocks(object)?;
        }
        Ok(())
    }

    fn row(&mut self, object: &RawObject) -> Result<()> {
        let dnode = &object.dnode;
        let show = |value| self.options.numbers.show(value);
        let fill = fill_of(dnode);
        let length = object.length_max();
        let unit = if object.id.0 == 0 {
            SLOT_SIZE as u64
        } else {
            object.block_size()
        };
        let full = if length == 0 {
            0.0
        } else {
            100.0 * fill as f64 * unit as f64 / length as f64
        };
        let mut name = type_name(dnode.object_type).to_owned();
        if let Ok(kind) = Checksum::from_id(dnode.checksum) {
            name += &format!(" (K={})", kind.name());
        }
        if let Ok(kind) = codec::Compression::from_id(dnode.compress) {
            name += &format!(" (Z={})", kind.name());
        }
        writeln!(
            self.out,
            "{:>10}  {:>3}  {:>5}  {:>5}  {:>5}  {:>6}  {:>5}  {full:>6.2}  {name}",
            object.id.0.cast_signed(),
            dnode.levels,
            show(1 << dnode.indirect_shift),
            show(object.block_size()),
            show(dnode.used_bytes()),
            show(dnode.size() as u64),
            show(length),
        )?;
        Ok(())
    }

    /// Every block of the object with its place in the tree, and the parts that hold data.
    fn blocks(&mut self, object: &RawObject) -> Result<()> {
        let dnode = &object.dnode;
        if let Some(spill) = &dnode.spill {
            writeln!(self.out, "Spill block: {}", compact(spill, 1))?;
        }
        writeln!(self.out, "Indirect blocks:")?;
        let mut segments: Vec<(u64, u64)> = Vec::new();
        for index in 0..dnode.pointer_count {
            let pointer = dnode.pointers[usize::from(index)];
            self.block(
                object,
                &pointer,
                dnode.levels.saturating_sub(1),
                index.into(),
                &mut segments,
            )?;
        }
        writeln!(self.out)?;
        if object.id.0 == 0 {
            segments.clear();
        }
        for (start, end) in segments {
            let size = nice(end.saturating_sub(start));
            writeln!(
                self.out,
                "\t\tsegment [{start:016x}, {end:016x}) size {size:>5}"
            )?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        object: &RawObject,
        pointer: &BlockPointer,
        level: u8,
        number: u64,
        segments: &mut Vec<(u64, u64)>,
    ) -> Result<()> {
        if pointer.is_hole() && pointer.birth().0 == 0 {
            return Ok(());
        }
        let shift = object.dnode.entries_shift();
        let below = shift.saturating_mul(u32::from(level)).min(63);
        let span = object.block_size() << below;
        let start = number.wrapping_mul(span);
        let mut tree = String::new();
        for at in (0..object.dnode.levels).rev() {
            tree += &if at == level {
                format!("L{at}")
            } else {
                " ".to_owned()
            };
        }
        let copies = if self.options.level >= LEVEL_COPIES {
            DVA_COUNT
        } else {
            1
        };
        writeln!(self.out, "{start:>16x} {tree} {}", compact(pointer, copies))?;
        if pointer.is_hole() {
            return Ok(());
        }
        if level == 0 {
            match segments.last_mut() {
                Some((_, end)) if *end == start => *end = start.saturating_add(span),
                _ => segments.push((start, start.saturating_add(span))),
            }
            return Ok(());
        }
        let request = ReadRequest::new(object.place(level, number));
        let indirect = match object.pipeline.read(pointer, &request) {
            Ok(indirect) => indirect,
            Err(error) => return Ok(writeln!(self.out, "\t\t{error}")?),
        };
        for (index, entry) in indirect.chunks_exact(block_pointer::SIZE).enumerate() {
            let child = get_at(entry, 0, ByteOrder::NATIVE);
            let Some(first) = number.checked_shl(shift) else {
                break;
            };
            let (level, number) = (level.saturating_sub(1), first | index as u64);
            self.block(object, &child, level, number, segments)?;
        }
        Ok(())
    }
}

fn print_deadlist(
    out: &mut dyn Write,
    deadlist: &RawObject,
    options: &ObjectOptions<'_>,
) -> Result<()> {
    let phys = DeadlistPhys::decode_padded(deadlist.dnode.bonus_bytes(), ByteOrder::NATIVE);
    if deadlist.dnode.object_type != ObjectType::DEADLIST {
        return Ok(());
    }
    let mut entries = Vec::new();
    deadlist.zap_entries(&mut |entry| {
        let first = u64::from_str_radix(&entry.key.text(), 16).unwrap_or(0);
        entries.push((first, entry.value.as_word().unwrap_or(0)));
    })?;
    entries.sort_unstable();
    let show = |value| options.numbers.show(value);
    writeln!(
        out,
        "\n    Deadlist: {} ({}/{} comp), {} entries\n",
        show(phys.used),
        show(phys.compressed),
        show(phys.uncompressed),
        entries.len()
    )?;
    for (first, list) in entries {
        writeln!(out, "mintxg {first} -> obj {list}")?;
    }
    Ok(())
}

/// How many blocks, or dnodes, an object's pointers say that there are; the largest number, if they say more.
fn fill_of(dnode: &DnodePhys) -> u64 {
    let pointers = dnode.pointers.iter().take(dnode.pointer_count.into());
    let fills = pointers.map(BlockPointer::fill);
    fills.fold(0, u64::saturating_add)
}

impl From<std::io::Error> for InspectError {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests;
