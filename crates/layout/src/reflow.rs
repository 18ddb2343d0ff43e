//! How sectors move when a RAID-Z vdev gets another child.
//!
//! Sector `k` of the vdev lies on child `k mod N` at sector `k div N`, of `N` children before and of `N + 1` behind. So
//! what moves is written where sectors lay that come before it: nothing is overwritten that the pool on disk still
//! looks for in its old place, if no more moves at a time than [`Reflow::limit`] says. The first sectors lie too close:
//! they go through a scratch area that each child has.

use crate::{Area, Layout, Moved};
use std::ops::Range;

/// The scratch area of a child, bytes: its boot area.
///
/// Source: the format notes, "RAID-Z".
const SCRATCH_BYTES: u64 = 7 << 19;

/// How sectors of a vdev move that is getting another child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflow {
    /// How many children there are without the new one.
    before: u64,
    sector: u64,
}

/// How sectors lie on children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Round so many of them.
    pub children: u64,
    /// In which area of each.
    pub area: Area,
    sector: u64,
}

impl Reflow {
    /// That of a layout; none if it is not getting a child.
    #[must_use]
    pub fn of(layout: &Layout) -> Option<Self> {
        let raidz = layout.kind().raidz()?;
        raidz.moved()?;
        Some(Self {
            before: (raidz.width() as u64).max(1),
            sector: layout.sector(),
        })
    }

    /// That of a vdev of so many children which gets one more.
    #[must_use]
    pub const fn begun(children: u64, layout: &Layout) -> Self {
        Self {
            before: if children == 0 { 1 } else { children },
            sector: layout.sector(),
        }
    }

    const fn behind(self) -> u64 {
        self.before.saturating_add(1)
    }

    /// Up to which byte of the vdev sectors move through the scratch areas.
    #[must_use]
    pub const fn scratch_end(self) -> u64 {
        let rows = SCRATCH_BYTES / self.sector;
        rows.saturating_mul(self.behind())
            .saturating_mul(self.sector)
    }

    /// Whether sectors can move on behind those that went through the scratch areas.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        let end = self.scratch_end();
        self.limit(end) > end
    }

    /// Up to which byte sectors can move when the pool on disk says that they have moved up to `moved`. A row of a
    /// block that has moved in part is looked for in its old place, so that place is left alone as well.
    #[must_use]
    pub const fn limit(self, moved: u64) -> u64 {
        let moved = moved / self.sector;
        // The last that may be overwritten is the one before the first of a row that has not moved whole.
        let Some(free) = moved.saturating_add(1).checked_sub(self.before) else {
            return moved.saturating_mul(self.sector);
        };
        let (rows, rest) = (free / self.before, free % self.before);
        let to = rows.saturating_mul(self.behind()).saturating_add(rest);
        let to = if to > moved { to } else { moved };
        to.saturating_mul(self.sector)
    }

    /// How the sectors lie that move from `from` to `to`: now, and then.
    #[must_use]
    pub fn spreads(self, from: Moved, to: Moved) -> (Spread, Spread) {
        let behind = |in_scratch| Spread {
            children: self.behind(),
            area: if in_scratch {
                Area::Scratch
            } else {
                Area::Data
            },
            sector: self.sector,
        };
        // What moves out of the scratch area has moved already.
        let now = if from.in_scratch {
            behind(true)
        } else {
            Spread {
                children: self.before,
                area: Area::Data,
                sector: self.sector,
            }
        };
        (now, behind(to.in_scratch))
    }

    /// Which sectors move from `from` to `to`, bytes of the vdev.
    #[must_use]
    pub const fn range(self, from: Moved, to: Moved) -> Range<u64> {
        if from.in_scratch {
            return 0..to.to;
        }
        from.to..to.to
    }

    /// A sector, bytes.
    #[must_use]
    pub const fn sector(self) -> u64 {
        self.sector
    }
}

impl Spread {
    /// The bytes of a child that a range of the vdev fills.
    #[must_use]
    pub fn on_child(&self, range: &Range<u64>, child: u64) -> Range<u64> {
        let (from, to) = (range.start / self.sector, range.end.div_ceil(self.sector));
        let rows = |sector: u64| {
            let rows = sector.saturating_sub(child).div_ceil(self.children);
            rows.saturating_mul(self.sector)
        };
        rows(from)..rows(to)
    }

    /// The child of a sector of the vdev, and the byte of the child at which it lies.
    #[must_use]
    pub const fn place(&self, sector: u64) -> (u64, u64) {
        let row = sector / self.children;
        (sector % self.children, row.saturating_mul(self.sector))
    }
}

#[cfg(test)]
mod tests;
