//! The index of a micro ZAP in memory: where each name is, in the order of listings.

use std::collections::BTreeMap;

use format::FormatError;
use format::zap::micro::ENTRY_SIZE;
use format::zap::normalize::NormalizationFlags;
use format::zap::{HashKind, Micro, MicroEntry, MicroMut, hash_name, normalize};

/// Why an entry does not fit the micro form as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooSmall {
    /// All slots are taken.
    Slots,
    /// Too many names share a hash, or the block is damaged.
    Form,
}

/// Equal hashes at which a ZAP becomes fat, as chunks of a leaf.
const CHUNKS_PER_NAME: usize = 5;
const CHUNKS_PER_LEAF: usize = 638;

/// Where the entries of a micro ZAP are.
#[derive(Clone)]
pub(crate) struct Index {
    salt: u64,
    normalization: NormalizationFlags,
    slot_count: usize,
    /// Where the search for a free slot begins.
    next_slot: usize,
    /// (hash, differentiator) to slot.
    slots: BTreeMap<(u64, u32), u32>,
}

impl Index {
    pub(super) fn load(block: &[u8]) -> Result<Self, FormatError> {
        let micro = Micro::new(block)?;
        let header = micro.header();
        let mut index = Self {
            salt: header.salt,
            normalization: NormalizationFlags(header.normalization),
            slot_count: micro.slot_count(),
            next_slot: 0,
            slots: BTreeMap::new(),
        };
        for entry in micro.entries() {
            let hash = index.hash(entry.name);
            let mut differentiator = entry.differentiator;
            // A damaged ZAP may repeat a differentiator; its entries must stay visible.
            while index.slots.contains_key(&(hash, differentiator)) {
                differentiator = differentiator.wrapping_add(1);
            }
            index
                .slots
                .insert((hash, differentiator), entry.slot as u32);
            index.next_slot = entry.slot + 1;
        }
        Ok(index)
    }

    pub(super) const fn salt(&self) -> u64 {
        self.salt
    }

    pub(super) const fn normalization(&self) -> NormalizationFlags {
        self.normalization
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        hash_name(
            HashKind::PLAIN,
            self.salt,
            &normalize(name, self.normalization),
        )
    }

    /// The entries that share the hash of `name`.
    pub(super) fn same_hash<'a>(
        &'a self,
        block: &'a [u8],
        name: &[u8],
    ) -> impl Iterator<Item = MicroEntry<'a>> + 'a {
        let hash = self.hash(name);
        let micro = Micro::new(block).ok();
        self.slots
            .range((hash, 0)..=(hash, u32::MAX))
            .filter_map(move |(_, &slot)| micro.as_ref()?.entry(slot as usize))
    }

    /// The entry of a name, byte for byte.
    pub(super) fn find<'a>(&'a self, block: &'a [u8], name: &[u8]) -> Option<MicroEntry<'a>> {
        self.same_hash(block, name).find(|entry| entry.name == name)
    }

    /// All entries in the order of listings, from a position on.
    pub(super) fn entries_from<'a>(
        &'a self,
        block: &'a [u8],
        from: (u64, u32),
    ) -> impl Iterator<Item = (u64, u32, MicroEntry<'a>)> + 'a {
        let micro = Micro::new(block).ok();
        self.slots
            .range(from..)
            .filter_map(move |(&(hash, differentiator), &slot)| {
                Some((hash, differentiator, micro.as_ref()?.entry(slot as usize)?))
            })
    }

    pub(super) fn entries<'a>(
        &'a self,
        block: &'a [u8],
    ) -> impl Iterator<Item = (u64, u32, MicroEntry<'a>)> + 'a {
        self.entries_from(block, (0, 0))
    }

    /// The block has grown.
    pub(super) fn grow(&mut self, size: usize) {
        self.next_slot = self.slot_count;
        self.slot_count = (size / ENTRY_SIZE).saturating_sub(1);
    }

    /// Puts a name that is not there into a free slot of `block`.
    pub(super) fn insert(
        &mut self,
        block: &mut [u8],
        name: &[u8],
        value: u64,
    ) -> Result<(), TooSmall> {
        let hash = self.hash(name);
        let mut differentiator = 0;
        let mut equals = 0;
        for (&(_, used), _) in self.slots.range((hash, 0)..=(hash, u32::MAX)) {
            equals += 1;
            if used == differentiator {
                differentiator += 1;
            }
        }
        if (equals + 1) * CHUNKS_PER_NAME >= CHUNKS_PER_LEAF {
            return Err(TooSmall::Form);
        }
        if self.slots.len() >= self.slot_count {
            return Err(TooSmall::Slots);
        }
        let slot = self.free_slot(block).ok_or(TooSmall::Slots)?;
        let entry = MicroEntry {
            slot,
            name,
            value,
            differentiator,
        };
        MicroMut::new(block)
            .and_then(|mut micro| micro.put(&entry))
            .map_err(|_| TooSmall::Form)?;
        self.slots.insert((hash, differentiator), slot as u32);
        self.next_slot = slot + 1;
        Ok(())
    }

    fn free_slot(&self, block: &[u8]) -> Option<usize> {
        let micro = Micro::new(block).ok()?;
        let start = self.next_slot % self.slot_count.max(1);
        (start..self.slot_count)
            .chain(0..start)
            .find(|&slot| micro.entry(slot).is_none())
    }

    /// The entry in `slot` is about to be cleared.
    pub(super) fn forget(&mut self, block: &[u8], slot: usize) {
        let Some(entry) = Micro::new(block).ok().and_then(|micro| micro.entry(slot)) else {
            return;
        };
        let hash = self.hash(entry.name);
        let found = self
            .slots
            .range((hash, 0)..=(hash, u32::MAX))
            .find(|(_, at)| **at as usize == slot)
            .map(|(&key, _)| key);
        if let Some(key) = found {
            self.slots.remove(&key);
        }
    }
}
