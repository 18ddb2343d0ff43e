//! How fragmented free space is, as the space maps' histograms of free segments say.

use base::{ByteOrder, Guid, ObjectId};
use format::config::keys;
use format::space_map::SpaceMapPhys;

use super::Facts;
use crate::config::VdevConfig;
use crate::pool::status::{PoolStatus, VdevRole};

#[cfg(test)]
mod tests;

/// Percent for free segments of 512 bytes and more, 1 KiB and more, and so on up to 512 MiB. Checked
/// against what zdb says of golden pools up to 16 MiB.
const WORTH: [u64; 21] = [
    100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0,
];
const SMALLEST_SHIFT: u32 = 9;

/// Percent for the free segments of one metaslab; bucket i counts those of 2^(i + shift) bytes.
fn of_histogram(histogram: &[u64], shift: u32) -> u64 {
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

impl Facts<'_> {
    /// How fragmented the free space of ordinary devices is in percent, weighted by their sizes; none if that is not
    /// known of one of them.
    #[must_use]
    pub fn fragmentation(&self, status: &PoolStatus) -> Option<u64> {
        let config = self.pool.config();
        let (mut weighted, mut total) = (0_u128, 0_u128);
        for vdev in &status.root.children {
            let mut tops = config.root.children.iter();
            let top = tops.find(|top| top.guid() == vdev.guid);
            if let Some(top) = top.filter(|_| vdev.role == VdevRole::Data && vdev.size > 0) {
                let percent = self.of_vdev(top)?;
                total += u128::from(vdev.size);
                weighted += u128::from(vdev.size) * u128::from(percent);
            }
        }
        u64::try_from(weighted.checked_div(total)?).ok()
    }

    /// The same of one top-level vdev.
    #[must_use]
    pub fn vdev_fragmentation(&self, top: Guid) -> Option<u64> {
        let config = self.pool.config();
        let mut tops = config.root.children.iter();
        self.of_vdev(tops.find(|node| node.guid() == top)?)
    }

    /// The mean of a top-level vdev's metaslabs, each with the weight of its free bytes; none if its maps
    /// keep no histograms.
    fn of_vdev(&self, top: &VdevConfig) -> Option<u64> {
        let array = self.stored.object(top.object(keys::METASLAB_ARRAY)?)?;
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
            let map = self.stored.object(ObjectId(id))?;
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
}
