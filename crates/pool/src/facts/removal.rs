//! Removals of top-level vdevs.

use base::ByteOrder;
use format::config::{directory, keys};
use format::indirect::{Removing, removal_state};
use format::record::get_at;

use super::Facts;

/// Bytes of a mapping's entry in memory.
const ENTRY_SIZE: u64 = 24;
/// Where the bonus of a mapping has the number of its entries.
const ENTRIES_AT: usize = 16;

/// The last removal of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// The number of the vdev.
    pub vdev: u64,
    /// When it began: seconds since 1970.
    pub started_s: u64,
    /// When it ended, if it has.
    pub ended_s: Option<u64>,
    /// Whether it was given up.
    pub cancelled: bool,
    /// Bytes to be copied in all.
    pub to_copy: u64,
    /// Bytes copied.
    pub copied: u64,
    /// Bytes of memory that the mappings of all removed vdevs take.
    pub mapping_memory: u64,
}

impl Facts<'_> {
    /// The last removal of a top-level vdev, if there ever was one.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        let words = self.stored.words(directory::REMOVING)?;
        let removing = Removing::from_words(&words)?;
        if removing.state == removal_state::NONE {
            return None;
        }
        // Its txg may still be on the way to the disk: until then no other one can begin.
        let runs = removing.state == removal_state::ACTIVE || self.pool.is_removing();
        let config = self.pool.config();
        let tops = config.root.children.iter();
        let entries: u64 = tops
            .filter_map(|top| self.stored.object(top.object(keys::INDIRECT_OBJECT)?))
            .map(|map| map.with_bonus(mapping_entries))
            .sum();
        Some(Removal {
            vdev: match removing.state {
                removal_state::FINISHED => removing.last,
                _ => removing.vdev,
            },
            started_s: removing.started_s,
            ended_s: (!runs).then_some(removing.ended_s),
            cancelled: removing.state == removal_state::CANCELLED,
            to_copy: removing.to_copy,
            copied: removing.copied,
            mapping_memory: entries * ENTRY_SIZE,
        })
    }
}

/// How many entries a mapping has.
fn mapping_entries(bonus: &[u8]) -> u64 {
    if bonus.len() < ENTRIES_AT + 8 {
        return 0;
    }
    get_at(bonus, ENTRIES_AT, ByteOrder::NATIVE)
}
