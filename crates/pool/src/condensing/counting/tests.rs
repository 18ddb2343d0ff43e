use base::VdevId;
use format::block_pointer::Dva;
use format::indirect::MappingEntry;
use vdev::{Destination, MappingBuilder};

use super::*;

/// Three entries, with a gap before the last one.
fn mapping() -> Mapping {
    let mut builder = MappingBuilder::new(VdevId(1), 1 << 20);
    for (source, asize) in [(0, 4096), (4096, 8192), (16384, 4096)] {
        let entry = MappingEntry {
            source,
            destination: Dva {
                vdev: VdevId(0),
                offset: source,
                asize,
                gang: false,
            },
        };
        let known = |_| {
            Some(Destination {
                asize: 1 << 20,
                sector: 512,
            })
        };
        builder.push(&entry, &known).unwrap();
    }
    builder.finish(Vec::new())
}

fn counting(counts: [u32; 3]) -> Counting {
    Counting {
        counts: counts.to_vec(),
        ..Counting::new()
    }
}

fn obsolete(offset: u64, length: u64) -> Entry {
    Entry {
        action: Action::Allocate,
        vdev: 0,
        offset,
        length,
    }
}

#[test]
fn a_range_is_counted_where_it_lies() {
    let mapping = mapping();
    let mut found = counting([512, 0, 0]);
    // Over two entries and the gap, and what is not mapped.
    found.apply(&mapping, &obsolete(2048, 16384)).unwrap();
    found.apply(&mapping, &obsolete(512 << 10, 4096)).unwrap();
    assert_eq!(found.counts, [512 + 2048, 8192, 2048]);
    assert_eq!(found.left_of(0, 4096), Some(2560));
    assert_eq!(found.left_of(1, 8192), None);
    assert_eq!(found.left_of(2, 4096), Some(2048));
}

#[test]
fn what_is_obsolete_twice_is_needed() {
    let mapping = mapping();
    let mut found = counting([4096, 0, 0]);
    found.apply(&mapping, &obsolete(0, 512)).unwrap();
    assert_eq!(found.left_of(0, 4096), Some(0));
}

#[test]
fn more_than_there_is_or_what_is_freed_is_refused() {
    let mapping = mapping();
    let mut found = counting([0; 3]);
    found.apply(&mapping, &obsolete(0, 1 << 20)).unwrap();
    found.apply(&mapping, &obsolete(0, 512)).unwrap_err();
    let freed = Entry {
        action: Action::Free,
        ..obsolete(0, 512)
    };
    counting([0; 3]).apply(&mapping, &freed).unwrap_err();
}
