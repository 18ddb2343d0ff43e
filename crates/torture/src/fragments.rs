//! Free space in many pieces, without the blocks that it takes to get there.

use crate::random::Random;
use pool::Pool;
use space::Extent;

/// What is to be taken of a new pool so that its free space is in so many pieces: something of each of as many parts of
/// its metaslabs, of any length. They are cut from the last `metaslabs` of each vdev, or from all if that is 0; what is
/// in use is passed over when it is taken.
pub fn extents(pool: &Pool, segments: u64, metaslabs: u64) -> impl Iterator<Item = Extent> + use<> {
    let mut places = Vec::new();
    for vdev in &pool.config().root.children {
        let (shift, unit) = (vdev.metaslab_shift(), 1 << vdev.ashift());
        let count = vdev.asize() >> shift;
        let some = if metaslabs == 0 {
            count
        } else {
            metaslabs.min(count)
        };
        places.extend((count - some..count).map(|index| (vdev.id(), index << shift, shift, unit)));
    }
    let each = segments / (places.len() as u64).max(1);
    let mut random = Random::new(1);
    let of_place = move |(vdev, start, shift, unit): (_, u64, u32, u64)| {
        let part = (1 << shift) / unit / each.max(1);
        let lengths = (0..each).map(|_| 1 + random.draw() % (part - 1).max(1));
        let lengths: Vec<u64> = lengths.collect();
        (0..).zip(lengths).map(move |(index, length)| {
            let from = start + index * part * unit;
            let range = from..from + length * unit;
            Extent { vdev, range }
        })
    };
    places.into_iter().flat_map(of_place)
}
