//! The dedup tables: which content is stored where, and how many pointers lead to it.
//!
//! The pipeline asks for each block of a dataset with `dedup` on ([`DedupSource`]); what it finds is kept for the
//! pass with what is counted. Blocks that a table counts and that nobody refers to any more come here instead of being
//! freed. At the end of each pass both are booked ([`settling`]), in the txg, as the rest of the pool's own objects:
//! references that were made first, then those that went.
//!
//! A table of the newer kind appends what changes to a log ([`logs`]), which is brought into its ZAPs later.
//!
//! Invariant: what an entry counts are the pointers with the mark to its block that datasets, deadlists and lists of
//! later frees have together, at the end of each txg. A block that no entry has is its pointer's alone.

mod booking;
mod histogram;
mod logs;
pub(crate) mod pruning;
mod settling;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::metrics::{Counter, Gauge, registry};
use codec::Checksum;
use dmu::{KeyMemory, ObjectSet, Zap};
use format::BlockPointer;
use format::dedup::{DedupBlock, DedupClass, DedupForm, DedupKey, DedupValue, key_of};
use pipeline::{DedupAnswer, DedupSource};

use crate::allocation::limits::Limits;
use crate::blocks::PipelineStore;
use crate::error::Result;
pub(crate) use histogram::{BUCKET_WORDS, Histogram};
use pruning::Candidate;
use table::Table;

static TABLES: LockClass = LockClass::new("pool.dedup_tables", rank::LAST + 7);
static PRUNE: LockClass = LockClass::new("pool.dedup_prune", rank::LAST + 9);
static PENDING: LockClass = LockClass::new("pool.dedup_changes", rank::LAST + 8);

/// What can be watched here, for the whole process.
struct Meters {
    /// Entries that the pass under way has looked at.
    pending: Arc<Gauge>,
    /// Blocks that leaked because the entry that counts them cannot be read.
    leaked: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    pending: registry().gauge("pool.dedup_pending"),
    leaked: registry().counter("pool.dedup_leaked"),
});

/// What a new entry takes on disk, as far as a quota is concerned.
const ENTRY_BYTES: u64 = 256;

/// A table's number (that of its checksum), and the key in it.
type Name = (u8, DedupKey);

/// An entry as a pass changes it.
#[derive(Clone, Copy)]
struct Entry {
    /// The ZAP that has it, or an older state of it.
    home: Option<DedupClass>,
    /// A log has it.
    is_logged: bool,
    /// As its table has it.
    before: DedupValue,
    /// As it will be.
    now: DedupValue,
}

/// What the pass under way looked at and dropped.
#[derive(Default)]
struct Pending {
    entries: HashMap<Name, Entry>,
    dropped: Vec<BlockPointer>,
    /// Entries that are to go.
    pruned: Vec<Candidate>,
}

/// The dedup tables of a pool.
pub(crate) struct DedupTables {
    /// By the number of their checksum. Only the sync changes them.
    tables: RwLock<BTreeMap<u8, Arc<Table>>>,
    pending: Mutex<Pending>,
    /// Where their ZAPs keep which keys their leaves have.
    keys: Arc<KeyMemory>,
    /// New tables are of the newer kind.
    fast: AtomicBool,
    /// A scan is under way while devices lack something: nothing new refers to what is stored, for the scan may have
    /// passed the place already from which that alone is found.
    is_careful: AtomicBool,
    /// How many entries the txg may still add, by the quota of the tables.
    room: AtomicU64,
    /// Entries that the next txg takes out.
    prune: Mutex<Vec<Candidate>>,
    /// How many were taken out since the pool was opened.
    pruned: AtomicU64,
}

impl DedupTables {
    /// No tables.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            tables: RwLock::new(&TABLES, BTreeMap::new()),
            pending: Mutex::new(&PENDING, Pending::default()),
            keys: Arc::default(),
            fast: AtomicBool::new(false),
            is_careful: AtomicBool::new(false),
            room: AtomicU64::new(u64::MAX),
            prune: Mutex::new(&PRUNE, Vec::new()),
            pruned: AtomicU64::new(0),
        })
    }

    /// Reads the tables that the MOS directory names.
    pub(crate) fn load(&self, mos: &ObjectSet, root: &Zap, store: &PipelineStore) -> Result<()> {
        let tables = table::load(mos, root, store)?;
        let stores = tables
            .iter()
            .flat_map(|table| table.stores.iter().flatten());
        stores.for_each(|store| store.zap.know_keys(&self.keys));
        let tables = tables
            .into_iter()
            .map(|table| (table.kind.id(), Arc::new(table)));
        *self.tables.write() = tables.collect();
        Ok(())
    }

    /// A pass begins: whether new tables are of the newer kind, and whether a scan must find what is stored by the
    /// pointers that there are.
    pub(crate) fn begin(&self, fast: bool, is_careful: bool) {
        self.fast.store(fast, Ordering::Relaxed);
        self.is_careful.store(is_careful, Ordering::Relaxed);
    }

    /// A txg begins: how many bytes the tables may take, none for any, how much memory what is known of their keys, and
    /// what is to be pruned.
    pub(crate) fn begin_txg(&self, quota_bytes: Option<u64>, keys_bytes: u64) {
        self.keys
            .set_limit(usize::try_from(keys_bytes).unwrap_or(usize::MAX));
        let tables = self.tables.read();
        let taken = tables.values().fold(0_u64, |sum, table| {
            let coming = table.coming().saturating_mul(ENTRY_BYTES);
            sum.saturating_add(table.disk_bytes())
                .saturating_add(coming)
        });
        drop(tables);
        let left = quota_bytes.map(|quota| quota.saturating_sub(taken) / ENTRY_BYTES);
        self.room.store(left.unwrap_or(u64::MAX), Ordering::Relaxed);
        let pruned = std::mem::take(&mut *self.prune.lock());
        self.pending.lock().pruned = pruned;
    }

    /// There is one more pointer to a block; false if no table counts it.
    pub(crate) fn refer_again(&self, pointer: &BlockPointer) -> bool {
        let counted = self.with_entry(pointer, |entry| {
            let block = entry
                .now
                .block_of(pointer)
                .filter(|block| block.references > 0)?;
            block.references = block.references.saturating_add(1);
            Some(())
        });
        counted.flatten().is_some()
    }

    /// A pointer to a block that a table counts is no more.
    pub(crate) fn dropped(&self, pointer: &BlockPointer) {
        self.pending.lock().dropped.push(*pointer);
    }

    /// Tells the limits what dedup saves.
    pub(crate) fn tell(&self, limits: &Limits) {
        let tables = self.tables.read();
        let (mut stored, mut referenced) = (0_u64, 0_u64);
        for table in tables.values() {
            let sums = table.sums();
            stored = stored.saturating_add(sums.stored);
            referenced = referenced.saturating_add(sums.referenced);
        }
        limits.set_saved(referenced.saturating_sub(stored));
        let percent = (u128::from(referenced) * 100).checked_div(u128::from(stored));
        limits.set_dedup_percent(
            percent.map_or(100, |percent| u64::try_from(percent).unwrap_or(u64::MAX)),
        );
    }

    /// What the entries add up to that the tables' logs have: no stored statistics count them.
    pub(crate) fn logged(&self) -> Histogram {
        let mut sum = Histogram::default();
        for table in self.tables.read().values() {
            if let Some(logs) = table.logs() {
                sum.merge(&logs.histogram());
            }
        }
        sum
    }

    fn table(&self, kind: Checksum) -> Option<Arc<Table>> {
        self.tables.read().get(&kind.id()).cloned()
    }

    /// The form of a table's values, also of one that is not there yet.
    fn form_of(&self, table: Option<&Table>) -> DedupForm {
        match table {
            Some(table) => table.form,
            None if self.fast.load(Ordering::Relaxed) => DedupForm::Flat,
            None => DedupForm::Legacy,
        }
    }

    /// An entry as its table has it. Reads.
    fn load_entry(&self, kind: Checksum, key: &DedupKey) -> Result<Entry> {
        let table = self.table(kind);
        let form = self.form_of(table.as_deref());
        let found = match &table {
            Some(table) => table.lookup(key)?,
            None => None,
        };
        let (home, value, is_logged) = match found {
            Some(found) => (found.home, found.value, found.is_logged),
            None => (None, DedupValue::new(form), false),
        };
        Ok(Entry {
            home,
            is_logged,
            before: value,
            now: value,
        })
    }

    /// Looks at the entry of a block, which stays known until the end of the pass.
    fn with_entry<R>(
        &self,
        wanted: &BlockPointer,
        look: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let kind = wanted.checksum().ok()?;
        let name = (kind.id(), key_of(wanted));
        if let Some(entry) = self.pending.lock().entries.get_mut(&name) {
            return Some(look(entry));
        }
        // Not behind the lock: others read as well.
        let loaded = self.load_entry(kind, &name.1).ok()?;
        let mut pending = self.pending.lock();
        Some(look(pending.entries.entry(name).or_insert(loaded)))
    }
}

/// The pointer to an entry's block, in place of one that names it.
fn pointer_to(wanted: &BlockPointer, block: &DedupBlock) -> BlockPointer {
    let mut pointer = *wanted;
    block.give_addresses(&mut pointer);
    pointer.set_birth(wanted.birth(), base::Txg(block.birth));
    pointer
}

impl DedupSource for DedupTables {
    fn find(&self, wanted: &BlockPointer, copies: u8) -> DedupAnswer {
        let block = self.with_entry(wanted, |entry| {
            entry.now.block_mut(copies).map(|block| *block)
        });
        // What cannot be read counts nothing, and is not changed.
        let Some(Some(block)) = block else {
            return DedupAnswer::Declined;
        };
        let careful = self.is_careful.load(Ordering::Relaxed);
        match block.is_stored() {
            // Nobody refers to it any more; that is not booked yet.
            true if block.references == 0 => DedupAnswer::Declined,
            true if careful || block.copies() < usize::from(copies) => DedupAnswer::Declined,
            true => DedupAnswer::Stored(pointer_to(wanted, &block)),
            // The tables have no room for more: what is in them is counted on.
            false if self.room.load(Ordering::Relaxed) == 0 => DedupAnswer::Declined,
            false => DedupAnswer::Absent,
        }
    }

    fn refer(&self, stored: &BlockPointer, copies: u8) {
        self.with_entry(stored, |entry| {
            if let Some(block) = entry.now.block_mut(copies) {
                block.references = block.references.saturating_add(1);
            }
        });
    }

    fn enter(&self, stored: &BlockPointer, copies: u8) -> Option<BlockPointer> {
        let entered = self.with_entry(stored, |entry| {
            let block = entry.now.block_mut(copies)?;
            if block.is_stored() {
                block.references = block.references.saturating_add(1);
                return Some(pointer_to(stored, block));
            }
            *block = DedupBlock {
                references: 1,
                ..DedupBlock::of(stored)
            };
            let one_less = |room: u64| (room != u64::MAX).then(|| room.saturating_sub(1));
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.room.fetch_update(set, fetch, one_less);
            None
        });
        entered.flatten()
    }
}

/// The tables, for the pipeline: they read through it, and so must not be kept by it.
pub(crate) struct WeakTables(Weak<DedupTables>);

impl WeakTables {
    pub(crate) fn of(tables: &Arc<DedupTables>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(tables)))
    }
}

impl DedupSource for WeakTables {
    fn find(&self, wanted: &BlockPointer, copies: u8) -> DedupAnswer {
        let tables = self.0.upgrade();
        tables.map_or(DedupAnswer::Declined, |tables| tables.find(wanted, copies))
    }

    fn refer(&self, stored: &BlockPointer, copies: u8) {
        if let Some(tables) = self.0.upgrade() {
            tables.refer(stored, copies);
        }
    }

    fn enter(&self, stored: &BlockPointer, copies: u8) -> Option<BlockPointer> {
        self.0.upgrade()?.enter(stored, copies)
    }
}

#[cfg(test)]
mod tests;
