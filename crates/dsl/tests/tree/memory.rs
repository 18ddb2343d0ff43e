//! A pool in memory: blocks by number, features by count, and no devices.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::clock::{Clock, ManualClock};
use base::random::{Rng, SeededRng};
use base::{Bookmark, ByteOrder, ObjectId, Txg, VdevId};
use codec::{Checksum, ChecksumValue, Compression};
use dmu::{BlockError, BlockStore, BlockWrite, BlockWriter, Tx, Zap};
use format::features::{self, Feature};
use format::intent_log::LogHeader;
use format::uberblock::VERSION_FEATURES;
use format::{BlockPointer, Dva, ObjectType};
use millpond_dsl::{HistoryEvent, Services, SpaceClass, StoragePolicy, WriterSource};
use sys::Buffer;

/// Every block that was ever written, and which are allocated.
#[derive(Default)]
pub(crate) struct Blocks {
    pub(crate) data: HashMap<u64, Buffer>,
    pub(crate) live: HashSet<u64>,
}

/// Told of a read.
pub(crate) type OnRead = Arc<dyn Fn(&BlockPointer) + Send + Sync>;

/// The pool.
pub(crate) struct Memory {
    pub(crate) blocks: Mutex<Blocks>,
    pub(crate) features: Mutex<BTreeMap<&'static str, i64>>,
    pub(crate) history: Mutex<Vec<String>>,
    /// What the task under way has freed, and the counts and the history before it.
    task: Mutex<Option<TaskUnderWay>>,
    /// Reads that may still be done before one fails.
    reads_left: Mutex<Option<u64>>,
    /// Called by each write.
    pub(crate) on_write: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Called by each read of a block, with what is read.
    pub(crate) on_read: Mutex<Option<OnRead>>,
    /// What a cache would have: blocks that were read and not forgotten, with their object and its type.
    pub(crate) kept: Mutex<HashMap<u64, (ObjectId, ObjectType)>>,
    /// While it is not none, each look finds a block charged with more than the one before.
    pub(crate) mischarged: Mutex<Option<u64>>,
    disabled: Vec<&'static str>,
    version: AtomicU64,
    clock: ManualClock,
    rng: SeededRng,
}

struct TaskUnderWay {
    freed: Vec<u64>,
    features: BTreeMap<&'static str, i64>,
    history: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("a read was told to fail")]
struct ToldToFail;

const STEP: u64 = 1 << 25;

fn number(pointer: &BlockPointer) -> Option<u64> {
    pointer.dva(0).map(|dva| dva.offset / STEP)
}

pub(crate) fn block_number(pointer: &BlockPointer) -> Option<u64> {
    if pointer.is_hole() || pointer.is_embedded() {
        None
    } else {
        number(pointer)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("block {0} was never written")]
struct Missing(u64);

impl Memory {
    pub(crate) fn new(seed: u64, disabled: &[&'static str], version: u64) -> Arc<Self> {
        let mut counts = BTreeMap::new();
        for feature in [
            &features::HOLE_BIRTH,
            &features::EMBEDDED_DATA,
            &features::LZ4_COMPRESS,
        ] {
            if version >= VERSION_FEATURES {
                counts.insert(feature.guid, 1);
            }
        }
        Arc::new(Self {
            blocks: Mutex::default(),
            features: Mutex::new(counts),
            history: Mutex::default(),
            task: Mutex::default(),
            reads_left: Mutex::default(),
            on_write: Mutex::default(),
            on_read: Mutex::default(),
            kept: Mutex::default(),
            mischarged: Mutex::default(),
            disabled: disabled.to_vec(),
            version: AtomicU64::new(version),
            clock: ManualClock::new(1_700_000_000_000_000_000),
            rng: SeededRng::new(seed),
        })
    }

    /// Has one read fail, after so many that do not.
    pub(crate) fn fail_read_after(&self, reads: Option<u64>) {
        *self.reads_left.lock().unwrap() = reads;
    }

    /// Whether a read was told to fail and has.
    pub(crate) fn a_read_failed(&self) -> bool {
        *self.reads_left.lock().unwrap() == Some(u64::MAX)
    }

    fn may_read(&self) -> bool {
        let left = &mut *self.reads_left.lock().unwrap();
        match left {
            Some(0) => {
                *left = Some(u64::MAX);
                false
            }
            Some(u64::MAX) | None => true,
            Some(count) => {
                *count -= 1;
                true
            }
        }
    }

    pub(crate) fn count(&self, feature: &Feature) -> i64 {
        self.features
            .lock()
            .unwrap()
            .get(feature.guid)
            .copied()
            .unwrap_or(0)
    }
}

impl BlockStore for Memory {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        if pointer.is_hole() {
            return Ok(Buffer::zeroed(pointer.lsize() as usize));
        }
        if !self.may_read() {
            return Err(BlockError::new(ToldToFail));
        }
        let number = number(pointer).unwrap_or(0);
        let of = (place.object, pointer.object_type());
        self.kept.lock().unwrap().insert(number, of);
        let found = self.blocks.lock().unwrap().data.get(&number).cloned();
        let on_read = self.on_read.lock().unwrap().clone();
        if let Some(on_read) = on_read {
            on_read(pointer);
        }
        found.ok_or_else(|| BlockError::new(Missing(number)))
    }

    fn prefetch(&self, _: &[(BlockPointer, Bookmark)]) {}

    fn forget(&self, pointer: &BlockPointer) {
        let number = number(pointer).unwrap_or(0);
        self.kept.lock().unwrap().remove(&number);
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        if pointer.is_embedded() {
            return 0;
        }
        let mut mischarged = self.mischarged.lock().unwrap();
        if let Some(more) = &mut *mischarged {
            *more += 512;
        }
        pointer.asize() + mischarged.unwrap_or(0)
    }
}

impl Services for Memory {
    fn store(&self) -> Arc<dyn BlockStore> {
        unreachable!("the harness wraps the store")
    }
    fn clock(&self) -> &dyn Clock {
        self.clock.advance_ns(1_000_000);
        &self.clock
    }
    fn rng(&self) -> &dyn Rng {
        &self.rng
    }
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
    fn raise_version(&self, _: &Tx, version: u64) -> dmu::Result<()> {
        self.version.store(version, Ordering::Relaxed);
        Ok(())
    }
    fn is_writable(&self) -> bool {
        true
    }
    fn is_enabled(&self, feature: &Feature) -> bool {
        self.version() >= VERSION_FEATURES && !self.disabled.contains(&feature.guid)
    }
    fn references(&self, feature: &Feature) -> u64 {
        self.count(feature).max(0) as u64
    }
    fn awaited_bytes(&self) -> u64 {
        0
    }
    fn change_references(&self, _: &Tx, feature: &Feature, change: i64) -> dmu::Result<()> {
        let mut counts = self.features.lock().unwrap();
        let count = counts.entry(feature.guid).or_insert(0);
        *count += change;
        assert!(
            *count >= 0,
            "feature {} is counted below zero",
            feature.name
        );
        Ok(())
    }
    fn usable_bytes(&self, _: SpaceClass) -> u64 {
        1 << 40
    }
    fn free(&self, _: Txg, pointer: &BlockPointer) {
        let number = number(pointer).expect("a freed block has an address");
        if let Some(task) = &mut *self.task.lock().unwrap() {
            task.freed.push(number);
            return;
        }
        let was = self.blocks.lock().unwrap().live.remove(&number);
        assert!(was, "block {number} is freed twice");
    }
    fn begin_task(&self) {
        *self.task.lock().unwrap() = Some(TaskUnderWay {
            freed: Vec::new(),
            features: self.features.lock().unwrap().clone(),
            history: self.history.lock().unwrap().len(),
        });
    }
    fn end_task(&self, _: Txg, done: bool) {
        let task = self.task.lock().unwrap().take().expect("a task began");
        if done {
            for number in task.freed {
                let was = self.blocks.lock().unwrap().live.remove(&number);
                assert!(was, "block {number} is freed twice");
            }
        } else {
            *self.features.lock().unwrap() = task.features;
            self.history.lock().unwrap().truncate(task.history);
        }
    }
    fn frees_later(&self, pointer: &BlockPointer) -> bool {
        // Some blocks take the long way.
        number(pointer).is_some_and(|number| number % 7 == 0)
    }
    fn end_intent_log(&self, _: Txg, _: ObjectId, header: &LogHeader) {
        assert!(header.log.is_hole(), "nobody made a log");
    }
    fn keeps_intent_log(&self, _: ObjectId) -> bool {
        false
    }
    fn record_history(&self, _: &Tx, event: &HistoryEvent<'_>) -> dmu::Result<()> {
        let line = format!(
            "{} {} ({}) {}",
            event.name, event.dataset, event.dataset_id, event.text
        );
        self.history.lock().unwrap().push(line);
        Ok(())
    }
}

/// The services with a store that can be shared.
pub(crate) struct Shared(pub(crate) Arc<Memory>);

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Services for Shared {
            fn store(&self) -> Arc<dyn BlockStore> {
                self.0.clone()
            }
            $(fn $name(&self, $($argument: $type),*) -> $result {
                self.0.$name($($argument),*)
            })*
        }
    };
}

forward! {
    clock() -> &dyn Clock;
    rng() -> &dyn Rng;
    version() -> u64;
    raise_version(tx: &Tx, version: u64) -> dmu::Result<()>;
    is_writable() -> bool;
    is_enabled(feature: &Feature) -> bool;
    references(feature: &Feature) -> u64;
    change_references(tx: &Tx, feature: &Feature, change: i64) -> dmu::Result<()>;
    usable_bytes(class: SpaceClass) -> u64;
    awaited_bytes() -> u64;
    free(txg: Txg, pointer: &BlockPointer) -> ();
    begin_task() -> ();
    end_task(txg: Txg, done: bool) -> ();
    frees_later(pointer: &BlockPointer) -> bool;
    end_intent_log(txg: Txg, head: ObjectId, header: &LogHeader) -> ();
    keeps_intent_log(head: ObjectId) -> bool;
    record_history(tx: &Tx, event: &HistoryEvent<'_>) -> dmu::Result<()>;
}

/// Writes blocks of one txg.
pub(crate) struct Writers {
    pub(crate) memory: Arc<Memory>,
    pub(crate) txg: Txg,
}

impl WriterSource for Writers {
    fn writer<'a>(&'a self, _: Option<&StoragePolicy>) -> Box<dyn BlockWriter + 'a> {
        Box::new(Writer(self))
    }
}

struct Writer<'a>(&'a Writers);

impl BlockWriter for Writer<'_> {
    fn write(&self, request: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let (kind, txg) = (request.kind, self.0.txg);
        let on_write = self.0.memory.on_write.lock().unwrap().clone();
        if let Some(on_write) = on_write {
            on_write();
        }
        let size = request.data.len() as u64;
        if request.data.iter().all(|byte| *byte == 0) {
            let previous = request.previous;
            if previous.is_hole() && previous.birth().0 == 0 {
                return Ok(BlockPointer::HOLE);
            }
            return Ok(BlockPointer::hole_with_birth(
                size,
                kind.object_type,
                kind.level,
                txg,
            ));
        }
        // What compresses well: trailing zeros.
        let used = request
            .data
            .iter()
            .rposition(|byte| *byte != 0)
            .unwrap_or(0) as u64
            + 1;
        let stored = used.next_multiple_of(512).min(size);
        let mut pointer = BlockPointer::for_block(kind.object_type, kind.level, size, stored);
        pointer.set_compression(Compression::Lz4);
        pointer.set_checksum(Checksum::Fletcher4, ChecksumValue([1, 2, 3, 4]));
        pointer.set_birth(txg, Txg(0));
        pointer.set_fill(request.fill);
        pointer.set_byte_order(ByteOrder::NATIVE);
        let previous = request.previous;
        let in_place = !previous.is_hole() && previous.birth() == txg && previous.psize() == stored;
        let mut blocks = self.0.memory.blocks.lock().unwrap();
        let place = match number(&previous).filter(|_| in_place) {
            Some(number) => number,
            None => blocks.data.len() as u64 + 1,
        };
        let dva = Dva {
            vdev: VdevId(0),
            offset: place * STEP,
            asize: stored,
            gang: false,
        };
        pointer.set_dvas(&[dva]);
        blocks.data.insert(place, request.data.clone());
        blocks.live.insert(place);
        Ok(pointer)
    }
}

/// The pool directory of a new pool.
pub(crate) fn new_directory(mos: &dmu::ObjectSet, tx: &Tx) {
    let options = dmu::CreateZap {
        object_type: ObjectType::OBJECT_DIRECTORY,
        id: Some(base::ObjectId(1)),
        ..dmu::CreateZap::default()
    };
    Zap::create(mos, tx, &options).unwrap();
}
