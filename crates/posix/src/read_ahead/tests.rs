use super::*;

const SIZE: u64 = 1 << 30;
const READ: u64 = 128 << 10;

/// What is read ahead for these reads, and that none of it is asked for twice.
fn ahead_of(reads: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let state = ReadAhead::default();
    let found: Vec<_> = reads
        .into_iter()
        .filter_map(|range| state.note(&range, SIZE))
        .collect();
    for (at, range) in found.iter().enumerate() {
        let twice = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        assert!(!found[..at].iter().any(twice), "{range:?} again");
    }
    found
}

fn read(number: u64) -> Range<u64> {
    number * READ..(number + 1) * READ
}

#[test]
fn a_sequential_reader_finds_what_it_reads() {
    let found = ahead_of((0..1000).map(read));
    let bytes: u64 = found.iter().map(|range| range.end - range.start).sum();
    assert!(bytes >= 998 * READ, "all but the first reads");
    assert!(found.last().unwrap().end <= 1000 * READ + tunables::READ_AHEAD_BYTES_MAX.get());
    assert!(
        found.len() < 50,
        "asked for in large steps: {}",
        found.len()
    );
}

#[test]
fn requests_out_of_order_are_one_stream() {
    let swapped = (0..1000).map(|number| read(number ^ 1));
    let bytes: u64 = ahead_of(swapped)
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    assert!(bytes >= 990 * READ);
}

#[test]
fn random_and_strided_readers_cause_nothing() {
    let random = (0..1000_u64).map(|number| read(number * 7919 % 8000));
    assert_eq!(ahead_of(random), []);
    let strided = (0..1000).map(|number| {
        let start = number << 20;
        start..start + 4096
    });
    assert_eq!(ahead_of(strided), []);
    let backwards = (0..1000).rev().map(|number| read(number * 3));
    assert_eq!(ahead_of(backwards), []);
}

#[test]
fn a_stream_outlives_reads_elsewhere() {
    let mixed = (0..1000_u64).flat_map(|number| [read(number), read(4000 + number * 7919 % 4000)]);
    let bytes: u64 = ahead_of(mixed)
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    assert!(bytes >= 990 * READ);
}

#[test]
fn a_file_that_is_read_whole_keeps_no_streams() {
    let state = ReadAhead::default();
    assert_eq!(state.note(&(0..READ), READ), None);
    assert!(state.streams.get().is_none());
}
