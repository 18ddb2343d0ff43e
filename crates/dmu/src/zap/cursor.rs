//! Listings: entries in ascending (hash, differentiator), the same in every form, so that a
//! position outlives a change of form and any number of insertions and removals.

use std::collections::VecDeque;
use std::sync::Arc;

use format::FormatError;
use format::zap::{self, BlockKind, Cursor, HashKind, Leaf, Micro};

use super::ahead::LeavesAhead;
use super::fat;
use super::header::malformed;
use super::{Form, Zap};
use crate::error::{DmuError, Result};
use crate::object::Object;
use crate::tunables;

/// An entry of a ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapEntry {
    /// The name; empty in a ZAP with word keys.
    pub name: Vec<u8>,
    /// The key of a ZAP with word keys; empty otherwise.
    pub words: Vec<u64>,
    /// Bytes of one integer of the value.
    pub integer_size: u8,
    /// Integers of the value.
    pub count: u64,
    /// The first integer.
    pub value: u64,
    /// The position after this entry.
    pub cookie: u64,
}

/// A listing under way.
#[derive(Debug)]
pub struct ZapCursor {
    zap: Zap,
    /// The position after the last entry that was taken.
    cookie: u64,
    /// Where to go on when `pending` is empty; nothing at the end.
    next: Option<Cursor>,
    started: bool,
    /// Whether this listing has gone on to a second leaf: then the next ones are read ahead.
    prefetch: bool,
    pending: VecDeque<ZapEntry>,
}

impl Zap {
    /// A listing that starts at a position: 0, or what [`ZapEntry::cookie`] said.
    #[must_use]
    pub fn cursor(&self, from: u64) -> ZapCursor {
        ZapCursor::new(self.clone(), from)
    }

    /// All entries, in the order of listings.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn entries(&self) -> Result<Vec<ZapEntry>> {
        let mut cursor = self.cursor(0);
        let mut all = Vec::new();
        while let Some(entry) = cursor.next_entry()? {
            all.push(entry);
        }
        Ok(all)
    }

    /// Calls `visit` with the name and the first word of every entry, in no order. Unlike a listing it makes nothing of
    /// each entry, and no index of a ZAP that was not opened yet: for what is gone through once, as a whole.
    ///
    /// # Errors
    /// A block cannot be read or is malformed, or what `visit` says.
    pub fn scan<E: From<DmuError>>(
        object: &Arc<Object>,
        visit: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        scan_reading(object, visit, |_| {})
    }

    /// The same of a ZAP that is about to be freed: the cache keeps nothing of it.
    ///
    /// # Errors
    /// As [`Zap::scan`].
    pub fn last_scan<E: From<DmuError>>(
        object: &Arc<Object>,
        visit: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let scanned = scan_reading(object, visit, |block| object.forget_block(block));
        object.forget_top();
        scanned
    }

    fn scan_leaves<E: From<DmuError>>(
        &self,
        visit: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
        done: impl Fn(u64),
    ) -> Result<(), E> {
        let object = &self.object;
        let wrong = |error: FormatError| malformed(object, 0, &error);
        let mut ahead = LeavesAhead::new();
        let mut hash = Some(0);
        while let Some(from) = hash {
            let located = fat::located(self)?;
            ahead.ask(object, &located);
            let (data, block) = fat::placed_leaf_of(self, &located, from)?;
            ahead.reached(block);
            let leaf = Leaf::new(&data).map_err(wrong)?;
            for entry in leaf.stored_entries() {
                let value = match entry.word_value() {
                    Some(word) => word,
                    None => {
                        let value = entry.value().map_err(wrong)?;
                        value.to_words().first().copied().unwrap_or(0)
                    }
                };
                match entry.short_name() {
                    Some(name) => visit(name, value)?,
                    None => visit(&entry.name().map_err(wrong)?, value)?,
                }
            }
            hash = hash_after(&leaf);
            done(block);
        }
        Ok(())
    }
}

/// A scan that says of each block when it is `done` with it.
fn scan_reading<E: From<DmuError>>(
    object: &Arc<Object>,
    visit: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    done: impl Fn(u64),
) -> Result<(), E> {
    let block = object.read_block(0)?;
    if zap::block_kind(&block) == BlockKind::Micro {
        let micro = Micro::new(&block).map_err(|error| malformed(object, 0, &error))?;
        for entry in micro.entries() {
            visit(entry.name, entry.value)?;
        }
    } else {
        Zap::open(object)?.scan_leaves(visit, &done)?;
    }
    done(0);
    Ok(())
}

/// Where the leaf after this one begins.
fn hash_after(leaf: &Leaf<'_>) -> Option<u64> {
    let leaf = leaf.header();
    let after = leaf.prefix.wrapping_add(1);
    let bits = u32::from(leaf.prefix_len);
    // The last leaf's prefix is all ones: there is nothing behind it.
    (bits != 0 && after >> bits == 0).then(|| after << (64 - bits))
}

impl ZapCursor {
    pub(super) const fn new(zap: Zap, from: u64) -> Self {
        Self {
            zap,
            cookie: from,
            next: None,
            started: false,
            prefetch: false,
            pending: VecDeque::new(),
        }
    }

    /// The position after the last entry that was taken; all ones at the end.
    #[must_use]
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The next entry.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn next_entry(&mut self) -> Result<Option<ZapEntry>> {
        loop {
            if let Some(entry) = self.pending.pop_front() {
                self.cookie = entry.cookie;
                return Ok(Some(entry));
            }
            if self.started && self.next.is_none() {
                self.cookie = Cursor::END;
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// The entries that come next, as far as they were taken from the ZAP already.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &ZapEntry> + Clone {
        self.pending.iter()
    }

    fn fill(&mut self) -> Result<()> {
        let zap = self.zap.clone();
        {
            let form = zap.state().form.read();
            if let Form::Micro(index) = &*form {
                return self.fill_micro(&zap, index);
            }
        }
        self.fill_fat(&zap)
    }

    fn position(&mut self, bits: u32) -> Option<Cursor> {
        if !self.started {
            self.started = true;
            self.next = Cursor::deserialize(self.cookie, bits);
        }
        self.next
    }

    fn fill_micro(&mut self, zap: &Zap, index: &super::micro::Index) -> Result<()> {
        const BITS: u32 = HashKind::PLAIN.bits;
        let Some(from) = self.position(BITS) else {
            return Ok(());
        };
        let max = tunables::CURSOR_ENTRIES.count();
        let batch: Vec<ZapEntry> = zap.object.with_block(0, |block| {
            index
                .entries_from(block, (from.hash, from.differentiator))
                .take(max)
                .map(|(hash, differentiator, entry)| ZapEntry {
                    name: entry.name.to_vec(),
                    words: Vec::new(),
                    integer_size: 8,
                    count: 1,
                    value: entry.value,
                    cookie: Cursor::after(hash, differentiator).serialize(BITS),
                })
                .collect()
        })?;
        self.next = batch
            .last()
            .filter(|_| batch.len() == max)
            .and_then(|last| Cursor::deserialize(last.cookie, BITS));
        self.pending.extend(batch);
        Ok(())
    }

    fn fill_fat(&mut self, zap: &Zap) -> Result<()> {
        let object = &zap.object;
        let located = fat::located(zap)?;
        let kind = HashKind::from_flags(located.header.flags);
        let Some(from) = self.position(kind.bits) else {
            return Ok(());
        };
        if self.prefetch {
            fat::prefetch_after(object, &located, from.hash);
        }
        self.prefetch = true;
        let data = fat::leaf_of(zap, &located, from.hash)?;
        let wrong = |error| malformed(object, 0, &error);
        let leaf = Leaf::new(&data).map_err(wrong)?;
        for entry in leaf.sorted_entries() {
            let at = (entry.hash(), entry.differentiator());
            if at < (from.hash, from.differentiator) {
                continue;
            }
            let cookie = Cursor::after(at.0, at.1).serialize(kind.bits);
            let (integer_size, count, value) = match entry.word_value() {
                Some(word) => (8, 1, word),
                None => {
                    let value = entry.value().map_err(wrong)?;
                    let first = value.to_words().first().copied().unwrap_or(0);
                    (value.integer_size(), value.count() as u64, first)
                }
            };
            let (name, words) = if kind.words {
                (Vec::new(), entry.words().map_err(wrong)?)
            } else {
                (entry.name().map_err(wrong)?, Vec::new())
            };
            self.pending.push_back(ZapEntry {
                name,
                words,
                integer_size,
                count,
                value,
                cookie,
            });
        }
        self.next = hash_after(&leaf).map(|hash| Cursor {
            hash,
            differentiator: 0,
        });
        Ok(())
    }
}
