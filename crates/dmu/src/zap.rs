//! The ZAP: a table from names (or words) to integers, kept in an object.
//!
//! Readers of a fat ZAP take no lock of it: a leaf that they read is a snapshot, and says by its
//! prefix whether it is the right one; if not, a split is under way and they look again behind the
//! writer's lock. A micro ZAP has an index in memory, behind a lock that is shared by readers.

mod ahead;
mod change;
mod create;
mod cursor;
mod fat;
mod grow;
mod header;
mod hold;
mod lookup;
mod micro;
mod prints;
mod runs;
mod state;

use std::sync::Arc;

use base::lock::MutexGuard;
use format::zap::{self, BlockKind, FatHeader};

use crate::error::{DmuError, Result};
use crate::object::Object;
use crate::tx::Tx;

pub use create::CreateZap;
pub use cursor::{ZapCursor, ZapEntry};
use header::{malformed, place};
pub use lookup::{FoundName, ZapMatch};
use micro::Index;
pub use prints::KeyMemory;
use prints::Prints;
pub(crate) use state::{Form, ZapState};

/// A ZAP. Cheap to clone and to open; what is kept in memory belongs to the object.
#[derive(Clone, Debug)]
pub struct Zap {
    object: Arc<Object>,
}

impl Zap {
    /// The ZAP in an object.
    ///
    /// # Errors
    /// Its first block cannot be read or is no ZAP's.
    pub fn open(object: &Arc<Object>) -> Result<Self> {
        let zap = Self {
            object: Arc::clone(object),
        };
        zap.load()?;
        Ok(zap)
    }

    /// The object.
    #[must_use]
    pub const fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Has what was seen of the keys of its leaves kept in this memory, for lookups of keys that are not there. The
    /// first call counts.
    pub fn know_keys(&self, memory: &Arc<KeyMemory>) {
        self.state().prints.get_or_init(|| Prints::new(memory));
    }

    fn state(&self) -> &ZapState {
        self.object.zap.get_or_init(ZapState::new)
    }

    /// Begins a change.
    fn begin(&self, tx: &Tx) -> Result<MutexGuard<'_, ()>> {
        let writer = self.state().writer.lock();
        self.object.stage(tx)?;
        Ok(writer)
    }

    fn load(&self) -> Result<()> {
        if !matches!(*self.state().form.read(), Form::Unknown) {
            return Ok(());
        }
        let object = &self.object;
        let block = object.read_block(0)?;
        let mut form = self.state().form.write();
        if matches!(*form, Form::Unknown) {
            *form = match zap::block_kind(&block) {
                BlockKind::Micro => {
                    let index = Index::load(&block);
                    Form::Micro(index.map_err(|error| malformed(object, 0, &error))?)
                }
                BlockKind::Header => {
                    FatHeader::read(&block).map_err(|error| malformed(object, 0, &error))?;
                    Form::Fat
                }
                BlockKind::Leaf | BlockKind::Other => {
                    return Err(DmuError::corrupt(
                        place(object, 0),
                        "not the first block of a ZAP",
                    ));
                }
            };
        }
        Ok(())
    }

    fn entry_exists(&self) -> DmuError {
        DmuError::EntryExists {
            object_set: self.object.object_set(),
            object: self.object.id(),
        }
    }

    fn no_such_entry(&self) -> DmuError {
        DmuError::NoSuchEntry {
            object_set: self.object.object_set(),
            object: self.object.id(),
        }
    }
}

#[cfg(test)]
mod tests;
