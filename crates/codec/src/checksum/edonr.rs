//! Edon-R-512 as OpenZFS uses it (with the tweaked quasigroup operation), salted.

const WORDS: usize = 8;
const BLOCK_BYTES: usize = 128;
const DIGEST_BYTES: usize = 64;

/// Which words of the left operand each sum takes, and how far it is rotated.
const LEFT_TERMS: [[usize; 5]; WORDS] = [
    [0, 1, 2, 4, 7],
    [0, 1, 3, 4, 7],
    [0, 1, 4, 6, 7],
    [2, 3, 5, 6, 7],
    [1, 2, 3, 5, 6],
    [0, 2, 3, 4, 5],
    [0, 1, 5, 6, 7],
    [2, 3, 4, 5, 6],
];
const LEFT_ROTATIONS: [u32; WORDS] = [0, 5, 15, 22, 31, 40, 50, 59];
/// The same for the right operand.
const RIGHT_TERMS: [[usize; 5]; WORDS] = [
    [0, 1, 2, 5, 7],
    [0, 1, 3, 4, 6],
    [0, 1, 2, 3, 5],
    [2, 3, 4, 6, 7],
    [0, 1, 3, 4, 5],
    [2, 4, 5, 6, 7],
    [1, 2, 5, 6, 7],
    [0, 3, 4, 6, 7],
];
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

/// The first half of the hash of (salt's hash, its hash, data).
pub(super) fn salted(salt: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let first = digest(&[salt]);
    let second = digest(&[&first]);
    let full = digest(&[&first, &second, data]);
    let mut half = [0_u8; 32];
    half.copy_from_slice(&full[..32]);
    half
}

/// Edon-R-512 of the concatenation of `parts`, all but the last of which together fill whole
/// blocks.
pub(super) fn digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut state: [Vector; 2] = std::array::from_fn(|half| {
        std::array::from_fn(|index| {
            let start = 0x80 + 64 * half + 8 * index;
            u64::from_be_bytes(std::array::from_fn(|byte| (start + byte) as u8))
        })
    });
    let mut pending = [0_u8; 2 * BLOCK_BYTES];
    let mut filled = 0;
    let mut total = 0_u64;
    for part in parts {
        total += part.len() as u64;
        let mut rest = *part;
        if filled > 0 {
            let take = rest.len().min(BLOCK_BYTES - filled);
            pending[filled..filled + take].copy_from_slice(&rest[..take]);
            filled += take;
            rest = &rest[take..];
            if filled == BLOCK_BYTES {
                absorb(&mut state, &pending[..BLOCK_BYTES]);
                filled = 0;
            }
        }
        if filled == 0 {
            let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
            for block in blocks {
                absorb(&mut state, block);
            }
            pending[..tail.len()].copy_from_slice(tail);
            filled = tail.len();
        }
    }
    finish(state, pending, filled, total)
}

/// Pads and absorbs the last `filled` bytes; the length takes a block of its own when the mark
/// and it do not fit behind them.
fn finish(
    mut state: [Vector; 2],
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

fn absorb(state: &mut [Vector; 2], block: &[u8]) {
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
    let left = sums(x, &LEFT_TERMS, &LEFT_ROTATIONS, 0xAAAA_AAAA_AAAA_AAAA);
    let right = sums(y, &RIGHT_TERMS, &RIGHT_ROTATIONS, 0x5555_5555_5555_5555);
    std::array::from_fn(|index| {
        let [a, b, c] = LEFT_MIX[index];
        let [d, e, f] = RIGHT_MIX[index];
        (left[a] ^ left[b] ^ left[c]).wrapping_add(right[d] ^ right[e] ^ right[f])
    })
}

#[inline(always)]
fn sums(
    vector: &Vector,
    terms: &[[usize; 5]; WORDS],
    rotations: &[u32; WORDS],
    constant: u64,
) -> Vector {
    std::array::from_fn(|index| {
        let start = if index == 0 { constant } else { 0 };
        terms[index]
            .iter()
            .fold(start, |sum, &term| sum.wrapping_add(vector[term]))
            .rotate_left(rotations[index])
    })
}
