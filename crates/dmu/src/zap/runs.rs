//! Changing many keys of words in the order of their leaves: each leaf is read ahead, looked for once, and changed
//! once.

use format::FormatError;
use format::zap::{FatHeader, Key, Leaf, LeafMut, VALUE_MAX, Value};

use super::fat::{self, hash_of, leaf_block, leaf_locked, located};
use super::header::malformed;
use super::{Zap, grow};
use crate::error::Result;
use crate::tx::Tx;

/// Keys of one leaf.
struct Run {
    block: u64,
    hashes: Vec<u64>,
    /// Some of them are not there.
    adds: bool,
}

/// What a leaf came to in one change.
#[derive(Default)]
struct Outcome {
    /// So many of the keys have their values, …
    done: usize,
    /// … of which so many were not there.
    added: i64,
    /// Why the next has not; none if that was the last.
    stopped: Option<FormatError>,
}

impl Zap {
    /// Reads the leaf that a key of words belongs to, whether or not it is known which keys it has.
    ///
    /// # Errors
    /// It cannot be read or is malformed.
    pub fn read_words_leaf(&self, key: &[u64]) -> Result<()> {
        let located = located(self)?;
        let key = Key::Words(key);
        fat::check_key_kind(self, &located.header, &key)?;
        fat::leaf_of(self, &located, hash_of(&located.header, &key)).map(|_| ())
    }

    /// Sets the values of the first of these keys of words, which need not be there, and of those after it that belong
    /// to the same leaf; how many. Cheapest when equal beginnings of keys are together.
    ///
    /// # Errors
    /// The leaf of the first cannot be read; the ZAP is full; a block is malformed.
    pub fn update_words_run(&self, tx: &Tx, entries: &[(&[u64], Value)]) -> Result<usize> {
        let Some((first, _)) = entries.first() else {
            return Ok(0);
        };
        let object = &self.object;
        let _writer = self.begin(tx)?;
        let known = located(self)?;
        let header = &known.header;
        fat::check_key_kind(self, header, &Key::Words(first))?;
        if header.table_next_block != 0 {
            let finished = grow::finish_table(object, tx);
            self.state().moved();
            finished?;
        }
        let hash = hash_of(header, &Key::Words(first));
        loop {
            let run = self.run_of(header, hash, entries)?;
            let block = run.block;
            if run.adds {
                // The number of entries is in it.
                object.hold_block(tx, 0)?;
            }
            let change = |bytes: &mut [u8]| change_leaf(bytes, entries, &run.hashes);
            let outcome = object.modify_block(tx, block, change)?;
            if let Some(prints) = self.state().prints.get() {
                let done = run.hashes.iter().take(outcome.done);
                done.for_each(|hash| prints.note(block, *hash));
            }
            if outcome.added != 0 {
                fat::count(object, tx, outcome.added)?;
            }
            match outcome.stopped {
                None => return Ok(outcome.done),
                Some(FormatError::NoRoom { .. }) if outcome.done > 0 => return Ok(outcome.done),
                Some(FormatError::NoRoom { .. }) => fat::split(self, tx, block, hash)?,
                Some(error) => return Err(malformed(object, block, &error)),
            }
        }
    }

    /// The first keys as far as they belong to the leaf of a hash. The writer's lock is held.
    fn run_of(&self, header: &FatHeader, hash: u64, entries: &[(&[u64], Value)]) -> Result<Run> {
        let (data, block) = leaf_locked(self, hash)?;
        let leaf = Leaf::new(&data).map_err(|error| malformed(&self.object, block, &error))?;
        if let Some(prints) = self.state().prints.get() {
            prints.learn(block, &leaf, prints.version());
        }
        let (mut hashes, mut adds) = (Vec::new(), false);
        for (key, value) in entries {
            let key = Key::Words(key);
            let hash = hash_of(header, &key);
            if !leaf.covers(hash) {
                break;
            }
            if value.stored().len() > VALUE_MAX {
                return Err(self.object.unsuitable("a value that no ZAP holds"));
            }
            hashes.push(hash);
            if leaf.find_key(hash, &key).is_none() {
                adds = true;
            }
        }
        Ok(Run {
            block,
            hashes,
            adds,
        })
    }

    /// Starts reading the leaves of keys of words until so many leaves were asked for; of how many keys. Best effort.
    pub fn prefetch_words<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u64]>,
        leaves_max: usize,
    ) -> usize {
        let Ok(located) = located(self) else {
            return 0;
        };
        let (header, first) = (&located.header, &located.first);
        let mut blocks = Vec::with_capacity(leaves_max);
        let mut count = 0;
        for key in keys {
            let hash = hash_of(header, &Key::Words(key));
            let Ok(block) = leaf_block(&self.object, header, first, hash) else {
                break;
            };
            if blocks.last() != Some(&block) {
                if blocks.len() >= leaves_max {
                    break;
                }
                blocks.push(block);
            }
            count += 1;
        }
        blocks.sort_unstable();
        self.object.prefetch_blocks(&blocks);
        count
    }
}

/// Puts keys with these hashes into a leaf, until one has no room.
fn change_leaf(bytes: &mut [u8], entries: &[(&[u64], Value)], hashes: &[u64]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut leaf = match LeafMut::new(bytes) {
        Ok(leaf) => leaf,
        Err(error) => {
            outcome.stopped = Some(error);
            return outcome;
        }
    };
    for ((key, value), hash) in entries.iter().zip(hashes) {
        let key = Key::Words(key);
        let known = leaf.as_leaf().find_key(*hash, &key);
        let known = known.map(|entry| entry.chunk());
        let changed = match known {
            Some(chunk) => leaf.update(chunk, value),
            None => {
                let differentiator = leaf.as_leaf().unused_differentiator(*hash);
                let inserted = leaf.insert(*hash, differentiator, &key, value);
                inserted.map(|_| ())
            }
        };
        if let Err(error) = changed {
            outcome.stopped = Some(error);
            break;
        }
        outcome.done += 1;
        outcome.added += i64::from(known.is_none());
    }
    outcome
}

#[cfg(test)]
mod tests;
