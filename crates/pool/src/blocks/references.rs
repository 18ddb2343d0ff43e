//! The block reference tables: which stored blocks several pointers share, and how many.
//!
//! A copy between files may refer to the blocks of its source (`dmu::BlockWrite::shared`). What is born so is one
//! reference more, what is killed one less, and space goes back with the last.
//!
//! Invariant: a block's entry counts the pointers beyond the first that the datasets, deadlists and lists of later
//! frees have together, at the end of each txg; without an entry there is one. It holds because both are counted from
//! what the sync of a txg writes and drops, and because of the order: all references of a pass are added before any
//! block of that pass is freed ([`settling`]). A free that comes before its txg's references
//! are known waits for them: who means to refer to a block says so while the txg is open
//! ([`BlockReferenceTable::expect`]).

mod settling;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{ByteOrder, ObjectId, Txg, VdevId};
use dmu::{Object, ObjectSet, Tx, Zap};
use format::BlockPointer;
use format::brt::{BlockReferencePhys, CountForm, REGION_BYTES, entry_count, order_code};
use format::config::directory;
use format::record::get_at;
use vdev::VdevTree;

use crate::error::{ImportBlocker, PoolError, Result};

static TABLES: LockClass = LockClass::new("pool.references", rank::POOL + 40);
static REGIONS: LockClass = LockClass::new("pool.reference_regions", rank::LAST + 5);
static WAITING: LockClass = LockClass::new("pool.reference_changes", rank::LAST + 6);

/// Where a block begins: its first address.
type Address = (VdevId, u64);

/// The table of one top-level vdev.
struct Table {
    counts: Arc<Object>,
    entries: Zap,
    header: BlockReferencePhys,
    /// How its entries are written: as those are that it had when it was opened.
    form: CountForm,
}

/// What is asked on many threads: where entries are, or will be.
#[derive(Default)]
struct Regions {
    /// Entries by region.
    counts: BTreeMap<VdevId, Vec<u16>>,
    /// Blocks that an open or syncing txg means to refer to, and the newest such txg.
    expected: HashMap<Address, Txg>,
}

impl Regions {
    fn covers(&self, address: Address) -> bool {
        let region = usize::try_from(address.1 / REGION_BYTES).unwrap_or(usize::MAX);
        let counts = self.counts.get(&address.0);
        counts.is_some_and(|counts| counts.get(region).is_some_and(|count| *count != 0))
            || self.expected.contains_key(&address)
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.expected.is_empty()
    }
}

/// What the pass under way added and dropped.
#[derive(Default)]
struct Waiting {
    added: Vec<BlockPointer>,
    dropped: Vec<BlockPointer>,
}

/// The reference tables of a pool.
pub(crate) struct BlockReferenceTable {
    tables: Mutex<BTreeMap<VdevId, Table>>,
    regions: RwLock<Regions>,
    waiting: Mutex<Waiting>,
    /// Whether any block is or will be shared: most pools need not look further.
    in_use: AtomicBool,
}

/// How often a block was referenced before, and is now.
struct Change {
    before: Option<u64>,
    now: u64,
    bytes: u64,
}

fn address_of(pointer: &BlockPointer) -> Option<Address> {
    let first = pointer.dva(0)?;
    Some((first.vdev, first.offset))
}

/// Only data of files and volumes are ever shared.
fn is_data(pointer: &BlockPointer) -> bool {
    !pointer.is_hole()
        && !pointer.is_embedded()
        && pointer.level() == 0
        && !pointer.object_type().is_metadata()
}

impl BlockReferenceTable {
    /// No tables.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::new(&TABLES, BTreeMap::new()),
            regions: RwLock::new(&REGIONS, Regions::default()),
            waiting: Mutex::new(&WAITING, Waiting::default()),
            in_use: AtomicBool::new(false),
        })
    }

    /// Reads the tables that the MOS directory names. Those that do not say so themselves are of the `usual` form.
    pub(crate) fn load(
        &self,
        mos: &ObjectSet,
        root: &Zap,
        vdevs: &VdevTree,
        usual: CountForm,
    ) -> Result<()> {
        let mut tables = self.tables.lock();
        let mut regions = BTreeMap::new();
        for entry in root.entries()? {
            let Ok(name) = std::str::from_utf8(&entry.name) else {
                continue;
            };
            let Some(vdev) = name.strip_prefix(directory::BLOCK_REFERENCE_PREFIX) else {
                continue;
            };
            let damaged = |what: &str| PoolError::Damaged(format!("{name} {what}"));
            let vdev = vdev.parse().map_err(|_| damaged("names no vdev"))?;
            let top = vdevs.top(VdevId(vdev));
            let top = top.map_err(|_| damaged("names a vdev that is not there"))?;
            let table = Table::open(mos, ObjectId(entry.value), name, usual)?;
            regions.insert(VdevId(vdev), table.regions(top.asize())?);
            tables.insert(VdevId(vdev), table);
        }
        drop(tables);
        let mut state = self.regions.write();
        state.counts = regions;
        self.in_use.store(!state.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Whether a block may have references besides the one that is given up: then freeing it needs the table.
    pub(crate) fn may_be_shared(&self, pointer: &BlockPointer) -> bool {
        if !self.in_use.load(Ordering::Acquire) || !is_data(pointer) {
            return false;
        }
        let Some(address) = address_of(pointer) else {
            return false;
        };
        self.regions.read().covers(address)
    }

    /// Says that the sync of `txg`, which the caller holds open, may refer to a block from one more place.
    pub(crate) fn expect(&self, txg: Txg, pointer: &BlockPointer) {
        let Some(address) = address_of(pointer) else {
            return;
        };
        let mut regions = self.regions.write();
        let newest = regions.expected.entry(address).or_insert(txg);
        *newest = txg.max(*newest);
        self.in_use.store(true, Ordering::Release);
    }

    /// A pointer to a block that was stored before has been written.
    pub(crate) fn added(&self, pointer: &BlockPointer) {
        self.waiting.lock().added.push(*pointer);
    }

    /// Fails if a reference was made to a block that nobody named before: its space may be free already.
    fn check_named(&self, added: &[BlockPointer]) -> Result<()> {
        let regions = self.regions.read();
        let mut addresses = added.iter().filter_map(address_of);
        match addresses.find(|address| !regions.expected.contains_key(address)) {
            None => Ok(()),
            Some((vdev, offset)) => Err(PoolError::UnnamedReference { vdev, offset }),
        }
    }

    /// A pointer to a block that [may be shared](Self::may_be_shared) is no more.
    pub(crate) fn dropped(&self, pointer: &BlockPointer) {
        self.waiting.lock().dropped.push(*pointer);
    }

    /// Forgets what `txg`, which has synced, and older ones meant to refer to.
    pub(crate) fn synced(&self, txg: Txg) {
        if !self.in_use.load(Ordering::Acquire) {
            return;
        }
        let mut regions = self.regions.write();
        regions.expected.retain(|_, newest| *newest > txg);
        self.in_use.store(!regions.is_empty(), Ordering::Release);
    }
}

impl Table {
    fn open(mos: &ObjectSet, id: ObjectId, name: &str, usual: CountForm) -> Result<Self> {
        let damaged = |what: &str| PoolError::Damaged(format!("{name} {what}"));
        let counts = mos.object(id)?;
        if usize::from(counts.info().bonus_len) < BlockReferencePhys::SIZE {
            return Err(damaged("has no header"));
        }
        let header =
            counts.with_bonus(|bonus| BlockReferencePhys::decode_padded(bonus, ByteOrder::NATIVE));
        if header.byte_order != order_code(ByteOrder::NATIVE) || header.region_bytes != REGION_BYTES
        {
            return Err(PoolError::ReadOnlyPossible(ImportBlocker::BlockCloning));
        }
        let entries = Zap::open(&mos.object(ObjectId(header.entries))?)?;
        // Where none can be read, whoever asks for one is told so.
        let first = entries.cursor(0).next_entry().ok().flatten();
        let form = first.and_then(|first| CountForm::of(first.integer_size, first.count));
        let form = form.unwrap_or(usual);
        Ok(Self {
            counts,
            entries,
            header,
            form,
        })
    }

    /// Entries by region, of a vdev of `asize` bytes: a damaged header asks for no memory beyond that.
    fn regions(&self, asize: u64) -> Result<Vec<u16>> {
        let count = self.header.regions;
        if count > asize.div_ceil(REGION_BYTES) {
            return Err(PoolError::Damaged(format!("{count} regions of references")));
        }
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * 2];
        self.counts.read(0, &mut bytes)?;
        let words = bytes.chunks_exact(2);
        Ok(words
            .map(|word| get_at(word, 0, ByteOrder::NATIVE))
            .collect())
    }

    fn lookup(&self, offset: u64) -> Result<Option<u64>> {
        let Some(value) = self.entries.lookup_words(&[offset])? else {
            return Ok(None);
        };
        let count = entry_count(&value).filter(|count| *count > 0);
        count.map(Some).ok_or_else(|| {
            PoolError::Damaged(format!("the references of the block at {offset:#x}"))
        })
    }

    /// Stores one count; by how much the number of entries changed.
    fn apply(&mut self, tx: &Tx, offset: u64, change: &Change) -> Result<i64> {
        let before = change.before.unwrap_or(0);
        let saved = &mut self.header.saved;
        *saved = if change.now > before {
            saved.saturating_add((change.now - before).saturating_mul(change.bytes))
        } else {
            saved.saturating_sub((before - change.now).saturating_mul(change.bytes))
        };
        let key = [offset];
        match (change.before, change.now) {
            (Some(_), 0) => {
                self.entries.remove_words(tx, &key)?;
                self.header.count = self.header.count.saturating_sub(1);
                self.header.used = self.header.used.saturating_sub(change.bytes);
                Ok(-1)
            }
            (Some(_), now) => {
                self.entries.update_words(tx, &key, &self.form.value(now))?;
                Ok(0)
            }
            (None, 0) => Ok(0),
            (None, now) => {
                self.entries.add_words(tx, &key, &self.form.value(now))?;
                self.header.count += 1;
                self.header.used = self.header.used.saturating_add(change.bytes);
                Ok(1)
            }
        }
    }

    fn store_header(&self, tx: &Tx) -> Result<()> {
        let header = self.header.clone();
        self.counts
            .modify_bonus(tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
