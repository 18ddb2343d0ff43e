//! One table: its ZAPs, its statistics, and of the newer kind its folder and its logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use codec::Checksum;
use dmu::{AllocateObject, CreateZap, Object, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::config::directory;
use format::dedup::{
    self, DIRECTORY_FLAT, DIRECTORY_LOG, DIRECTORY_VERSION, DedupClass, DedupForm, DedupKey,
    DedupLogHead, DedupLogPhys, DedupValue, FLAGS_NAME, TABLE_BLOCK_SHIFT, VERSION_NAME,
};
use format::zap::{FatHeader, Value};

use crate::error::{ImportBlocker, PoolError, Result};

/// Words of a bucket of the statistics: blocks, their logical, physical and allocated bytes, and the same four as
/// referenced.
pub(super) const BUCKET_WORDS: usize = 8;
/// Bucket i is of entries with 2^i references and more.
pub(super) const BUCKETS: usize = 64;
const ALLOCATED: usize = 3;
const REFERENCED: usize = 7;
/// Block size of a log.
const LOG_BLOCK_SIZE: u32 = 128 << 10;

/// What the entries of a ZAP add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Histogram(pub(super) Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS * BUCKET_WORDS])
    }
}

/// Bytes that are stored, and that pointers lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) stored: u64,
    pub(super) referenced: u64,
}

/// The ZAP of a class.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) zap: Zap,
    pub(super) histogram: Histogram,
}

/// What a table of the newer kind has besides.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) zap: Zap,
    pub(super) logs: Vec<Arc<Object>>,
    /// What the logs have and the ZAPs have not, by key.
    pub(super) logged: Arc<BTreeMap<DedupKey, DedupValue>>,
}

/// The table of a checksum.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) kind: Checksum,
    pub(super) form: DedupForm,
    pub(super) stores: [Option<Store>; 3],
    /// None: it is of the older kind.
    pub(super) folder: Option<Folder>,
}

/// The tables that the MOS directory names.
pub(super) fn load(mos: &ObjectSet, root: &Zap) -> Result<Vec<Table>> {
    let prefix = directory::DEDUP_PREFIX.as_bytes();
    let entries = root.entries()?;
    let named = entries
        .iter()
        .filter(|entry| entry.name.starts_with(prefix));
    let mut named: BTreeMap<&[u8], ObjectId> = named
        .map(|entry| (entry.name.as_slice(), ObjectId(entry.value)))
        .collect();
    let statistics = named.remove(directory::DEDUP_STATISTICS.as_bytes());
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let statistics = match statistics {
        Some(id) => Some(Zap::open(&mos.object(id)?)?),
        None => None,
    };
    let mut tables = Vec::new();
    for kind in (0..=u8::MAX).filter_map(|id| Checksum::from_id(id).ok()) {
        let folder = named.remove(dedup::directory_name(kind).as_bytes());
        let mut found = Table::new(kind, DedupForm::Legacy);
        if let Some(id) = folder {
            let zap = Zap::open(&mos.object(id)?)?;
            found = Table::of_folder(mos, kind, zap, statistics.as_ref())?;
        }
        for class in DedupClass::ALL {
            let name = dedup::zap_name(kind, class);
            if let Some(id) = named.remove(name.as_bytes()) {
                if folder.is_some() {
                    return Err(PoolError::Damaged(format!("{name} is there twice")));
                }
                found.stores[class.index()] =
                    Some(Store::open(mos, id, &name, statistics.as_ref())?);
            }
        }
        if folder.is_some() || found.stores.iter().any(Option::is_some) {
            tables.push(found);
        }
    }
    // Tables of a kind that we do not know are not left behind with wrong counts.
    match named.is_empty() {
        true => Ok(tables),
        false => Err(PoolError::ReadOnlyPossible(ImportBlocker::Dedup)),
    }
}

impl Store {
    fn open(mos: &ObjectSet, id: ObjectId, name: &str, statistics: Option<&Zap>) -> Result<Self> {
        let zap = Zap::open(&mos.object(id)?)?;
        let mut histogram = Histogram::default();
        let stored = match statistics {
            Some(zap) => zap.lookup_value(name.as_bytes())?,
            None => None,
        };
        if let Some(value) = stored {
            for (word, stored) in histogram.0.iter_mut().zip(value.to_words()) {
                *word = stored;
            }
        }
        Ok(Self { zap, histogram })
    }
}

impl Table {
    pub(super) fn new(kind: Checksum, form: DedupForm) -> Self {
        Self {
            kind,
            form,
            stores: [const { None }; 3],
            folder: None,
        }
    }

    fn of_folder(
        mos: &ObjectSet,
        kind: Checksum,
        zap: Zap,
        statistics: Option<&Zap>,
    ) -> Result<Self> {
        let version = zap.lookup(VERSION_NAME.as_bytes())?;
        let flags = zap.lookup(FLAGS_NAME.as_bytes())?.unwrap_or(0);
        if version != Some(DIRECTORY_VERSION) || flags & !(DIRECTORY_FLAT | DIRECTORY_LOG) != 0 {
            return Err(PoolError::ReadOnlyPossible(ImportBlocker::Dedup));
        }
        let form = match flags & DIRECTORY_FLAT {
            0 => DedupForm::Legacy,
            _ => DedupForm::Flat,
        };
        let mut table = Self::new(kind, form);
        for class in DedupClass::ALL {
            let name = dedup::zap_name(kind, class);
            if let Some(id) = zap.lookup(name.as_bytes())?.filter(|id| *id != 0) {
                table.stores[class.index()] =
                    Some(Store::open(mos, ObjectId(id), &name, statistics)?);
            }
        }
        let mut logs = Vec::new();
        for number in 0..2 {
            let name = dedup::log_name(kind, number);
            if let Some(id) = zap.lookup(name.as_bytes())?.filter(|id| *id != 0) {
                logs.push(mos.object(ObjectId(id))?);
            }
        }
        let logged = Arc::new(read_logs(form, &logs)?);
        table.folder = Some(Folder { zap, logs, logged });
        Ok(table)
    }

    /// An entry, and the ZAP that has it (none: only a log). The logs say what holds.
    pub(super) fn lookup(&self, key: &DedupKey) -> Result<Option<(DedupClass, DedupValue)>> {
        for class in [DedupClass::Duplicate, DedupClass::Unique, DedupClass::Ditto] {
            let Some(store) = &self.stores[class.index()] else {
                continue;
            };
            let Some(stored) = store.zap.lookup_words(key)? else {
                continue;
            };
            let value = DedupValue::unpack(self.form, stored.stored()).ok_or_else(|| {
                let name = dedup::zap_name(self.kind, class);
                PoolError::Damaged(format!("the entry {key:x?} of {name}"))
            })?;
            return Ok(Some((class, value)));
        }
        Ok(None)
    }

    /// Entries in all.
    pub(super) fn len(&self) -> Result<u64> {
        let mut sum = 0;
        for store in self.stores.iter().flatten() {
            sum += store.zap.len()?;
        }
        Ok(sum)
    }

    /// Bytes that its ZAPs take on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        let stores = self.stores.iter().flatten();
        let bytes = stores.map(|store| store.zap.object().used_bytes());
        bytes.fold(0, u64::saturating_add)
    }

    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for store in self.stores.iter().flatten() {
            for bucket in store.histogram.0.chunks_exact(BUCKET_WORDS) {
                sums.stored = sums.stored.saturating_add(bucket[ALLOCATED]);
                sums.referenced = sums.referenced.saturating_add(bucket[REFERENCED]);
            }
        }
        sums
    }

    /// The ZAP that names those of the table: its folder, or the MOS directory.
    pub(super) fn directory<'a>(&'a self, root: &'a Zap) -> &'a Zap {
        self.folder.as_ref().map_or(root, |folder| &folder.zap)
    }
}

impl Folder {
    /// The folder of a new table, with its logs.
    pub(super) fn create(mos: &ObjectSet, tx: &Tx, root: &Zap, kind: Checksum) -> Result<Self> {
        let shape = CreateZap {
            object_type: ObjectType::OTN_ZAP_METADATA,
            ..CreateZap::default()
        };
        let zap = Zap::create(mos, tx, &shape)?;
        let name = dedup::directory_name(kind);
        root.add(tx, name.as_bytes(), zap.object().id().0)?;
        zap.add(tx, VERSION_NAME.as_bytes(), DIRECTORY_VERSION)?;
        let flags = DIRECTORY_FLAT | DIRECTORY_LOG;
        zap.add(tx, FLAGS_NAME.as_bytes(), flags)?;
        let mut logs = Vec::new();
        for number in 0..2 {
            let shape = AllocateObject {
                object_type: ObjectType::OTN_U64_METADATA,
                block_size: LOG_BLOCK_SIZE,
                bonus_type: ObjectType::OTN_U64_METADATA,
                bonus_len: DedupLogPhys::SIZE as u16,
                ..AllocateObject::default()
            };
            let log = mos.allocate(tx, &shape)?;
            let name = dedup::log_name(kind, number);
            zap.add(tx, name.as_bytes(), log.id().0)?;
            logs.push(log);
        }
        let folder = Self {
            zap,
            logs,
            logged: Arc::default(),
        };
        folder.empty_logs(tx)?;
        Ok(folder)
    }

    /// Makes the logs those of a table of which the ZAPs say all. OpenZFS opens no pool unless one of the two is marked
    /// as the one that is being brought into the ZAPs, and the other is not.
    pub(super) fn empty_logs(&self, tx: &Tx) -> Result<()> {
        let at = DedupLogHead::AT;
        for (number, log) in self.logs.iter().enumerate() {
            let head = at.version.set(0, DIRECTORY_VERSION);
            let header = DedupLogPhys {
                head: at.flushing.set(head, u64::from(number == 0)),
                length: 0,
                first_txg: tx.txg().0,
                checkpoint: [0; 5],
            };
            log.modify_bonus(tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
        }
        Ok(())
    }
}

/// A new ZAP of a table.
pub(super) fn create_store(mos: &ObjectSet, tx: &Tx, kind: Checksum) -> Result<Store> {
    let hashed = if kind.is_dedup_safe() {
        FatHeader::FLAG_HASHED_KEYS
    } else {
        0
    };
    let shape = CreateZap {
        object_type: ObjectType::DDT_ZAP,
        flags: FatHeader::FLAG_HASH_48 | FatHeader::FLAG_WORD_KEYS | hashed,
        block_size: 1 << TABLE_BLOCK_SHIFT,
        indirect_shift: TABLE_BLOCK_SHIFT,
        ..CreateZap::default()
    };
    Ok(Store {
        zap: Zap::create(mos, tx, &shape)?,
        histogram: Histogram::default(),
    })
}

/// The table of what all entries add up to, made if it is not there.
pub(super) fn statistics(mos: &ObjectSet, tx: &Tx, root: &Zap) -> Result<Zap> {
    let name = directory::DEDUP_STATISTICS.as_bytes();
    if let Some(id) = root.lookup(name)?.filter(|id| *id != 0) {
        return Ok(Zap::open(&mos.object(ObjectId(id))?)?);
    }
    let shape = CreateZap {
        object_type: ObjectType::DDT_STATISTICS,
        ..CreateZap::default()
    };
    let zap = Zap::create(mos, tx, &shape)?;
    root.add(tx, name, zap.object().id().0)?;
    Ok(zap)
}

impl Histogram {
    pub(super) fn value(&self) -> Value {
        Value::words(&self.0)
    }
}

/// What the logs of a table say, the one that is being brought into the ZAPs first: the other one overrides it.
fn read_logs(form: DedupForm, logs: &[Arc<Object>]) -> Result<BTreeMap<DedupKey, DedupValue>> {
    let at = DedupLogHead::AT;
    let header = |log: &Arc<Object>| {
        log.with_bonus(|bonus| DedupLogPhys::decode_padded(bonus, ByteOrder::NATIVE))
    };
    let mut ordered: Vec<(DedupLogPhys, &Arc<Object>)> =
        logs.iter().map(|log| (header(log), log)).collect();
    ordered.sort_by_key(|(header, _)| at.flushing.get(header.head) == 0);
    let mut found = BTreeMap::new();
    for (header, log) in ordered {
        let skips = at.flushing.get(header.head) != 0 && at.checkpoint.get(header.head) != 0;
        let size = u64::from(log.block_size()).max(1);
        let known = log.info().max_block + 1;
        for block in 0..header.length.div_ceil(size).min(known) {
            let data = log.read_block(block)?;
            for record in dedup::log_records(&data) {
                if skips && record.key <= header.checkpoint {
                    continue;
                }
                let value = DedupValue::decode(form, record.value, ByteOrder::NATIVE);
                let value = value.ok_or_else(|| {
                    let log = log.id();
                    PoolError::Damaged(format!("object {log}, block {block}: a short record"))
                })?;
                found.insert(record.key, value);
            }
        }
    }
    Ok(found)
}
