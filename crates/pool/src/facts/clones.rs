//! What blocks that files share take and save.

use base::{ByteOrder, ObjectId};
use format::brt::BlockReferencePhys;
use format::config::directory;

use super::Stored;
use crate::config::VdevConfig;

/// Blocks that files share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClonedBlocks {
    /// Bytes that they take, each counted once.
    pub used: u64,
    /// Bytes that they would take besides if they were not shared.
    pub saved: u64,
}

impl Stored<'_> {
    /// Totals of the reference tables of all vdevs.
    pub(crate) fn cloned_blocks(&self, root: &VdevConfig) -> ClonedBlocks {
        let mut found = ClonedBlocks::default();
        for top in &root.children {
            let key = format!("{}{}", directory::BLOCK_REFERENCE_PREFIX, top.id().0);
            let table = self.object_named(&key).and_then(|id| self.object(id));
            let Some(table) = table else { continue };
            table.with_bonus(|bonus| {
                if bonus.len() >= BlockReferencePhys::SIZE {
                    let phys = BlockReferencePhys::decode_padded(bonus, ByteOrder::NATIVE);
                    found.used += phys.used;
                    found.saved += phys.saved;
                }
            });
        }
        found
    }

    /// The objects of the reference tables of all vdevs: what counts regions, and the entries.
    pub(super) fn reference_objects(&self, root: &VdevConfig) -> Vec<ObjectId> {
        let mut found = Vec::new();
        for top in &root.children {
            let key = format!("{}{}", directory::BLOCK_REFERENCE_PREFIX, top.id().0);
            let Some(id) = self.object_named(&key) else {
                continue;
            };
            found.push(id);
            let entries = self.object(id).and_then(|table| {
                table.with_bonus(|bonus| {
                    let is_whole = bonus.len() >= BlockReferencePhys::SIZE;
                    is_whole.then(|| {
                        BlockReferencePhys::decode_padded(bonus, ByteOrder::NATIVE).entries
                    })
                })
            });
            found.extend(entries.map(ObjectId));
        }
        found
    }
}
