//! `zfs diff`.

use std::io::Write as _;

use admin::{DiffChange, DiffRecord};

#[cfg(test)]
mod tests;

/// How changes are printed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiffOptions {
    /// The kinds of files (`-F`).
    pub(crate) kinds: bool,
    /// Tabs instead of arrows (`-H`).
    pub(crate) scripted: bool,
    /// Times of change (`-t`).
    pub(crate) times: bool,
    /// Names as they are (`-h`).
    pub(crate) raw: bool,
}

/// One line a change. Bytes, for names need not be text.
#[must_use]
pub(crate) fn diff(records: &[DiffRecord], options: DiffOptions) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        line(&mut out, record, options);
    }
    out
}

fn line(out: &mut Vec<u8>, record: &DiffRecord, options: DiffOptions) {
    if options.times {
        let (seconds, nanoseconds) = record.time;
        // Writing to memory cannot fail.
        let _ = write!(out, "{seconds:>10}.{nanoseconds:09}\t");
    }
    out.push(match record.change {
        DiffChange::Removed => b'-',
        DiffChange::Created => b'+',
        DiffChange::Modified | DiffChange::Linked(_) => b'M',
        DiffChange::Renamed(_) => b'R',
    });
    out.push(b'\t');
    if options.kinds {
        let _ = write!(out, "{}\t", record.kind);
    }
    path(out, &record.path, options);
    match &record.change {
        DiffChange::Linked(more) => {
            let _ = write!(out, "\t({more:+})");
        }
        DiffChange::Renamed(to) => {
            let between: &[u8] = if options.scripted { b"\t" } else { b" -> " };
            out.extend_from_slice(between);
            path(out, to, options);
        }
        DiffChange::Removed | DiffChange::Created | DiffChange::Modified => {}
    }
    out.push(b'\n');
}

/// What is no printable ASCII is shown as `\0` and three octal digits; so are blanks and
/// backslashes, so that every line can be split again.
fn path(out: &mut Vec<u8>, path: &[u8], options: DiffOptions) {
    for byte in path {
        if options.raw || (byte.is_ascii_graphic() && *byte != b'\\') {
            out.push(*byte);
        } else {
            let _ = write!(out, "\\0{byte:03o}");
        }
    }
}
