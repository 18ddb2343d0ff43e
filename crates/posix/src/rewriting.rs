//! Writing blocks anew with what they have: to other places, and as the dataset's properties say now.
//!
//! Nothing that a reader sees changes, so no intent log has it: after a crash the blocks are where they were.

use std::ops::Range;

use base::ObjectId;
use dsl::DatasetFeature;

use crate::core::{Core, Plan};
use crate::file_system::FileSystem;
use crate::writing::CHUNK;
use crate::znode::Znode;
use crate::{Access, Credentials, PosixError, Result};

/// How old blocks are that are written anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewrite {
    /// Of now, as if their bytes had changed: increments have them.
    Logical,
    /// As old as they were, so that no increment has them; snapshots keep the blocks that there were all the same.
    Physical,
}

impl FileSystem {
    /// Writes the blocks of a range of a file anew; holes stay, and what is beyond the end is passed over.
    ///
    /// # Errors
    /// [`PosixError::NotSupported`]: the pool has not enabled what [`Rewrite::Physical`] needs. Blocks cannot be read,
    /// or the file not be written: those before are written anew.
    pub fn rewrite(
        &self,
        who: &Credentials,
        object: ObjectId,
        range: Range<u64>,
        kind: Rewrite,
    ) -> Result<()> {
        self.access(who, object, Access::WRITE)?;
        let znode = self.core.znode(object)?;
        self.core.rewrite(&znode, range, kind)
    }
}

impl Core {
    fn rewrite(&self, znode: &Znode, range: Range<u64>, kind: Rewrite) -> Result<()> {
        let mut at = range.start;
        loop {
            self.check_data_change(znode, &znode.state.read())?;
            let data = match znode.seek_data(at) {
                Ok(data) if data < range.end => data,
                Ok(_) | Err(PosixError::NoSuchOffset) => return Ok(()),
                Err(error) => return Err(error),
            };
            let block = u64::from(znode.object.block_size());
            let first = data / block;
            let most = (CHUNK as u64 / block).max(1);
            let end = range.end.min(znode.seek_hole(data)?).div_ceil(block);
            let last = end.clamp(first + 1, first + most);
            if kind == Rewrite::Physical {
                self.note_feature(DatasetFeature::PhysicalRewrite)?;
            }
            self.rewrite_blocks(znode, first..last, kind)?;
            at = last * block;
        }
    }

    /// One transaction's worth.
    fn rewrite_blocks(&self, znode: &Znode, blocks: Range<u64>, kind: Rewrite) -> Result<()> {
        let object = &znode.object;
        let size = u64::from(object.block_size());
        for block in blocks.clone() {
            // Not while a txg waits for it.
            object.read_block(block)?;
        }
        let tx = self.begin(Plan {
            write_bytes: (blocks.end - blocks.start) * size,
            block_bytes: object.block_size(),
            objects: 1,
            ..Plan::default()
        })?;
        let _data = znode.data.lock();
        self.check_data_change(znode, &znode.state.read())?;
        if u64::from(object.block_size()) != size {
            // It grew meanwhile, and was written with that.
            return Ok(());
        }
        for block in blocks {
            if object
                .next_data(block * size..(block + 1) * size)?
                .is_some()
            {
                match kind {
                    Rewrite::Logical => object.modify_block(&tx, block, |_| ())?,
                    Rewrite::Physical => object.write_anew(&tx, block)?,
                }
            }
        }
        Ok(())
    }
}
