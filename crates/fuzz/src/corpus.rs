//! The inputs of the repository: a file for each target, in which each input follows its length (16 bits,
//! little-endian).

use std::path::{Path, PathBuf};

/// Where they are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The inputs for a target; none if it has no file.
#[must_use]
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let packed = std::fs::read(folder().join(target)).unwrap_or_default();
    let mut inputs = Vec::new();
    let mut rest = packed.as_slice();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (input, after) = after.split_at(length.min(after.len()));
        inputs.push(input.to_vec());
        rest = after;
    }
    inputs
}
