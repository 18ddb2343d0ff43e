//! What of a block is written to each child.

use layout::{Column, Content, Piece, Placement};
use sys::{Buffer, BufferMut};

/// The pieces of children that a block of whole sectors fills, with their bytes, parity computed.
pub(super) fn parts(placement: &Placement, data: &Buffer) -> Vec<(Piece, Buffer)> {
    let parts = bytes_of_columns(placement, data).map(|cells| join(placement, cells));
    parts.unwrap_or_default()
}

/// The bytes of each column. A layout that contradicts itself has none: then the block is not written.
fn bytes_of_columns(placement: &Placement, data: &Buffer) -> Option<Vec<Buffer>> {
    let columns = placement.columns();
    let mut cells = Vec::with_capacity(columns.len());
    for stripe in placement.stripes() {
        let columns = columns.get(stripe)?;
        let parity = parity_of(columns, data)?;
        for column in columns {
            cells.push(match column.content {
                Content::Whole => data.clone(),
                Content::Parity(row) => parity.get(row)?.clone(),
                Content::Data { start, len } => {
                    let end = usize::try_from(start.checked_add(len)?).ok()?;
                    let start = usize::try_from(start).ok().filter(|_| end <= data.len())?;
                    with_zeros(data.slice(start..end), column.len as usize)
                }
            });
        }
    }
    Some(cells)
}

/// The rows of parity of a stripe.
fn parity_of(columns: &[Column], data: &[u8]) -> Option<Vec<Buffer>> {
    let mut rows = Vec::new();
    let mut covered: Vec<&[u8]> = Vec::new();
    for column in columns {
        match column.content {
            Content::Whole => {}
            Content::Parity(_) => rows.push(BufferMut::scratch(column.len as usize)),
            Content::Data { start, len } => {
                let end = start.checked_add(len)?;
                covered.push(data.get(start as usize..end as usize)?);
            }
        }
    }
    if !rows.is_empty() {
        let mut rooms: Vec<&mut [u8]> = rows.iter_mut().map(|row| &mut row[..]).collect();
        codec::generate_parity(&covered, &mut rooms).ok()?;
    }
    Some(rows.into_iter().map(BufferMut::freeze).collect())
}

/// The pieces that columns of these bytes make up.
fn join(placement: &Placement, cells: Vec<Buffer>) -> Vec<(Piece, Buffer)> {
    let pieces = placement.pieces();
    if pieces.len() == cells.len() {
        return pieces.iter().copied().zip(cells).collect();
    }
    let rooms = pieces
        .iter()
        .map(|piece| BufferMut::scratch(piece.len as usize));
    let mut rooms: Vec<_> = rooms.collect();
    for (column, bytes) in cells
        .iter()
        .enumerate()
        .filter(|(_, bytes)| !bytes.is_empty())
    {
        let (piece, at) = placement.place(column);
        if let Some(room) = rooms.get_mut(piece) {
            let room = room.get_mut(at..at + bytes.len()).unwrap_or_default();
            if room.len() == bytes.len() {
                room.copy_from_slice(bytes);
            }
        }
    }
    let rooms = rooms.into_iter().map(BufferMut::freeze);
    pieces.iter().copied().zip(rooms).collect()
}

/// `data` with zeros up to `size` bytes.
pub(super) fn with_zeros(data: Buffer, size: usize) -> Buffer {
    if size <= data.len() {
        return data;
    }
    let mut padded = BufferMut::zeroed(size);
    padded[..data.len()].copy_from_slice(&data);
    padded.freeze()
}
