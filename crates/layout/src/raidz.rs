//! RAID-Z: blocks in stripes of their own, each with its parity.

/// The least and the most rows of parity.
const PARITY_RANGE: std::ops::RangeInclusive<u8> = 1..=3;

/// Of 1-parity vdevs, blocks whose offset has this bit exchange their first two columns, so that parity does not
/// always lie on the same children.
const EXCHANGE_BIT: u64 = 1 << 20;

/// The geometry of a RAID-Z vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaidZ {
    parity: u8,
    width: u8,
}

impl RaidZ {
    /// A vdev of `width` children, as many of which may be lost as there are rows of `parity`; none if that cannot be.
    ///
    /// Source: the format notes, "RAID-Z", limits.
    #[must_use]
    pub fn new(parity: u64, width: usize) -> Option<Self> {
        let (parity, width) = (u8::try_from(parity).ok()?, u8::try_from(width).ok()?);
        (PARITY_RANGE.contains(&parity) && width > parity).then_some(Self { parity, width })
    }

    /// How many rows of parity there are: 1 to 3.
    #[must_use]
    pub const fn parity(self) -> usize {
        self.parity as usize
    }

    /// How many children there are.
    #[must_use]
    pub const fn width(self) -> usize {
        self.width as usize
    }

    /// How many children hold data of a stripe that is as long as the vdev is wide.
    const fn data_width(self) -> u64 {
        self.width as u64 - self.parity as u64
    }

    /// How many sectors a block of so many takes up: with its parity, and with what is left over where nothing would
    /// fit into it any more.
    pub(crate) const fn sectors_allocated(self, data: u64) -> u64 {
        let parity = data
            .div_ceil(self.data_width())
            .saturating_mul(self.parity as u64);
        let (used, step) = (data.saturating_add(parity), self.parity as u64 + 1);
        used.div_ceil(step).saturating_mul(step)
    }

    /// The stripe of a block of so many sectors that begins at sector `first` of the vdev. `is_exchanged` is of its
    /// offset in bytes.
    pub(crate) const fn stripe(self, first: u64, sectors: u64, is_exchanged: bool) -> Stripe {
        let (height, rest) = (sectors / self.data_width(), sectors % self.data_width());
        let long = if rest == 0 {
            0
        } else {
            rest + self.parity as u64
        };
        Stripe {
            parity: self.parity as u64,
            width: self.width as u64,
            first,
            height,
            long,
            is_exchanged: is_exchanged && self.parity == 1,
        }
    }

    /// Whether a block at this offset exchanges its first two columns.
    pub(crate) const fn is_exchanged(self, offset: u64) -> bool {
        self.parity == 1 && offset & EXCHANGE_BIT != 0
    }

    /// The sectors of child `child` (from, to) that hold nothing but sectors `from..to` of the vdev.
    pub(crate) const fn sectors_of_child(self, from: u64, to: u64, child: u64) -> (u64, u64) {
        let width = self.width as u64;
        (
            from.saturating_sub(child).div_ceil(width),
            to.saturating_sub(child).div_ceil(width),
        )
    }
}

/// The stripe of one block, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripe {
    parity: u64,
    width: u64,
    first: u64,
    /// The length of the short columns.
    height: u64,
    /// How many columns, from the first, are longer by one.
    long: u64,
    is_exchanged: bool,
}

/// A column of a stripe, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeColumn {
    pub(crate) child: u64,
    /// From the beginning of the child.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// From the beginning of the block; none for parity.
    pub(crate) data_start: Option<u64>,
}

impl Stripe {
    /// How many columns there are: first those of parity.
    pub(crate) const fn count(self) -> u64 {
        if self.height == 0 {
            self.long
        } else {
            self.width
        }
    }

    /// A column, from 0.
    pub(crate) const fn column(self, index: u64) -> StripeColumn {
        // Only the places change, not what is there.
        let place = match (self.is_exchanged, index) {
            (true, 0) => 1,
            (true, 1) => 0,
            (_, index) => index,
        };
        let turned = self.first % self.width + place;
        let wraps = turned >= self.width;
        let start = self.first / self.width + wraps as u64;
        let data_start = if index < self.parity {
            None
        } else {
            let before = index - self.parity;
            // The columns before that are longer by one, without those of parity.
            let long_data = self.long.saturating_sub(self.parity);
            let longer = if before < long_data {
                before
            } else {
                long_data
            };
            Some(before * self.height + longer)
        };
        StripeColumn {
            child: turned - if wraps { self.width } else { 0 },
            start,
            len: self.height + (index < self.long) as u64,
            data_start,
        }
    }
}
