//! The compression table and its two entry points.

mod gzip;
mod lz4;
mod lzjb;
#[cfg(test)]
mod tests;
mod zle;
mod zstd;

pub use zstd::ZstdLevel;

use crate::CodecError;

/// The compression algorithms that a block pointer can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Compression {
    /// Stored as it is.
    Off,
    /// The oldest one; still what metadata uses on pools without `lz4_compress`.
    Lzjb,
    /// Stored as it is, but blocks of zeros become holes. Never in a block pointer.
    Empty,
    /// A zlib stream of level 1 to 9.
    Gzip(u8),
    /// Runs of zeros only.
    Zle,
    /// LZ4 with a length in front.
    Lz4,
    /// Zstandard with a length and level in front.
    Zstd(ZstdLevel),
}

impl Compression {
    /// The number on disk.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Off => 2,
            Self::Lzjb => 3,
            Self::Empty => 4,
            Self::Gzip(level) if level < 1 => 5,
            Self::Gzip(level) if level > 9 => 13,
            Self::Gzip(level) => 4 + level,
            Self::Zle => 14,
            Self::Lz4 => 15,
            Self::Zstd(_) => 16,
        }
    }

    /// The compression with this number on disk. The level of a Zstandard block is inside the
    /// block, so this one carries the default level.
    pub const fn from_id(id: u8) -> Result<Self, CodecError> {
        Ok(match id {
            2 => Self::Off,
            3 => Self::Lzjb,
            4 => Self::Empty,
            5..=13 => Self::Gzip(id - 4),
            14 => Self::Zle,
            15 => Self::Lz4,
            16 => Self::Zstd(ZstdLevel::DEFAULT),
            _ => return Err(CodecError::UnknownCompression(id)),
        })
    }

    /// The name that listings of blocks use: the algorithm, without a Zstandard level.
    #[must_use]
    pub const fn name(self) -> &'static str {
        const GZIP: [&str; 9] = [
            "gzip-1", "gzip-2", "gzip-3", "gzip-4", "gzip-5", "gzip-6", "gzip-7", "gzip-8",
            "gzip-9",
        ];
        match self {
            // "uncompressed" is zdb's word in block pointers.
            Self::Off => "uncompressed",
            Self::Lzjb => "lzjb",
            Self::Empty => "empty",
            Self::Gzip(level) if level >= 1 && level <= 9 => GZIP[level as usize - 1],
            Self::Gzip(_) => "gzip",
            Self::Zle => "zle",
            Self::Lz4 => "lz4",
            Self::Zstd(_) => "zstd",
        }
    }

    /// Whether bytes are stored as they are.
    #[must_use]
    pub const fn is_off(self) -> bool {
        matches!(self, Self::Off | Self::Empty)
    }
}

/// Compresses `src` into the front of `dst` and says how many bytes that took, or `None` when it
/// does not fit: the caller makes `dst` as long as the longest result that pays.
#[must_use]
pub fn compress(kind: Compression, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    match kind {
        Compression::Off | Compression::Empty => None,
        Compression::Lzjb => lzjb::compress(src, dst),
        Compression::Gzip(level) => gzip::compress(level, src, dst),
        Compression::Zle => zle::compress(src, dst),
        Compression::Lz4 => lz4::compress(src, dst),
        Compression::Zstd(level) => zstd::compress(level, src, dst),
    }
}

/// Fills all of `dst`, which is exactly the logical size, from the stream at the start of `src`.
/// What follows the stream in `src` is padding and is ignored.
pub fn decompress(kind: Compression, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    match kind {
        Compression::Off | Compression::Empty => {
            let actual = src.len();
            let wrong = CodecError::WrongLength {
                algorithm: "plain",
                expected: dst.len(),
                actual,
            };
            dst.copy_from_slice(src.get(..dst.len()).ok_or(wrong)?);
            Ok(())
        }
        Compression::Lzjb => lzjb::decompress(src, dst),
        Compression::Gzip(_) => gzip::decompress(src, dst),
        Compression::Zle => zle::decompress(src, dst),
        Compression::Lz4 => lz4::decompress(src, dst),
        Compression::Zstd(_) => zstd::decompress(src, dst),
    }
}
