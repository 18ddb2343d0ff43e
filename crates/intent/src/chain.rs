//! The chain of one log, in memory.
//!
//! ```text
//!   none --first commit: a block is allocated--> starting (txg)
//!   starting --its txg, with the header, is on disk--> live
//!   live --a block could not be written--> broken --its good part has synced--> none
//!   live --closed or destroyed--> none
//!   owed (claimed at import) --replayed, or destroyed--> none
//! ```
//!
//! A block: *tail* (allocated, its pointer is in the block before it, nothing written) → *sealed*
//! (its content and next pointer are fixed) → *durable* (written and flushed) → *freed* (all its
//! records and its own allocation have synced).

use std::collections::VecDeque;

use base::invariant::Findings;
use base::{Txg, invariant};
use format::BlockPointer;
use format::intent_log::LogHeader;

use crate::layout::{UNIT, block_size};

/// Batches whose sizes are remembered, to guess the next.
const RECENT: usize = 8;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    None,
    Starting(Txg),
    Live,
    Broken,
    Owed,
    /// The object set is not the dataset's any more.
    Retired,
}

/// A block of the chain.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) pointer: BlockPointer,
    /// The newest txg of its records.
    pub(crate) newest: Txg,
    pub(crate) durable: bool,
}

/// See the module.
pub(crate) struct Chain {
    pub(crate) stage: Stage,
    /// The first is the header's; the last is the tail.
    pub(crate) links: VecDeque<Link>,
    pub(crate) next_record: u64,
    /// Allocated, but in no chain: freed when the txg of their birth syncs, or the next.
    pub(crate) orphans: Vec<BlockPointer>,
    /// A chain that was claimed and is not wanted any more: freed with the next txg.
    pub(crate) discarded: Option<Vec<BlockPointer>>,
    /// Ends as soon as what it holds has synced.
    pub(crate) winds_up: bool,
    recent: [u64; RECENT],
    turn: usize,
}

impl Link {
    pub(crate) fn unwritten(pointer: BlockPointer) -> Self {
        Self {
            pointer,
            newest: Txg(0),
            durable: false,
        }
    }

    fn is_done(&self, txg: Txg) -> bool {
        self.durable && self.newest <= txg && self.pointer.birth() <= txg
    }
}

impl Chain {
    /// The chain that a header shows: of an object set that was closed cleanly in this import it
    /// is one block that was never written.
    pub(crate) fn open(header: &LogHeader) -> Self {
        let mut links = VecDeque::new();
        let stage = if header.log.is_hole() {
            Stage::None
        } else if header.claim_txg != Txg(0) {
            Stage::Owed
        } else {
            links.push_back(Link::unwritten(header.log));
            Stage::Live
        };
        Self {
            stage,
            links,
            next_record: 1,
            orphans: Vec::new(),
            discarded: None,
            winds_up: false,
            recent: [UNIT; RECENT],
            turn: 0,
        }
    }

    /// Notes how many bytes a batch took.
    pub(crate) fn note_burst(&mut self, bytes: u64) {
        self.recent[self.turn % RECENT] = block_size(bytes);
        self.turn += 1;
    }

    /// The size of a block that nobody knows the content of yet: the largest recent batch.
    pub(crate) fn next_size(&self) -> u64 {
        self.recent.into_iter().max().unwrap_or(UNIT)
    }

    /// A block is on the medium.
    pub(crate) fn made_durable(&mut self, pointer: &BlockPointer) {
        let found = self
            .links
            .iter_mut()
            .rfind(|link| link.pointer.same_block(pointer));
        if let Some(link) = found {
            link.durable = true;
        }
    }

    /// Callers are about to be told that this batch is durable: a replay must come through to its last block. A chain
    /// that was given up meanwhile says nothing.
    pub(crate) fn check_durable<'a>(
        &self,
        findings: &Findings,
        mut batch: impl ExactSizeIterator<Item = &'a BlockPointer>,
    ) {
        let blocks = batch.len();
        let Some(first) = batch.next() else {
            return;
        };
        let mut links = self.links.iter();
        let Some(place) = links.rposition(|link| link.pointer.same_block(first)) else {
            return;
        };
        // What comes before the one before was looked at with the batches before.
        let before = usize::from(place > 0);
        let mut looked_at = self.links.iter().skip(place - before).take(blocks + before);
        invariant!(
            findings,
            looked_at.all(|link| link.durable),
            "intent.durable",
            "a batch of {blocks} blocks is said to be durable, and a block up to its last one is not"
        );
    }

    /// A claimed chain is not wanted any more: `blocks` is all it has. Once only: the next txg frees them, and one that
    /// synced since the caller read the chain may have done so already.
    pub(crate) fn discard(&mut self, blocks: Vec<BlockPointer>) {
        if self.stage == Stage::Owed && self.discarded.is_none() {
            self.discarded = Some(blocks);
        }
    }

    /// The blocks that are not needed after `txg`, which is being synced. `idle`: nothing is on
    /// its way to the medium.
    pub(crate) fn release(&mut self, txg: Txg, idle: bool) -> Vec<BlockPointer> {
        let mut free = Vec::new();
        if let Some(discarded) = self.discarded.take() {
            free = discarded;
            self.stage = Stage::None;
        }
        let (now, later) = std::mem::take(&mut self.orphans)
            .into_iter()
            .partition(|pointer: &BlockPointer| pointer.birth() <= txg);
        free.extend::<Vec<_>>(now);
        self.orphans = later;
        while self.links.front().is_some_and(|link| link.is_done(txg)) {
            free.extend(self.links.pop_front().map(|link| link.pointer));
        }
        let ends = self.stage == Stage::Broken || (self.stage == Stage::Live && self.winds_up);
        // What follows the first block that never got durable was acknowledged to nobody.
        if ends && idle && self.links.front().is_none_or(|link| !link.durable) {
            free.extend(self.abandon(txg));
            self.stage = Stage::None;
        }
        free
    }

    /// Gives all blocks up: those that may be freed in `txg`; the others follow with their own.
    pub(crate) fn abandon(&mut self, txg: Txg) -> Vec<BlockPointer> {
        let all = std::mem::take(&mut self.links);
        let (now, later): (Vec<_>, Vec<_>) = all
            .into_iter()
            .map(|link| link.pointer)
            .partition(|pointer| pointer.birth() <= txg);
        self.orphans.extend(later);
        now
    }
}

#[cfg(test)]
mod tests;
