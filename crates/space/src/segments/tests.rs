//! Segments against a set of single units.

use super::{CLASSES, RUN_SEGMENTS, Segments, class_of};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ranges(segments: &Segments<u32>) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut at = segments.after(None);
    while let Some(position) = at {
        found.push(segments.range_at(position).unwrap());
        at = segments.after(Some(position));
    }
    found
}

fn bytes(segments: &Segments<u32>) -> usize {
    segments.runs.iter().map(super::Run::bytes).sum()
}

/// What is counted is what there is.
fn check(segments: &Segments<u32>) {
    let ranges = ranges(segments);
    assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
    assert_eq!(segments.count(), ranges.len());
    let lengths = ranges.iter().map(|(start, end)| end - start);
    assert_eq!(segments.units(), lengths.clone().sum::<u64>());
    assert_eq!(segments.longest(), lengths.clone().max().unwrap_or(0));
    let mut classes = [0; CLASSES];
    lengths.for_each(|length| classes[class_of(length)] += 1);
    assert_eq!(*segments.classes(), classes);
    assert_eq!(segments.bytes, bytes(segments));
    let full =
        |run: &super::Run<u32>| !run.segments.is_empty() && run.segments.len() <= RUN_SEGMENTS;
    assert!(segments.runs.iter().all(full));
}

proptest! {
    #[test]
    fn behave_as_a_set_of_units(steps in prop::collection::vec((any::<bool>(), 0..3000_u64, 1..4_u64), 0..3000)) {
        let (mut segments, mut model) = (Segments::<u32>::new(), BTreeSet::new());
        for (step, (add, start, length)) in steps.into_iter().enumerate() {
            let end = start + length;
            let present = (start..end).filter(|unit| model.contains(unit)).count() as u64;
            prop_assert_eq!(segments.overlaps(start, end), present > 0);
            if add {
                prop_assert_eq!(segments.insert(start, end).is_some(), present == 0);
                if present == 0 { model.extend(start..end); }
            } else {
                prop_assert_eq!(segments.remove(start, end), present == length);
                if present == length { model.retain(|unit| !(start..end).contains(unit)); }
            }
            if step % 64 == 0 {
                check(&segments);
            }
        }
        check(&segments);
        let units: BTreeSet<u64> = ranges(&segments).into_iter().flat_map(|(start, end)| start..end).collect();
        prop_assert_eq!(units, model);
    }

    #[test]
    fn what_fits_best_fits(lengths in prop::collection::vec(1..100_u64, 1..1000), wanted in 1..110_u64) {
        let mut segments = Segments::<u32>::new();
        let mut at = 0;
        for length in &lengths {
            prop_assert_eq!(segments.insert(at, at + length), Some(*length));
            at += length + 1;
        }
        let found = segments.best_fit(wanted).and_then(|start| segments.containing(start));
        let longest = lengths.iter().copied().max().unwrap_or(0);
        prop_assert_eq!(found.is_some(), longest >= wanted);
        prop_assert!(found.is_none_or(|(start, end)| end - start >= wanted));
    }
}

/// The figure that the memory of a pool with many free segments is reckoned with.
#[test]
fn a_segment_takes_at_most_sixteen_bytes() {
    const COUNT: u64 = 100_000;
    let mut ascending = Segments::<u32>::new();
    for index in 0..COUNT {
        ascending.insert(index * 2, index * 2 + 1).unwrap();
    }
    assert!(
        ascending.memory_bytes() < COUNT * 9,
        "{}",
        ascending.memory_bytes()
    );
    // The order in which neighbours come last: every second, then those between.
    let mut mixed = Segments::<u32>::new();
    for half in [0, 1] {
        for index in (0..COUNT).filter(|index| index % 2 == half) {
            mixed.insert(index * 2, index * 2 + 1).unwrap();
        }
    }
    assert!(
        mixed.memory_bytes() < COUNT * 16,
        "{}",
        mixed.memory_bytes()
    );
    // And none is left of what was given away.
    for index in 0..COUNT - 1 {
        assert!(mixed.remove(index * 2, index * 2 + 1));
    }
    assert!(mixed.memory_bytes() < 4096, "{}", mixed.memory_bytes());
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let mut segments = Segments::<u32>::new();
    let end = u64::from(u32::MAX) + 1;
    assert_eq!(segments.insert(end - 1, end), None);
    assert_eq!(segments.insert(end - 2, end - 1), Some(1));
    assert!(!segments.remove(end, end + 1));
}
