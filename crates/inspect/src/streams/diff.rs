//! What the last stream of a chain changes: paths, where what it starts from is at hand, else objects.

use std::io::Write;

use posix::{Changed, Comparison, FileType};

use super::chain::{Chain, Wanted};
use super::index::Index;
use crate::error::{InspectError, Result};
use crate::list::shown;
use crate::problems::Problems;

/// Says what the stream of the snapshot that is named changes, as `zfs diff` does; of one whose source is in none of
/// the files, which objects.
///
/// # Errors
/// The words make no sense, a file cannot be read, or `out` takes nothing more.
pub fn stream_diff(words: &[String], terminal: bool, out: &mut dyn Write) -> Result<Problems> {
    let mut problems = Problems::default();
    let (chain, places) = Chain::of(words)?;
    chain.note_damage(&mut problems);
    for place in &places {
        let wanted = chain.wanted(place);
        match wanted {
            Ok(wanted) => chain.paths(&wanted, terminal, out)?,
            Err(error) => chain.changed_objects(place, &error, out, &mut problems)?,
        }
    }
    out.flush().map_err(InspectError::Output)?;
    Ok(problems)
}

impl Chain {
    fn paths(&self, wanted: &Wanted<'_>, terminal: bool, out: &mut dyn Write) -> Result<()> {
        let name = wanted.name();
        let last = wanted.parts.last().map(|last| last.to);
        let before = wanted
            .parts
            .iter()
            .take_while(|part| Some(part.to) != last)
            .count();
        if before == 0 {
            let text = format!("the stream of {name} is full: it changes nothing, it is all");
            return Err(InspectError::Usage(text));
        }
        let old = self.view_of(name.clone(), self.index(wanted, before)?)?;
        let new = self.view_of(name.clone(), self.index(wanted, wanted.parts.len())?)?;
        for changes in Comparison::new(old.files, new.files) {
            let changes = changes.map_err(|source| InspectError::Files {
                path: name.clone(),
                source,
            })?;
            for change in changes {
                let slash: &[u8] = match change.attributes.file_type {
                    FileType::Directory => b"/",
                    FileType::Fifo
                    | FileType::CharacterDevice
                    | FileType::BlockDevice
                    | FileType::Regular
                    | FileType::Symlink
                    | FileType::Socket => b"",
                };
                let slash = if change.path == b"/" { b"" } else { slash };
                let path = [change.path.as_slice(), slash].concat();
                let (sign, path) = match change.changed {
                    Changed::Removed => ('-', path),
                    Changed::Created => ('+', path),
                    Changed::Modified => ('M', path),
                    Changed::Linked(more) => {
                        ('M', [path, format!("\t({more:+})").into_bytes()].concat())
                    }
                    Changed::Renamed(to) => ('R', [path.as_slice(), b" -> ", &to, slash].concat()),
                };
                let written = write!(out, "{sign}\t")
                    .and_then(|()| out.write_all(&shown(&path, terminal)))
                    .and_then(|()| out.write_all(b"\n"));
                written.map_err(InspectError::Output)?;
            }
        }
        Ok(())
    }

    /// Which objects a stream changes whose source is not here.
    fn changed_objects(
        &self,
        place: &str,
        error: &InspectError,
        out: &mut dyn Write,
        problems: &mut Problems,
    ) -> Result<()> {
        let (stream, _) = self.stream(place)?;
        problems.remark(format_args!("{error}: only objects are told"));
        let Some(file) = self.files.get(stream.begin.file as usize) else {
            return Ok(());
        };
        let mut index = Index::new();
        index.apply(file, stream)?;
        for (object, change) in &index.changes {
            let text = if change.is_gone {
                format!("-\tobject {object}")
            } else {
                format!("M\tobject {object}\t{} bytes written", change.written_bytes)
            };
            writeln!(out, "{text}").map_err(InspectError::Output)?;
        }
        Ok(())
    }
}
