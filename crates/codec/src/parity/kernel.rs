//! The two loops that parity consists of, for the CPU that there is.
//!
//! Doubling and adding is left to the compiler, which is told what the CPU has. Multiplying by a number that is only
//! known at run time looks each half of a byte up in a table of sixteen, for which CPUs have an instruction that the
//! compiler does not find by itself.

#![allow(
    unsafe_code,
    reason = "kernels compiled for CPU features that are detected first"
)]

use super::Rows;
use super::field::{POLYNOMIAL, multiply};

/// How many bytes of a column are worked on at a time: three rows of them and one column stay in the first cache.
pub(super) const CHUNK: usize = 4096;

/// What the loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Any CPU.
    Portable,
    /// 16 bytes at once.
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    /// 32 bytes at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 16 bytes at once.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Kernel {
    /// Every kernel that this CPU can run, the fastest last.
    pub(super) fn usable() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vector = [
            is_x86_feature_detected!("ssse3").then_some(Self::Ssse3),
            is_x86_feature_detected!("avx2").then_some(Self::Avx2),
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"))
                .then_some(Self::Avx512),
        ];
        #[cfg(target_arch = "aarch64")]
        let vector = [std::arch::is_aarch64_feature_detected!("neon").then_some(Self::Neon)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vector = [None];
        std::iter::once(Self::Portable).chain(vector.into_iter().flatten())
    }

    /// The fastest that this CPU can run.
    pub(super) fn fastest() -> Self {
        Self::usable().last().unwrap_or(Self::Portable)
    }

    /// Adds as much of the next column as each row is long, as if zeros followed it: `P + D`, `2 Q + D`, `4 R + D`.
    pub(super) fn step(self, rows: &mut Rows<'_>, column: &[u8]) {
        match self {
            Self::Portable => step(rows, column),
            // SAFETY: a kernel is only named where the CPU has its features (`usable`).
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => unsafe { x86::step_ssse3(rows, column) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::step_avx2(rows, column) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86::step_avx512(rows, column) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { neon::step_neon(rows, column) },
        }
    }

    /// Adds `factor` times `source` to `sums`; both are equally long.
    pub(super) fn add_multiple(self, sums: &mut [u8], source: &[u8], factor: u8) {
        debug_assert_eq!(sums.len(), source.len());
        let halves = Halves::new(factor);
        match self {
            Self::Portable => add_multiple(sums, source, &halves),
            // SAFETY: a kernel is only named where the CPU has its features (`usable`).
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => unsafe { x86::add_multiple_ssse3(sums, source, &halves) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::add_multiple_avx2(sums, source, &halves) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86::add_multiple_avx512(sums, source, &halves) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { neon::add_multiple_neon(sums, source, &halves) },
        }
    }
}

/// The products of a factor with what the lower and the upper half of a byte stand for.
pub(super) struct Halves {
    low: [u8; 16],
    high: [u8; 16],
}

impl Halves {
    fn new(factor: u8) -> Self {
        let table = |shift: u32| {
            let mut table = [0; 16];
            for (half, product) in table.iter_mut().enumerate() {
                *product = multiply(factor, (half as u8) << shift);
            }
            table
        };
        Self {
            low: table(0),
            high: table(4),
        }
    }

    /// The product of the factor and `byte`.
    #[inline(always)]
    fn product(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }
}

/// Twice an element without a branch, as vectors do it.
#[inline(always)]
fn doubled(element: u8) -> u8 {
    let carry = if element.cast_signed() < 0 { 0xff } else { 0 };
    (element << 1) ^ (carry & POLYNOMIAL)
}

#[inline(always)]
fn step([p, q, r]: &mut Rows<'_>, column: &[u8]) {
    for (sum, byte) in p.iter_mut().zip(column) {
        *sum ^= byte;
    }
    for (sum, byte) in q.iter_mut().zip(column) {
        *sum = doubled(*sum) ^ byte;
    }
    for sum in q.get_mut(column.len()..).unwrap_or_default() {
        *sum = doubled(*sum);
    }
    for (sum, byte) in r.iter_mut().zip(column) {
        *sum = doubled(doubled(*sum)) ^ byte;
    }
    for sum in r.get_mut(column.len()..).unwrap_or_default() {
        *sum = doubled(doubled(*sum));
    }
}

fn add_multiple(sums: &mut [u8], source: &[u8], halves: &Halves) {
    for (sum, byte) in sums.iter_mut().zip(source) {
        *sum ^= halves.product(*byte);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Halves, Rows, add_multiple, step};
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8,
        _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128, _mm256_and_si256,
        _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256, _mm512_and_si512,
        _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_set1_epi8, _mm512_shuffle_epi8,
        _mm512_srli_epi64, _mm512_storeu_si512, _mm512_xor_si512,
    };

    #[target_feature(enable = "ssse3")]
    pub(super) fn step_ssse3(rows: &mut Rows<'_>, column: &[u8]) {
        step(rows, column);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn step_avx2(rows: &mut Rows<'_>, column: &[u8]) {
        step(rows, column);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn step_avx512(rows: &mut Rows<'_>, column: &[u8]) {
        step(rows, column);
    }

    #[target_feature(enable = "ssse3")]
    fn table(half: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen bytes are read, which an array of sixteen has; they need no alignment.
        unsafe { _mm_loadu_si128(half.as_ptr().cast::<__m128i>()) }
    }

    #[target_feature(enable = "ssse3")]
    pub(super) fn add_multiple_ssse3(sums: &mut [u8], source: &[u8], halves: &Halves) {
        let (low, high) = (table(&halves.low), table(&halves.high));
        let mask = _mm_set1_epi8(15);
        let (sums, sums_end) = sums.as_chunks_mut::<16>();
        let (source, source_end) = source.as_chunks::<16>();
        for (sum, bytes) in sums.iter_mut().zip(source) {
            // SAFETY: sixteen bytes are read from arrays of sixteen; they need no alignment.
            let (bytes, before) = unsafe {
                (
                    _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>()),
                    _mm_loadu_si128(sum.as_ptr().cast::<__m128i>()),
                )
            };
            let from_low = _mm_shuffle_epi8(low, _mm_and_si128(bytes, mask));
            let upper = _mm_and_si128(_mm_srli_epi64::<4>(bytes), mask);
            let product = _mm_xor_si128(from_low, _mm_shuffle_epi8(high, upper));
            let after = _mm_xor_si128(before, product);
            // SAFETY: sixteen bytes are written to an array of sixteen.
            unsafe { _mm_storeu_si128(sum.as_mut_ptr().cast::<__m128i>(), after) };
        }
        add_multiple(sums_end, source_end, halves);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn add_multiple_avx2(sums: &mut [u8], source: &[u8], halves: &Halves) {
        let low = _mm256_broadcastsi128_si256(table(&halves.low));
        let high = _mm256_broadcastsi128_si256(table(&halves.high));
        let mask = _mm256_set1_epi8(15);
        let (sums, sums_end) = sums.as_chunks_mut::<32>();
        let (source, source_end) = source.as_chunks::<32>();
        for (sum, bytes) in sums.iter_mut().zip(source) {
            // SAFETY: 32 bytes are read from arrays of 32; they need no alignment.
            let (bytes, before) = unsafe {
                (
                    _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()),
                    _mm256_loadu_si256(sum.as_ptr().cast::<__m256i>()),
                )
            };
            let from_low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, mask));
            let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), mask);
            let product = _mm256_xor_si256(from_low, _mm256_shuffle_epi8(high, upper));
            let after = _mm256_xor_si256(before, product);
            // SAFETY: 32 bytes are written to an array of 32.
            unsafe { _mm256_storeu_si256(sum.as_mut_ptr().cast::<__m256i>(), after) };
        }
        add_multiple(sums_end, source_end, halves);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn add_multiple_avx512(sums: &mut [u8], source: &[u8], halves: &Halves) {
        let low = _mm512_broadcast_i32x4(table(&halves.low));
        let high = _mm512_broadcast_i32x4(table(&halves.high));
        let mask = _mm512_set1_epi8(15);
        let (sums, sums_end) = sums.as_chunks_mut::<64>();
        let (source, source_end) = source.as_chunks::<64>();
        for (sum, bytes) in sums.iter_mut().zip(source) {
            // SAFETY: 64 bytes are read from arrays of 64; they need no alignment.
            let (bytes, before) = unsafe {
                (
                    _mm512_loadu_si512(bytes.as_ptr().cast::<__m512i>()),
                    _mm512_loadu_si512(sum.as_ptr().cast::<__m512i>()),
                )
            };
            let from_low = _mm512_shuffle_epi8(low, _mm512_and_si512(bytes, mask));
            let upper = _mm512_and_si512(_mm512_srli_epi64::<4>(bytes), mask);
            let product = _mm512_xor_si512(from_low, _mm512_shuffle_epi8(high, upper));
            let after = _mm512_xor_si512(before, product);
            // SAFETY: 64 bytes are written to an array of 64.
            unsafe { _mm512_storeu_si512(sum.as_mut_ptr().cast::<__m512i>(), after) };
        }
        add_multiple(sums_end, source_end, halves);
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::{Halves, Rows, add_multiple, step};
    use std::arch::aarch64::{
        vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
    };

    #[target_feature(enable = "neon")]
    pub(super) fn step_neon(rows: &mut Rows<'_>, column: &[u8]) {
        step(rows, column);
    }

    #[target_feature(enable = "neon")]
    pub(super) fn add_multiple_neon(sums: &mut [u8], source: &[u8], halves: &Halves) {
        // SAFETY: sixteen bytes are read from arrays of sixteen.
        let (low, high) = unsafe {
            (
                vld1q_u8(halves.low.as_ptr()),
                vld1q_u8(halves.high.as_ptr()),
            )
        };
        let mask = vdupq_n_u8(15);
        let (sums, sums_end) = sums.as_chunks_mut::<16>();
        let (source, source_end) = source.as_chunks::<16>();
        for (sum, bytes) in sums.iter_mut().zip(source) {
            // SAFETY: sixteen bytes are read from arrays of sixteen.
            let (bytes, before) = unsafe { (vld1q_u8(bytes.as_ptr()), vld1q_u8(sum.as_ptr())) };
            let from_low = vqtbl1q_u8(low, vandq_u8(bytes, mask));
            let product = veorq_u8(from_low, vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes)));
            // SAFETY: sixteen bytes are written to an array of sixteen.
            unsafe { vst1q_u8(sum.as_mut_ptr(), veorq_u8(before, product)) };
        }
        add_multiple(sums_end, source_end, halves);
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::double;
    use super::*;

    #[test]
    fn doubling_is_the_same_in_both_ways() {
        assert!((0..=u8::MAX).all(|element| doubled(element) == double(element)));
    }

    #[test]
    fn kernels_multiply_as_the_field_does_at_any_length() {
        let source: Vec<u8> = (0..700).map(|i: u32| (i * 7 + i / 256) as u8).collect();
        for kernel in Kernel::usable() {
            for (factor, len) in (0..=u8::MAX).zip((0..=700).cycle().step_by(37)) {
                let before: Vec<u8> = source[..len].iter().rev().copied().collect();
                let mut sums = before.clone();
                kernel.add_multiple(&mut sums, &source[..len], factor);
                let expected = before.iter().zip(&source);
                let expected: Vec<u8> = expected.map(|(b, s)| b ^ multiply(factor, *s)).collect();
                assert!(sums == expected, "{kernel:?} {factor} {len}");
            }
        }
    }
}
