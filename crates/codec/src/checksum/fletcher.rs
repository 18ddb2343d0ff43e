//! Fletcher sums: four 64-bit accumulators, each the running sum of the one before it.
//!
//! fletcher4 is a dependency chain, so the fast kernel runs `L` interleaved chains (lane `i` takes
//! words `i`, `i + L`, …) and combines them: a word that is `r`-th from the end of its lane is
//! `L·r − i`-th from the end of the data, and the weights of the four sums are binomials of that.

#![allow(
    unsafe_code,
    reason = "kernels compiled for CPU features that are detected first"
)]

use base::ByteOrder;

/// Sums over two interleaved streams of 64-bit words.
pub(super) fn fletcher2(data: &[u8], order: ByteOrder) -> [u64; 4] {
    let (pairs, tail) = data.as_chunks::<16>();
    let mut sums = [0_u64; 4];
    for pair in pairs {
        add_pair(&mut sums, pair, order);
    }
    if !tail.is_empty() {
        // Blocks are multiples of 512 bytes; anything else is summed as if zero padded.
        let mut pair = [0_u8; 16];
        pair[..tail.len()].copy_from_slice(tail);
        add_pair(&mut sums, &pair, order);
    }
    sums
}

#[inline(always)]
fn add_pair(sums: &mut [u64; 4], pair: &[u8; 16], order: ByteOrder) {
    let (words, _) = pair.as_chunks::<8>();
    sums[0] = sums[0].wrapping_add(order.u64(words[0]));
    sums[1] = sums[1].wrapping_add(order.u64(words[1]));
    sums[2] = sums[2].wrapping_add(sums[0]);
    sums[3] = sums[3].wrapping_add(sums[1]);
}

/// Sums over 32-bit words.
pub(super) fn fletcher4(data: &[u8], order: ByteOrder) -> [u64; 4] {
    match order {
        ByteOrder::Little => fastest::<false>(data),
        ByteOrder::Big => fastest::<true>(data),
    }
}

/// Sums over 32-bit words that follow others, whose sums are `before`: each of those goes on through all
/// `n` words of the data, so that the earlier sums weigh as the binomials of `n`.
pub(super) fn fletcher4_after(before: [u64; 4], data: &[u8], order: ByteOrder) -> [u64; 4] {
    let [a, b, c, d] = before;
    let [more_a, more_b, more_c, more_d] = fletcher4(data, order);
    let n = data.len().div_ceil(4) as u128;
    // Of 128 bits, so that the divisions are exact; all sums are modulo 2^64.
    let (n1, n2, n3) = (
        n as u64,
        (n * (n + 1) / 2) as u64,
        (n * (n + 1) * (n + 2) / 6) as u64,
    );
    let weigh = |value: u64, weight: u64| value.wrapping_mul(weight);
    let sum = |values: &[u64]| values.iter().fold(0_u64, |all, one| all.wrapping_add(*one));
    [
        sum(&[more_a, a]),
        sum(&[more_b, b, weigh(a, n1)]),
        sum(&[more_c, c, weigh(b, n1), weigh(a, n2)]),
        sum(&[more_d, d, weigh(c, n1), weigh(b, n2), weigh(a, n3)]),
    ]
}

fn fastest<const BIG: bool>(data: &[u8]) -> [u64; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the CPU has the features that the kernel is compiled for.
            return unsafe { lanes_avx512::<BIG>(data) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the feature that the kernel is compiled for.
            return unsafe { lanes_avx2::<BIG>(data) };
        }
    }
    lanes::<4, BIG>(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn lanes_avx512<const BIG: bool>(data: &[u8]) -> [u64; 4] {
    lanes::<16, BIG>(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn lanes_avx2<const BIG: bool>(data: &[u8]) -> [u64; 4] {
    lanes::<8, BIG>(data)
}

/// The definition, which the lanes must equal; it also finishes what they leave over.
pub(super) fn scalar<const BIG: bool>(mut sums: [u64; 4], data: &[u8]) -> [u64; 4] {
    let (words, tail) = data.as_chunks::<4>();
    let mut step = |word: [u8; 4]| {
        sums[0] = sums[0].wrapping_add(u64::from(word_of::<BIG>(word)));
        sums[1] = sums[1].wrapping_add(sums[0]);
        sums[2] = sums[2].wrapping_add(sums[1]);
        sums[3] = sums[3].wrapping_add(sums[2]);
    };
    for word in words {
        step(*word);
    }
    if !tail.is_empty() {
        let mut word = [0_u8; 4];
        word[..tail.len()].copy_from_slice(tail);
        step(word);
    }
    sums
}

#[inline(always)]
fn word_of<const BIG: bool>(bytes: [u8; 4]) -> u32 {
    if BIG {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    }
}

/// `L` interleaved chains in arrays that the compiler keeps in vector registers.
#[inline(always)]
fn lanes<const L: usize, const BIG: bool>(data: &[u8]) -> [u64; 4] {
    let (words, _) = data.as_chunks::<4>();
    let (steps, rest) = words.as_chunks::<L>();
    let (mut a, mut b, mut c, mut d) = ([0_u64; L], [0_u64; L], [0_u64; L], [0_u64; L]);
    for step in steps {
        for lane in 0..L {
            a[lane] = a[lane].wrapping_add(u64::from(word_of::<BIG>(step[lane])));
            b[lane] = b[lane].wrapping_add(a[lane]);
            c[lane] = c[lane].wrapping_add(b[lane]);
            d[lane] = d[lane].wrapping_add(c[lane]);
        }
    }
    let combined = combine(&a, &b, &c, &d);
    let done = data.len() - rest.len() * 4 - data.len() % 4;
    scalar::<BIG>(combined, &data[done..])
}

/// Four lane arrays to the four sums of the whole, all modulo 2^64.
fn combine<const L: usize>(a: &[u64; L], b: &[u64; L], c: &[u64; L], d: &[u64; L]) -> [u64; 4] {
    let mut sums = [0_u64; 4];
    let mut add = |sum: usize, weight: i64, value: u64| {
        sums[sum] = sums[sum].wrapping_add((weight as u64).wrapping_mul(value));
    };
    let l = L as i64;
    for lane in 0..L {
        let i = lane as i64;
        add(0, 1, a[lane]);
        add(1, l, b[lane]);
        add(1, -i, a[lane]);
        add(2, l * l, c[lane]);
        add(2, l * (1 - 2 * i - l) / 2, b[lane]);
        add(2, i * (i - 1) / 2, a[lane]);
        add(3, l * l * l, d[lane]);
        add(3, l * l * (1 - i - l), c[lane]);
        add(
            3,
            l * (l * l - 3 * l + 3 * l * i + 3 * i * i - 6 * i + 2) / 6,
            b[lane],
        );
        add(3, -(i * (i - 1) * (i - 2)) / 6, a[lane]);
    }
    sums
}

/// Compares every kernel that this machine can run with the definition.
#[cfg(test)]
pub(super) fn tests_every_kernel(data: &[u8]) {
    let expected = (scalar::<false>([0; 4], data), scalar::<true>([0; 4], data));
    assert_eq!((lanes::<2, false>(data), lanes::<2, true>(data)), expected);
    assert_eq!((lanes::<4, false>(data), lanes::<4, true>(data)), expected);
    assert_eq!((lanes::<8, false>(data), lanes::<8, true>(data)), expected);
    assert_eq!(
        (lanes::<16, false>(data), lanes::<16, true>(data)),
        expected
    );
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the feature that the kernel is compiled for.
        let actual = unsafe { (lanes_avx2::<false>(data), lanes_avx2::<true>(data)) };
        assert_eq!(actual, expected);
    }
}
