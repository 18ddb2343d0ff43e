//! What the pool's own object set keeps for `zpool get` and `zpool status`: dedup and clone figures,
//! checkpoint, removals, the last scrub. What is not there or not as expected counts as nothing.

use admin::{CheckpointReport, DedupReport, LeafWork, LeafWorkState, RemovalReport, VdevReport};
use base::{ByteOrder, ObjectId};
use dmu::{ObjectSet, Zap};
use format::config::{directory, keys};
use format::space_map::SpaceMapPhys;
use pool::{Pool, VdevConfig};

/// A pool's own object set, for looking things up.
pub(super) struct Stored<'a> {
    pool: &'a Pool,
    set: &'a ObjectSet,
    directory: Option<Zap>,
}

/// What deduplication saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DedupFigures {
    /// References to blocks per block, in hundredths; 0 without any.
    pub(super) ratio: u64,
    /// Bytes of the tables.
    pub(super) table_size: u64,
}

/// What cloned blocks save.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CloneFigures {
    pub(super) used: u64,
    pub(super) saved: u64,
}

impl<'a> Stored<'a> {
    pub(super) fn new(pool: &'a Pool) -> Self {
        let set: &ObjectSet = pool.meta_object_set();
        let directory = set
            .object(directory::OBJECT)
            .ok()
            .and_then(|object| Zap::open(&object).ok());
        Self {
            pool,
            set,
            directory,
        }
    }

    fn words(&self, key: &str) -> Option<Vec<u64>> {
        let value = self
            .directory
            .as_ref()?
            .lookup_value(key.as_bytes())
            .ok()??;
        Some(value.to_words())
    }

    fn zap(&self, id: u64) -> Option<Zap> {
        Zap::open(&self.set.object(ObjectId(id)).ok()?).ok()
    }

    /// The txg up to which the last whole scrub went.
    pub(super) fn last_scrubbed_txg(&self) -> u64 {
        self.words("last_scrubbed_txg")
            .and_then(|words| words.first().copied())
            .unwrap_or(0)
    }

    /// Totals of all dedup tables.
    pub(super) fn dedup(&self) -> DedupFigures {
        let Some(directory) = &self.directory else {
            return DedupFigures::default();
        };
        let entries = directory.entries().unwrap_or_default();
        let mut figures = DedupFigures::default();
        for entry in entries
            .iter()
            .filter(|entry| entry.name.starts_with(b"DDT-"))
        {
            if entry.name != directory::DEDUP_STATISTICS.as_bytes() {
                figures.table_size += self.tables_below(entry.value);
            }
        }
        let statistics = self
            .words(directory::DEDUP_STATISTICS)
            .and_then(|words| self.zap(*words.first()?))
            .map(|zap| totals(&zap));
        if let Some((stored, referenced)) = statistics
            && stored > 0
        {
            figures.ratio =
                u64::try_from(u128::from(referenced) * 100 / u128::from(stored)).unwrap_or(0);
        }
        figures
    }

    /// The dedup tables with their histogram.
    pub(super) fn dedup_tables(&self) -> DedupReport {
        let buckets = self.words(directory::DEDUP_STATISTICS);
        let buckets = buckets.and_then(|words| self.zap(*words.first()?));
        let buckets = buckets.map_or_else(Vec::new, |zap| histogram(&zap));
        if buckets.iter().all(|bucket| bucket[0] == 0) {
            return DedupReport::default();
        }
        let (disk_bytes, core_bytes) = self.dedup_sizes();
        DedupReport {
            disk_bytes,
            core_bytes,
            buckets,
        }
    }

    /// Bytes of all tables, on disk and in memory.
    fn dedup_sizes(&self) -> (u64, u64) {
        let directory = self.directory.as_ref();
        let entries = directory
            .and_then(|zap| zap.entries().ok())
            .unwrap_or_default();
        let tables = entries.iter().filter(|entry| {
            entry.name.starts_with(b"DDT-") && entry.name != directory::DEDUP_STATISTICS.as_bytes()
        });
        let mut sums = (0_u64, 0_u64);
        for id in tables.flat_map(|table| self.tables(table.value)) {
            if let Ok(object) = self.set.object(ObjectId(id)) {
                sums.0 += object.used_bytes();
                let info = object.info();
                sums.1 += (info.max_block + 1) * u64::from(info.block_size);
            }
        }
        sums
    }

    /// Notes what the pool has stored about the leaves below a vdev.
    pub(super) fn note_leaves(&self, root: &VdevConfig, vdev: &mut VdevReport) {
        for child in &mut vdev.children {
            self.note_leaves(root, child);
        }
        let guid = base::Guid(vdev.guid);
        let leaves = root.leaves();
        let Some(config) = leaves.iter().find(|leaf| leaf.guid() == guid) else {
            return;
        };
        let zap = config.object(keys::VDEV_ZAP_LEAF);
        let Some(zap) = zap.and_then(|id| self.zap(id.0)) else {
            return;
        };
        let size = vdev.device_size;
        vdev.leaf.initialize = leaf_work(&zap, &INITIALIZE, size);
        vdev.leaf.trim = leaf_work(&zap, &TRIM, size);
        // What is stored is of the last txg.
        if let Some(trim) = self.pool.leaf_trim(guid) {
            let state = work_state(trim.state as u64);
            vdev.leaf.trim = work_of(state, trim.offset, trim.time_s, size);
        }
    }

    /// Bytes of a table, or of those that a table of tables names.
    fn tables_below(&self, id: u64) -> u64 {
        let own = |id: u64| {
            self.set
                .object(ObjectId(id))
                .map_or(0, |object| object.used_bytes())
        };
        self.tables(id).into_iter().map(own).sum()
    }

    /// A table, or those that a table of tables names.
    fn tables(&self, id: u64) -> Vec<u64> {
        let Some(zap) = self.zap(id) else {
            return vec![id];
        };
        // A table's own entries have keys of words; a folder of tables has a version.
        if !matches!(zap.lookup(b"version"), Ok(Some(_))) {
            return vec![id];
        }
        let entries = zap.entries().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry.name.starts_with(b"DDT-") && !entry.name.starts_with(b"DDT-log-"))
            .map(|entry| entry.value)
            .collect()
    }

    /// Totals of the reference tables of all vdevs.
    pub(super) fn clones(&self) -> CloneFigures {
        const USED: usize = 5;
        const SAVED: usize = 6;
        const SIZE: usize = 7 * 8;
        let mut figures = CloneFigures::default();
        for top in &self.pool.config().root.children {
            let key = format!("com.fudosecurity:brt:vdev:{}", top.id().0);
            let object = self
                .words(&key)
                .and_then(|words| self.set.object(ObjectId(*words.first()?)).ok());
            let Some(object) = object else { continue };
            object.with_bonus(|bonus| {
                if bonus.len() >= SIZE {
                    let word =
                        |at: usize| format::record::get_at::<u64>(bonus, 8 * at, ByteOrder::NATIVE);
                    figures.used += word(USED);
                    figures.saved += word(SAVED);
                }
            });
        }
        figures
    }

    /// The checkpoint, if there is one.
    pub(super) fn checkpoint(&self) -> Option<CheckpointReport> {
        const TIMESTAMP: usize = 4;
        let uberblock = self.words(directory::CHECKPOINT)?;
        let config = self.pool.config();
        let consumes = config.root.children.iter().map(|top| {
            let map = top
                .object(keys::VDEV_ZAP_TOP)
                .and_then(|id| self.zap(id.0))
                .and_then(|zap| zap.lookup(b"com.delphix:pool_checkpoint_sm").ok()?)
                .and_then(|id| self.set.object(ObjectId(id)).ok());
            map.map_or(0, |map| map.with_bonus(freed_in_map))
        });
        Some(CheckpointReport {
            created: *uberblock.get(TIMESTAMP)?,
            consumes: consumes.sum(),
        })
    }

    /// The last removal of a vdev.
    pub(super) fn removal(&self) -> Option<RemovalReport> {
        const NONE: u64 = 0;
        const FINISHED: u64 = 2;
        /// Bytes of a mapping's entry.
        const ENTRY_SIZE: u64 = 24;
        let words = self.words("com.delphix:removing")?;
        let &[state, removing, last, start, end, _to_copy, copied] = words.as_slice() else {
            return None;
        };
        if state == NONE {
            return None;
        }
        let config = self.pool.config();
        let entries: u64 = config
            .root
            .children
            .iter()
            .filter_map(|top| self.set.object(top.object(keys::INDIRECT_OBJECT)?).ok())
            .map(|map| map.with_bonus(mapping_entries))
            .sum();
        Some(RemovalReport {
            vdev: if state == FINISHED { last } else { removing },
            started: start,
            ended: (state == FINISHED).then_some(end),
            copied,
            mapping_memory: entries * ENTRY_SIZE,
        })
    }
}

/// The names of a kind of work in the table of a leaf: state, the next byte, time.
type WorkNames = [&'static str; 3];

const INITIALIZE: WorkNames = [
    "com.delphix:vdev_initialize_state",
    "com.delphix:next_offset_to_initialize",
    "com.delphix:vdev_initialize_action_time",
];
const TRIM: WorkNames = [
    "org.zfsonlinux:vdev_trim_state",
    "org.zfsonlinux:next_offset_to_trim",
    "org.zfsonlinux:vdev_trim_action_time",
];

/// How work on the free space of a leaf of `size` bytes stands.
fn leaf_work(zap: &Zap, names: &WorkNames, size: u64) -> LeafWork {
    let number = |name: &str| zap.lookup(name.as_bytes()).ok().flatten().unwrap_or(0);
    let [state, next, time] = names.map(number);
    work_of(work_state(state), next, time, size)
}

const fn work_state(number: u64) -> LeafWorkState {
    match number {
        1 => LeafWorkState::Active,
        3 => LeafWorkState::Suspended,
        4 => LeafWorkState::Complete,
        _ => LeafWorkState::None,
    }
}

fn work_of(state: LeafWorkState, next: u64, time: u64, size: u64) -> LeafWork {
    let share = u128::from(next) * 100 / u128::from(size.max(1));
    LeafWork {
        state,
        percent: match state {
            LeafWorkState::Complete => 100,
            LeafWorkState::None | LeafWorkState::Active | LeafWorkState::Suspended => {
                u64::try_from(share.min(100)).unwrap_or(100)
            }
        },
        left: match state {
            LeafWorkState::Active | LeafWorkState::Suspended => size.saturating_sub(next),
            LeafWorkState::None | LeafWorkState::Complete => 0,
        },
        time,
    }
}

/// How many entries a mapping has.
fn mapping_entries(bonus: &[u8]) -> u64 {
    const ENTRIES_AT: usize = 16;
    if bonus.len() < ENTRIES_AT + 8 {
        return 0;
    }
    format::record::get_at(bonus, ENTRIES_AT, ByteOrder::NATIVE)
}

/// What a map of freed space holds.
fn freed_in_map(bonus: &[u8]) -> u64 {
    if bonus.len() < SpaceMapPhys::SIZE_PLAIN {
        return 0;
    }
    let allocated = format::record::get_at::<u64>(bonus, 16, ByteOrder::NATIVE).cast_signed();
    allocated.min(0).unsigned_abs()
}

/// The sum of all histograms.
fn histogram(statistics: &Zap) -> Vec<[u64; 8]> {
    let mut sum: Vec<[u64; 8]> = Vec::new();
    for entry in statistics.entries().unwrap_or_default() {
        let Ok(Some(value)) = statistics.lookup_value(&entry.name) else {
            continue;
        };
        let words = value.to_words();
        let (buckets, _) = words.as_chunks::<8>();
        // No count of references has more bits.
        for (at, bucket) in buckets.iter().take(64).enumerate() {
            if sum.len() <= at {
                sum.push([0; 8]);
            }
            for (total, word) in sum[at].iter_mut().zip(bucket) {
                *total = total.saturating_add(*word);
            }
        }
    }
    sum
}

/// Bytes stored once, and bytes as referenced, over all histograms.
fn totals(statistics: &Zap) -> (u64, u64) {
    const WORDS_PER_BUCKET: usize = 8;
    const STORED: usize = 3;
    const REFERENCED: usize = 7;
    let mut sums = (0u64, 0u64);
    for entry in statistics.entries().unwrap_or_default() {
        let Ok(Some(value)) = statistics.lookup_value(&entry.name) else {
            continue;
        };
        for bucket in value.to_words().chunks_exact(WORDS_PER_BUCKET) {
            sums.0 = sums.0.saturating_add(bucket[STORED]);
            sums.1 = sums.1.saturating_add(bucket[REFERENCED]);
        }
    }
    sums
}
