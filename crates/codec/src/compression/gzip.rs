//! Gzip: in truth a zlib stream, levels 1 to 9.

use std::cell::RefCell;

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

use crate::CodecError;

thread_local! {
    /// The thread's last compressor with its level: a dataset rarely mixes levels.
    static COMPRESSOR: RefCell<Option<(u8, Compressor)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

/// See [`super::compress`].
pub(super) fn compress(level: u8, src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let level = level.clamp(1, 9);
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.as_ref().is_none_or(|(have, _)| *have != level) {
            let deflate_level = CompressionLvl::new(i32::from(level)).ok()?;
            *slot = Some((level, Compressor::new(deflate_level)));
        }
        let (_, compressor) = slot.as_mut()?;
        compressor.zlib_compress(src, dst).ok()
    })
}

/// See [`super::decompress`].
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let expected = dst.len();
    let result = DECOMPRESSOR.with_borrow_mut(|slot| {
        slot.get_or_insert_with(Decompressor::new)
            .zlib_decompress(src, dst)
    });
    let wrong = |actual| CodecError::WrongLength {
        algorithm: "gzip",
        expected,
        actual,
    };
    match result {
        Ok(actual) if actual == expected => Ok(()),
        Ok(actual) => Err(wrong(actual)),
        Err(DecompressionError::InsufficientSpace) => Err(wrong(expected + 1)),
        Err(DecompressionError::BadData) => Err(CodecError::Malformed("gzip")),
    }
}
