//! Space and object counts by user, group and project.
//!
//! The owner is read from the bonus at places that quota code has always relied on. Charges are
//! summed over a sync and then applied to the accounting ZAPs once per owner.

use std::collections::BTreeMap;

use base::ByteOrder;
use format::ObjectType;

use crate::store::Owner;

/// Bytes charged for a dnode, whatever its size.
const DNODE_BYTES: u64 = 512;

/// Who owns an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerIds {
    pub(crate) ids: [u64; 3],
}

impl OwnerIds {
    /// The owners named in a bonus; nothing when it is no znode.
    pub(crate) fn of_bonus(kind: ObjectType, bonus: &[u8]) -> Option<Self> {
        match kind {
            ObjectType::SYSTEM_ATTRIBUTES => Self::of_attributes(bonus),
            ObjectType::ZNODE => Self::of_znode(bonus),
            _ => None,
        }
    }

    fn of_znode(bonus: &[u8]) -> Option<Self> {
        const USER: usize = 128;
        const GROUP: usize = 136;
        let word = |at| word(bonus, at, ByteOrder::NATIVE);
        Some(Self {
            ids: [word(USER)?, word(GROUP)?, 0],
        })
    }

    fn of_attributes(bonus: &[u8]) -> Option<Self> {
        const MAGIC: u32 = 0x002F_505A;
        const USER: usize = 24;
        const GROUP: usize = 32;
        const FLAGS: usize = 48;
        const PROJECT: usize = 128;
        /// The file flag that says that the project attribute is there.
        const HAS_PROJECT: u64 = 1 << 47;
        let head: [u8; 4] = bonus.get(..4)?.try_into().ok()?;
        // The attributes are swapped lazily: a file untouched since another machine wrote it is
        // still in that machine's order.
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.u32(head) == MAGIC)?;
        let layout = order.u16(bonus.get(4..6)?.try_into().ok()?);
        let start = usize::from(layout >> 10) * 8;
        let word = |at: usize| word(bonus, start + at, order);
        let project = if word(FLAGS)? & HAS_PROJECT != 0 {
            word(PROJECT).unwrap_or(0)
        } else {
            0
        };
        Some(Self {
            ids: [word(USER)?, word(GROUP)?, project],
        })
    }

    fn id(&self, owner: Owner) -> u64 {
        self.ids[owner.index()]
    }
}

fn word(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u64> {
    Some(order.u64(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Whom an object's space is charged to, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) owners: OwnerIds,
    pub(crate) bytes: u64,
}

/// How an object's charge changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) old: Option<Charge>,
    pub(crate) new: Option<Charge>,
}

/// By how much an owner's bytes and objects change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) bytes: i64,
    pub(crate) objects: i64,
}

/// The changes of a sync, by owner.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    by_owner: [BTreeMap<u64, Change>; 3],
}

impl Changes {
    /// Adds the change of one object.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        if outcome.old == outcome.new {
            return;
        }
        if let Some(charge) = &outcome.old {
            self.book(charge, -1);
        }
        if let Some(charge) = &outcome.new {
            self.book(charge, 1);
        }
    }

    fn book(&mut self, charge: &Charge, sign: i64) {
        let bytes = charge.bytes.saturating_add(DNODE_BYTES).cast_signed();
        for owner in Owner::ALL {
            let change = self.by_owner[owner.index()]
                .entry(charge.owners.id(owner))
                .or_default();
            change.bytes = change.bytes.saturating_add(bytes.saturating_mul(sign));
            change.objects += sign;
        }
    }

    /// Adds what another thread gathered.
    pub(crate) fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.by_owner.iter_mut().zip(other.by_owner) {
            for (id, change) in theirs {
                let sum = mine.entry(id).or_default();
                sum.bytes = sum.bytes.saturating_add(change.bytes);
                sum.objects += change.objects;
            }
        }
    }

    /// The owners of a kind whose numbers change.
    pub(crate) fn of(&self, owner: Owner) -> impl Iterator<Item = (u64, Change)> + '_ {
        self.by_owner[owner.index()]
            .iter()
            .map(|(&id, &change)| (id, change))
            .filter(|(_, change)| *change != Change::default())
    }
}

#[cfg(test)]
mod tests;
