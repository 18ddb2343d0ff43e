//! Known words from real pools, and round trips.

use super::{Action, Encoder, Entry, Form, decode};
use proptest::prelude::*;

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect()
}

#[test]
fn words_are_those_of_real_pools() {
    let mut encoder = Encoder::new(9, Form::Mixed, 4096, 0);
    encoder.debug(Action::Allocate, 1, 5);
    encoder.push(Entry {
        action: Action::Allocate,
        vdev: 0,
        offset: 0,
        length: 23 << 9,
    });
    assert_eq!(words(&encoder.finish()), [0x8004_0000_0000_0005, 0x16]);

    let mut encoder = Encoder::new(9, Form::WithVdev, 4096, 0);
    encoder.push(Entry {
        action: Action::Free,
        vdev: 0,
        offset: 0x3600,
        length: 1024,
    });
    assert_eq!(
        words(&encoder.finish()),
        [0xC000_0000_0100_0000, 0x8000_0000_0000_001B]
    );
}

#[test]
fn half_an_entry_is_refused() {
    let bytes = 0xC000_0000_0100_0000_u64.to_ne_bytes();
    assert!(decode(&bytes, 9).next().is_some_and(|entry| entry.is_err()));
}

fn any_entry() -> impl Strategy<Value = Entry> {
    (
        any::<bool>(),
        0..1_u64 << 24,
        0..1_u64 << 50,
        1..1_u64 << 20,
    )
        .prop_map(|(free, vdev, offset, length)| Entry {
            action: if free { Action::Free } else { Action::Allocate },
            vdev,
            offset: offset << 9,
            length: length << 9,
        })
}

proptest! {
    #[test]
    fn entries_survive_encoding(entries in prop::collection::vec(any_entry(), 0..40), start in 0_usize..8) {
        let mut encoder = Encoder::new(9, Form::WithVdev, 64, start * 8);
        entries.iter().for_each(|entry| encoder.push(*entry));
        let bytes = encoder.finish();
        let decoded: Result<Vec<Entry>, _> = decode(&bytes, 9).collect();
        prop_assert_eq!(decoded.unwrap(), entries);
        // No two-word entry straddles a block.
        for (index, word) in words(&bytes).iter().enumerate() {
            let at_end_of_block = (start + index) % 8 == 7;
            prop_assert!(!(at_end_of_block && word >> 62 == 3));
        }
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..256), shift in 0_u32..70) {
        let _ = decode(&bytes, shift).count();
    }
}
