//! The leaves of a fat ZAP that is gone through as a whole, read ahead: many at once, for they lie together, and each
//! once, for whoever has gone through a leaf may have told the cache to forget it.

use super::fat::leaf_block;
use super::state::Located;
use crate::object::Object;

/// Leaves that are asked for at once, and how many of them may be left when the next are.
const LEAVES: usize = 32;
const LEFT: usize = LEAVES / 2;
/// Entries of the pointer table that are looked at for that.
const LOOKS: usize = 1024;

/// See the module.
pub(super) struct LeavesAhead {
    /// Asked for, and not come to yet.
    asked: Vec<u64>,
    /// The hash from which on nothing was asked for; none at the end.
    next: Option<u64>,
    /// The last leaf before that, to which entries after it may lead as well; 0: none.
    last: u64,
}

impl LeavesAhead {
    pub(super) const fn new() -> Self {
        Self {
            asked: Vec::new(),
            next: Some(0),
            last: 0,
        }
    }

    /// The scan comes to this leaf.
    pub(super) fn reached(&mut self, block: u64) {
        if let Some(index) = self.asked.iter().position(|asked| *asked == block) {
            self.asked.swap_remove(index);
        }
    }

    /// The scan goes on: starts reading what comes next, if that is due. Best effort.
    pub(super) fn ask(&mut self, object: &Object, located: &Located) {
        if self.asked.len() > LEFT {
            return;
        }
        let (header, first) = (&located.header, &located.first);
        let step = 1u64 << (64 - header.table_shift.clamp(1, 63));
        let mut new = Vec::with_capacity(LEAVES);
        for _ in 0..LOOKS {
            let Some(hash) = self.next.filter(|_| self.asked.len() + new.len() < LEAVES) else {
                break;
            };
            self.next = hash.checked_add(step);
            match leaf_block(object, header, first, hash) {
                Ok(block) if block == self.last => {}
                Ok(block) => {
                    self.last = block;
                    new.push(block);
                }
                Err(_) => self.next = None,
            }
        }
        new.sort_unstable();
        object.prefetch_blocks(&new);
        self.asked.append(&mut new);
    }
}
