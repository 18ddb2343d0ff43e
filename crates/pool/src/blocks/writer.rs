//! Writing the blocks of an object set by its rules.

use super::rules::WriteRules;
use super::store::bookmark;
use base::Txg;
use dmu::{BlockError, BlockWrite, BlockWriter};
use dsl::{StoragePolicy, WriterSource};
use format::BlockPointer;
use pipeline::{Pipeline, WriteRequest};
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

impl BlockWriter for RuledWriter<'_> {
    fn write(&self, write: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let request = WriteRequest {
            data: write.data,
            object_type: write.kind.object_type,
            level: write.kind.level,
            fill: write.fill,
            policy: self.rules.policy(&write.kind),
            txg: self.pass.txg,
            pass: self.pass.pass,
            previous: write.previous,
            bookmark: bookmark(write.place),
        };
        self.pass
            .pipeline
            .write(&request, self.pass.group)
            .map_err(BlockError::new)
    }
}
