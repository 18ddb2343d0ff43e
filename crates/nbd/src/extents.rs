//! Where a range has data and where it has holes.

use crate::{Disk, Fault};

/// A part of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) is_hole: bool,
}

/// The parts of a range, at most `most` of them. With `whole` the last one is data up to the end of the range if there
/// would be more; else it ends where it ends.
pub(crate) fn extents(
    disk: &dyn Disk,
    (offset, length): (u64, u64),
    most: usize,
    whole: bool,
) -> Result<Vec<Extent>, Fault> {
    let end = offset.saturating_add(length);
    let mut found: Vec<Extent> = Vec::new();
    let mut at = offset;
    while at < end {
        let is_last = found.len() + 1 >= most;
        let data = disk.next_data(at..end)?;
        let is_hole = data != Some(at);
        let until = if is_hole {
            data.unwrap_or(end)
        } else {
            disk.next_hole(at..end)?
        };
        let until = until.clamp(at.saturating_add(1), end);
        if is_last && whole && until < end {
            found.push(Extent {
                offset: at,
                length: end - at,
                is_hole: false,
            });
            break;
        }
        found.push(Extent {
            offset: at,
            length: until - at,
            is_hole,
        });
        if is_last {
            break;
        }
        at = until;
    }
    Ok(found)
}
