//! Writing the blocks of an object set by its rules.

use super::rules::WriteRules;
use base::{ByteOrder, Txg};
use dmu::{BlockError, BlockReference, BlockWrite, BlockWriter};
use dsl::{StoragePolicy, WriterSource};
use format::{BlockPointer, ObjectType};
use pipeline::{DedupMode, Pipeline, WritePolicy, WriteRequest};
use std::sync::Arc;
use vdev::WriteGroup;

/// Makes writers for one pass of a sync.
pub(crate) struct PassWriters<'a> {
    /// The pool's pipeline.
    pub(crate) pipeline: &'a Pipeline,
    /// The rules of the pool's own object set.
    pub(crate) meta: WriteRules,
    /// The txg that syncs.
    pub(crate) txg: Txg,
    /// The pass, from 1.
    pub(crate) pass: u32,
    /// The device writes of the txg: the pool waits for them before the uberblock.
    pub(crate) group: &'a Arc<WriteGroup>,
    /// Whether blocks may refer to stored ones with the same bytes.
    pub(crate) may_share: bool,
    /// Whether dedup tables are asked: only a sync changes them.
    pub(crate) may_deduplicate: bool,
}

impl WriterSource for PassWriters<'_> {
    fn writer<'a>(&'a self, policy: Option<&StoragePolicy>) -> Box<dyn BlockWriter + 'a> {
        let rules = policy.map_or(self.meta, |policy| WriteRules::dataset(policy, self.meta));
        Box::new(RuledWriter { pass: self, rules })
    }
}

/// Writes blocks of one object set in one pass of a sync.
struct RuledWriter<'a> {
    pass: &'a PassWriters<'a>,
    rules: WriteRules,
}

impl RuledWriter<'_> {
    /// The pointer to a stored block in place of another block that would be written by the rules of now.
    fn refer_by_rules(
        &self,
        reference: &BlockReference<'_>,
        policy: &WritePolicy,
    ) -> Option<BlockPointer> {
        let stored = reference.stored;
        let fits = self.pass.may_share
            && stored.checksum_id() == policy.checksum.id()
            && stored.copies() == usize::from(policy.copies);
        fits.then(|| self.refer_anyhow(reference)).flatten()
    }

    /// The pointer to a stored block, where a pointer can lead to it from the new place.
    fn refer_anyhow(&self, reference: &BlockReference<'_>) -> Option<BlockPointer> {
        let stored = *reference.stored;
        let (kind, previous) = (&reference.kind, &reference.previous);
        let is_data = kind.level == 0 && !kind.spill && kind.object_type == ObjectType::PLAIN_FILE;
        let can_be = is_data
            && !self.rules.is_meta
            && stored.object_type() == kind.object_type
            && stored.lsize() == reference.size as u64
            && stored.byte_order() == ByteOrder::NATIVE
            && stored.physical_birth() < self.pass.txg;
        if !can_be {
            return None;
        }
        let is_there = !previous.is_hole()
            && !previous.is_embedded()
            && previous.dva(0) == stored.dva(0)
            && previous.physical_birth() == stored.physical_birth();
        if is_there {
            return Some(*previous);
        }
        let mut pointer = stored;
        pointer.set_birth(self.pass.txg, stored.physical_birth());
        Some(pointer)
    }
}

impl BlockWriter for RuledWriter<'_> {
    fn write(&self, write: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let mut policy = self.rules.policy(&write.kind);
        if !self.pass.may_deduplicate {
            policy.dedup = DedupMode::Off;
        }
        if let Some(stored) = &write.shared {
            let reference = BlockReference {
                stored,
                kind: write.kind,
                size: write.data.len(),
                previous: write.previous,
                is_unreadable: false,
                place: write.place,
            };
            if let Some(pointer) = self.refer_by_rules(&reference, &policy) {
                return Ok(pointer);
            }
        }
        let request = WriteRequest {
            data: write.data,
            form: write.form,
            object_type: write.kind.object_type,
            level: write.kind.level,
            fill: write.fill,
            policy,
            txg: self.pass.txg,
            pass: self.pass.pass,
            previous: write.previous,
            cached: write.cached,
            bookmark: write.place,
        };
        self.pass
            .pipeline
            .write(&request, self.pass.group)
            .map_err(BlockError::new)
    }

    fn refer(&self, reference: &BlockReference<'_>) -> Option<BlockPointer> {
        // The head's rules were asked when the reference was made.
        if !self.pass.may_share && !reference.is_unreadable {
            return None;
        }
        self.refer_anyhow(reference)
    }
}
