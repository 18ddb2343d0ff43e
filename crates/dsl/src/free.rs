//! What is freed in the background: the list of later frees, trees of destroyed datasets, and
//! livelists of destroyed clones, each in bounded slices a txg; what is left survives a restart.

mod livelists;
mod slice;
mod trees;
mod walk;

use dmu::Tx;
use format::config::directory as keys;
use format::dsl::{UsedBy, hidden};
use format::{BlockPointer, version};

use crate::bpobj::NamedList;
use crate::directory::create_directory;
use crate::error::Result;
use crate::layer::Dsl;
use crate::services::SyncPass;
use crate::sizes::Sizes;
use crate::tunables;
use slice::Slice;

pub(crate) use livelists::PartInHand;
pub use trees::QueuedTrees;

impl Dsl {
    /// Blocks whose freeing needs more work go to the list of later frees, and are charged to
    /// `$FREE` until then.
    pub(crate) fn free_later(&self, tx: &Tx, pointers: &[BlockPointer]) -> Result<()> {
        if pointers.is_empty() {
            return Ok(());
        }
        if !self.has_later_frees() {
            let services = self.services();
            pointers.iter().for_each(|one| services.free(tx.txg(), one));
            return Ok(());
        }
        self.later_frees().append(tx, pointers)?;
        let store = self.mos.store.as_ref();
        let sizes = pointers
            .iter()
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.charge_free(tx, sizes)
    }

    pub(crate) fn charge_free(&self, tx: &Tx, sizes: Sizes) -> Result<()> {
        self.required_hidden(hidden::FREE)?
            .charge(tx, UsedBy::Head, sizes)
    }

    /// Frees a block for good: at once, or through the list of later frees. It is not charged to
    /// anybody any more.
    pub(crate) fn release(&self, tx: &Tx, pointer: &BlockPointer) -> Result<()> {
        if pointer.is_embedded() || pointer.is_hole() {
            return Ok(());
        }
        if self.services().frees_later(pointer) {
            self.free_later(tx, &[*pointer])
        } else {
            self.services().free(tx.txg(), pointer);
            Ok(())
        }
    }

    /// Whether the pool has a list of later frees: older ones have none, and nothing is charged to `$FREE` there.
    fn has_later_frees(&self) -> bool {
        self.services().version() >= version::DEADLISTS
    }

    /// The list of later frees.
    pub(crate) fn later_frees(&self) -> NamedList {
        NamedList::new(&self.mos, keys::FREE_BPOBJ)
    }

    /// Whether something waits to be freed in the background.
    ///
    /// # Errors
    /// The lists cannot be read.
    pub fn has_background_frees(&self) -> Result<bool> {
        let directory = self.mos.directory()?;
        let queued = directory.lookup(keys::BPTREE.as_bytes())?.is_some()
            || directory.lookup(keys::DELETED_CLONES.as_bytes())?.is_some();
        if queued {
            return Ok(true);
        }
        Ok(!self.later_frees().is_empty()?)
    }

    /// Frees a slice of what waits, bounded in blocks and in time. Called once a txg, in pass 1 after the tasks; true
    /// when something was freed.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn background(&self, pass: &SyncPass<'_>) -> Result<bool> {
        if !self.has_background_frees()? {
            return Ok(false);
        }
        let tx = Tx::syncing(pass.txg);
        let services = self.services();
        let mut free = |pointer: &BlockPointer| services.free(pass.txg, pointer);
        let blocks = tunables::BACKGROUND_BLOCKS.get();
        let time_ms = tunables::BACKGROUND_MS.get();
        let mut slice = Slice::new(services.clock(), blocks, time_ms);
        let list = self.later_frees();
        let (mut freed, mut lost) = (Sizes::ZERO, Sizes::ZERO);
        loop {
            let taken = list.take(&tx, slice.next(), &mut free)?;
            freed += taken.sizes;
            lost += taken.lost;
            slice.done(taken.count);
            if taken.count == 0 {
                break;
            }
        }
        self.charge_free(&tx, -freed)?;
        if lost != Sizes::ZERO {
            self.charge_free(&tx, -lost)?;
            self.charge_leak(&tx, lost)?;
        }
        self.free_trees(&tx, &mut slice)?;
        self.free_livelists(&tx, &mut slice)?;
        self.settle_leak(&tx)?;
        Ok(true)
    }

    /// What `$FREE` still holds with nothing left to free could not be read: it moves to `$LEAK`.
    fn settle_leak(&self, tx: &Tx) -> Result<()> {
        if self.has_background_frees()? {
            return Ok(());
        }
        let free = self.required_hidden(hidden::FREE)?;
        let phys = free.phys()?;
        let left = Sizes::stored(
            phys.used_bytes,
            phys.compressed_bytes,
            phys.uncompressed_bytes,
        );
        if left == Sizes::ZERO {
            return Ok(());
        }
        free.charge(tx, UsedBy::Head, -left)?;
        self.charge_leak(tx, left)
    }

    /// Charges what nobody refers to and nobody can free to `$LEAK`, which is made when there is none.
    pub(crate) fn charge_leak(&self, tx: &Tx, sizes: Sizes) -> Result<()> {
        let leak = match self.hidden_directory(hidden::LEAK)? {
            Some(leak) => leak,
            None => create_directory(self, tx, self.root, hidden::LEAK)?,
        };
        leak.charge(tx, UsedBy::Head, sizes)
    }
}
