//! Taking pointers off a list, to free their blocks. What of a list cannot be read is passed over: those blocks leak.

use std::sync::Arc;

use base::ObjectId;
use dmu::{Object, Tx};
use format::BlockPointer;
use format::bpobj::{BpobjPhys, is_freed};

use super::{Bpobj, METERS, NUMBER, POINTER, add, free_or_leak, unless_lost};
use crate::error::{DslError, Result};
use crate::mos::change_record;
use crate::sizes::Sizes;
use crate::tunables::POINTERS_AT_ONCE;

/// What was taken off a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Sizes of the blocks that were given.
    pub sizes: Sizes,
    /// How many pointers went, those that cannot be read and lists that were lost among them.
    pub count: u64,
    /// What the list counted and nobody can free any more: known once nothing is left in it.
    pub lost: Sizes,
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.sizes += other.sizes;
        self.count += other.count;
    }
}

type Take<'a> = dyn FnMut(&BlockPointer) + 'a;

impl Bpobj {
    /// Takes up to `limit` pointers off the list, lists inside first, last ones first, and gives
    /// each to `take`. Lists inside that are used up are freed. What cannot be read is passed over.
    ///
    /// # Errors
    /// A list cannot be written.
    pub fn take(&self, tx: &Tx, limit: u64, take: &mut Take<'_>) -> Result<Taken> {
        let mut taken = self.take_nested(tx, limit, take, 0)?;
        taken.lost = self.settle(tx)?;
        Ok(taken)
    }

    fn take_nested(&self, tx: &Tx, limit: u64, take: &mut Take<'_>, depth: u32) -> Result<Taken> {
        self.check_depth(depth)?;
        let mut all = Taken::default();
        while all.count < limit {
            let header = self.header()?;
            let Some(last) = header.subobject_count.checked_sub(1) else {
                break;
            };
            match self.inner(&header, last) {
                Ok(inner) => {
                    all.add(self.take_inner(tx, &inner, last, (limit - all.count, depth), take)?)
                }
                Err((error, first)) if error.is_damage() => {
                    METERS.lists_lost.add(last + 1 - first);
                    all.count += 1;
                    self.drop_lists(tx, first)?;
                }
                Err((error, _)) => return Err(error),
            }
        }
        let own = self.take_own(tx, limit.saturating_sub(all.count), take)?;
        all.add(own);
        Ok(all)
    }

    /// The last list inside; on an error the first of those that cannot be told for the same reason.
    fn inner(&self, header: &BpobjPhys, last: u64) -> Result<Self, (DslError, u64)> {
        let array = self
            .mos
            .object(header.subobjects)
            .map_err(|error| (error, 0))?;
        let mut bytes = [0; NUMBER as usize];
        if let Err(error) = array.read(last * NUMBER, &mut bytes) {
            return Err((error.into(), first_beside(&array, last)));
        }
        let id = ObjectId(u64::from_ne_bytes(bytes));
        Self::open(&self.mos, id).map_err(|error| (error, last))
    }

    fn take_inner(
        &self,
        tx: &Tx,
        inner: &Self,
        last: u64,
        (limit, depth): (u64, u32),
        take: &mut Take<'_>,
    ) -> Result<Taken> {
        let Some(taken) = unless_lost(inner.take_nested(tx, limit, take, depth + 1))? else {
            self.drop_lists(tx, last)?;
            return Ok(Taken {
                count: 1,
                ..Taken::default()
            });
        };
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            add(header, -taken.sizes)
        })?;
        if inner.is_empty()? {
            inner.destroy(tx)?;
            self.drop_lists(tx, last)?;
        }
        Ok(taken)
    }

    /// Forgets the lists inside from number `first` on.
    fn drop_lists(&self, tx: &Tx, first: u64) -> Result<()> {
        if first == 0 {
            free_or_leak(&self.mos, tx, self.header()?.subobjects)?;
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.subobject_count = first;
            if first == 0 {
                header.subobjects = ObjectId(0);
            }
        })
    }

    fn take_own(&self, tx: &Tx, limit: u64, take: &mut Take<'_>) -> Result<Taken> {
        let header = self.header()?;
        if header.subobject_count != 0 || header.pointer_count == 0 || limit == 0 {
            return Ok(Taken::default());
        }
        let mut taken = Taken::default();
        let mut freed = 0;
        let goal = header.pointer_count.saturating_sub(limit);
        let per_block = (u64::from(self.object.block_size()) / POINTER).max(1);
        let mut end = header.pointer_count;
        while end > goal {
            // Within a block, so that what can be read beside one that cannot be is.
            let block = (end - 1) / per_block * per_block;
            let at_once = end.saturating_sub(POINTERS_AT_ONCE.get());
            let from = at_once.max(goal).max(block);
            let pointers = match self.read_pointers(from, end) {
                Err(error) if error.is_damage() => {
                    METERS.pointers_lost.add(end - from);
                    Vec::new()
                }
                pointers => pointers?,
            };
            for pointer in pointers.iter().rev() {
                let sizes = Sizes::of(self.mos.store.as_ref(), pointer);
                if is_freed(pointer) {
                    freed += 1;
                    taken.sizes -= sizes;
                } else {
                    taken.sizes += sizes;
                }
                take(pointer);
            }
            end = from;
        }
        self.shorten(tx, end.next_multiple_of(per_block))?;
        let sizes = taken.sizes;
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count = end;
            header.freed_count = header.freed_count.saturating_sub(freed);
            add(header, -sizes);
        })?;
        taken.count = header.pointer_count - end;
        Ok(taken)
    }

    /// Frees the blocks from pointer `end` on, which begins a block. Where the blocks above are damaged they stay: what
    /// lies past the end of a list counts for nothing, and goes with the list.
    fn shorten(&self, tx: &Tx, end: u64) -> Result<()> {
        let from = end * POINTER;
        match self.object.free_range(tx, from, u64::MAX - from) {
            Err(error) if error.is_damage() => Ok(()),
            done => Ok(done?),
        }
    }

    /// Once nothing is left in the list, what it still counts: that is lost. Of a list inside another that cannot be
    /// told: it counts what was moved out of it as well ([`Bpobj::append_list`]).
    fn settle(&self, tx: &Tx) -> Result<Sizes> {
        let left = self.sizes()?;
        if left == Sizes::ZERO || !self.is_empty()? {
            return Ok(Sizes::ZERO);
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            add(header, -left)
        })?;
        Ok(left)
    }
}

/// The first number in the same block as number `index`.
fn first_beside(array: &Arc<Object>, index: u64) -> u64 {
    let per_block = (u64::from(array.block_size()) / NUMBER).max(1);
    index / per_block * per_block
}
