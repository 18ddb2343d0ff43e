//! Telling whether streams are as they were sent, and what can still be had of those that are not.

use std::fmt;
use std::path::PathBuf;

use base::Guid;

use super::chain::Chain;
use super::files::Damage;
use crate::error::Result;

/// A file with streams, and how it is.
#[derive(Clone, Debug)]
pub struct VerifiedFile {
    /// The file.
    pub path: PathBuf,
    /// Records that are as they were sent.
    pub records: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// What is wrong behind them.
    pub damage: Option<String>,
    /// Its streams.
    pub streams: Vec<VerifiedStream>,
}

/// A stream, and how much of it there is.
#[derive(Clone, Debug)]
pub struct VerifiedStream {
    /// The snapshot.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The guid of the snapshot that it starts from; none: it is full.
    pub from: Option<u64>,
    /// Whether what it starts from is in these files, too.
    pub has_source: bool,
    /// Whether all of it is there.
    pub is_whole: bool,
    /// Its records.
    pub records: u64,
    /// The byte that it begins at, and the one behind it.
    pub range: (u64, u64),
}

/// Reads all of the files, and compares each checksum.
///
/// # Errors
/// A file cannot be read.
pub fn stream_verify(words: &[String]) -> Result<Vec<VerifiedFile>> {
    let (chain, _) = Chain::of(words)?;
    let has = |guid: Guid| chain.streams().any(|one| one.to == guid && one.is_whole);
    let files = chain.files.iter().map(|file| VerifiedFile {
        path: file.path.clone(),
        records: file.records,
        bytes: file.bytes,
        damage: file.damage.as_ref().map(ToString::to_string),
        streams: file
            .streams
            .iter()
            .map(|stream| VerifiedStream {
                name: stream.name(),
                guid: stream.to.0,
                from: Some(stream.from.0).filter(|from| *from != 0),
                has_source: stream.from == Guid(0) || has(stream.from),
                is_whole: stream.is_whole,
                records: stream.records,
                range: (stream.begin.at, stream.end),
            })
            .collect(),
    });
    Ok(files.collect())
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            record,
            from,
            until,
            error,
        } = self;
        write!(
            f,
            "damaged in or before record {record}, between bytes {from} and {until}: {error}"
        )
    }
}
