//! The blocks that a task writes: nobody refers to them when the task is undone.

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::{BlockError, BlockReference, BlockWrite, BlockWriter};
use format::BlockPointer;

use crate::policy::StoragePolicy;
use crate::services::{Services, SyncPass, WriterSource};

static WRITTEN: LockClass = LockClass::new("dsl.task_blocks", rank::LAST + 5);

/// The writers of a pass, which note what is written.
pub(super) struct Written<'a> {
    pass: SyncPass<'a>,
    blocks: Mutex<Vec<BlockPointer>>,
}

impl<'a> Written<'a> {
    pub(super) fn new(pass: &SyncPass<'a>) -> Self {
        Self {
            pass: *pass,
            blocks: Mutex::new(&WRITTEN, Vec::new()),
        }
    }

    /// Frees everything that was written.
    pub(super) fn free(&self, services: &dyn Services) {
        let blocks = std::mem::take(&mut *self.blocks.lock());
        for pointer in &blocks {
            services.free(self.pass.txg, pointer);
        }
    }

    fn note(&self, txg: Txg, pointer: &BlockPointer) {
        let is_new =
            !pointer.is_hole() && !pointer.is_embedded() && pointer.physical_birth() == txg;
        if is_new {
            self.blocks.lock().push(*pointer);
        }
    }
}

impl WriterSource for Written<'_> {
    fn writer<'a>(&'a self, policy: Option<&StoragePolicy>) -> Box<dyn BlockWriter + 'a> {
        Box::new(Noting {
            written: self,
            inner: self.pass.writers.writer(policy),
        })
    }
}

struct Noting<'a> {
    written: &'a Written<'a>,
    inner: Box<dyn BlockWriter + 'a>,
}

impl BlockWriter for Noting<'_> {
    fn write(&self, write: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let pointer = self.inner.write(write)?;
        if pointer.dva(0) != write.previous.dva(0) {
            self.written.note(self.written.pass.txg, &pointer);
        }
        Ok(pointer)
    }

    fn refer(&self, reference: &BlockReference<'_>) -> Option<BlockPointer> {
        self.inner.refer(reference)
    }
}
