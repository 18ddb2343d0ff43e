//! Ranges of blocks, and those that a snapshot changed.

use base::{ObjectId, Txg};
use format::DnodePhys;

use crate::blocks::{Blocks, FindError};

/// Ranges of blocks, ascending, none touching the next: first blocks and the blocks behind the last ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds what lies behind all others, or touches the last one.
    pub(super) fn push(&mut self, first: u64, end: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 >= first => last.1 = last.1.max(end),
            Some(_) | None if first < end => self.0.push((first, end)),
            Some(_) | None => {}
        }
    }

    pub(super) fn push_block(&mut self, block: u64) {
        self.push(block, block.saturating_add(1));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// What lies in both.
pub(super) fn intersection(one: &Ranges, other: &Ranges) -> Ranges {
    let mut both = Ranges::new();
    let (mut ones, mut others) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (ones.peek(), others.peek()) {
        let (first, end) = (a.0.max(b.0), a.1.min(b.1));
        if first < end {
            both.push(first, end);
        }
        if a.1 <= b.1 {
            ones.next();
        } else {
            others.next();
        }
    }
    both
}

/// The blocks of an object from `first` to `last` that are younger than a txg, or not there.
pub(super) fn changed(
    blocks: &Blocks,
    (object, dnode): (ObjectId, &DnodePhys),
    (first, last): (u64, u64),
    since: Txg,
) -> Result<Ranges, FindError> {
    let mut found = Ranges::new();
    let mut block = first;
    while block <= last {
        let (pointer, span_end) = blocks.pointer_and_span(object, dnode, block, since)?;
        let end = span_end.min(last.saturating_add(1));
        if pointer.is_hole() || pointer.birth() > since {
            found.push(block, end);
        }
        if end <= block {
            break;
        }
        block = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_intersect() {
        let mut one = Ranges::new();
        for block in [1, 2, 3, 7, 9] {
            one.push_block(block);
        }
        one.push(20, 30);
        one.push(40, 40);
        assert_eq!(one.0, [(1, 4), (7, 8), (9, 10), (20, 30)]);
        let mut other = Ranges::new();
        other.push(0, 2);
        other.push(3, 25);
        other.push(29, 99);
        let both = intersection(&one, &other);
        assert_eq!(
            both.0,
            [(1, 2), (3, 4), (7, 8), (9, 10), (20, 25), (29, 30)]
        );
        assert!(intersection(&one, &Ranges::new()).is_empty());
    }
}
