//! Heads of pools without `async_destroy`. Nobody there frees the tree of a head that is gone bit by bit, so it is
//! freed while the head is still there: object by object, over as many txgs as that takes, and the head goes with what
//! is left. It is marked inconsistent first, as OpenZFS does: nobody uses it any more, and the next import ends what a
//! crash broke off.

use std::sync::Arc;

use base::ObjectId;
use dmu::{ObjectSet, Reservation, Tx, TxError, tunables};
use format::dsl::DatasetPhys;
use format::features;

use super::DestroyHead;
use super::destroy::check_head;
use crate::dataset::Dataset;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::SpaceClass;
use crate::task::{Task, TaskContext};

/// No block takes less.
const BLOCK_BYTES_MIN: u64 = 512;

/// Marks a head that is to be destroyed.
struct Doom {
    path: String,
}

impl Task for Doom {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::ExtraReserved
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        check_head(context, &self.path)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let head = context.dsl.head(&self.path)?;
        let doomed = DatasetPhys::FLAG_INCONSISTENT;
        head.change(context.tx, |phys| phys.flags |= doomed)
    }
}

impl Dsl {
    /// Destroys a head that has no snapshots and no children. However much it has, no txg frees more of it than txgs
    /// may.
    ///
    /// # Errors
    /// As [`Dsl::run`]; of a pool without `async_destroy` it may have lost some of its contents, and is no longer of
    /// use.
    pub fn destroy_head(self: &Arc<Self>, path: &str) -> Result<()> {
        if !self.services().is_enabled(&features::ASYNC_DESTROY) {
            self.empty_head(path)?;
        }
        let path = path.to_owned();
        self.run(DestroyHead { path })
    }

    fn empty_head(self: &Arc<Self>, path: &str) -> Result<()> {
        let head = self.head(path)?;
        if !is_long(&head)? {
            return Ok(());
        }
        self.run(Doom {
            path: path.to_owned(),
        })?;
        let objects = match head.object_set() {
            // Without its key nothing of it can be written, and what is damaged goes with the rest.
            Err(DslError::KeyUnloaded { .. }) => return Ok(()),
            Err(error) if error.is_damage() => return Ok(()),
            objects => objects?,
        };
        let mut after = ObjectId(0);
        loop {
            let next = match objects.next_object(after) {
                Err(error) if error.is_damage() => return Ok(()),
                next => next?,
            };
            let Some(id) = next else {
                return Ok(());
            };
            match self.free_object(&objects, id) {
                Err(error) if error.is_damage() => {}
                done => done?,
            }
            after = id;
        }
    }

    /// Frees an object with all its blocks, from its end on.
    fn free_object(&self, objects: &Arc<ObjectSet>, id: ObjectId) -> Result<()> {
        let object = objects.object(id)?;
        let limit = tunables::FREE_BLOCKS_PIECE.get();
        let mut piece = object.last_free_piece(0, u64::MAX, limit);
        while piece.offset != 0 {
            object.prepare_free(piece.offset, u64::MAX)?;
            let tx = self.begin_free(piece.cost_blocks)?;
            object.free_range(&tx, piece.offset, u64::MAX)?;
            drop(tx);
            piece = object.last_free_piece(0, piece.offset, limit);
        }
        let tx = self.begin_free(object.free_cost_blocks())?;
        Ok(objects.free(&tx, id)?)
    }

    fn begin_free(&self, freed_blocks: u64) -> Result<Tx> {
        let engine = self.engine.as_ref().ok_or(DslError::ReadOnly)?;
        let reservation = Reservation {
            objects: 1,
            freed_blocks,
            net_free: true,
            ..Reservation::default()
        };
        Tx::assign(engine, &reservation).map_err(|error| match error {
            TxError::Engine(error) => error.into(),
            // Nobody is asked.
            TxError::NoSpace | TxError::Quota => DslError::NoSpace,
        })
    }
}

/// Whether a head has more blocks of its own than a txg should free.
fn is_long(head: &Arc<Dataset>) -> Result<bool> {
    let phys = head.phys()?;
    let blocks = phys.unique_bytes / BLOCK_BYTES_MIN;
    // A livelist is freed in the background, also where trees are not.
    Ok(blocks > tunables::FREE_BLOCKS_TXG.get() && head.directory().livelist()?.is_none())
}
