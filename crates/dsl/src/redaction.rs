//! Redaction lists, which bookmarks lead to: the ranges of blocks that some other snapshots all changed.

use std::sync::Arc;

use base::{ByteOrder, Guid, ObjectId};
use dmu::{AllocateObject, Object, Tx};
use format::redaction::{BLOCK_BYTES, RedactedRange, RedactionHead};
use format::{ObjectType, features};

use crate::dataset::{Bookmark, Dataset};
use crate::error::{DslError, Result};
use crate::layer::Dsl;

/// Ranges are read so many at once.
const RANGES_READ: u64 = BLOCK_BYTES as u64 / RedactedRange::SIZE as u64;

/// A redaction list of a bookmark.
pub struct RedactionList {
    object: Arc<Object>,
    head: RedactionHead,
    snapshots: Vec<Guid>,
}

impl RedactionList {
    pub(crate) fn open(dsl: &Dsl, id: ObjectId) -> Result<Self> {
        let object = dsl.mos.object(id)?;
        let damaged = |source| DslError::Format { object: id, source };
        let bytes = match object.spill()? {
            Some(spill) => spill.to_vec(),
            None => object.bonus(),
        };
        let (head, snapshots) = RedactionHead::decode_with_snapshots(&bytes).map_err(damaged)?;
        Ok(Self {
            object,
            head,
            snapshots,
        })
    }

    /// A new list without ranges.
    pub(crate) fn create(dsl: &Dsl, tx: &Tx, snapshots: &[Guid]) -> Result<Self> {
        let head = RedactionHead {
            snapshots: snapshots.len() as u64,
            ..RedactionHead::default()
        };
        let mut shape = AllocateObject {
            object_type: ObjectType::OTN_U64_METADATA,
            block_size: BLOCK_BYTES,
            ..AllocateObject::default()
        };
        let spills = RedactionHead::spills(snapshots.len());
        if !spills {
            let bytes = RedactionHead::bytes_with(snapshots.len());
            shape.bonus_type = ObjectType::OTN_U64_METADATA;
            shape.bonus_len = u16::try_from(bytes).unwrap_or(u16::MAX);
        }
        let object = dsl.mos.set.allocate(tx, &shape)?;
        let list = Self {
            object,
            head,
            snapshots: snapshots.to_vec(),
        };
        list.store_head(tx)?;
        let services = &dsl.mos.services;
        services.change_references(tx, &features::REDACTION_BOOKMARKS, 1)?;
        if spills {
            services.change_references(tx, &features::REDACTION_LIST_SPILL, 1)?;
        }
        Ok(list)
    }

    fn store_head(&self, tx: &Tx) -> Result<()> {
        let bytes = self.head.encode_with_snapshots(&self.snapshots);
        if RedactionHead::spills(self.snapshots.len()) {
            return Ok(self.object.set_spill(tx, Some(&bytes))?);
        }
        let kind = ObjectType::OTN_U64_METADATA;
        Ok(self.object.set_bonus(tx, kind, &bytes)?)
    }

    /// Adds ranges behind the last one, and says how far the list has come.
    pub(crate) fn append(
        &mut self,
        tx: &Tx,
        ranges: &[RedactedRange],
        reached: (ObjectId, u64),
    ) -> Result<()> {
        let bytes: Vec<u8> = ranges
            .iter()
            .flat_map(|range| range.to_bytes(ByteOrder::NATIVE))
            .collect();
        if !bytes.is_empty() {
            let offset = self.head.entries.saturating_mul(RedactedRange::SIZE as u64);
            self.object.write(tx, offset, &bytes)?;
        }
        self.head.entries = self.head.entries.saturating_add(ranges.len() as u64);
        (self.head.last_object, self.head.last_block) = reached;
        self.store_head(tx)
    }

    /// Frees the list, which nobody needs any more.
    pub(crate) fn free(self, dsl: &Dsl, tx: &Tx) -> Result<()> {
        let services = &dsl.mos.services;
        services.change_references(tx, &features::REDACTION_BOOKMARKS, -1)?;
        if RedactionHead::spills(self.snapshots.len()) {
            services.change_references(tx, &features::REDACTION_LIST_SPILL, -1)?;
        }
        let id = self.object.id();
        drop(self);
        dsl.mos.free(tx, id)
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// The guids of the snapshots that it is by.
    #[must_use]
    pub fn snapshots(&self) -> &[Guid] {
        &self.snapshots
    }

    /// Whether it is by the same snapshots, in whatever order.
    #[must_use]
    pub fn is_by(&self, snapshots: &[Guid]) -> bool {
        is_same_set(&self.snapshots, snapshots)
    }

    /// Whether it has all that it is to have.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.head.is_complete()
    }

    /// The object and the block up to which it is complete.
    #[must_use]
    pub const fn reached(&self) -> (ObjectId, u64) {
        (self.head.last_object, self.head.last_block)
    }

    /// How many ranges it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.head.entries
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some ranges from one on, at least one if there is one.
    ///
    /// # Errors
    /// The list cannot be read, or its ranges are not in order.
    pub fn ranges(&self, from: u64) -> Result<Vec<RedactedRange>> {
        let count = self.len().saturating_sub(from).min(RANGES_READ);
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * RedactedRange::SIZE];
        let offset = from.saturating_mul(RedactedRange::SIZE as u64);
        self.object.read(offset, &mut bytes)?;
        let ranges: Vec<RedactedRange> = bytes
            .chunks_exact(RedactedRange::SIZE)
            .map(|bytes| RedactedRange::decode_padded(bytes, ByteOrder::NATIVE))
            .collect();
        let in_order = ranges.windows(2).all(|pair| match pair {
            [one, next] => {
                one.object < next.object || (one.object == next.object && one.end() <= next.first)
            }
            _ => true,
        });
        if !in_order {
            let what = "the ranges of a redaction list are not in order";
            return Err(DslError::damaged(self.object.id(), what));
        }
        Ok(ranges)
    }
}

/// Whether two lists have the same members, in whatever order.
pub(crate) fn is_same_set(one: &[Guid], other: &[Guid]) -> bool {
    is_subset(one, other) && is_subset(other, one)
}

/// Whether all of `some` are among `all`.
pub(crate) fn is_subset(some: &[Guid], all: &[Guid]) -> bool {
    let all: std::collections::BTreeSet<_> = all.iter().collect();
    some.iter().all(|one| all.contains(one))
}

impl Dataset {
    /// The redaction list of a bookmark of this head, if it has one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn redaction_list(&self, bookmark: &Bookmark) -> Result<Option<RedactionList>> {
        let id = bookmark.phys.redaction;
        if id.0 == 0 {
            return Ok(None);
        }
        RedactionList::open(self.dsl(), id).map(Some)
    }
}
