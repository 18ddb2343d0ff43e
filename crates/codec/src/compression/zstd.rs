//! Zstandard: a header of length, level and library version, then a frame without its magic.

use std::cell::RefCell;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat, ResetDirective};

use super::lz4;
use crate::CodecError;

const HEADER_BYTES: usize = 8;
/// From this size and level on, cheap algorithms are asked first whether it pays.
const EARLY_ABORT_BYTES_MIN: usize = 128 << 10;
const EARLY_ABORT_LEVEL_MIN: i32 = 3;

/// A Zstandard level as the block header stores it: 1–19 are the levels, 101 and up the fast ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ZstdLevel(u8);

/// The fast levels in the order of their codes, from 103 on.
const FAST_LEVELS: [i32; 21] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000,
];
const FAST_CODE_FIRST: u8 = 103;

impl ZstdLevel {
    /// What "zstd" without a level means.
    pub const DEFAULT: Self = Self(3);

    /// The level with this code in a block header.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        let fast_end = FAST_CODE_FIRST + FAST_LEVELS.len() as u8;
        if (code >= 1 && code <= 19) || (code >= FAST_CODE_FIRST && code < fast_end) {
            Some(Self(code))
        } else {
            None
        }
    }

    /// The level `level`: 1 to 19, or one of the negative (fast) levels.
    #[must_use]
    pub fn from_level(level: i32) -> Option<Self> {
        if level < 0 {
            let index = FAST_LEVELS.iter().position(|&fast| fast == -level)?;
            return Some(Self(FAST_CODE_FIRST + index as u8));
        }
        u8::try_from(level)
            .ok()
            .filter(|&level| level <= 19)
            .and_then(Self::from_code)
    }

    /// The code in the block header.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The level that the library understands.
    #[must_use]
    pub const fn level(self) -> i32 {
        if self.0 >= FAST_CODE_FIRST {
            -FAST_LEVELS[(self.0 - FAST_CODE_FIRST) as usize]
        } else {
            self.0 as i32
        }
    }
}

thread_local! {
    /// A compression context is hundreds of kilobytes: one a thread, reused.
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// See [`super::compress`].
pub(super) fn compress(level: ZstdLevel, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let wants_trial = level.level() >= EARLY_ABORT_LEVEL_MIN && src.len() >= EARLY_ABORT_BYTES_MIN;
    if wants_trial && lz4::compress(src, dst).is_none() {
        compress_frame(1, src, dst.get_mut(HEADER_BYTES..)?)?;
    }
    let (header, body) = dst.split_first_chunk_mut::<HEADER_BYTES>()?;
    let length = compress_frame(level.level(), src, body)?;
    header[..4].copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    let version = zstd_safe::version_number() & 0x00FF_FFFF;
    let word = (u32::from(level.code()) << 24) | version;
    header[4..].copy_from_slice(&word.to_be_bytes());
    Some(HEADER_BYTES + length)
}

fn compress_frame(level: i32, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            let mut context = CCtx::try_create()?;
            context
                .set_parameter(CParameter::Format(FrameFormat::Magicless))
                .ok()?;
            context
                .set_parameter(CParameter::ContentSizeFlag(false))
                .ok()?;
            context
                .set_parameter(CParameter::ChecksumFlag(false))
                .ok()?;
            context.set_parameter(CParameter::DictIdFlag(false)).ok()?;
            *slot = Some(context);
        }
        let context = slot.as_mut()?;
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .ok()?;
        let result = context.compress2(dst, src);
        if result.is_err() {
            context.reset(ResetDirective::SessionOnly).ok()?;
        }
        result.ok()
    })
}

/// See [`super::decompress`].
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    const TRUNCATED: CodecError = CodecError::Truncated("zstd");
    const MALFORMED: CodecError = CodecError::Malformed("zstd");
    let (header, body) = src.split_first_chunk::<HEADER_BYTES>().ok_or(TRUNCATED)?;
    let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    level_of(header).ok_or(MALFORMED)?;
    let body = body.get(..length).ok_or(TRUNCATED)?;
    let expected = dst.len();
    let result = DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            let mut context = DCtx::try_create().ok_or(MALFORMED)?;
            context
                .set_parameter(DParameter::Format(FrameFormat::Magicless))
                .map_err(|_| MALFORMED)?;
            *slot = Some(context);
        }
        let context = slot.as_mut().ok_or(MALFORMED)?;
        let result = context.decompress(dst, body);
        if result.is_err() {
            context
                .reset(ResetDirective::SessionOnly)
                .map_err(|_| MALFORMED)?;
        }
        result.map_err(|_| MALFORMED)
    })?;
    if result != expected {
        return Err(CodecError::WrongLength {
            algorithm: "zstd",
            expected,
            actual: result,
        });
    }
    Ok(())
}

/// The level in a block header. Some big-endian writers put the level last instead of first; the
/// version's top byte, which is zero, tells which end it is at.
fn level_of(header: &[u8; HEADER_BYTES]) -> Option<ZstdLevel> {
    let code = if header[4] == 0 { header[7] } else { header[4] };
    ZstdLevel::from_code(code)
}
