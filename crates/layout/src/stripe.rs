//! Stripes in sectors, whatever children they lie on.

/// How much of a block its columns hold, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) parity: u64,
    pub(crate) width: u64,
    /// The length of the short columns.
    pub(crate) height: u64,
    /// How many columns, from the first, are longer by one.
    pub(crate) long: u64,
}

impl Shape {
    pub(crate) const fn new(parity: u64, width: u64, sectors: u64) -> Self {
        let data = match width.saturating_sub(parity) {
            0 => 1,
            data => data,
        };
        let (height, rest) = (sectors / data, sectors % data);
        Self {
            parity,
            width,
            height,
            long: if rest == 0 { 0 } else { rest + parity },
        }
    }

    /// How many columns there are: first those of parity.
    pub(crate) const fn count(&self) -> u64 {
        if self.height == 0 {
            self.long
        } else {
            self.width
        }
    }

    /// The length of a column, from 0.
    pub(crate) const fn len(&self, index: u64) -> u64 {
        self.height.saturating_add((index < self.long) as u64)
    }

    /// Where in the block a column's data begins; none for parity.
    pub(crate) fn data_start(&self, index: u64) -> Option<u64> {
        let before = index.checked_sub(self.parity)?;
        // The columns before that are longer by one, without those of parity.
        let longer = before.min(self.long.saturating_sub(self.parity));
        Some(before.saturating_mul(self.height).saturating_add(longer))
    }
}

/// A column of a stripe, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeColumn {
    /// Which stripe of the block.
    pub(crate) stripe: u64,
    /// Which column of the stripe.
    pub(crate) index: u64,
    pub(crate) child: u64,
    /// From the beginning of the child.
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// From the beginning of the block; none for parity.
    pub(crate) data_start: Option<u64>,
    /// How much of it is data; the rest is zero.
    pub(crate) data_len: u64,
    /// Which sector of the vdev it is; where columns have several, that means nothing.
    pub(crate) number: u64,
    /// Whether it is in the child's scratch area.
    pub(crate) in_scratch: bool,
}

/// Which place a column takes: only the places change, not what is there.
pub(crate) const fn exchanged(is_exchanged: bool, index: u64) -> u64 {
    match (is_exchanged, index) {
        (true, 0) => 1,
        (true, 1) => 0,
        (_, index) => index,
    }
}
