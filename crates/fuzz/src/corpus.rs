//! Inputs to begin with: pieces of golden pools where they are at hand, and plain patterns.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const PIECE_SIZE: usize = 16 << 10;
const PIECES_PER_IMAGE: usize = 48;

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
            inputs.extend(pieces(&image).unwrap_or_default());
        }
    }
    inputs
}

/// The label, and pieces of the image that are not all zero.
fn pieces(image: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut file = std::fs::File::open(image)?;
    let length = file.metadata()?.len();
    let mut found = Vec::new();
    let mut piece = vec![0; PIECE_SIZE];
    let mut offset = 16 << 10;
    while offset + (PIECE_SIZE as u64) < length && found.len() < PIECES_PER_IMAGE {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            found.push(piece.clone());
            found.push(piece[..512].to_vec());
        }
        offset += if offset < 256 << 10 {
            PIECE_SIZE as u64
        } else {
            64 << 10
        };
    }
    Ok(found)
}
