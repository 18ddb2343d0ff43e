//! Holding what a change of a ZAP touches: blocks that the transaction writes are in memory until its txg has synced.

use format::zap::leaf::entry_chunks;
use format::zap::{Key, Leaf, Value};

use super::fat::{self, hash_of, leaf_locked, located};
use super::header::malformed;
use super::{Form, Zap, grow};
use crate::error::Result;
use crate::tx::Tx;

impl Zap {
    /// Makes the blocks that a change of `name` touches part of the transaction, and makes room for the name if it is
    /// not there. Adding it with one integer, changing or removing it has nothing to read after that, as long as nobody
    /// else adds to the ZAP: what an operation holds before its first change cannot break it off later.
    ///
    /// # Errors
    /// A block cannot be read or is malformed; the ZAP is full. It has the same entries as before.
    pub fn hold(&self, tx: &Tx, name: &[u8]) -> Result<()> {
        let _writer = self.begin(tx)?;
        let is_micro = matches!(*self.state().form.read(), Form::Micro(_));
        self.object.hold_block(tx, 0)?;
        if is_micro {
            // What it grows to, or becomes, is made of this block alone.
            return Ok(());
        }
        self.hold_fat(tx, &Key::Name(name))
    }

    /// [`Zap::hold`] of a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::hold`].
    pub fn hold_int(&self, tx: &Tx, key: u64) -> Result<()> {
        self.hold(tx, format!("{key:x}").as_bytes())
    }

    fn hold_fat(&self, tx: &Tx, key: &Key<'_>) -> Result<()> {
        let object = &self.object;
        let wanted = entry_chunks(key, &Value::word(0));
        if located(self)?.header.table_next_block != 0 {
            let finished = grow::finish_table(object, tx);
            self.state().moved();
            finished?;
        }
        loop {
            let known = located(self)?;
            let hash = hash_of(&known.header, key);
            if let Some(table) = fat::table_block(&known.header, known.first.len(), hash) {
                object.hold_block(tx, table)?;
            }
            let (data, block) = leaf_locked(self, hash)?;
            let leaf = Leaf::new(&data).map_err(|error| malformed(object, block, &error))?;
            let fits = leaf.find_key(hash, key).is_some()
                || usize::from(leaf.header().free_count) >= wanted;
            object.hold_block(tx, block)?;
            if fits {
                return Ok(());
            }
            fat::split(self, tx, block, hash)?;
        }
    }
}
