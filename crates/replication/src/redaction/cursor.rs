//! Asking a redaction list about ranges of blocks that ascend.

use std::sync::Arc;

use base::ObjectId;
use dsl::{DslError, RedactionList};
use format::redaction::RedactedRange;

/// A place in a list: what was asked for is behind all that was asked for before.
pub(crate) struct Cursor {
    list: Arc<RedactionList>,
    /// Some of the ranges, and the number of the first.
    read: Vec<RedactedRange>,
    first: u64,
    /// The next of those.
    at: usize,
}

impl Cursor {
    pub(crate) const fn new(list: Arc<RedactionList>) -> Self {
        Self {
            list,
            read: Vec::new(),
            first: 0,
            at: 0,
        }
    }

    /// The first range that ends behind a block.
    fn next_from(
        &mut self,
        object: ObjectId,
        block: u64,
    ) -> Result<Option<&RedactedRange>, DslError> {
        loop {
            let rest = self.read.get(self.at..).unwrap_or_default();
            let is_behind = |range: &RedactedRange| {
                range.object > object || (range.object == object && range.end() > block)
            };
            if let Some(skipped) = rest.iter().position(is_behind) {
                self.at += skipped;
                return Ok(self.read.get(self.at));
            }
            self.first = self.first.saturating_add(self.read.len() as u64);
            self.at = 0;
            if self.first >= self.list.len() {
                self.read.clear();
                return Ok(None);
            }
            self.read = self.list.ranges(self.first)?;
            if self.read.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Whether some block of an object from `first` to `last` is on the list.
    pub(crate) fn has(
        &mut self,
        object: ObjectId,
        first: u64,
        last: u64,
    ) -> Result<bool, DslError> {
        let next = self.next_from(object, first)?;
        Ok(next.is_some_and(|range| range.object == object && range.first <= last))
    }

    /// The first object from `first` to `last` of which a block is on the list.
    pub(crate) fn object(
        &mut self,
        first: ObjectId,
        last: ObjectId,
    ) -> Result<Option<ObjectId>, DslError> {
        let next = self.next_from(first, 0)?;
        Ok(next
            .map(|range| range.object)
            .filter(|object| *object <= last))
    }
}
