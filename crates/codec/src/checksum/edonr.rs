//! Edon-R-512 as OpenZFS uses it (with the tweaked quasigroup operation), salted.

use std::cell::Cell;

const WORDS: usize = 8;
const BLOCK_BYTES: usize = 128;
const DIGEST_BYTES: usize = 64;

/// How far each sum of words of the left operand is rotated.
const LEFT_ROTATIONS: [u32; WORDS] = [0, 5, 15, 22, 31, 40, 50, 59];
/// The same for the right operand.
const RIGHT_ROTATIONS: [u32; WORDS] = [0, 10, 19, 29, 36, 44, 48, 55];
/// Which left and right sums each result word mixes.
const LEFT_MIX: [[usize; 3]; WORDS] = [
    [0, 1, 4],
    [0, 4, 7],
    [1, 6, 7],
    [2, 3, 4],
    [0, 1, 7],
    [3, 5, 6],
    [2, 5, 6],
    [2, 3, 5],
];
const RIGHT_MIX: [[usize; 3]; WORDS] = [
    [0, 1, 5],
    [2, 6, 7],
    [0, 1, 3],
    [0, 3, 4],
    [1, 2, 5],
    [3, 4, 6],
    [2, 5, 7],
    [4, 6, 7],
];

type Vector = [u64; WORDS];
/// What is known of the bytes so far.
type State = [Vector; 2];

thread_local! {
    /// A salt, and the state after it: blocks that follow one another are mostly of one pool.
    static LAST: Cell<Option<([u8; 32], State)>> = const { Cell::new(None) };
}

/// The state after the salt's hash and the hash of that, which fill a block.
fn after_salt(salt: &[u8; 32]) -> State {
    if let Some((last, state)) = LAST.get()
        && last == *salt
    {
        return state;
    }
    let first = digest(salt);
    let second = digest(&first);
    let mut block = [0_u8; BLOCK_BYTES];
    block[..DIGEST_BYTES].copy_from_slice(&first);
    block[DIGEST_BYTES..].copy_from_slice(&second);
    let mut state = initial();
    absorb(&mut state, &block);
    LAST.set(Some((*salt, state)));
    state
}

/// The first half of the hash of (salt's hash, its hash, data).
pub(super) fn salted(salt: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let full = rest_of(after_salt(salt), BLOCK_BYTES as u64, data);
    let mut half = [0_u8; 32];
    half.copy_from_slice(&full[..32]);
    half
}

/// Edon-R-512 of some bytes.
pub(super) fn digest(data: &[u8]) -> [u8; DIGEST_BYTES] {
    rest_of(initial(), 0, data)
}

fn initial() -> State {
    std::array::from_fn(|half| {
        std::array::from_fn(|index| {
            let start = 0x80 + 64 * half + 8 * index;
            u64::from_be_bytes(std::array::from_fn(|byte| (start + byte) as u8))
        })
    })
}

/// The digest of what was absorbed, so many bytes in whole blocks, and of `data`.
fn rest_of(mut state: State, absorbed: u64, data: &[u8]) -> [u8; DIGEST_BYTES] {
    let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        absorb(&mut state, block);
    }
    let mut pending = [0_u8; 2 * BLOCK_BYTES];
    pending[..tail.len()].copy_from_slice(tail);
    finish(state, pending, tail.len(), absorbed + data.len() as u64)
}

/// Pads and absorbs the last `filled` bytes; the length takes a block of its own when the mark
/// and it do not fit behind them.
fn finish(
    mut state: State,
    mut pending: [u8; 2 * BLOCK_BYTES],
    filled: usize,
    total: u64,
) -> [u8; DIGEST_BYTES] {
    pending[filled..].fill(0);
    pending[filled] = 0x80;
    let end = if filled + 9 > BLOCK_BYTES {
        2 * BLOCK_BYTES
    } else {
        BLOCK_BYTES
    };
    pending[end - 8..end].copy_from_slice(&(total * 8).to_le_bytes());
    for block in pending[..end].as_chunks::<BLOCK_BYTES>().0 {
        absorb(&mut state, block);
    }
    let mut digest = [0_u8; DIGEST_BYTES];
    for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(state[1]) {
        *bytes = word.to_le_bytes();
    }
    digest
}

fn absorb(state: &mut State, block: &[u8]) {
    let (words, _) = block.as_chunks::<8>();
    let low: Vector = std::array::from_fn(|index| u64::from_le_bytes(words[index]));
    let high: Vector = std::array::from_fn(|index| u64::from_le_bytes(words[WORDS + index]));
    let mut a = quasigroup(&reversed(&high), &low);
    let mut b = quasigroup(&a, &high);
    a = quasigroup(&state[1], &a);
    b = quasigroup(&a, &b);
    a = quasigroup(&a, &state[0]);
    b = quasigroup(&b, &a);
    a = quasigroup(&reversed(&low), &a);
    b = quasigroup(&a, &b);
    for index in 0..WORDS {
        state[0][index] ^= high[index] ^ a[index];
        state[1][index] ^= low[index] ^ b[index];
    }
}

fn reversed(vector: &Vector) -> Vector {
    std::array::from_fn(|index| vector[WORDS - 1 - index])
}

#[inline(always)]
fn quasigroup(x: &Vector, y: &Vector) -> Vector {
    let left = rotated(left_sums(x), &LEFT_ROTATIONS);
    let right = rotated(right_sums(y), &RIGHT_ROTATIONS);
    std::array::from_fn(|index| {
        let [a, b, c] = LEFT_MIX[index];
        let [d, e, f] = RIGHT_MIX[index];
        (left[a] ^ left[b] ^ left[c]).wrapping_add(right[d] ^ right[e] ^ right[f])
    })
}

#[inline(always)]
fn rotated(sums: Vector, rotations: &[u32; WORDS]) -> Vector {
    std::array::from_fn(|index| sums[index].rotate_left(rotations[index]))
}

#[inline(always)]
fn add<const COUNT: usize>(terms: [u64; COUNT]) -> u64 {
    terms.into_iter().fold(0, u64::wrapping_add)
}

/// Sums of five words each; what several have in common is added once.
#[inline(always)]
fn left_sums(x: &Vector) -> Vector {
    let (s017, s235) = (add([x[0], x[1], x[7]]), add([x[2], x[3], x[5]]));
    let (s0147, s2356) = (add([s017, x[4]]), add([s235, x[6]]));
    [
        add([s0147, x[2], 0xAAAA_AAAA_AAAA_AAAA]),
        add([s0147, x[3]]),
        add([s0147, x[6]]),
        add([s2356, x[7]]),
        add([s2356, x[1]]),
        add([s235, x[0], x[4]]),
        add([s017, x[5], x[6]]),
        add([s2356, x[4]]),
    ]
}

#[inline(always)]
fn right_sums(y: &Vector) -> Vector {
    let (s01, s25) = (add([y[0], y[1]]), add([y[2], y[5]]));
    let (s67, s34) = (add([y[6], y[7]]), add([y[3], y[4]]));
    let (s0125, s0134) = (add([s01, s25]), add([s01, s34]));
    let (s2567, s3467) = (add([s25, s67]), add([s34, s67]));
    [
        add([s0125, y[7], 0x5555_5555_5555_5555]),
        add([s0134, y[6]]),
        add([s0125, y[3]]),
        add([s3467, y[2]]),
        add([s0134, y[5]]),
        add([s2567, y[4]]),
        add([s2567, y[1]]),
        add([s3467, y[0]]),
    ]
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::tests_sums;
