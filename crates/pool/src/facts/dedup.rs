//! Dedup tables: what they hold, and what they take.

use base::ObjectId;
use dmu::Zap;
use format::config::directory;

use super::Stored;
use crate::blocks::dedup::{BUCKET_WORDS, Histogram};

/// Where a bucket has the bytes that are allocated, …
const ALLOCATED: usize = 3;
/// … and those that there would be if each reference had blocks of its own.
const REFERENCED: usize = 7;
/// Bucket i counts blocks with 2^i references and more: no count of references has more bits.
const BUCKETS_MAX: usize = 64;
/// The log of a table.
const LOG_PREFIX: &str = "DDT-log-";
/// What a folder of tables has, and no table.
const VERSION: &str = "version";

/// Which objects of a table are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum With {
    /// Its ZAPs alone.
    Zaps,
    /// Its logs as well.
    Logs,
}

/// All dedup tables of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DedupTables {
    /// Bytes that they take on disk.
    pub disk_bytes: u64,
    /// Bytes that they would take in memory.
    pub core_bytes: u64,
    /// Blocks by the number of their references, bucket i for 2^i and more: how many, their logical, physical and
    /// allocated bytes, and the same four as referenced.
    pub buckets: Vec<[u64; BUCKET_WORDS]>,
}

impl DedupTables {
    /// Whether they hold nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket[0] == 0)
    }

    /// References to blocks per block, in hundredths and by bytes; 0 without any.
    #[must_use]
    pub fn ratio(&self) -> u64 {
        let referenced = u128::from(self.sum(REFERENCED)) * 100;
        let ratio = referenced.checked_div(u128::from(self.sum(ALLOCATED)));
        ratio
            .and_then(|ratio| u64::try_from(ratio).ok())
            .unwrap_or(0)
    }

    /// Bytes that there would be more if each reference had blocks of its own.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.sum(REFERENCED).saturating_sub(self.sum(ALLOCATED))
    }

    /// With what the logs of the tables have, which no stored statistics count.
    pub(crate) fn with(mut self, logged: &Histogram) -> Self {
        if logged.0.iter().any(|word| *word != 0) {
            add(&mut self.buckets, &logged.0);
        }
        self
    }

    fn sum(&self, word: usize) -> u64 {
        let words = self.buckets.iter().map(|bucket| bucket[word]);
        words.fold(0, u64::saturating_add)
    }
}

impl Stored<'_> {
    /// How many blocks the dedup tables hold, and nothing of what the tables take.
    pub(crate) fn dedup_statistics(&self) -> DedupTables {
        let statistics = self
            .object_named(directory::DEDUP_STATISTICS)
            .and_then(|id| self.zap(id));
        DedupTables {
            buckets: statistics.map_or_else(Vec::new, |zap| histogram(&zap)),
            ..DedupTables::default()
        }
    }

    /// What the dedup tables hold.
    pub(super) fn dedup_tables(&self) -> DedupTables {
        let mut found = self.dedup_statistics();
        for id in self.dedup_objects(With::Logs) {
            if let Some(object) = self.object(id) {
                found.disk_bytes += object.used_bytes();
                let info = object.info();
                found.core_bytes += (info.max_block + 1) * u64::from(info.block_size);
            }
        }
        found
    }

    /// The objects of the dedup tables: their ZAPs, and their logs, too, or not.
    pub(super) fn dedup_objects(&self, with: With) -> Vec<ObjectId> {
        let directory = self.directory.as_ref();
        let entries = directory.and_then(|zap| zap.entries().ok());
        let entries = entries.unwrap_or_default();
        let tables = entries.iter().filter(|entry| {
            entry.name.starts_with(directory::DEDUP_PREFIX.as_bytes())
                && entry.name != directory::DEDUP_STATISTICS.as_bytes()
        });
        let of_table = |table: &dmu::ZapEntry| self.tables(ObjectId(table.value), with);
        tables.flat_map(of_table).collect()
    }

    /// A table, or those that a folder of tables names.
    fn tables(&self, id: ObjectId, with: With) -> Vec<ObjectId> {
        let Some(zap) = self.zap(id) else {
            return vec![id];
        };
        // A table's own entries have keys of words.
        if !matches!(zap.lookup(VERSION.as_bytes()), Ok(Some(_))) {
            return vec![id];
        }
        let entries = zap.entries().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                entry.name.starts_with(directory::DEDUP_PREFIX.as_bytes())
                    && (with == With::Logs || !entry.name.starts_with(LOG_PREFIX.as_bytes()))
            })
            .map(|entry| ObjectId(entry.value))
            .collect()
    }
}

/// The sum of all histograms.
fn histogram(statistics: &Zap) -> Vec<[u64; BUCKET_WORDS]> {
    let mut sum: Vec<[u64; BUCKET_WORDS]> = Vec::new();
    for entry in statistics.entries().unwrap_or_default() {
        let Ok(Some(value)) = statistics.lookup_value(&entry.name) else {
            continue;
        };
        add(&mut sum, &value.to_words());
    }
    sum
}

/// Adds the words of a histogram to a sum.
fn add(sum: &mut Vec<[u64; BUCKET_WORDS]>, words: &[u64]) {
    let (buckets, _) = words.as_chunks::<BUCKET_WORDS>();
    for (at, bucket) in buckets.iter().take(BUCKETS_MAX).enumerate() {
        if sum.len() <= at {
            sum.push([0; BUCKET_WORDS]);
        }
        for (total, word) in sum[at].iter_mut().zip(bucket) {
            *total = total.saturating_add(*word);
        }
    }
}
