//! Where the bytes of an object are: ranges of its offsets, each of a record of some stream.

use std::collections::BTreeMap;

/// A record: which of the files has it, and the byte of its head there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) file: u32,
    pub(super) at: u64,
}

/// What has the bytes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A record, from this byte of its contents on.
    Record(Spot, u64),
    /// Nobody: they were left out on purpose.
    Redacted,
}

/// Ranges of offsets, none overlapping the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents(BTreeMap<u64, (u64, Holder)>);

impl Extents {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The first byte behind all.
    pub(super) fn end(&self) -> u64 {
        let last = self.0.last_key_value();
        last.map_or(0, |(start, (length, _))| start.saturating_add(*length))
    }

    /// Takes a range away.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back();
        if let Some((&first, &(length, holder))) = before {
            let behind = first.saturating_add(length);
            if behind > start {
                self.0.insert(first, (start - first, holder));
            }
            if behind > end {
                self.0
                    .insert(end, (behind - end, shifted(holder, end - first)));
            }
        }
        let within: Vec<u64> = self.0.range(start..end).map(|(first, _)| *first).collect();
        for first in within {
            if let Some((length, holder)) = self.0.remove(&first) {
                let behind = first.saturating_add(length);
                if behind > end {
                    self.0
                        .insert(end, (behind - end, shifted(holder, end - first)));
                }
            }
        }
    }

    /// Puts a range in place of what was there.
    pub(super) fn put(&mut self, start: u64, end: u64, holder: Holder) {
        self.remove(start, end);
        if start < end {
            self.0.insert(start, (end - start, holder));
        }
    }

    /// What there is from `start` to `end`, cut to it: offsets, lengths and holders.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<(u64, u64, Holder)> {
        let before = self.0.range(..start).next_back();
        let all = before
            .into_iter()
            .chain(self.0.range(start..end.max(start)));
        all.filter_map(|(&first, &(length, holder))| {
            let (from, to) = (first.max(start), first.saturating_add(length).min(end));
            (from < to).then(|| (from, to - from, shifted(holder, from - first)))
        })
        .collect()
    }

    /// Whether there is anything from `start` to `end`.
    pub(super) fn any(&self, start: u64, end: u64) -> bool {
        let before = self.0.range(..start).next_back();
        before.is_some_and(|(first, (length, _))| first.saturating_add(*length) > start)
            || self.0.range(start..end.max(start)).next().is_some()
    }
}

/// The holder of what lies so many bytes further on.
const fn shifted(holder: Holder, by: u64) -> Holder {
    match holder {
        Holder::Record(spot, skip) => Holder::Record(spot, skip + by),
        Holder::Redacted => Holder::Redacted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_covers_what_was_there() {
        let spot = |at| Spot { file: 0, at };
        let mut extents = Extents::default();
        extents.put(0, 100, Holder::Record(spot(1), 0));
        extents.put(200, 300, Holder::Record(spot(2), 0));
        extents.put(50, 250, Holder::Record(spot(3), 0));
        extents.remove(80, 90);
        extents.put(120, 130, Holder::Redacted);
        assert_eq!(
            extents.within(10, 260),
            [
                (10, 40, Holder::Record(spot(1), 10)),
                (50, 30, Holder::Record(spot(3), 0)),
                (90, 30, Holder::Record(spot(3), 40)),
                (120, 10, Holder::Redacted),
                (130, 120, Holder::Record(spot(3), 80)),
                (250, 10, Holder::Record(spot(2), 50)),
            ]
        );
        assert!(!extents.any(80, 90) && extents.any(85, 91) && !extents.any(300, u64::MAX));
        assert_eq!((extents.end(), extents.count()), (300, 6));
        extents.remove(0, u64::MAX);
        assert_eq!((extents.end(), extents.count()), (0, 0));
    }
}
