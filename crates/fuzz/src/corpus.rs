//! Inputs to begin with: pieces of golden pools where they are at hand, and plain patterns.

use codec::Compression;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const SECTOR_SIZE: usize = 512;
const PIECE_SIZE: usize = 128 << 10;
const PIECES_PER_IMAGE: usize = 64;
const BLOCKS_PER_IMAGE: usize = 400;
/// Sizes that metadata blocks have before compression.
const BLOCK_SIZES: [usize; 6] = [512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 128 << 10];

/// The first inputs of every target.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut inputs = vec![
        Vec::new(),
        vec![0; 512],
        vec![0xFF; 512],
        (0..=255).cycle().take(4096).collect(),
    ];
    for pool in golden::all_pools() {
        for image in pool.images().into_iter().take(2) {
            inputs.extend(harvest(&image).unwrap_or_default());
        }
    }
    inputs
}

/// Sectors of the image that are not all zero, and the metadata blocks that lie compressed in them.
fn harvest(image: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut file = std::fs::File::open(image)?;
    let length = file.metadata()?.len();
    let (mut raw, mut blocks) = (Vec::new(), Vec::new());
    let mut piece = vec![0; PIECE_SIZE];
    let mut offset = 0;
    while offset + (PIECE_SIZE as u64) <= length {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut piece)?;
        offset += PIECE_SIZE as u64;
        if piece.iter().all(|byte| *byte == 0) {
            continue;
        }
        if raw.len() < PIECES_PER_IMAGE {
            raw.push(piece[16 << 10..32 << 10].to_vec());
            raw.push(piece[..1024].to_vec());
        }
        for start in (0..PIECE_SIZE).step_by(SECTOR_SIZE) {
            if blocks.len() < BLOCKS_PER_IMAGE {
                blocks.extend(decompressed(&piece[start..]));
            }
        }
    }
    raw.extend(blocks);
    Ok(raw)
}

/// The block that lies compressed at the start of `sectors`, if one seems to.
fn decompressed(sectors: &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_be_bytes(*sectors.first_chunk()?) as usize;
    let stored = (length + 4).next_multiple_of(SECTOR_SIZE);
    if length < 32 || stored > sectors.len() {
        return None;
    }
    BLOCK_SIZES
        .iter()
        .filter(|size| **size >= length)
        .find_map(|size| {
            let mut block = vec![0; *size];
            codec::decompress(Compression::Lz4, &sectors[..stored], &mut block).ok()?;
            Some(block)
        })
}
