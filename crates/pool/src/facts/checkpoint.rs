//! The checkpoint of a pool.

use base::{ByteOrder, ObjectId};
use format::config::{directory, keys, vdev_zap};
use format::space_map::SpaceMapPhys;

use super::Stored;
use crate::config::VdevConfig;

/// Which word of an uberblock says when it was written.
const TIMESTAMP: usize = 4;

/// A checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// When it was taken: seconds since 1970; none: it is being discarded.
    pub created_s: Option<u64>,
    /// Bytes that are kept for it alone.
    pub consumes: u64,
}

impl Stored<'_> {
    /// The checkpoint, if there is one, or still something of one (`is_kept`).
    pub(super) fn checkpoint_of(&self, root: &VdevConfig, is_kept: bool) -> Option<Checkpoint> {
        let uberblock = self.words(directory::CHECKPOINT);
        let created_s = uberblock.and_then(|words| words.get(TIMESTAMP).copied());
        (created_s.is_some() || is_kept).then(|| Checkpoint {
            created_s,
            consumes: self.checkpointed_bytes(root),
        })
    }

    /// Bytes that are kept for a checkpoint alone: also of one that is being given up.
    fn checkpointed_bytes(&self, root: &VdevConfig) -> u64 {
        let consumes = root.children.iter().map(|top| {
            let map = top
                .object(keys::VDEV_ZAP_TOP)
                .and_then(|id| self.zap(id))
                .and_then(|zap| zap.lookup(vdev_zap::CHECKPOINT_SPACE_MAP.as_bytes()).ok()?)
                .and_then(|id| self.object(ObjectId(id)));
            map.map_or(0, |map| map.with_bonus(freed_in_map))
        });
        consumes.fold(0, u64::saturating_add)
    }
}

/// What a map of freed space holds.
fn freed_in_map(bonus: &[u8]) -> u64 {
    if bonus.len() < SpaceMapPhys::SIZE_PLAIN {
        return 0;
    }
    let map = SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE);
    map.allocated.min(0).unsigned_abs()
}
