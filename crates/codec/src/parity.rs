//! Parity of RAID-Z and dRAID: up to three rows of bytes by which as many lost columns are found again.
//!
//! Bytes are elements of GF(2^8). Row `r` (P, Q, R) of the data columns `D0 … Dk-1` is the value at `2^r` of the
//! polynomial that has them as coefficients, the last one without a power. A column that is shorter than the first
//! counts as if zeros followed it.
//!
//! Source: the format notes, "RAID-Z".

mod field;
mod kernel;
mod matrix;
#[cfg(test)]
mod tests;

use crate::CodecError;
use kernel::{CHUNK, Kernel};

/// The most rows of parity there are.
pub const PARITY_ROWS_MAX: usize = 3;

/// The rows of a chunk, of which those that are not wanted are empty.
type Rows<'a> = [&'a mut [u8]; PARITY_ROWS_MAX];

/// Writes the rows of parity of `data` (in the order of the columns) to `parity`: P, then Q, then R. Rows are as long
/// as the longest column; what is longer is filled with zeros.
///
/// # Errors
/// More than [`PARITY_ROWS_MAX`] rows, or a row that is shorter than a column.
pub fn generate_parity(data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodecError> {
    generate_with(Kernel::fastest(), data, parity)
}

fn generate_with(
    kernel: Kernel,
    data: &[&[u8]],
    parity: &mut [&mut [u8]],
) -> Result<(), CodecError> {
    let longest = parity.iter().map(|row| row.len()).max().unwrap_or(0);
    let too_short = |row: &[u8]| data.iter().any(|column| column.len() > row.len());
    if parity.len() > PARITY_ROWS_MAX || parity.iter().any(|row| too_short(row)) {
        return Err(CodecError::ParityShape);
    }
    for start in (0..longest).step_by(CHUNK) {
        let mut rows = Rows::default();
        for (row, room) in rows.iter_mut().zip(parity.iter_mut()) {
            let end = room.len().min(start + CHUNK);
            *row = room.get_mut(start..end).unwrap_or_default();
        }
        let columns = data
            .iter()
            .map(|column| column.get(start..).unwrap_or_default());
        sum_columns(kernel, columns, &mut rows);
    }
    Ok(())
}

/// Finds the columns of `data` again that are `None`, each into its place in `lost` (by rising column), from the rows
/// of `parity` that are there. Columns and rows have lengths as for [`generate_parity`].
///
/// # Errors
/// More columns are lost than rows of parity are there, `lost` does not name them, or lengths do not fit.
pub fn reconstruct(
    data: &[Option<&[u8]>],
    parity: &[Option<&[u8]>],
    lost: &mut [(usize, &mut [u8])],
) -> Result<(), CodecError> {
    reconstruct_with(Kernel::fastest(), data, parity, lost)
}

fn reconstruct_with(
    kernel: Kernel,
    data: &[Option<&[u8]>],
    parity: &[Option<&[u8]>],
    lost: &mut [(usize, &mut [u8])],
) -> Result<(), CodecError> {
    let there = parity.iter().enumerate();
    let used: Vec<_> = there
        .filter_map(|(row, bytes)| bytes.map(|bytes| (row, bytes)))
        .take(lost.len())
        .collect();
    check_shapes(data, &used, lost)?;
    let columns: Vec<_> = lost.iter().map(|(column, _)| *column).collect();
    let rows_used: Vec<_> = used.iter().map(|(row, _)| *row).collect();
    let Some(inverse) = matrix::inverse(&rows_used, &columns, data.len()) else {
        return Err(CodecError::ParityShape);
    };
    let longest = lost.iter().map(|(_, room)| room.len()).max().unwrap_or(0);
    let mut sums = [[0; CHUNK]; PARITY_ROWS_MAX];
    for start in (0..longest).step_by(CHUNK) {
        let len = CHUNK.min(longest - start);
        let mut rows = Rows::default();
        for (row, sums) in sums.iter_mut().enumerate() {
            if rows_used.contains(&row) {
                rows[row] = &mut sums[..len];
            }
        }
        let columns = data.iter().map(|column| {
            let bytes = column.and_then(|column| column.get(start..));
            bytes.unwrap_or_default()
        });
        sum_columns(kernel, columns, &mut rows);
        for (row, bytes) in &used {
            let bytes = bytes.get(start..).unwrap_or_default();
            let bytes = &bytes[..len.min(bytes.len())];
            kernel.add_multiple(&mut rows[*row][..bytes.len()], bytes, 1);
        }
        for ((_, room), factors) in lost.iter_mut().zip(&inverse) {
            let room = room.get_mut(start..).unwrap_or_default();
            let len = len.min(room.len());
            let room = &mut room[..len];
            room.fill(0);
            for (row, factor) in rows_used.iter().zip(factors) {
                kernel.add_multiple(room, &rows[*row][..len], *factor);
            }
        }
    }
    Ok(())
}

/// Whether `lost` names the columns that are not there, enough rows of parity are, and no row is shorter than a column.
fn check_shapes(
    data: &[Option<&[u8]>],
    used: &[(usize, &[u8])],
    lost: &[(usize, &mut [u8])],
) -> Result<(), CodecError> {
    let missing = data.iter().enumerate().filter(|(_, d)| d.is_none());
    let named = missing
        .map(|(i, _)| i)
        .eq(lost.iter().map(|(column, _)| *column));
    let columns = data.iter().flatten().map(|column| column.len());
    let longest = columns.chain(lost.iter().map(|(_, room)| room.len())).max();
    let rows_fit = used.iter().all(|(row, bytes)| {
        *row < PARITY_ROWS_MAX && longest.is_none_or(|longest| bytes.len() >= longest)
    });
    if named && used.len() == lost.len() && rows_fit {
        Ok(())
    } else {
        Err(CodecError::ParityShape)
    }
}

/// The parity of what is left of the columns, those that are not there empty, for as long as the rows are: at most
/// [`CHUNK`].
fn sum_columns<'a>(
    kernel: Kernel,
    mut columns: impl Iterator<Item = &'a [u8]>,
    rows: &mut Rows<'_>,
) {
    // Before the first one there are zeros, which stay what they are.
    let first = columns.next().unwrap_or_default();
    for row in rows.iter_mut() {
        let there = first.len().min(row.len());
        row[..there].copy_from_slice(&first[..there]);
        row[there..].fill(0);
    }
    for column in columns {
        kernel.step(rows, column);
    }
}
