//! How fragmented free space is, as the space maps' histograms of free segments say.

use base::{ByteOrder, ObjectId};
use dmu::ObjectSet;
use format::config::keys;
use format::space_map::SpaceMapPhys;
use pool::VdevConfig;

#[cfg(test)]
mod tests;

/// Percent for free segments of 512 bytes and more, 1 KiB and more, and so on up to 512 MiB. Checked
/// against what zdb says of golden pools up to 16 MiB.
const WORTH: [u64; 21] = [
    100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0,
];
const SMALLEST_SHIFT: u32 = 9;

/// Percent for the free segments of one metaslab; bucket i counts those of 2^(i + shift) bytes.
pub(super) fn of_histogram(histogram: &[u64], shift: u32) -> u64 {
    let (mut weighted, mut total) = (0_u128, 0_u128);
    for (count, shift) in histogram.iter().zip(shift..) {
        let index = shift.saturating_sub(SMALLEST_SHIFT) as usize;
        let worth = WORTH.get(index).copied().unwrap_or(0);
        let bytes = u128::from(*count) << shift.min(63);
        total += bytes;
        weighted += bytes * u128::from(worth);
    }
    weighted
        .checked_div(total)
        .and_then(|percent| u64::try_from(percent).ok())
        .unwrap_or(0)
}

/// The mean of a top-level vdev's metaslabs, each with the weight of its free bytes; none if its maps
/// keep no histograms.
pub(super) fn of_vdev(set: &ObjectSet, top: &VdevConfig) -> Option<u64> {
    let array = set.object(top.object(keys::METASLAB_ARRAY)?).ok()?;
    let shift = top.metaslab_shift();
    let (count, size) = (top.asize().checked_shr(shift)?, 1_u64.checked_shl(shift)?);
    let info = array.info();
    // What is past its end is 0: metaslabs that were never used.
    let there = (info.max_block.saturating_add(1)).saturating_mul(info.block_size.into());
    let length = count.checked_mul(8)?.min(there);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    array.read(0, &mut bytes).ok()?;
    let mut weighted = 0_u128;
    let mut free = u128::from(count) * u128::from(size);
    for word in bytes.chunks_exact(8) {
        let id = u64::from_ne_bytes(word.try_into().ok()?);
        if id == 0 {
            // All of it is free.
            continue;
        }
        let map = set.object(ObjectId(id)).ok()?;
        let (percent, allocated) = map.with_bonus(|bonus| {
            (bonus.len() >= SpaceMapPhys::SIZE).then(|| {
                let map = SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE);
                let percent = of_histogram(&map.histogram, top.ashift());
                (
                    percent,
                    map.allocated.clamp(0, size.cast_signed()).cast_unsigned(),
                )
            })
        })?;
        free = free.saturating_sub(allocated.into());
        weighted += u128::from(percent) * u128::from(size - allocated);
    }
    u64::try_from(weighted.checked_div(free)?).ok()
}
