//! Compression, both ways.

use crate::target::{Target, targets};
use codec::{Compression, ZstdLevel};

/// The first two bytes say how long the block is said to be, in sectors.
fn decompress(kind: Compression, bytes: &[u8]) {
    let Some((length, packed)) = bytes.split_first_chunk() else {
        return;
    };
    let sectors = usize::from(u16::from_le_bytes(*length) & 0xFF) + 1;
    let mut output = vec![0; sectors * 512];
    let _ = codec::decompress(kind, packed, &mut output);
}

/// The same bytes come back. The first byte is the level, where there are levels.
fn round_trip(kinds: &[Compression], bytes: &[u8]) {
    let (mut packed, mut output) = (vec![0; bytes.len()], vec![0; bytes.len()]);
    for kind in kinds {
        if let Some(length) = codec::compress(*kind, bytes, &mut packed) {
            let back = codec::decompress(*kind, &packed[..length], &mut output);
            back.expect("our own output decodes");
            assert_eq!(output, bytes);
        }
    }
}

pub(super) const TARGETS: &[Target] = targets! {
    decompress_lz4: |bytes| decompress(Compression::Lz4, bytes);
    decompress_lzjb: |bytes| decompress(Compression::Lzjb, bytes);
    decompress_gzip: |bytes| decompress(Compression::Gzip(6), bytes);
    decompress_zle: |bytes| decompress(Compression::Zle, bytes);
    decompress_zstd: |bytes| decompress(Compression::Zstd(ZstdLevel::DEFAULT), bytes);
    compress: |bytes| {
        let zstd = Compression::Zstd(ZstdLevel::DEFAULT);
        let kinds = [Compression::Lzjb, Compression::Zle, Compression::Gzip(1), Compression::Lz4, zstd];
        round_trip(&kinds, bytes);
    };
};
