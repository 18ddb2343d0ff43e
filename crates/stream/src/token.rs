//! Resume tokens: how far a stream was received, as text that `zfs send -t` takes.

use std::fmt::Write;

use base::{ByteOrder, Guid, ObjectId};
use codec::{Compression, RunningFletcher4, compress, decompress};
use format::nvlist::{NvList, Value, encode_native};

use crate::{StreamError, decode_list};

/// Tokens are of this version.
const VERSION: &str = "1";
/// No list in a token is longer.
const LIST_MAX: usize = 64 << 10;
/// The level of compression.
const LEVEL: u8 = 6;

/// How far a stream was received.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResumeToken {
    /// The snapshot that the stream starts from, unless it is a full one.
    pub from_guid: Option<Guid>,
    /// The snapshot that is sent.
    pub to_guid: Guid,
    /// Its name where it is sent from.
    pub to_name: Vec<u8>,
    /// The object that is received.
    pub object: ObjectId,
    /// How far in that object.
    pub offset: u64,
    /// How many bytes of stream were received.
    pub bytes: u64,
    /// Blocks of more than 128 KiB may come.
    pub large_blocks: bool,
    /// Blocks inside of pointers may come.
    pub embedded: bool,
    /// Compressed blocks may come.
    pub compressed: bool,
    /// Blocks come as they are encrypted.
    pub raw: bool,
    /// What is sent is itself partly received.
    pub saved: bool,
    /// The snapshots that it is redacted by.
    pub redact_snapshots: Option<Vec<u64>>,
    /// The snapshots that the bookmark is redacted by which the stream starts from.
    pub bookmark_redact_snapshots: Option<Vec<u64>>,
}

impl ResumeToken {
    /// The token as a list.
    #[must_use]
    pub fn list(&self) -> NvList {
        let mut list = NvList::new();
        if let Some(Guid(guid)) = self.from_guid {
            list.set("fromguid", guid);
        }
        list.set("object", self.object.0);
        list.set("offset", self.offset);
        list.set("bytes", self.bytes);
        list.set("toguid", self.to_guid.0);
        list.set("toname", Value::String(self.to_name.clone()));
        for (name, value) in self.flags() {
            if value {
                list.set(name, Value::Boolean);
            }
        }
        let arrays = [
            ("redact_snaps", &self.redact_snapshots),
            ("book_redact_snaps", &self.bookmark_redact_snapshots),
        ];
        for (name, guids) in arrays {
            if let Some(guids) = guids {
                list.set(name, guids.clone());
            }
        }
        list
    }

    const fn flags(&self) -> [(&'static str, bool); 5] {
        [
            ("largeblockok", self.large_blocks),
            ("embedok", self.embedded),
            ("compressok", self.compressed),
            ("rawok", self.raw),
            ("savedok", self.saved),
        ]
    }

    /// The token as text.
    #[must_use]
    pub fn encode(&self) -> String {
        let packed = encode_native(&self.list());
        // Room for what does not get smaller.
        let mut compressed = vec![0; packed.len().saturating_mul(2).saturating_add(256)];
        let length = compress(Compression::Gzip(LEVEL), &packed, &mut compressed);
        compressed.truncate(length.unwrap_or(0));
        let mut text = format!("{VERSION}-{:x}-{:x}-", sum_of(&compressed), packed.len());
        for byte in compressed {
            // Writing to a string cannot fail.
            let _written = write!(text, "{byte:02x}");
        }
        text
    }

    /// The token in a text.
    ///
    /// # Errors
    /// When no receiver made it.
    pub fn decode(text: &str) -> Result<Self, StreamError> {
        let bad = || StreamError::BadToken;
        let list = unpack(text).ok_or_else(bad)?;
        let number = |name| list.u64(name).ok_or_else(bad);
        let array = |name| match list.get(name) {
            Some(Value::Uint64Array(guids)) => Some(guids.clone()),
            Some(_) | None => None,
        };
        Ok(Self {
            from_guid: list.u64("fromguid").map(Guid),
            to_guid: Guid(number("toguid")?),
            to_name: list.bytes("toname").ok_or_else(bad)?.to_vec(),
            object: ObjectId(number("object")?),
            offset: number("offset")?,
            bytes: number("bytes")?,
            large_blocks: list.contains("largeblockok"),
            embedded: list.contains("embedok"),
            compressed: list.contains("compressok"),
            raw: list.contains("rawok"),
            saved: list.contains("savedok"),
            redact_snapshots: array("redact_snaps"),
            bookmark_redact_snapshots: array("book_redact_snaps"),
        })
    }
}

/// The first sum of the compressed bytes, as far as they are whole words of 4: the rest does not count.
///
/// Source: tokens of OpenZFS, `docs/format-notes/streams.md`.
fn sum_of(compressed: &[u8]) -> u64 {
    let (words, _rest) = compressed.as_chunks::<4>();
    let mut sum = RunningFletcher4::new();
    sum.feed(words.as_flattened(), ByteOrder::NATIVE);
    let [first, ..] = sum.value().0;
    first
}

fn unpack(text: &str) -> Option<NvList> {
    let mut parts = text.trim().splitn(4, '-');
    let (version, sum) = (parts.next()?, parts.next()?);
    let (length, hex) = (parts.next()?, parts.next()?);
    let sum = u64::from_str_radix(sum, 16).ok()?;
    let length = usize::from_str_radix(length, 16).ok()?;
    if version != VERSION || length > LIST_MAX || hex.len() > LIST_MAX {
        return None;
    }
    let compressed = bytes_of(hex)?;
    if sum_of(&compressed) != sum {
        return None;
    }
    let mut packed = vec![0; length];
    decompress(Compression::Gzip(LEVEL), &compressed, &mut packed).ok()?;
    decode_list(&packed).ok()?
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(byte).collect()
}
