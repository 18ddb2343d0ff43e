//! LZ4: a big-endian u32 of the compressed length, then one LZ4 block.

use crate::CodecError;

const HEADER_BYTES: usize = 4;

/// See [`super::compress`].
pub(super) fn compress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (header, body) = dst.split_first_chunk_mut::<HEADER_BYTES>()?;
    let length = lzzzz::lz4::compress(src, body, lzzzz::lz4::ACC_LEVEL_DEFAULT).ok()?;
    *header = u32::try_from(length).ok()?.to_be_bytes();
    Some(HEADER_BYTES + length)
}

/// See [`super::decompress`].
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    const TRUNCATED: CodecError = CodecError::Truncated("lz4");
    let (header, body) = src.split_first_chunk::<HEADER_BYTES>().ok_or(TRUNCATED)?;
    let length = u32::from_be_bytes(*header) as usize;
    let body = body.get(..length).ok_or(TRUNCATED)?;
    let expected = dst.len();
    match lzzzz::lz4::decompress(body, dst) {
        Ok(actual) if actual == expected => Ok(()),
        Ok(actual) => Err(CodecError::WrongLength {
            algorithm: "lz4",
            expected,
            actual,
        }),
        Err(_) => Err(CodecError::Malformed("lz4")),
    }
}
