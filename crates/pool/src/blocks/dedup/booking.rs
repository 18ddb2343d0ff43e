//! Changing one table: entries come, change, move between its ZAPs and go, and the statistics follow.

use dmu::{ObjectSet, Tx, Zap};
use format::config::directory;
use format::dedup::{DedupClass, DedupKey, DedupValue, zap_name};
use format::features;
use format::zap::Value;

use super::Entry;
use super::histogram::sizes_of;
use super::logs::{LogLimits, Logged, Logs};
use super::table::{self, Folder, Store, Table};
use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::tunables::DEDUP_FLUSH_AHEAD;

/// A table that is being changed.
pub(super) struct Booking<'a> {
    pub(super) services: &'a PoolServices,
    pub(super) tx: &'a Tx,
    pub(super) table: Table,
    /// Which ZAPs changed.
    changed: [bool; 3],
    /// What is to be appended to the active log.
    records: Vec<(DedupKey, Logged)>,
    /// How many records there were.
    appended: usize,
    /// The txg changes the table for the first time.
    is_first: bool,
}

/// So many records are appended at once; entries that are brought into the ZAPs are counted off so, too.
const AT_ONCE: usize = 4096;

impl<'a> Booking<'a> {
    pub(super) const fn new(services: &'a PoolServices, tx: &'a Tx, table: Table) -> Self {
        Self {
            services,
            tx,
            table,
            changed: [false; 3],
            records: Vec::new(),
            appended: 0,
            is_first: false,
        }
    }

    /// Before anything is changed: the logs may change places.
    pub(super) fn begin(&mut self) -> Result<()> {
        if let Some(logs) = self.table.logs() {
            self.is_first = logs.begin(self.tx, self.log_limits())?;
        }
        Ok(())
    }

    fn log_limits(&self) -> LogLimits {
        LogLimits::of(self.services.store.cache_bytes())
    }

    fn mos(&self) -> &'a ObjectSet {
        &self.services.mos
    }

    /// Makes a table of the newer kind what it is: with a folder and logs.
    pub(super) fn make_folder(&mut self) -> Result<()> {
        let root = &self.services.directory;
        self.table.folder = Some(Folder::create(self.mos(), self.tx, root, self.table.kind)?);
        // Without it OpenZFS takes a pool to have no tables, and looks into no log.
        table::statistics(self.mos(), self.tx, root)?;
        self.services
            .change_feature(self.tx, &features::FAST_DEDUP, 1)?;
        Ok(())
    }

    /// An entry is as it is now; one without blocks goes. A table with logs has it in the active one.
    pub(super) fn apply(&mut self, key: &DedupKey, entry: &Entry) -> Result<()> {
        let mut now = entry.now;
        let (class, was) = (class_of(&now), class_of(&entry.before));
        if class.is_some() && class != was {
            now.class_start = self.services.clock.now_s();
        }
        if let Some(home) = entry.home
            && !entry.is_logged
        {
            self.count(home, key, &entry.before, u64::saturating_sub);
        }
        let Some(logs) = self.table.logs().cloned() else {
            return self.put(key, entry.home, now);
        };
        // One that has come and gone meanwhile.
        if class.is_none() && entry.home.is_none() && !entry.is_logged {
            return Ok(());
        }
        let logged = Logged::new(entry.home, &now);
        logs.put(key, &logged, &self.services.store);
        self.records.push((*key, logged));
        if self.records.len() >= AT_ONCE {
            self.append(&logs)?;
        }
        Ok(())
    }

    /// Appends the records that there are to the active log.
    fn append(&mut self, logs: &Logs) -> Result<()> {
        self.appended += self.records.len();
        let records = std::mem::take(&mut self.records);
        logs.append(self.tx, &records)
    }

    /// Brings entries of the other log into the ZAPs.
    fn flush(&mut self, logs: &Logs) -> Result<()> {
        let mut left = logs.due(self.appended, self.is_first, self.log_limits());
        loop {
            let entries = logs.next(left.min(AT_ONCE));
            if entries.is_empty() {
                return logs.finish(self.tx);
            }
            let kept = self.bring_in(&entries)?;
            // They stay in a log, which must come to an end all the same.
            for (key, logged) in &kept {
                logs.put(key, logged, &self.services.store);
            }
            Logs::note_kept(kept.len());
            logs.append(self.tx, &kept)?;
            logs.flushed(self.tx, &entries, &self.services.store)?;
            left -= entries.len();
        }
    }

    /// Brings entries, in the order of their keys, into the ZAPs; those whose place there cannot be read.
    fn bring_in(&mut self, entries: &[(DedupKey, Logged)]) -> Result<Vec<(DedupKey, Logged)>> {
        let mut kept = Vec::new();
        let mut staying: [Vec<(DedupKey, Logged)>; 3] = Default::default();
        for (key, logged) in entries {
            let value = logged.value();
            match class_of(&value) {
                Some(class) if logged.home.is_none_or(|home| home == class) => {
                    staying[class.index()].push((*key, *logged));
                }
                Some(_) | None if self.is_readable(key, logged) => {
                    self.put(key, logged.home, value)?;
                }
                Some(_) | None => kept.push((*key, *logged)),
            }
        }
        for class in DedupClass::ALL {
            self.put_runs(class, &staying[class.index()], &mut kept)?;
        }
        Ok(kept)
    }

    /// Brings entries that no other ZAP has into that of a class, a leaf at a time.
    fn put_runs(
        &mut self,
        class: DedupClass,
        entries: &[(DedupKey, Logged)],
        kept: &mut Vec<(DedupKey, Logged)>,
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let zap = self.store(class)?.zap.clone();
        let value = |logged: &Logged| Value::bytes(&logged.value().pack());
        let values = entries
            .iter()
            .map(|(key, logged)| (key.as_slice(), value(logged)));
        let values: Vec<(&[u64], Value)> = values.collect();
        let mut ahead = LeavesAhead::default();
        let mut at = 0;
        while let Some((first, _)) = values.get(at) {
            ahead.ask(&zap, entries, at);
            let count = match zap.read_words_leaf(first) {
                Ok(()) => zap.update_words_run(self.tx, &values[at..])?,
                Err(_) => {
                    kept.push(entries[at]);
                    at += 1;
                    continue;
                }
            };
            for (key, logged) in &entries[at..at + count] {
                self.count(class, key, &logged.value(), u64::saturating_add);
            }
            at += count;
        }
        Ok(())
    }

    /// Whether the leaves of the ZAPs that an entry leaves and comes into can be read.
    fn is_readable(&self, key: &DedupKey, logged: &Logged) -> bool {
        let classes = [logged.home, class_of(&logged.value())];
        let mut stores = classes.into_iter().flatten();
        stores.all(|class| {
            let store = self.table.stores[class.index()].as_ref();
            store.is_none_or(|store| store.zap.read_words_leaf(key).is_ok())
        })
    }

    /// Stores an entry in its ZAP; `home`: the one that has an older state of it, which its statistics do not count any
    /// more.
    pub(super) fn put(
        &mut self,
        key: &DedupKey,
        home: Option<DedupClass>,
        now: DedupValue,
    ) -> Result<()> {
        let class = class_of(&now);
        if let Some(home) = home
            && class != Some(home)
            && let Some(store) = &self.table.stores[home.index()]
            && store.zap.lookup_words(key)?.is_some()
        {
            store.zap.remove_words(self.tx, key)?;
            self.changed[home.index()] = true;
        }
        let Some(class) = class else {
            return Ok(());
        };
        let value = Value::bytes(&now.pack());
        let zap = self.store(class)?.zap.clone();
        zap.update_words(self.tx, key, &value)?;
        self.count(class, key, &now, u64::saturating_add);
        Ok(())
    }

    /// The ZAP of a class, made if it is not there.
    fn store(&mut self, class: DedupClass) -> Result<&Store> {
        if self.table.stores[class.index()].is_none() {
            let made = table::create_store(self.mos(), self.tx, self.table.kind)?;
            made.zap.know_keys(&self.services.dedup.keys);
            let name = zap_name(self.table.kind, class);
            let directory = self.table.directory(&self.services.directory);
            directory.add(self.tx, name.as_bytes(), made.zap.object().id().0)?;
            self.changed[class.index()] = true;
            self.table.stores[class.index()] = Some(made);
        }
        let store = self.table.stores[class.index()].as_ref();
        store.ok_or_else(|| crate::PoolError::Damaged("a dedup table without ZAP".to_owned()))
    }

    /// Counts an entry of a class in its statistics, or takes it out of them.
    pub(super) fn count(
        &mut self,
        class: DedupClass,
        key: &DedupKey,
        value: &DedupValue,
        change: fn(u64, u64) -> u64,
    ) {
        let kind = self.table.kind;
        let Some(store) = &mut self.table.stores[class.index()] else {
            return;
        };
        self.changed[class.index()] = true;
        let sizes = sizes_of(&self.services.store, kind, key, value);
        store.histogram.change(&sizes, change);
    }

    /// Stores the statistics of what changed, and what the logs are to have. The table, unless it has come to be empty:
    /// then it goes.
    pub(super) fn finish(mut self) -> Result<Option<Table>> {
        let logs = self.table.logs().cloned();
        let is_changed = self.changed.contains(&true) || logs.is_some();
        if is_changed && self.is_empty()? {
            self.destroy()?;
            return Ok(None);
        }
        if let Some(logs) = logs {
            self.append(&logs)?;
            self.flush(&logs)?;
        }
        self.store_statistics()?;
        Ok(Some(self.table))
    }

    fn is_empty(&self) -> Result<bool> {
        // Mostly something is there in the logs, and the ZAPs need not be asked.
        let is_logged = self.table.logs().is_some_and(|logs| logs.tally().there > 0);
        Ok(!is_logged && self.table.len()? == 0)
    }

    fn store_statistics(&self) -> Result<()> {
        if !self.changed.contains(&true) {
            return Ok(());
        }
        let root = &self.services.directory;
        let statistics = table::statistics(self.mos(), self.tx, root)?;
        for class in DedupClass::ALL {
            if let Some(store) = &self.table.stores[class.index()]
                && self.changed[class.index()]
            {
                let name = zap_name(self.table.kind, class);
                let value = store.histogram.value();
                statistics.update_value(self.tx, name.as_bytes(), &value)?;
            }
        }
        Ok(())
    }

    fn destroy(&mut self) -> Result<()> {
        let (tx, root, mos) = (self.tx, &self.services.directory, self.mos());
        let kind = self.table.kind;
        let key = directory::DEDUP_STATISTICS.as_bytes();
        let statistics = match root.lookup(key)? {
            Some(_) => Some(table::statistics(mos, tx, root)?),
            None => None,
        };
        for class in DedupClass::ALL {
            let Some(store) = self.table.stores[class.index()].take() else {
                continue;
            };
            let name = zap_name(kind, class);
            remove_if_there(tx, self.table.directory(root), &name)?;
            if let Some(statistics) = &statistics {
                remove_if_there(tx, statistics, &name)?;
            }
            mos.free(tx, store.zap.object().id())?;
        }
        if let Some(folder) = self.table.folder.take() {
            for log in folder.logs.iter().flat_map(|logs| logs.objects()) {
                mos.free(tx, log.id())?;
            }
            remove_if_there(tx, root, &format::dedup::directory_name(kind))?;
            mos.free(tx, folder.zap.object().id())?;
            self.services
                .change_feature(tx, &features::FAST_DEDUP, -1)?;
        }
        Ok(())
    }
}

/// How far the leaves of entries that are brought in were read ahead: in windows, of which the next is asked for when
/// the first entry of the last one is come to.
#[derive(Default)]
struct LeavesAhead {
    last: usize,
    end: usize,
}

impl LeavesAhead {
    /// Entry number `at` is next.
    fn ask(&mut self, zap: &Zap, entries: &[(DedupKey, Logged)], at: usize) {
        let leaves = DEDUP_FLUSH_AHEAD.count();
        while self.last <= at && self.end < entries.len() && leaves > 0 {
            let keys = entries[self.end..].iter().map(|(key, _)| key.as_slice());
            // Where that stops nothing is asked for any more: who comes to it learns why.
            let count = zap.prefetch_words(keys, leaves);
            self.last = self.end;
            self.end = match count {
                0 => entries.len(),
                _ => self.end + count,
            };
        }
    }
}

/// The class of an entry that is there.
fn class_of(value: &DedupValue) -> Option<DedupClass> {
    let is_there = value.blocks.iter().any(|block| block.is_stored());
    is_there.then(|| value.class())
}

fn remove_if_there(tx: &Tx, zap: &Zap, name: &str) -> Result<()> {
    if zap.lookup_value(name.as_bytes())?.is_some() {
        zap.remove(tx, name.as_bytes())?;
    }
    Ok(())
}
