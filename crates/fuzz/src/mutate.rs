//! Mutations: from a known input to a new one, decided by a seed alone.

/// A generator of random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Numbers that decoders trip over.
const INTERESTING: &[u64] = &[
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    512,
    4096,
    65_535,
    1 << 31,
    u32::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// A mutated copy of `input`; `other` lends pieces.
pub(crate) fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.below(6) {
        change(random, &mut bytes, other);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let length = bytes.len();
    if length == 0 {
        bytes.extend_from_slice(other);
        return;
    }
    // Headers are at the front: half of the changes go there.
    let front = if random.below(2) == 0 {
        length.min(256)
    } else {
        length
    };
    let at = random.below(front);
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.next() as u8,
        3 => put(
            bytes,
            at,
            &INTERESTING[random.below(INTERESTING.len())].to_le_bytes(),
            random,
        ),
        4 => put(
            bytes,
            at,
            &INTERESTING[random.below(INTERESTING.len())].to_be_bytes(),
            random,
        ),
        5 => bytes.truncate(at),
        6 if !other.is_empty() => {
            let from = random.below(other.len());
            let count = random.below((other.len() - from).min(64)) + 1;
            put(
                bytes,
                at,
                &other[from..(from + count).min(other.len())],
                random,
            );
        }
        _ => {
            let value = bytes[random.below(length)];
            let end = (at + random.below(32)).min(length);
            bytes[at..end].fill(value);
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8], random: &mut Random) {
    let width = value.len().min(if value.len() == 8 {
        1 << random.below(4)
    } else {
        value.len()
    });
    let end = (at + width).min(bytes.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
}
