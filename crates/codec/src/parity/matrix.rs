//! The equations that lost columns solve.

use super::field::{inverse as reciprocal, multiply, power_of_two};

/// A square matrix of at most three rows.
type Matrix = Vec<Vec<u8>>;

/// By what the rows of parity `rows` (less what is known of them) are to be multiplied to give the lost `columns` of
/// `count`: one line a column, one factor a row. None if they do not tell the columns apart.
pub(super) fn inverse(rows: &[usize], columns: &[usize], count: usize) -> Option<Matrix> {
    let factor = |row: usize, column: usize| {
        let after = count.checked_sub(column + 1)?;
        Some(power_of_two(row * after))
    };
    let line = |row: &usize| columns.iter().map(|column| factor(*row, *column)).collect();
    let matrix: Option<Matrix> = rows.iter().map(line).collect();
    invert(matrix?)
}

/// Gauss and Jordan.
fn invert(mut matrix: Matrix) -> Option<Matrix> {
    let size = matrix.len();
    let unit = |i: usize| (0..size).map(|j| u8::from(i == j)).collect();
    let mut inverse: Matrix = (0..size).map(unit).collect();
    for pivot in 0..size {
        let line = (pivot..size).find(|line| matrix[*line][pivot] != 0)?;
        matrix.swap(pivot, line);
        inverse.swap(pivot, line);
        let factor = reciprocal(matrix[pivot][pivot])?;
        for side in [&mut matrix, &mut inverse] {
            for element in &mut side[pivot] {
                *element = multiply(*element, factor);
            }
        }
        for line in (0..size).filter(|line| *line != pivot) {
            let factor = matrix[line][pivot];
            for side in [&mut matrix, &mut inverse] {
                let subtracted = side[pivot].clone();
                for (element, part) in side[line].iter_mut().zip(subtracted) {
                    *element ^= multiply(part, factor);
                }
            }
        }
    }
    Some(inverse)
}
