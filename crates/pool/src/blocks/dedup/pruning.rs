//! Pruning: entries with one reference that have been so for long leave their table (`zpool ddtprune`). Their blocks
//! stay, and are their pointers' alone from then on; what is written again with the same content is stored anew.
//!
//! Only tables of the newer kind know since when an entry is what it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use codec::Checksum;
use format::dedup::{DedupClass, DedupForm, DedupKey, DedupValue};

use super::table::Table;
use super::{DedupTables, Entry, Name};
use crate::error::{PoolError, Result};
use crate::tunables::PRUNED_AT_ONCE;

/// Which entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupPrune {
    /// Those that came into the table at least so many seconds ago.
    OlderThan(u64),
    /// So many of a hundred, the oldest first.
    Percent(u64),
}

/// Seconds of a step of age: how finely the oldest are told apart.
const AGE_STEP_S: u64 = 60;

/// An entry that is to go, unless it is another by then.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    name: Name,
    class_start: u64,
}

/// Which candidates go, youngest age first; and how many of those of just that age.
#[derive(Clone, Copy)]
struct Limit {
    /// Entries that began before this step go all, …
    before: u64,
    /// … and so many that began in it.
    within: u64,
}

impl Limit {
    /// Lets an entry go if it is old enough.
    const fn takes(&mut self, class_start: u64) -> bool {
        let step = class_start / AGE_STEP_S;
        if step < self.before {
            return true;
        }
        if step == self.before && self.within > 0 {
            self.within -= 1;
            return true;
        }
        false
    }
}

/// The entries of a table with one reference, with when each began: those of its logs, then those of its ZAP. What
/// comes from a log into the ZAP meanwhile is seen once.
fn each_unique(table: &Table, visit: &mut dyn FnMut(DedupKey, u64) -> Result<()>) -> Result<()> {
    let logged = table.logs().map(|logs| logs.unique()).unwrap_or_default();
    for (key, class_start) in &logged {
        visit(*key, *class_start)?;
    }
    let Some(store) = &table.stores[DedupClass::Unique.index()] else {
        return Ok(());
    };
    let kind = table.kind;
    let mut cursor = store.zap.cursor(0);
    while let Some(entry) = cursor.next_entry()? {
        let damaged = || PoolError::Damaged(format!("an entry of the dedup table {}", kind.name()));
        let key = DedupKey::try_from(entry.words).map_err(|_| damaged())?;
        // A log says what holds of it.
        let is_logged = table.logs().is_some_and(|logs| logs.get(&key).is_some());
        if is_logged || logged.contains_key(&key) {
            continue;
        }
        // It may have gone since the cursor saw it.
        let Some(stored) = store.zap.lookup_words(&key)? else {
            continue;
        };
        let value = DedupValue::unpack(DedupForm::Flat, stored.stored()).ok_or_else(damaged)?;
        if value.references() == 1 {
            visit(key, value.class_start)?;
        }
    }
    Ok(())
}

impl DedupTables {
    /// The tables that can be pruned.
    fn prunable(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.read();
        let flat = tables
            .values()
            .filter(|table| table.form == DedupForm::Flat);
        flat.cloned().collect()
    }

    /// How old an entry must be to go.
    fn limit_of(&self, wanted: DedupPrune, now_s: u64) -> Result<Limit> {
        let percent = match wanted {
            // A step counts as a whole: what began within it is too young.
            DedupPrune::OlderThan(seconds) => {
                let before = now_s.saturating_sub(seconds) / AGE_STEP_S;
                return Ok(Limit { before, within: 0 });
            }
            DedupPrune::Percent(percent) => percent.min(100),
        };
        let mut ages: BTreeMap<u64, u64> = BTreeMap::new();
        let mut all = 0_u64;
        for table in self.prunable() {
            each_unique(&table, &mut |_, class_start| {
                *ages.entry(class_start / AGE_STEP_S).or_default() += 1;
                all += 1;
                Ok(())
            })?;
        }
        let mut left = all.saturating_mul(percent) / 100;
        for (step, count) in ages {
            if count > left {
                return Ok(Limit {
                    before: step,
                    within: left,
                });
            }
            left -= count;
        }
        Ok(Limit {
            before: u64::MAX,
            within: 0,
        })
    }

    /// Takes an entry out of its table, if it is still what it was: its block is its pointer's alone from now on.
    pub(super) fn prune(&self, entries: &mut HashMap<Name, Entry>, candidate: Candidate) {
        let Ok(kind) = Checksum::from_id(candidate.name.0) else {
            return;
        };
        // What this pass looked at is in use.
        if entries.contains_key(&candidate.name) {
            return;
        }
        let Ok(mut entry) = self.load_entry(kind, &candidate.name.1) else {
            return;
        };
        let is_same = entry.now.references() == 1 && entry.now.class_start == candidate.class_start;
        if is_same {
            entry.now.blocks = Default::default();
            entries.insert(candidate.name, entry);
            self.pruned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes entries with one reference out, some in each txg; how many. `wait` waits until the open txg is synced.
    pub(crate) fn prune_by(
        &self,
        wanted: DedupPrune,
        now_s: u64,
        wait: &mut dyn FnMut() -> Result<()>,
    ) -> Result<u64> {
        // What came lately is in the tables then.
        wait()?;
        let before = self.pruned.load(Ordering::Relaxed);
        let mut limit = self.limit_of(wanted, now_s)?;
        let at_once = usize::try_from(PRUNED_AT_ONCE.get()).unwrap_or(usize::MAX);
        let mut batch = Vec::new();
        for table in self.prunable() {
            each_unique(&table, &mut |key, class_start| {
                if limit.takes(class_start) {
                    let name = (table.kind.id(), key);
                    batch.push(Candidate { name, class_start });
                }
                if batch.len() >= at_once {
                    self.prune.lock().append(&mut batch);
                    wait()?;
                }
                Ok(())
            })?;
        }
        if !batch.is_empty() {
            self.prune.lock().append(&mut batch);
            wait()?;
        }
        let after = self.pruned.load(Ordering::Relaxed);
        Ok(after.saturating_sub(before))
    }
}
