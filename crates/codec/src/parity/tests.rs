use super::field::{double, multiply};
use super::kernel::Kernel;
use super::{PARITY_ROWS_MAX, generate_parity, generate_with, reconstruct, reconstruct_with};
use crate::CodecError;
use proptest::prelude::*;

/// A row of parity by its definition.
fn defined(row: usize, data: &[Vec<u8>], len: usize) -> Vec<u8> {
    let factor = [1, 2, 4][row];
    let at = |i: usize| {
        data.iter().fold(0, |sum, column| {
            multiply(sum, factor) ^ column.get(i).copied().unwrap_or(0)
        })
    };
    (0..len).map(at).collect()
}

fn parity_of(kernel: Kernel, data: &[Vec<u8>], rows: usize, len: usize) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xa5; len]; rows];
    let columns: Vec<_> = data.iter().map(Vec::as_slice).collect();
    let mut rooms: Vec<_> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    generate_with(kernel, &columns, &mut rooms).unwrap();
    parity
}

/// Columns of `long` bytes, the last `short_count` of which are shorter by `less`.
fn columns(count: usize, long: usize, (short_count, less): (usize, usize)) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    let len = |i| {
        if i + short_count >= count {
            long - less
        } else {
            long
        }
    };
    (0..count)
        .map(|i| (0..len(i)).map(|_| byte()).collect())
        .collect()
}

/// Loses the columns, and some rows of parity, and looks whether they come back.
fn check(kernel: Kernel, data: &[Vec<u8>], parity: &[Vec<u8>], lost: &[usize], rows: &[usize]) {
    let known: Vec<_> = data
        .iter()
        .enumerate()
        .map(|(i, column)| (!lost.contains(&i)).then_some(&column[..]))
        .collect();
    let there: Vec<_> = parity
        .iter()
        .enumerate()
        .map(|(i, row)| rows.contains(&i).then_some(&row[..]))
        .collect();
    let mut found: Vec<_> = lost.iter().map(|i| vec![0x5a; data[*i].len()]).collect();
    let mut places: Vec<_> = lost
        .iter()
        .zip(&mut found)
        .map(|(i, column)| (*i, &mut column[..]))
        .collect();
    reconstruct_with(kernel, &known, &there, &mut places).unwrap();
    for (column, found) in lost.iter().zip(&found) {
        let right = found == &data[*column];
        assert!(right, "{kernel:?}: column {column} of {lost:?} by {rows:?}");
    }
}

/// Every set of numbers below `below`.
fn sets(below: usize) -> impl Iterator<Item = Vec<usize>> {
    (0_u32..1 << below).map(move |bits| (0..below).filter(|i| bits >> i & 1 == 1).collect())
}

#[test]
fn the_example_of_the_format_notes() {
    let data = [vec![0x80], vec![0x01], vec![0xff]];
    for kernel in Kernel::usable() {
        let parity = parity_of(kernel, &data, 3, 1);
        assert_eq!(parity, [vec![0x7e], vec![0xc7], vec![0x13]]);
    }
    assert_eq!(double(0x80), 0x1d);
}

#[test]
fn every_set_of_lost_columns_comes_back_from_every_set_of_rows() {
    for kernel in Kernel::usable() {
        for (count, shape) in [(1, (0, 0)), (3, (1, 512)), (5, (3, 512)), (6, (6, 1024))] {
            let data = columns(count, 1536, shape);
            let parity = parity_of(kernel, &data, PARITY_ROWS_MAX, 1536);
            for rows in sets(PARITY_ROWS_MAX) {
                for lost in sets(count).filter(|lost| lost.len() <= rows.len()) {
                    check(kernel, &data, &parity, &lost, &rows);
                }
            }
        }
    }
}

#[test]
fn as_many_columns_as_a_vdev_can_have() {
    let data = columns(252, 512, (0, 0));
    for kernel in Kernel::usable() {
        let parity = parity_of(kernel, &data, 3, 512);
        for lost in [[0, 1, 251], [0, 125, 250], [249, 250, 251]] {
            check(kernel, &data, &parity, &lost, &[0, 1, 2]);
        }
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (column, other) = ([1_u8; 512], [2_u8; 256]);
    let refused = Err(CodecError::ParityShape);
    assert_eq!(generate_parity(&[&column], &mut [&mut [0; 256]]), refused);
    let rows: &mut [&mut [u8]] = &mut [&mut [], &mut [], &mut [], &mut []];
    assert_eq!(generate_parity(&[], rows), refused);
    let (mut room, mut room_2) = ([0; 512], [0; 512]);
    // Two are lost, one row is there.
    let lost: &mut [(usize, &mut [u8])] = &mut [(0, &mut room), (1, &mut room_2)];
    assert_eq!(reconstruct(&[None, None], &[Some(&column)], lost), refused);
    // What is lost is not said, or another column.
    assert_eq!(reconstruct(&[None], &[Some(&column)], &mut []), refused);
    let named: &mut [(usize, &mut [u8])] = &mut [(1, &mut room)];
    let data = [None, Some(&column[..])];
    assert_eq!(reconstruct(&data, &[Some(&column)], named), refused);
    // A row is too short.
    let named: &mut [(usize, &mut [u8])] = &mut [(0, &mut room)];
    assert_eq!(reconstruct(&data, &[Some(&other)], named), refused);
}

proptest! {
    #[test]
    fn kernels_are_equal_to_the_definition(
        count in 0_usize..9,
        len in 0_usize..9000,
        short in 0_usize..9,
        less in 0_usize..5000,
        rows in 0_usize..=PARITY_ROWS_MAX,
    ) {
        let data = columns(count, len, (short, less.min(len)));
        for kernel in Kernel::usable() {
            for (row, actual) in parity_of(kernel, &data, rows, len).iter().enumerate() {
                prop_assert!(*actual == defined(row, &data, len), "{kernel:?}: row {row}");
            }
        }
    }
}
