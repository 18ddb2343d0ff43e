//! What of a block is written to each child.

use layout::{Column, Content, Layout};
use sys::{Buffer, BufferMut};

/// The columns of a block of whole sectors with their bytes, parity computed.
pub(super) fn parts(
    (layout, children): (Layout, usize),
    offset: u64,
    data: &Buffer,
) -> Vec<(Column, Buffer)> {
    let columns = layout.columns(offset, data.len() as u64, children);
    let columns: Vec<_> = columns.collect();
    let parity = parity_of(&columns, data);
    let bytes = |column: &Column| match column.content {
        Content::Whole => Some(data.clone()),
        Content::Data(start) => Some(data.slice(start as usize..(start + column.len) as usize)),
        Content::Parity(row) => parity.get(row).cloned(),
    };
    let with_bytes = columns.iter().map(|column| Some((*column, bytes(column)?)));
    let parts: Option<Vec<_>> = with_bytes.collect();
    parts.unwrap_or_default()
}

/// The rows of parity that `columns` have. A layout that contradicts itself has none: then the block is not written.
fn parity_of(columns: &[Column], data: &[u8]) -> Vec<Buffer> {
    let mut rows = Vec::new();
    let mut covered: Vec<&[u8]> = Vec::new();
    for column in columns {
        match column.content {
            Content::Whole => {}
            Content::Parity(_) => rows.push(BufferMut::scratch(column.len as usize)),
            Content::Data(start) => {
                let end = start + column.len;
                covered.push(data.get(start as usize..end as usize).unwrap_or_default());
            }
        }
    }
    if !rows.is_empty() {
        let mut rooms: Vec<&mut [u8]> = rows.iter_mut().map(|row| &mut row[..]).collect();
        if codec::generate_parity(&covered, &mut rooms).is_err() {
            return Vec::new();
        }
    }
    rows.into_iter().map(BufferMut::freeze).collect()
}
