//! The tables of the error log in the pool's own object set.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::{CreateZap, ObjectSet, Tx, Zap};
use dsl::records;
use format::ObjectType;
use format::config::directory as names;
use format::features;
use format::zap::Value;

use crate::mos::data_error::DataError;
use crate::pool::services::PoolServices;

/// Which of the two tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Last,
    Scrub,
}

impl Table {
    const fn key(self) -> &'static [u8] {
        match self {
            Self::Last => names::ERROR_LOG_LAST.as_bytes(),
            Self::Scrub => names::ERROR_LOG_SCRUB.as_bytes(),
        }
    }
}

impl PoolServices {
    /// Stores what was met since the last txg; in syncing context.
    pub(crate) fn store_errors(&self, tx: &Tx) -> dmu::Result<()> {
        // Before what was met since: a block may be lost again.
        for healed in self.errors.take_healed() {
            self.remove_error(tx, &healed)?;
        }
        for table in [Table::Scrub, Table::Last] {
            let found = self.errors.take(table == Table::Scrub);
            if !found.is_empty() {
                self.add_errors(tx, table, &found)?;
            }
        }
        Ok(())
    }

    fn add_errors(&self, tx: &Tx, table: Table, found: &BTreeSet<DataError>) -> dmu::Result<()> {
        let zap = match self.error_table(table)? {
            Some(zap) => zap,
            None => {
                let zap = new_table(&self.mos, tx)?;
                self.directory
                    .update(tx, table.key(), zap.object().id().0)?;
                zap
            }
        };
        let nothing = Value::string("");
        let by_head = self.features.is_active(&features::HEAD_ERRLOG);
        for error in found {
            let name = name_of(error, by_head);
            if !by_head {
                zap.update_value(tx, name.as_bytes(), &nothing)?;
                continue;
            }
            let head = head_of(&self.mos, error.dataset);
            let own = match zap.lookup_int(head.0)? {
                Some(own) => Zap::open(&self.mos.object(ObjectId(own))?)?,
                None => {
                    let own = new_table(&self.mos, tx)?;
                    zap.add_int(tx, head.0, own.object().id().0)?;
                    own
                }
            };
            own.update_value(tx, name.as_bytes(), &nothing)?;
        }
        Ok(())
    }

    /// A block that could not be read was written again.
    pub(crate) fn note_healed(&self, block: &DataError) {
        let by_head = self.features.is_active(&features::HEAD_ERRLOG);
        let stored = self.as_stored(block, by_head);
        let is_place = |error: &DataError| {
            (error.object, error.level, error.block) == (block.object, block.level, block.block)
        };
        // Which head a dataset is of is looked up before the lock of what is pending is taken.
        let pending = self.errors.pending();
        let same: BTreeSet<_> = pending
            .into_iter()
            .filter(|error| is_place(error) && self.as_stored(error, by_head) == stored)
            .collect();
        self.errors.note_healed(block, |error| same.contains(error));
    }

    fn remove_error(&self, tx: &Tx, error: &DataError) -> dmu::Result<()> {
        let by_head = self.features.is_active(&features::HEAD_ERRLOG);
        for table in [Table::Scrub, Table::Last] {
            let Some(zap) = self.error_table(table)? else {
                continue;
            };
            let own = if by_head {
                let head = head_of(&self.mos, error.dataset);
                let own = zap.lookup_int(head.0)?.map(ObjectId);
                own.map(|own| Zap::open(&self.mos.object(own)?))
                    .transpose()?
            } else {
                Some(zap)
            };
            let name = name_of(error, by_head);
            if let Some(own) = own
                && own.lookup_value(name.as_bytes())?.is_some()
            {
                own.remove(tx, name.as_bytes())?;
            }
        }
        Ok(())
    }

    /// A scan ended: what it found is all there is.
    pub(crate) fn rotate_errors(&self, tx: &Tx) -> dmu::Result<()> {
        let found = self.errors.take(true);
        if !found.is_empty() {
            self.add_errors(tx, Table::Scrub, &found)?;
        }
        let directory = &self.directory;
        let (old, new) = (Table::Last.key(), Table::Scrub.key());
        if let Some(zap) = self.error_table(Table::Last)? {
            if self.features.is_active(&features::HEAD_ERRLOG) {
                for entry in zap.entries()? {
                    self.mos.free(tx, ObjectId(entry.value))?;
                }
            }
            self.mos.free(tx, zap.object().id())?;
            directory.update(tx, old, 0)?;
        }
        let scrub = directory.lookup(new)?.unwrap_or(0);
        if scrub != 0 {
            directory.update(tx, old, scrub)?;
            directory.update(tx, new, 0)?;
        }
        Ok(())
    }

    /// A head was destroyed: nobody misses what could not be read of it.
    pub(crate) fn forget_errors(&self, tx: &Tx, head: ObjectId) -> dmu::Result<()> {
        if !self.features.is_active(&features::HEAD_ERRLOG) {
            return Ok(());
        }
        for table in [Table::Last, Table::Scrub] {
            let Some(zap) = self.error_table(table)? else {
                continue;
            };
            if let Some(own) = zap.lookup_int(head.0)? {
                self.mos.free(tx, ObjectId(own))?;
                zap.remove_int(tx, head.0)?;
            }
        }
        Ok(())
    }

    fn error_table(&self, table: Table) -> dmu::Result<Option<Zap>> {
        let id = self.directory.lookup(table.key())?;
        let id = id.filter(|id| *id != 0).map(ObjectId);
        id.map(|id| Zap::open(&self.mos.object(id)?)).transpose()
    }

    /// Everything that is known to be unreadable, with what is not stored yet.
    pub(crate) fn data_errors(&self) -> dmu::Result<Vec<DataError>> {
        let by_head = self.features.is_active(&features::HEAD_ERRLOG);
        let pending = self.errors.pending();
        let mut found: BTreeSet<_> = pending
            .iter()
            .map(|error| self.as_stored(error, by_head))
            .collect();
        for table in [Table::Last, Table::Scrub] {
            let Some(zap) = self.error_table(table)? else {
                continue;
            };
            for entry in zap.entries()? {
                if !by_head {
                    found.extend(parse_flat(&entry.name));
                    continue;
                }
                let head = format::deadlist::parse_integer_key(&entry.name);
                let own = Zap::open(&self.mos.object(ObjectId(entry.value))?)?;
                for inner in own.entries()? {
                    found.extend(head.and_then(|head| parse_of_head(head, &inner.name)));
                }
            }
        }
        for healed in self.errors.healed() {
            found.remove(&self.as_stored(&healed, by_head));
        }
        Ok(found.into_iter().collect())
    }

    /// An error as it is read from its table.
    fn as_stored(&self, error: &DataError, by_head: bool) -> DataError {
        DataError {
            dataset: if by_head {
                head_of(&self.mos, error.dataset)
            } else {
                error.dataset
            },
            birth: error.birth.filter(|_| by_head),
            ..*error
        }
    }
}

/// What an error is called in its table.
fn name_of(error: &DataError, by_head: bool) -> String {
    let place = format!("{:x}:{:x}:{:x}", error.object.0, error.level, error.block);
    if by_head {
        let birth = error.birth.unwrap_or_default().0;
        return format!("{place}:{birth:x}");
    }
    format!("{:x}:{place}", error.dataset.0)
}

fn new_table(mos: &Arc<ObjectSet>, tx: &Tx) -> dmu::Result<Zap> {
    let options = CreateZap {
        object_type: ObjectType::ERROR_LOG,
        ..CreateZap::default()
    };
    Zap::create(mos, tx, &options)
}

/// The head of the directory of a dataset; what is unknown stands for itself.
fn head_of(mos: &ObjectSet, dataset: ObjectId) -> ObjectId {
    records::head_of(mos, dataset).unwrap_or(dataset)
}

fn numbers<const N: usize>(name: &[u8]) -> Option<[u64; N]> {
    let text = std::str::from_utf8(name).ok()?;
    let mut parts = text.split(':');
    let mut found = [0; N];
    for number in &mut found {
        *number = u64::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn parse_flat(name: &[u8]) -> Option<DataError> {
    let [dataset, object, level, block] = numbers(name)?;
    Some(DataError {
        dataset: ObjectId(dataset),
        object: ObjectId(object),
        level: level.cast_signed(),
        block,
        birth: None,
    })
}

fn parse_of_head(head: u64, name: &[u8]) -> Option<DataError> {
    let [object, level, block, birth] = numbers(name)?;
    Some(DataError {
        dataset: ObjectId(head),
        object: ObjectId(object),
        level: level.cast_signed(),
        block,
        birth: Some(Txg(birth)),
    })
}

#[cfg(test)]
mod tests;
