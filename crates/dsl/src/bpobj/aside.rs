//! Lists whose end cannot be read are put aside: a new list takes their place, with the old one inside, so that what
//! they list stays accounted for and is freed in its turn, as far as it can be read then.

use base::ObjectId;
use dmu::Tx;
use format::bpobj::BpobjPhys;
use format::{BlockPointer, version};

use super::{Bpobj, METERS, add, unless_lost};
use crate::error::Result;
use crate::mos::{Mos, change_record};

impl Bpobj {
    /// The list that takes the place of this one, and has it inside. Pools before version 26 know no lists in lists:
    /// there what this one lists leaks.
    ///
    /// # Errors
    /// A list cannot be made.
    pub fn put_aside(&self, tx: &Tx) -> Result<Self> {
        let info = self.object.info();
        let new = Self::create(&self.mos, tx, info.block_size)?;
        if info.compress != 0 {
            new.set_compression(tx, info.compress)?;
        }
        METERS.put_aside.increment();
        if self.mos.services.version() < version::DEADLISTS {
            METERS.lists_lost.increment();
            return Ok(new);
        }
        let sum = self.sizes()?;
        let array = new.array(tx)?;
        new.append_numbers(tx, &array, &[self.id()])?;
        change_record(&new.object, tx, |header: &mut BpobjPhys| add(header, sum))?;
        Ok(new)
    }
}

/// Appends block pointers to a list; the list that has its place from now on, if that is another.
pub(crate) fn append_to(
    mos: &Mos,
    tx: &Tx,
    id: ObjectId,
    pointers: &[BlockPointer],
    freed: bool,
) -> Result<Option<ObjectId>> {
    with(mos, tx, id, |list| list.append(tx, pointers, freed))
}

/// Appends a list to a list; the list that has the place of the latter from now on, if that is another.
pub(crate) fn append_list_to(
    mos: &Mos,
    tx: &Tx,
    id: ObjectId,
    other: ObjectId,
) -> Result<Option<ObjectId>> {
    with(mos, tx, id, |list| list.append_list(tx, other))
}

/// Changes a list, or the one that takes its place.
fn with(
    mos: &Mos,
    tx: &Tx,
    id: ObjectId,
    change: impl Fn(&Bpobj) -> Result<()>,
) -> Result<Option<ObjectId>> {
    let new = match unless_lost(Bpobj::open(mos, id))? {
        None => Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?,
        Some(list) => match change(&list) {
            Err(error) if error.is_damage() => list.put_aside(tx)?,
            done => return done.map(|()| None),
        },
    };
    change(&new)?;
    Ok(Some(new.id()))
}
