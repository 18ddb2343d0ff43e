//! A pool in memory: blocks, an engine, and one file system that is synced into them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::clock::ManualClock;
use base::{Bookmark, ObjectSetId, Txg, VdevId};
use dmu::{
    Admission, BlockAccounting, BlockError, BlockStore, BlockWrite, BlockWriter, ObjectSet,
    OpenObjectSet, Promise, Refusal, SyncContext, SyncWorkers, Tx, Wanted,
};
use dsl::DatasetFeature;
use format::block_pointer::{BlockPointer, Dva};
use format::{ObjectSetKind, ObjectType};
use millpond_posix::{
    DatasetProperties, FileSystem, MountOptions, NewFileSystem, OperationLog, PosixError, Source,
    Space, SpaceNumbers, create_file_system,
};
use sys::Buffer;
use txg::{Engine, EngineConfig, SyncFailure, SyncTarget};

use crate::diary::Diary;

const SET: ObjectSetId = ObjectSetId(7);

#[derive(Default)]
struct Blocks {
    blocks: Mutex<HashMap<u64, Buffer>>,
    next: AtomicU64,
    /// Blocks of files' contents that were read.
    contents_read: AtomicU64,
    /// How many more can be read; the next one fails.
    contents_readable: AtomicU64,
    /// The same of all blocks.
    readable: AtomicU64,
}

impl BlockStore for Blocks {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        if pointer.is_hole() {
            return Ok(Buffer::zeroed(pointer.lsize() as usize));
        }
        let readable = self.readable.load(Ordering::Relaxed);
        if readable == 0 {
            return Err(BlockError::new(std::io::Error::other("damaged")));
        }
        self.readable.store(readable - 1, Ordering::Relaxed);
        if pointer.level() == 0 && pointer.object_type() == ObjectType::PLAIN_FILE {
            self.contents_read.fetch_add(1, Ordering::Relaxed);
            let left = self.contents_readable.load(Ordering::Relaxed);
            if left == 0 {
                return Err(BlockError::new(std::io::Error::other("damaged")));
            }
            self.contents_readable.store(left - 1, Ordering::Relaxed);
        }
        let offset = pointer.dva(0).unwrap().offset;
        let lost = || std::io::Error::other(format!("{place}: nothing at {offset}"));
        let blocks = self.blocks.lock().unwrap();
        blocks
            .get(&offset)
            .cloned()
            .ok_or_else(|| BlockError::new(lost()))
    }

    fn prefetch(&self, _: &[(BlockPointer, Bookmark)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }
}

struct Writer<'a>(&'a Blocks, Txg);

impl BlockWriter for Writer<'_> {
    fn write(&self, request: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let (size, kind) = (request.data.len() as u64, request.kind);
        let zeros = request.data.iter().all(|&byte| byte == 0);
        if zeros && kind.object_type != ObjectType::OBJECT_SET {
            let fresh = request.previous.birth() == Txg(0);
            let hole = BlockPointer::hole_with_birth(size, kind.object_type, kind.level, self.1);
            return Ok(if fresh { BlockPointer::HOLE } else { hole });
        }
        let previous = request.previous;
        let again = !previous.is_hole() && previous.birth() == self.1 && previous.lsize() == size;
        let offset = if again {
            previous.dva(0).unwrap().offset
        } else {
            self.0
                .next
                .fetch_add(size.next_multiple_of(512), Ordering::Relaxed)
                + 512
        };
        let mut pointer = BlockPointer::for_block(kind.object_type, kind.level, size, size);
        pointer.set_birth(self.1, self.1);
        pointer.set_fill(request.fill);
        let dva = Dva {
            vdev: VdevId(0),
            offset,
            asize: size,
            gang: false,
        };
        pointer.set_dva(0, Some(dva));
        self.0
            .blocks
            .lock()
            .unwrap()
            .insert(offset, request.data.clone());
        Ok(pointer)
    }
}

impl BlockAccounting for Blocks {
    fn born(&self, _: &BlockPointer) {}

    fn killed(&self, _: &BlockPointer) {}
}

struct Target {
    blocks: Arc<Blocks>,
    workers: SyncWorkers,
    objects: Mutex<Option<Arc<ObjectSet>>>,
    engine: Mutex<Option<Arc<Engine>>>,
}

impl SyncTarget for Target {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        let Some(objects) = self.objects.lock().unwrap().clone() else {
            return Ok(());
        };
        let engine = self.engine.lock().unwrap().clone();
        while objects.is_dirty(txg) {
            let context = SyncContext {
                txg,
                writer: &Writer(&self.blocks, txg),
                accounting: self.blocks.as_ref(),
                workers: &self.workers,
                engine: engine.as_deref(),
                hole_birth: true,
                counts_bytes: true,
                account_owners: true,
                account_objects: true,
            };
            objects.sync(&context).unwrap();
        }
        objects.synced(txg);
        Ok(())
    }
}

/// Space without end, unless a test sets an end; and what is done once, when an operation begins its transaction.
pub(crate) struct Room(
    pub AtomicU64,
    pub Mutex<Option<Meanwhile>>,
    /// Features that the pool has not enabled.
    pub Mutex<Vec<DatasetFeature>>,
);

pub(crate) type Meanwhile = Box<dyn FnOnce() + Send>;

impl Admission for Room {
    fn admit(&self, wanted: &Wanted) -> Result<Option<Promise>, Refusal> {
        let meanwhile = self.1.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let available = self.0.load(Ordering::Relaxed);
        if wanted.net_free || wanted.dirty_bytes <= available {
            Ok(None)
        } else {
            Err(Refusal::NoSpace)
        }
    }
}

impl Space for Room {
    fn numbers(&self) -> SpaceNumbers {
        SpaceNumbers {
            referenced: 1 << 20,
            available: self.0.load(Ordering::Relaxed),
        }
    }

    fn note_feature(&self, feature: DatasetFeature) -> Result<(), PosixError> {
        if self.2.lock().unwrap().contains(&feature) {
            return Err(PosixError::NotSupported(feature.feature().name));
        }
        Ok(())
    }
}

/// A mounted file system in memory.
pub(crate) struct MemoryPool {
    target: Arc<Target>,
    engine: Arc<Engine>,
    pub(crate) diary: Arc<Diary>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) room: Arc<Room>,
    pub(crate) properties: DatasetProperties,
    pub(crate) options: MountOptions,
    pub(crate) fs: Arc<FileSystem>,
}

impl MemoryPool {
    pub(crate) fn new(
        new: NewFileSystem,
        properties: DatasetProperties,
        options: MountOptions,
    ) -> Self {
        let blocks = Arc::new(Blocks::default());
        blocks.contents_readable.store(u64::MAX, Ordering::Relaxed);
        blocks.readable.store(u64::MAX, Ordering::Relaxed);
        let target = Arc::new(Target {
            blocks: Arc::clone(&blocks),
            workers: SyncWorkers::new(2),
            objects: Mutex::new(None),
            engine: Mutex::new(None),
        });
        let engine = start(&target, Txg(4));
        let clock = Arc::new(ManualClock::new(1_700_000_000_123_456_789));
        let tx = Tx::assign(&engine, &dmu::Reservation::default()).unwrap();
        let objects = ObjectSet::create(open(&blocks), ObjectSetKind::FileSystem, &tx).unwrap();
        create_file_system(&tx, &objects, clock.as_ref(), &new).unwrap();
        *target.objects.lock().unwrap() = Some(objects);
        drop(tx);
        engine.wait_synced(None).unwrap();
        let room = Arc::new(Room(
            AtomicU64::new(1 << 40),
            Mutex::default(),
            Mutex::default(),
        ));
        let diary = Diary::new(Arc::clone(&engine));
        let fs = mount(&target, &diary, &clock, &room, properties, &options);
        Self {
            target,
            engine,
            diary,
            clock,
            room,
            properties,
            options,
            fs,
        }
    }

    pub(crate) fn plain() -> Self {
        let properties = DatasetProperties {
            acl: millpond_posix::AclKind::Posix,
            ..Default::default()
        };
        Self::new(
            NewFileSystem::default(),
            properties,
            MountOptions::default(),
        )
    }

    pub(crate) fn sync(&self) {
        self.engine.wait_synced(None).unwrap();
    }

    /// The object set of what was last synced.
    fn synced(&self) -> Arc<ObjectSet> {
        let root = self
            .target
            .objects
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .root_pointer();
        ObjectSet::open(open(&self.target.blocks), &root).unwrap()
    }

    /// How many blocks of files' contents were read so far.
    pub(crate) fn contents_read(&self) -> u64 {
        self.target.blocks.contents_read.load(Ordering::Relaxed)
    }

    /// Lets so many more blocks of files' contents be read.
    pub(crate) fn let_contents_be_read(&self, count: u64) {
        let readable = &self.target.blocks.contents_readable;
        readable.store(count, Ordering::Relaxed);
    }

    /// Lets so many more blocks be read.
    pub(crate) fn let_be_read(&self, count: u64) {
        let readable = &self.target.blocks.readable;
        readable.store(count, Ordering::Relaxed);
    }

    /// Forgets everything that is not synced, and mounts again. `clean`: unmounts first.
    pub(crate) fn remount(&mut self, clean: bool) {
        if clean {
            self.fs.unmount().unwrap();
        }
        self.engine.stop();
        let next = self.engine.synced_txg().next();
        let objects = self.synced();
        *self.target.objects.lock().unwrap() = Some(objects);
        self.engine = start(&self.target, next);
        self.diary = Diary::new(Arc::clone(&self.engine));
        self.fs = mount(
            &self.target,
            &self.diary,
            &self.clock,
            &self.room,
            self.properties,
            &self.options,
        );
    }

    /// The bytes of an accounting table: what `owner` is charged with.
    pub(crate) fn objects(&self) -> Arc<ObjectSet> {
        Arc::clone(self.target.objects.lock().unwrap().as_ref().unwrap())
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        self.engine.stop();
        *self.target.engine.lock().unwrap() = None;
    }
}

fn start(target: &Arc<Target>, first: Txg) -> Arc<Engine> {
    let engine = Engine::new(EngineConfig::for_memory(first, 4 << 30));
    *target.engine.lock().unwrap() = Some(Arc::clone(&engine));
    let target: Arc<dyn SyncTarget> = Arc::clone(target) as _;
    engine.start(target);
    engine
}

fn open(blocks: &Arc<Blocks>) -> OpenObjectSet {
    let store: Arc<dyn BlockStore> = Arc::clone(blocks) as _;
    OpenObjectSet {
        store,
        id: SET,
        writable: true,
        objects_max: 500,
    }
}

fn mount(
    target: &Arc<Target>,
    diary: &Arc<Diary>,
    clock: &Arc<ManualClock>,
    room: &Arc<Room>,
    properties: DatasetProperties,
    options: &MountOptions,
) -> Arc<FileSystem> {
    let source = Source {
        objects: Arc::clone(target.objects.lock().unwrap().as_ref().unwrap()),
        engine: Some(Arc::clone(diary.engine())),
        log: Some(Arc::clone(diary) as Arc<dyn OperationLog>),
        space: Some(Arc::clone(room) as Arc<dyn Space>),
        clock: Arc::clone(clock) as Arc<dyn base::clock::Clock>,
        identity: 1,
        properties,
    };
    FileSystem::mount(source, options.clone()).unwrap()
}
