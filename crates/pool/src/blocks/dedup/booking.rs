//! Changing one table: entries come, change, move between its ZAPs and go, and the statistics follow.

use codec::Checksum;
use dmu::{ObjectSet, Tx, Zap};
use format::config::directory;
use format::dedup::{DedupClass, DedupKey, DedupKeyWord, DedupValue, zap_name};
use format::features;
use format::zap::Value;

use super::table::{self, BUCKET_WORDS, Folder, Histogram, Store, Table};
use super::{DedupTables, Entry};
use crate::error::Result;
use crate::pool::services::PoolServices;

/// A table that is being changed.
pub(super) struct Booking<'a> {
    pub(super) services: &'a PoolServices,
    pub(super) tx: &'a Tx,
    pub(super) table: Table,
    /// Which ZAPs changed.
    changed: [bool; 3],
}

impl<'a> Booking<'a> {
    pub(super) const fn new(services: &'a PoolServices, tx: &'a Tx, table: Table) -> Self {
        Self {
            services,
            tx,
            table,
            changed: [false; 3],
        }
    }

    fn mos(&self) -> &'a ObjectSet {
        &self.services.mos
    }

    /// Makes a table of the newer kind what it is: with a folder and logs.
    pub(super) fn make_folder(&mut self) -> Result<()> {
        let root = &self.services.directory;
        self.table.folder = Some(Folder::create(self.mos(), self.tx, root, self.table.kind)?);
        self.services
            .change_feature(self.tx, &features::FAST_DEDUP, 1)?;
        Ok(())
    }

    /// Stores an entry as it is now; one without blocks goes.
    pub(super) fn apply(&mut self, key: &DedupKey, entry: &Entry) -> Result<()> {
        if let Some(home) = entry.home {
            self.count(home, key, &entry.before, u64::saturating_sub);
        }
        self.put(key, entry.home, entry.now)
    }

    /// Stores an entry as a log has it; `home`: the ZAP that has an older state of it. The statistics of that count it
    /// no more: OpenZFS takes it out when it writes to the log.
    pub(super) fn put(
        &mut self,
        key: &DedupKey,
        home: Option<DedupClass>,
        mut now: DedupValue,
    ) -> Result<()> {
        let is_left = now.blocks.iter().any(|block| block.is_stored());
        let class = is_left.then(|| now.class());
        if let Some(home) = home
            && class != Some(home)
            && let Some(store) = &self.table.stores[home.index()]
        {
            store.zap.remove_words(self.tx, key)?;
            self.changed[home.index()] = true;
        }
        let Some(class) = class else {
            return Ok(());
        };
        if home != Some(class) {
            now.class_start = self.services.clock.now_s();
        }
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
        let words = sizes_of(self.services, kind, key, value);
        let Some(bucket) = words[BUCKET_REFERENCES].checked_ilog2() else {
            return;
        };
        let Histogram(sums) = &mut store.histogram;
        let at = bucket as usize * BUCKET_WORDS;
        for (sum, word) in sums.iter_mut().skip(at).zip(words) {
            *sum = change(*sum, word);
        }
    }

    /// Stores the statistics of what changed. The table, unless it has come to be empty: then it goes.
    pub(super) fn finish(mut self) -> Result<Option<Table>> {
        if !self.changed.contains(&true) {
            return Ok(Some(self.table));
        }
        if self.table.len()? == 0 {
            self.destroy()?;
            return Ok(None);
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
        Ok(Some(self.table))
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
            for log in &folder.logs {
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

/// Which word of a bucket counts references.
const BUCKET_REFERENCES: usize = 4;

fn remove_if_there(tx: &Tx, zap: &Zap, name: &str) -> Result<()> {
    if zap.lookup_value(name.as_bytes())?.is_some() {
        zap.remove(tx, name.as_bytes())?;
    }
    Ok(())
}

/// What an entry adds to the statistics: blocks, their logical, physical and allocated bytes, and the same four as
/// referenced.
fn sizes_of(
    services: &PoolServices,
    kind: Checksum,
    key: &DedupKey,
    value: &DedupValue,
) -> [u64; BUCKET_WORDS] {
    let [.., properties] = *key;
    let at = DedupKeyWord::AT;
    let bytes = |sectors: u64| (sectors + 1) * 512;
    let lsize = bytes(at.logical_size.get(properties));
    let psize = bytes(at.physical_size.get(properties));
    let mut words = [0_u64; BUCKET_WORDS];
    for block in value.blocks.iter().filter(|block| block.is_stored()) {
        let dsize = DedupTables::charge(&services.store, block, &(kind.id(), *key));
        let references = block.references;
        let once = [1, lsize, psize, dsize];
        let each = once.map(|size| size.saturating_mul(references));
        for (word, size) in words.iter_mut().zip(once.into_iter().chain(each)) {
            *word = word.saturating_add(size);
        }
    }
    words
}
