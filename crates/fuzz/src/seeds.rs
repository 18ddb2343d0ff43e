//! What fuzzing begins with: the inputs of the repository, pieces of golden pools where they are at hand, messages,
//! and plain patterns.

mod messages;

use codec::Compression;
use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const SECTOR_SIZE: usize = 512;
const PIECE_SIZE: usize = 128 << 10;
const PIECES_PER_IMAGE: usize = 24;
const BLOCKS_PER_IMAGE: usize = 120;
/// An input is no longer: what lies behind is decoded like what is before.
const INPUT_MAX: usize = 4096;
/// Where the pairs begin in a label.
const LABEL_PAIRS: usize = 16 << 10;
/// Sizes that metadata blocks have before compression.
const BLOCK_SIZES: [usize; 6] = [512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 128 << 10];

/// The folder with the inputs that are given to every target.
const OF_POOLS: &str = "pools";

/// Writes all of them: a folder for each target, with the inputs of the repository, and one of pieces of pools for all.
///
/// # Errors
/// When a file or folder cannot be written.
pub fn write(folder: &Path) -> std::io::Result<()> {
    write_inputs(&folder.join(OF_POOLS), of_pools())?;
    for target in crate::all() {
        let inputs = [of_target(target.name), crate::corpus::inputs(target.name)];
        write_inputs(&folder.join(target.name), inputs.concat())?;
    }
    Ok(())
}

fn write_inputs(folder: &Path, inputs: Vec<Vec<u8>>) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (index, input) in inputs.into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{index}")), input)?;
    }
    Ok(())
}

/// Inputs for every target.
fn of_pools() -> Vec<Vec<u8>> {
    let mut inputs = BTreeSet::from([
        vec![0; 512],
        vec![0xFF; 512],
        (0..=255).cycle().take(1024).collect(),
    ]);
    for pool in golden::all_pools() {
        for image in pool.images().into_iter().take(2) {
            inputs.extend(harvest(&image).unwrap_or_default());
        }
    }
    inputs.into_iter().collect()
}

/// Inputs for the target of this name alone.
fn of_target(name: &str) -> Vec<Vec<u8>> {
    let texts = match name {
        "admin_request" => messages::requests(),
        "admin_opening" => messages::openings(),
        "admin_response" => messages::responses(),
        "properties" => messages::assignments(),
        "program" => messages::programs(),
        "names" => ["a", "pool/fs@snap", "pool/fs#mark", "pool/a.b-c:d/%e f"]
            .map(str::to_owned)
            .to_vec(),
        "sizes" => ["512", "1.5G", "10KiB", "0.1E", "7TB"]
            .map(str::to_owned)
            .to_vec(),
        _ => Vec::new(),
    };
    texts.into_iter().map(String::into_bytes).collect()
}

/// The front of a piece of an image, or of a block.
fn front(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(INPUT_MAX)].to_vec()
}

/// Sectors of the image that are not all zero, the metadata blocks that lie compressed in them, and the bonuses of the
/// dnodes in those.
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
            raw.push(front(&piece[LABEL_PAIRS..]));
            raw.push(piece[..1024].to_vec());
        }
        for start in (0..PIECE_SIZE).step_by(SECTOR_SIZE) {
            if blocks.len() < BLOCKS_PER_IMAGE {
                blocks.extend(decompressed(&piece[start..]));
            }
        }
    }
    for block in &blocks {
        raw.push(front(block));
        raw.extend(bonuses(block).into_iter().take(4));
    }
    Ok(raw)
}

fn bonuses(block: &[u8]) -> Vec<Vec<u8>> {
    let size = format::dnode::SLOT_SIZE;
    let dnodes = format::dnode::slots(block).filter_map(|(slot, _)| {
        let dnode = format::DnodePhys::decode(block.get(slot * size..)?).ok()?;
        Some(dnode.bonus_bytes().to_vec())
    });
    dnodes.filter(|bonus| !bonus.is_empty()).collect()
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
