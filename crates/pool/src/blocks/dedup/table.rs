//! One table: its ZAPs, its statistics, and of the newer kind its folder and its logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::ObjectId;
use codec::Checksum;
use dmu::{AllocateObject, CreateZap, Object, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::config::directory;
use format::dedup::{
    self, DIRECTORY_FLAT, DIRECTORY_LOG, DIRECTORY_VERSION, DedupClass, DedupForm, DedupKey,
    DedupLogPhys, DedupValue, FLAGS_NAME, TABLE_BLOCK_SHIFT, VERSION_NAME,
};
use format::zap::FatHeader;

use super::histogram::{Histogram, Sums};
use super::logs::{Logs, Room};
use crate::blocks::PipelineStore;
use crate::error::{ImportBlocker, PoolError, Result};

/// Block size of a log.
const LOG_BLOCK_SIZE: u32 = 128 << 10;

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
    /// None: the ZAPs are changed at once.
    pub(super) logs: Option<Arc<Logs>>,
}

/// An entry as a table has it.
pub(super) struct Found {
    /// The ZAP that has it, or an older state of it.
    pub(super) home: Option<DedupClass>,
    pub(super) value: DedupValue,
    /// It is from a log: no statistics of a ZAP count it.
    pub(super) is_logged: bool,
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
pub(super) fn load(mos: &ObjectSet, root: &Zap, store: &PipelineStore) -> Result<Vec<Table>> {
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
    let mut room = Room::of_memory();
    for kind in (0..=u8::MAX).filter_map(|id| Checksum::from_id(id).ok()) {
        let folder = named.remove(dedup::directory_name(kind).as_bytes());
        let mut found = Table::new(kind, DedupForm::Legacy);
        if let Some(id) = folder {
            let zap = Zap::open(&mos.object(id)?)?;
            found = Table::of_folder(mos, kind, (zap, statistics.as_ref()), store, &mut room)?;
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
        (zap, statistics): (Zap, Option<&Zap>),
        store: &PipelineStore,
        room: &mut Room,
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
        let logs = load_logs(mos, &table, (&zap, flags), store, room)?;
        table.folder = Some(Folder { zap, logs });
        Ok(table)
    }

    /// The logs, if the table has some.
    pub(super) fn logs(&self) -> Option<&Arc<Logs>> {
        self.folder.as_ref()?.logs.as_ref()
    }

    /// An entry. What a log says holds.
    pub(super) fn lookup(&self, key: &DedupKey) -> Result<Option<Found>> {
        if let Some(logged) = self.logs().and_then(|logs| logs.get(key)) {
            return Ok(Some(Found {
                home: logged.home,
                value: logged.value(),
                is_logged: true,
            }));
        }
        let stored = self.lookup_stored(key)?;
        Ok(stored.map(|(class, value)| Found {
            home: Some(class),
            value,
            is_logged: false,
        }))
    }

    /// An entry as a ZAP has it, and which.
    fn lookup_stored(&self, key: &DedupKey) -> Result<Option<(DedupClass, DedupValue)>> {
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
        let tally = self.logs().map(|logs| logs.tally()).unwrap_or_default();
        let mut stored = 0_u64;
        for store in self.stores.iter().flatten() {
            stored = stored.saturating_add(store.zap.len()?);
        }
        Ok(stored.saturating_sub(tally.homed) + tally.there)
    }

    /// Bytes that its ZAPs take on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        let stores = self.stores.iter().flatten();
        let bytes = stores.map(|store| store.zap.object().used_bytes());
        bytes.fold(0, u64::saturating_add)
    }

    /// Entries that are to come into its ZAPs.
    pub(super) fn coming(&self) -> u64 {
        self.logs().map_or(0, |logs| logs.tally().new)
    }

    pub(super) fn sums(&self) -> Sums {
        let mut all = Histogram::default();
        for store in self.stores.iter().flatten() {
            all.merge(&store.histogram);
        }
        if let Some(logs) = self.logs() {
            all.merge(&logs.histogram());
        }
        all.sums()
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
        let shape = AllocateObject {
            object_type: ObjectType::OTN_U64_METADATA,
            block_size: LOG_BLOCK_SIZE,
            bonus_type: ObjectType::OTN_U64_METADATA,
            bonus_len: DedupLogPhys::SIZE as u16,
            ..AllocateObject::default()
        };
        let objects = [mos.allocate(tx, &shape)?, mos.allocate(tx, &shape)?];
        for (number, log) in objects.iter().enumerate() {
            let name = dedup::log_name(kind, number);
            zap.add(tx, name.as_bytes(), log.id().0)?;
        }
        let logs = Some(Arc::new(Logs::create(kind, tx, objects)?));
        Ok(Self { zap, logs })
    }
}

/// The logs that a folder names; `flags`: what it says of its table.
fn load_logs(
    mos: &ObjectSet,
    table: &Table,
    (folder, flags): (&Zap, u64),
    store: &PipelineStore,
    room: &mut Room,
) -> Result<Option<Arc<Logs>>> {
    let open = |number: usize| -> Result<Option<Arc<Object>>> {
        let name = dedup::log_name(table.kind, number);
        let id = folder.lookup(name.as_bytes())?.filter(|id| *id != 0);
        Ok(id.map(|id| mos.object(ObjectId(id))).transpose()?)
    };
    match (open(0)?, open(1)?) {
        (None, None) => Ok(None),
        (Some(first), Some(second))
            if flags & DIRECTORY_LOG != 0 && table.form == DedupForm::Flat =>
        {
            let logs = Logs::load(table.kind, [first, second], store, room)?;
            Ok(Some(Arc::new(logs)))
        }
        // What a log says holds: it is not left aside.
        (Some(_), _) | (None, Some(_)) => Err(PoolError::ReadOnlyPossible(ImportBlocker::Dedup)),
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
