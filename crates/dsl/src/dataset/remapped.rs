//! The list of a dataset's blocks that older snapshots know by places on a removed device.

use base::ObjectId;
use dmu::Tx;
use format::dsl::key;
use format::features::OBSOLETE_COUNTS;

use super::Dataset;
use crate::deadlist::Deadlist;
use crate::error::Result;

impl Dataset {
    /// Old places of its blocks that older snapshots need; most datasets have no such list.
    pub(crate) fn remapped(&self) -> Result<Option<Deadlist>> {
        let id = self.extra_word(key::REMAP_DEADLIST)?.filter(|id| *id != 0);
        let open = |id| Deadlist::open(&self.dsl.mos, ObjectId(id));
        id.map(open).transpose()
    }

    /// Gives it such a list, or takes it away; it counts as a use of the feature. The list itself stays.
    pub(crate) fn set_remapped(&self, tx: &Tx, list: Option<ObjectId>) -> Result<()> {
        let key = key::REMAP_DEADLIST.as_bytes();
        let had = self.extra_word(key::REMAP_DEADLIST)?.is_some();
        let extra = self.make_extra(tx)?;
        match list {
            Some(list) => extra.update(tx, key, list.0)?,
            None if had => {
                extra.remove(tx, key)?;
            }
            None => {}
        }
        let change = i64::from(list.is_some()) - i64::from(had);
        if change != 0 {
            let services = self.dsl.services();
            services.change_references(tx, &OBSOLETE_COUNTS, change)?;
        }
        Ok(())
    }
}
