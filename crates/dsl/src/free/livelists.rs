//! The livelists of destroyed clones: of each, part after part, what is still in use is freed.

mod part;

use base::ObjectId;
use dmu::Tx;
use format::config::directory as keys;
use format::features;

use super::slice::Slice;
use crate::bpobj::{Bpobj, unless_lost};
use crate::deadlist::Deadlist;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::sizes::Sizes;
pub(crate) use part::PartInHand;

impl Dsl {
    /// Frees some of the livelists; one that cannot be read goes unread.
    pub(super) fn free_livelists(&self, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
        match free_slice(self, tx, slice) {
            Err(error) if error.is_damage() => self.lose_livelist(tx),
            done => done,
        }
    }

    /// Drops the newest part of the first livelist, or all that cannot be told apart from it. Nothing of a part may be
    /// freed when some of it cannot be read: it may say that the rest is freed already.
    fn lose_livelist(&self, tx: &Tx) -> Result<()> {
        let mos = &self.mos;
        let pool = mos.directory()?;
        let Some(zap) = pool.lookup(keys::DELETED_CLONES.as_bytes())?.map(ObjectId) else {
            return Ok(());
        };
        let next = mos.zap(zap).and_then(|zap| Ok(zap.cursor(0).next_entry()?));
        let Some(Some(entry)) = unless_lost(next)? else {
            pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
            return unless_lost(mos.free(tx, zap)).map(|_| ());
        };
        let list = Deadlist::open(mos, ObjectId(entry.value));
        let part = list.and_then(|list| {
            let newest = list.keys()?.last();
            newest.map(|(key, _)| list.drop_part(tx, key)).transpose()
        });
        if let Some(Some(())) = unless_lost(part)? {
            return Ok(());
        }
        let list = Deadlist::open(mos, ObjectId(entry.value));
        unless_lost(list.and_then(|list| list.destroy(tx)))?;
        mos.zap(zap)?.remove(tx, &entry.name)?;
        Ok(mos
            .services
            .change_references(tx, &features::LIVELIST, -1)?)
    }
}

/// Frees a slice of the livelists of destroyed clones, one part after the other.
fn free_slice(dsl: &Dsl, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
    // An error leaves nothing in hand: what was written counts.
    let mut hand = dsl.livelist_part.lock().take();
    loop {
        let limit = slice.next();
        if limit == 0 {
            break;
        }
        let part = match hand.take() {
            Some(part) => part,
            None => match next_part(dsl, tx)? {
                Next::Part(part) => part,
                // The end of a list is something done as well.
                Next::List => {
                    slice.done(1);
                    continue;
                }
                Next::Nothing => break,
            },
        };
        let (freed, left) = free_some(dsl, tx, part, limit)?;
        slice.done(freed.max(1));
        hand = left;
    }
    *dsl.livelist_part.lock() = hand;
    Ok(())
}

/// What is to be done next.
enum Next {
    /// This part.
    Part(PartInHand),
    /// A list had no parts any more, and went.
    List,
    /// Nothing is left.
    Nothing,
}

/// The newest part of the first livelist.
fn next_part(dsl: &Dsl, tx: &Tx) -> Result<Next> {
    let mos = &dsl.mos;
    let pool = mos.directory()?;
    let Some(zap_id) = pool.lookup(keys::DELETED_CLONES.as_bytes())? else {
        return Ok(Next::Nothing);
    };
    let zap = mos.zap(ObjectId(zap_id))?;
    let Some(entry) = zap.cursor(0).next_entry()? else {
        pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
        mos.free(tx, ObjectId(zap_id))?;
        return Ok(Next::Nothing);
    };
    let list = Deadlist::open(mos, ObjectId(entry.value))?;
    if let Some((key, part)) = list.keys()?.last() {
        return Ok(Next::Part(PartInHand::begin(mos, &list, key, part)?));
    }
    list.destroy(tx)?;
    zap.remove(tx, &entry.name)?;
    mos.services
        .change_references(tx, &features::LIVELIST, -1)?;
    if zap.is_empty()? {
        pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
        mos.free(tx, ObjectId(zap_id))?;
    }
    Ok(Next::List)
}

/// Frees up to `limit` blocks of a part, and the part itself when none are left: how many went, and what is left.
fn free_some(
    dsl: &Dsl,
    tx: &Tx,
    mut hand: PartInHand,
    limit: u64,
) -> Result<(u64, Option<PartInHand>)> {
    let list = Deadlist::open(&dsl.mos, hand.list())?;
    let Some(part) = list.keys()?.get(hand.key()) else {
        return Err(DslError::damaged(list.id(), "a part of it went away"));
    };
    let part = Bpobj::open(&dsl.mos, part)?;
    let going = hand.take(limit);
    let store = dsl.mos.store.as_ref();
    let mut sizes = Sizes::ZERO;
    for pointer in &going {
        sizes += Sizes::of(store, pointer);
        dsl.release(tx, pointer)?;
    }
    dsl.charge_free(tx, -sizes)?;
    let freed = going.len() as u64;
    if hand.is_used_up() {
        list.drop_part(tx, hand.key())?;
        return Ok((freed, None));
    }
    match list.append_freed(tx, &part, &going) {
        // Else the same would be freed again: the rest of the part leaks.
        Err(error) if error.is_damage() => {
            list.drop_part(tx, hand.key())?;
            return Ok((freed, None));
        }
        noted => noted?,
    }
    hand.go_on(&part)?;
    Ok((freed, Some(hand)))
}
