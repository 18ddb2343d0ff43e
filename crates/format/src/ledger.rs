//! Every declared layout, and the text of `docs/format-layouts.md`.
//!
//! A declaration that is missing in [`groups`] is found by `cargo xtask tidy`.

use std::fmt::Write;

use crate::bits::{BitField, BitLayout, Bits};
use crate::record::{Field, Layout};
use crate::{
    block_pointer, bookmark, bpobj, bptree, brt, deadlist, dedup, dnode, dsl, embedded_checksum,
    gang, history, indirect, intent_log, l2arc, label, object_set, rebuild, redaction, sa, scan,
    space_map, stream, uberblock, zap, znode,
};

/// A declaration: of bytes, or of the bits of a word.
#[derive(Clone, Copy, Debug)]
pub enum Declared {
    /// `record!` or `areas!`.
    Bytes(Layout),
    /// `bits!`.
    Word(BitLayout),
}

/// A heading and the declarations under it.
pub type Group = (&'static str, Vec<Declared>);

macro_rules! declared {
    ($heading:literal $( bytes $( $record:path ),+ ; )* $( words $( $word:path ),+ ; )*) => {{
        let mut all = Vec::new();
        $( $( { use $record as This; all.push(Declared::Bytes(This::LAYOUT)); } )+ )*
        $( $( { use $word as This; all.push(Declared::Word(This::LAYOUT)); } )+ )*
        ($heading, all)
    }};
}

/// All declarations, from the labels to the files.
#[must_use]
pub fn groups() -> Vec<Group> {
    let mut groups = pool();
    groups.extend(datasets());
    groups.extend(intent_log());
    groups.extend(files());
    groups.extend(streams());
    groups
}

fn pool() -> Vec<Group> {
    vec![
        declared! { "Labels and uberblocks"
            bytes label::LabelAreas, uberblock::Uberblock, embedded_checksum::EmbeddedChecksum;
            words uberblock::MultihostConfig, uberblock::ReflowInfo;
        },
        declared! { "Block pointers"
            bytes block_pointer::BlockPointerAreas, gang::GangAreas;
            words block_pointer::BlockProperties, block_pointer::EmbeddedProperties,
                block_pointer::BlockMoreProperties, block_pointer::DvaFirst,
                block_pointer::DvaSecond;
        },
        declared! { "Space"
            bytes space_map::SpaceMapPhys, indirect::MappingPhys, indirect::MappingEntryPhys,
                indirect::BirthsPhys, indirect::BirthEntryPhys, brt::BlockReferencePhys;
            words space_map::OneWordEntry, space_map::TwoWordFirst, space_map::TwoWordSecond,
                space_map::DebugEntry;
        },
        declared! { "Dedup tables"
            bytes dedup::DedupVariantPhys, dedup::FlatDedupPhys, dedup::DedupLogPhys;
            words dedup::DedupKeyWord, dedup::DedupLogHead, dedup::DedupRecordHead;
        },
        declared! { "Cache devices"
            bytes l2arc::CacheHeader, l2arc::LogPointerPhys, l2arc::LogBlockAreas, l2arc::CopyPhys;
            words l2arc::LogPointerProperties, l2arc::CopyProperties;
        },
        declared! { "History"
            bytes history::HistoryPhys;
        },
        declared! { "Scans and rebuilds"
            bytes scan::ScanPhys, rebuild::Rebuild;
        },
    ]
}

fn datasets() -> Vec<Group> {
    vec![
        declared! { "Objects"
            bytes object_set::ObjectSetAreas, dnode::DnodeCore;
        },
        declared! { "Datasets"
            bytes dsl::DirectoryPhys, dsl::DatasetPhys, deadlist::DeadlistPhys, bpobj::BpobjPhys,
                bptree::BlockTreePhys, bptree::BlockTreeEntry, bookmark::BookmarkPhys,
                redaction::RedactionHead, redaction::RedactedRange;
            words redaction::RangeSize;
        },
        declared! { "ZAPs"
            bytes zap::micro::MicroHeader, zap::FatHeader, zap::leaf::LeafHeader,
                zap::leaf::EntryChunk;
        },
    ]
}

fn intent_log() -> Vec<Group> {
    vec![declared! { "Intent logs"
        bytes intent_log::LogHeader, intent_log::ChainElement, intent_log::RecordHeader,
            intent_log::CreateFields, intent_log::CreateAclFields, intent_log::ExtendedAttributes,
            intent_log::DirectoryFields, intent_log::LinkFields, intent_log::RenameFields,
            intent_log::WhiteoutFields, intent_log::WriteFields, intent_log::TruncateFields,
            intent_log::SetAttributesFields, intent_log::OldAclFields, intent_log::AclFields,
            intent_log::SetXattrFields, intent_log::CloneRangeFields;
        words intent_log::ObjectAndSlots;
    }]
}

fn files() -> Vec<Group> {
    vec![declared! { "Files"
        bytes sa::HeaderFields, znode::ZnodePhys;
        words sa::LayoutInfo, sa::RegistrationWord, znode::DirectoryEntry;
    }]
}

fn streams() -> Vec<Group> {
    vec![declared! { "Send streams"
        bytes stream::RecordAreas, stream::BeginRecord, stream::ObjectRecord,
            stream::FreeObjectsRecord, stream::WriteRecord, stream::FreeRecord, stream::EndRecord,
            stream::WriteByReferenceRecord, stream::SpillRecord, stream::WriteEmbeddedRecord,
            stream::ObjectRangeRecord, stream::RedactRecord;
        words stream::VersionInfo, stream::BlockKey;
    }]
}

/// How long a line of text may be; rows of tables are as long as they are.
const COLUMNS_MAX: usize = 120;

const HEAD: &str = "# Layouts on disk

Every structure of fixed form that the code declares, with the names of OpenZFS where the declaration gives them.
Written by `cargo xtask layouts` from the declarations (`record!`, `areas!` and `bits!` in `crates/format`), which also
decode, encode, swap and show; a test compares. Numbers are in the writer's byte order, ZAP values of words big-endian.
Bytes and bits that no line covers are zero in what we write, and are kept in what we rewrite.

`object`, `txg` and `guid` are u64; `blkptr` is 128 bytes. Records of intent logs count from the record's start: the
first 32 bytes are its header.
";

/// The text of `docs/format-layouts.md`.
#[must_use]
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for (heading, declarations) in groups() {
        let _ = writeln!(text, "\n## {heading}");
        for declared in declarations {
            match declared {
                Declared::Bytes(layout) => bytes(&mut text, &layout),
                Declared::Word(layout) => word(&mut text, &layout),
            }
        }
    }
    text
}

fn title(text: &mut String, name: &str, usual: &str, size: &str, comment: &str) {
    let usual = match usual {
        "" => String::new(),
        usual => format!("{usual}: "),
    };
    let _ = writeln!(text, "\n### {usual}`{name}`, {size}\n");
    wrapped(text, &sentence(comment));
    text.push('\n');
}

/// A paragraph in lines of at most [`COLUMNS_MAX`].
fn wrapped(text: &mut String, paragraph: &str) {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        let gap = match column {
            0 => "",
            _ if column + 1 + length > COLUMNS_MAX => "\n",
            _ => " ",
        };
        column = if gap == " " {
            column + 1 + length
        } else {
            length
        };
        text.push_str(gap);
        text.push_str(word);
    }
    text.push('\n');
}

fn bytes(text: &mut String, layout: &Layout) {
    let size = format!("{} bytes", layout.size);
    title(text, layout.name, layout.usual, &size, layout.text);
    let rows = layout.fields.iter().map(|field| {
        [
            field.offset.to_string(),
            field.width.to_string(),
            kind(field),
            field.name.to_owned(),
            field.usual.to_owned(),
            sentence(field.text),
        ]
    });
    let heads = ["offset", "bytes", "type", "field", "OpenZFS", "meaning"];
    table(text, heads, &rows.collect::<Vec<_>>());
}

fn word(text: &mut String, layout: &BitLayout) {
    let size = format!("{} bits", layout.size);
    title(text, layout.name, layout.usual, &size, layout.text);
    let rows = layout.fields.iter().map(|field: &BitField| {
        let Bits { low, width } = field.bits;
        [
            match width {
                1 => low.to_string(),
                _ => format!("{low}–{}", low + width - 1),
            },
            field.bits.width.to_string(),
            field.name.to_owned(),
            field.usual.to_owned(),
            sentence(field.text),
        ]
    });
    let heads = ["bits", "width", "field", "OpenZFS", "meaning"];
    table(text, heads, &rows.collect::<Vec<_>>());
}

/// A field's type: an array as its element and how many.
fn kind(field: &Field) -> String {
    if field.element == field.width {
        field.kind.to_owned()
    } else {
        format!("{}[{}]", field.kind, field.width / field.element)
    }
}

/// A comment as one line, without the brackets of links.
fn sentence(comment: &str) -> String {
    comment
        .trim()
        .replace("[`", "`")
        .replace("`]", "`")
        .replace("super::", "")
        .replace("crate::", "")
        .replace('|', "\\|")
}

/// A table without its empty columns, the others as wide as their longest cell, but for the last one.
fn table<const N: usize>(text: &mut String, heads: [&str; N], rows: &[[String; N]]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let columns = heads.iter().enumerate();
    let columns: Vec<(usize, usize)> = columns
        .map(|(column, head)| (column, head, width(column)))
        .filter(|(_, _, width)| *width > 0)
        .map(|(column, head, width)| match column + 1 == N {
            true => (column, head.len()),
            false => (column, width.max(head.len())),
        })
        .collect();
    let mut line = |cells: &[String; N]| {
        let cells = columns
            .iter()
            .filter_map(|&(column, width)| Some((cells.get(column)?, width)))
            .map(|(cell, width)| format!("| {cell:width$} "));
        let cells: String = cells.collect();
        let _ = writeln!(text, "{}|", cells.trim_end_matches(' ').to_owned() + " ");
    };
    line(&heads.map(str::to_owned));
    let rules = std::array::from_fn(|column| {
        let found = columns.iter().find(|(found, _)| *found == column);
        "-".repeat(found.map_or(0, |(_, width)| *width))
    });
    line(&rules);
    for row in rows {
        line(row);
    }
}

#[cfg(test)]
mod tests;
