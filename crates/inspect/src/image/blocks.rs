//! The blocks of a pool one after the other: a block before what it leads to.
//!
//! Invariant: what waits is at most the children of the blocks on the way down, so memory is bounded by the height of
//! the trees and not by their size.

use std::sync::Arc;

use format::block_pointer::BlockPointer;
use pipeline::Pipeline;

use crate::InspectError;
use crate::verify::Item;

/// Where a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The object set: 0 is the pool's own, any other a dataset's.
    pub object_set: u64,
    /// The object; 0 holds the dnodes.
    pub object: u64,
    /// 0 for content, above it for tables of pointers; -1 for the root of an object set.
    pub level: i8,
    /// The block's number at its level.
    pub block: u64,
}

/// A block.
pub struct FoundBlock<'a> {
    pipeline: &'a Arc<Pipeline>,
    item: Item,
}

impl FoundBlock<'_> {
    /// Where it belongs.
    #[must_use]
    pub fn place(&self) -> BlockPlace {
        let bookmark = self.item.bookmark;
        BlockPlace {
            object_set: bookmark.object_set.0,
            object: bookmark.object.0,
            level: bookmark.level,
            block: bookmark.block,
        }
    }

    /// Its pointer.
    #[must_use]
    pub const fn pointer(&self) -> &BlockPointer {
        &self.item.block
    }

    /// Its content, decompressed; the checksum is verified, and another copy taken if it does not match.
    ///
    /// # Errors
    /// No copy is good, or only a key opens it.
    pub fn read(&self) -> Result<Vec<u8>, InspectError> {
        Ok(self.item.read_open(self.pipeline)?.to_vec())
    }
}

/// An iterator over blocks, and over what could not be read of them.
pub struct Blocks<'a> {
    pipeline: &'a Arc<Pipeline>,
    waiting: Vec<Item>,
    /// The next one last.
    damage: Vec<String>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(
        pipeline: &'a Arc<Pipeline>,
        mut roots: Vec<Item>,
        mut damage: Vec<String>,
    ) -> Self {
        roots.reverse();
        damage.reverse();
        Self {
            pipeline,
            waiting: roots,
            damage,
        }
    }

    /// Puts what a block leads to in line.
    fn descend(&mut self, item: &Item) {
        let content = match item.read(self.pipeline) {
            Ok(content) => content,
            Err(error) => return self.damage.push(error.to_string()),
        };
        let before = self.waiting.len();
        let (waiting, damage) = (&mut self.waiting, &mut self.damage);
        item.for_each_child(&content, &mut |child| match child {
            Ok(child) if is_of_interest(&child) => waiting.push(child),
            Ok(_) => {}
            Err(error) => damage.push(error),
        });
        self.waiting[before..].reverse();
        // Of blocks before, all was handed over.
        self.damage.reverse();
    }
}

fn is_of_interest(item: &Item) -> bool {
    !item.block.is_hole() && item.block.space_birth() > item.younger_than
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<FoundBlock<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(problem) = self.damage.pop() {
            return Some(Err(problem));
        }
        loop {
            let item = self.waiting.pop()?;
            if !is_of_interest(&item) {
                continue;
            }
            if item.is_read() {
                self.descend(&item);
            }
            let pipeline = self.pipeline;
            return Some(Ok(FoundBlock { pipeline, item }));
        }
    }
}
