//! Skein-512 v1.3 with a key and 256 bits of output: Threefish-512 in UBI chaining mode.

use std::cell::Cell;

const WORDS: usize = 8;
const BLOCK_BYTES: usize = WORDS * 8;
const KEY_PARITY: u64 = 0x1BD1_1BDA_A9FC_1A22;
const ROTATIONS: [[u32; 4]; 8] = [
    [46, 36, 19, 37],
    [33, 27, 14, 42],
    [17, 49, 36, 39],
    [44, 9, 54, 56],
    [39, 30, 34, 24],
    [13, 50, 10, 17],
    [25, 29, 39, 43],
    [8, 35, 56, 22],
];

const TYPE_KEY: u64 = 0;
const TYPE_CONFIG: u64 = 4;
const TYPE_MESSAGE: u64 = 48;
const TYPE_OUTPUT: u64 = 63;
const FIRST: u64 = 1 << 62;
const FINAL: u64 = 1 << 63;

thread_local! {
    /// A key, and the state before a message: blocks that follow one another are mostly of one pool.
    static LAST: Cell<Option<([u8; 32], [u64; WORDS])>> = const { Cell::new(None) };
}

/// The state before a message.
fn keyed(key: &[u8; 32]) -> [u64; WORDS] {
    if let Some((last, state)) = LAST.get()
        && last == *key
    {
        return state;
    }
    let mut config = [0_u8; 32];
    config[..4].copy_from_slice(b"SHA3");
    config[4] = 1;
    config[8..16].copy_from_slice(&256_u64.to_le_bytes());
    let keyed = chain([0; WORDS], key, TYPE_KEY);
    let state = chain(keyed, &config, TYPE_CONFIG);
    LAST.set(Some((*key, state)));
    state
}

/// Keyed (MAC mode) Skein-512-256 of `message`.
pub(super) fn skein_512_256(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let hashed = chain(keyed(key), message, TYPE_MESSAGE);
    let output = chain(hashed, &0_u64.to_le_bytes(), TYPE_OUTPUT);
    let mut digest = [0_u8; 32];
    for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(output) {
        *bytes = word.to_le_bytes();
    }
    digest
}

/// One UBI call over all of `message`, which may be empty.
fn chain(mut state: [u64; WORDS], message: &[u8], kind: u64) -> [u64; WORDS] {
    let mut flags = (kind << 56) | FIRST;
    let mut position = 0_u64;
    let mut rest = message;
    while rest.len() > BLOCK_BYTES {
        let (block, tail) = rest.split_at(BLOCK_BYTES);
        position += BLOCK_BYTES as u64;
        state = feed_forward(&state, [position, flags], &words_of(block));
        flags &= !FIRST;
        rest = tail;
    }
    let mut block = [0_u8; BLOCK_BYTES];
    block[..rest.len()].copy_from_slice(rest);
    position += rest.len() as u64;
    feed_forward(&state, [position, flags | FINAL], &words_of(&block))
}

fn words_of(block: &[u8]) -> [u64; WORDS] {
    let (bytes, _) = block.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(bytes[index]))
}

/// Threefish-512 of `block` under `key` and `tweak`, exclusive-or'ed with `block`.
fn feed_forward(key: &[u64; WORDS], tweak: [u64; 2], block: &[u64; WORDS]) -> [u64; WORDS] {
    let mut keys = [0_u64; 9];
    keys[..WORDS].copy_from_slice(key);
    keys[WORDS] = key.iter().fold(KEY_PARITY, |parity, word| parity ^ word);
    let tweaks = [tweak[0], tweak[1], tweak[0] ^ tweak[1]];
    let mut v = *block;
    // Written out: which key words and tweaks a group takes is known when this is compiled, and all stays in registers.
    macro_rules! eight_rounds {
        ($($group:literal, $next:literal;)*) => {
            $(
                inject::<$group>(&mut v, &keys, &tweaks);
                four_rounds::<0>(&mut v);
                inject::<$next>(&mut v, &keys, &tweaks);
                four_rounds::<4>(&mut v);
            )*
        };
    }
    eight_rounds! { 0, 1; 2, 3; 4, 5; 6, 7; 8, 9; 10, 11; 12, 13; 14, 15; 16, 17; }
    inject::<18>(&mut v, &keys, &tweaks);
    std::array::from_fn(|index| v[index] ^ block[index])
}

#[inline(always)]
fn inject<const GROUP: usize>(v: &mut [u64; WORDS], keys: &[u64; 9], tweaks: &[u64; 3]) {
    for (index, word) in v.iter_mut().enumerate() {
        *word = word.wrapping_add(keys[(GROUP + index) % 9]);
    }
    v[5] = v[5].wrapping_add(tweaks[GROUP % 3]);
    v[6] = v[6].wrapping_add(tweaks[(GROUP + 1) % 3]);
    v[7] = v[7].wrapping_add(GROUP as u64);
}

/// Rounds `START..START + 4` of the eight with different rotations.
#[inline(always)]
fn four_rounds<const START: usize>(v: &mut [u64; WORDS]) {
    for rotations in &ROTATIONS[START..START + 4] {
        for (pair, &rotation) in rotations.iter().enumerate() {
            let (low, high) = (2 * pair, 2 * pair + 1);
            v[low] = v[low].wrapping_add(v[high]);
            v[high] = v[high].rotate_left(rotation) ^ v[low];
        }
        *v = [v[2], v[1], v[4], v[7], v[6], v[5], v[0], v[3]];
    }
}
