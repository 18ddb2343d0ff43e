//! Blocks that wait to be read ahead, by their places: a disk goes over them from one end to the other, whoever asked
//! for which.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::VdevId;

use super::PrefetchRequest;
use crate::tunables::{GAP_BYTES, RUN_BYTES};

/// A piece of a device, and the blocks in it that are requested, by place.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// Where it begins: at its first block, or where the stretch before it ends.
    pub(crate) start: u64,
    pub(crate) requests: Vec<PrefetchRequest>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Places {
    vdevs: BTreeMap<VdevId, Line>,
    /// The vdev from which something was taken last.
    last: Option<VdevId>,
    count: usize,
}

/// What waits on one vdev.
#[derive(Debug, Default)]
struct Line {
    blocks: BTreeMap<u64, PrefetchRequest>,
    /// From where on the next one is taken.
    cursor: u64,
    /// The end of what was taken last, unless that had to be read by itself.
    end: Option<u64>,
}

/// Whether a block is read by itself.
fn is_alone(request: &PrefetchRequest) -> bool {
    request.block.is_gang() || request.block.is_encrypted()
}

impl Line {
    fn take(&mut self) -> Option<Stretch> {
        let mut next = self.blocks.range(self.cursor..).next();
        if next.is_none() {
            self.end = None;
            next = self.blocks.first_key_value();
        }
        let (&first, request) = next?;
        let near = self
            .end
            .filter(|end| first.saturating_sub(*end) <= GAP_BYTES.get());
        let mut alone = is_alone(request);
        let start = near.filter(|_| !alone).map_or(first, |end| end.min(first));
        let mut requests = Vec::new();
        let mut at = Some(first);
        while let Some(request) = at.and_then(|at| self.blocks.remove(&at)) {
            let offset = at.unwrap_or(first);
            let end = offset.saturating_add(request.block.psize());
            alone = is_alone(&request);
            requests.push(request);
            self.cursor = offset.saturating_add(1);
            self.end = (!alone).then_some(end);
            let next = self.blocks.range(self.cursor..).next();
            let goes_on = next.filter(|(offset, request)| {
                let to = offset.saturating_add(request.block.psize());
                !alone
                    && !is_alone(request)
                    && offset.saturating_sub(end) <= GAP_BYTES.get()
                    && to.saturating_sub(start) <= RUN_BYTES.get()
            });
            at = goes_on.map(|(offset, _)| *offset);
        }
        Some(Stretch { start, requests })
    }
}

impl Places {
    /// How many blocks wait.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Adds a block. Answers what does not wait any more, or cannot: the same block, or one that was at its place
    /// before.
    pub(crate) fn add(&mut self, request: PrefetchRequest) -> Option<PrefetchRequest> {
        let Some(dva) = request.block.dva(0) else {
            return Some(request);
        };
        let line = self.vdevs.entry(dva.vdev).or_default();
        let before = line.blocks.get(&dva.offset);
        if let Some(before) = before
            && before.follow.is_some()
            && request.follow.is_none()
            && before.block == request.block
        {
            return Some(request);
        }
        let replaced = line.blocks.insert(dva.offset, request);
        self.count += usize::from(replaced.is_none());
        replaced
    }

    /// The next blocks that are read with one operation, of each vdev in turn: gaps are read where they are small.
    pub(crate) fn take(&mut self) -> Option<Stretch> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut turns = self.vdevs.range((after, Bound::Unbounded));
        let has_some = |(_, line): &(&VdevId, &Line)| !line.blocks.is_empty();
        let vdev = turns
            .find(has_some)
            .or_else(|| self.vdevs.iter().find(has_some));
        let vdev = *vdev?.0;
        self.last = Some(vdev);
        let stretch = self.vdevs.get_mut(&vdev)?.take()?;
        self.count = self.count.saturating_sub(stretch.requests.len());
        Some(stretch)
    }

    /// All that wait.
    pub(crate) fn into_requests(self) -> Vec<PrefetchRequest> {
        let lines = self.vdevs.into_values();
        lines.flat_map(|line| line.blocks.into_values()).collect()
    }
}

/// All of these, in the order in which they are read when they are all that waits.
#[cfg(test)]
pub(crate) fn stretches(requests: Vec<PrefetchRequest>) -> Vec<Stretch> {
    let mut places = Places::default();
    for request in requests {
        assert!(places.add(request).is_none(), "twice");
    }
    std::iter::from_fn(move || places.take()).collect()
}

#[cfg(test)]
mod tests;
