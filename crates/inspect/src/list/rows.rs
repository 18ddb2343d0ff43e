//! The lines of a listing.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::tz::TimeZone;
use posix::{Attributes, FileType, Timestamp};
use serde_json::{Value, json};

use super::ListOptions;
use crate::print::nice;
use crate::problems::Problems;
use crate::view::View;

/// One entry.
pub(super) struct Row {
    pub(super) name: Vec<u8>,
    attributes: Option<Attributes>,
    target: Option<Vec<u8>>,
}

impl Row {
    pub(super) fn new(
        view: &View,
        name: Vec<u8>,
        attributes: Option<Attributes>,
        problems: &mut Problems,
    ) -> Self {
        let link = attributes.filter(|found| found.file_type == FileType::Symlink);
        let target = link.and_then(|link| {
            let read = view.files.readlink(link.object);
            read.map_err(|error| problems.note(view.path(&name), error))
                .ok()
        });
        Self {
            name,
            attributes,
            target,
        }
    }

    /// The columns before the name.
    fn columns(&self, options: &ListOptions) -> [String; 6] {
        let Some(attributes) = &self.attributes else {
            return ["??????????", "?", "?", "?", "?", "?"].map(str::to_owned);
        };
        let size = match attributes.file_type {
            FileType::BlockDevice | FileType::CharacterDevice => {
                format!("{}, {}", attributes.device.0, attributes.device.1)
            }
            FileType::Fifo
            | FileType::Directory
            | FileType::Regular
            | FileType::Symlink
            | FileType::Socket => {
                if options.human {
                    nice(attributes.size)
                } else {
                    attributes.size.to_string()
                }
            }
        };
        [
            mode(attributes),
            attributes.links.to_string(),
            attributes.uid.to_string(),
            attributes.gid.to_string(),
            size,
            time(attributes.mtime),
        ]
    }

    /// Everything, for programs.
    pub(super) fn json(&self, directory: &str) -> Value {
        let mut object = json!({
            "directory": directory,
            "name": String::from_utf8_lossy(&self.name),
        });
        let mut set = |key: &str, value: Value| object[key] = value;
        if std::str::from_utf8(&self.name).is_err() {
            let hex: String = self.name.iter().map(|byte| format!("{byte:02x}")).collect();
            set("name_hex", hex.into());
        }
        let Some(attributes) = &self.attributes else {
            set("error", "unreadable".into());
            return object;
        };
        set("type", kind(attributes.file_type).1.into());
        set("mode", format!("{:04o}", attributes.permissions).into());
        set("links", attributes.links.into());
        set("uid", attributes.uid.into());
        set("gid", attributes.gid.into());
        set("size", attributes.size.into());
        set("object", attributes.object.0.into());
        for (key, time) in [
            ("atime", attributes.atime),
            ("mtime", attributes.mtime),
            ("ctime", attributes.ctime),
            ("crtime", attributes.crtime),
        ] {
            set(key, json!([time.seconds, time.nanoseconds]));
        }
        if matches!(
            attributes.file_type,
            FileType::BlockDevice | FileType::CharacterDevice
        ) {
            set("device", json!([attributes.device.0, attributes.device.1]));
        }
        if let Some(target) = &self.target {
            set("target", String::from_utf8_lossy(target).into());
        }
        object
    }
}

/// Writes rows as `ls -l` does, numbers right-aligned.
pub(super) fn write_long(
    rows: &[Row],
    options: &ListOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut widths = [0; 6];
    for row in rows {
        for (width, column) in widths.iter_mut().zip(row.columns(options)) {
            *width = column.len().max(*width);
        }
    }
    for row in rows {
        for (width, column) in widths.into_iter().zip(row.columns(options)) {
            write!(out, "{column:>width$} ")?;
        }
        out.write_all(&shown(&row.name, options.terminal))?;
        if let Some(target) = &row.target {
            out.write_all(b" -> ")?;
            out.write_all(&shown(target, options.terminal))?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A name as it may go to a terminal: control characters could do anything there.
pub(crate) fn shown(name: &[u8], terminal: bool) -> Cow<'_, [u8]> {
    if !terminal {
        return Cow::Borrowed(name);
    }
    Cow::Owned(printable(&String::from_utf8_lossy(name)).into_bytes())
}

/// A name as it may go to a terminal.
#[must_use]
pub fn printable(name: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    name.chars().map(shown).collect()
}

/// Lines as they may go to a terminal.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// The letter and the word of a kind of file.
fn kind(file_type: FileType) -> (char, &'static str) {
    match file_type {
        FileType::Regular => ('-', "file"),
        FileType::Directory => ('d', "directory"),
        FileType::Symlink => ('l', "link"),
        FileType::Fifo => ('p', "fifo"),
        FileType::Socket => ('s', "socket"),
        FileType::BlockDevice => ('b', "block device"),
        FileType::CharacterDevice => ('c', "character device"),
    }
}

/// `drwxr-sr-t`.
fn mode(attributes: &Attributes) -> String {
    let bits = attributes.permissions;
    let mut text = String::from(kind(attributes.file_type).0);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let part = bits >> shift;
        text.push(if part & 4 != 0 { 'r' } else { '-' });
        text.push(if part & 2 != 0 { 'w' } else { '-' });
        text.push(match (part & 1 != 0, bits & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A moment in the local time zone; the bare number where there is no such day.
fn time(moment: Timestamp) -> String {
    jiff::Timestamp::from_second(moment.seconds).map_or_else(
        |_| moment.seconds.to_string(),
        |time| {
            time.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    )
}

#[cfg(test)]
mod tests;
