//! The sums of the quasigroup operation against the tables of the definition.

use super::*;

/// Which words of the left operand each sum takes.
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

fn sums(vector: &Vector, terms: &[[usize; 5]; WORDS], constant: u64) -> Vector {
    std::array::from_fn(|index| {
        let start = if index == 0 { constant } else { 0 };
        let words = terms[index].iter().map(|&term| vector[term]);
        words.fold(start, u64::wrapping_add)
    })
}

pub(in super::super) fn tests_sums(vector: &Vector) {
    assert_eq!(
        left_sums(vector),
        sums(vector, &LEFT_TERMS, 0xAAAA_AAAA_AAAA_AAAA)
    );
    assert_eq!(
        right_sums(vector),
        sums(vector, &RIGHT_TERMS, 0x5555_5555_5555_5555)
    );
}
