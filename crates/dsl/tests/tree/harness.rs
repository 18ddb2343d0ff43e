//! A pool in memory, its txgs run by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ObjectId, ObjectSetId, Txg};
use dmu::{AllocateObject, BlockStore, ObjectSet, OpenObjectSet, SyncWorkers, Tx};
use format::uberblock::VERSION_FEATURES;
use format::{ObjectSetKind, ObjectSetPhys, ObjectType};
use millpond_dsl::tasks::{Clone, CreateDataset, DestroyHead, DestroySnapshots, Promote, Snapshot};
use millpond_dsl::{Dsl, DslError, NewPool, OpenDsl, SyncPass, Task};
use txg::{Engine, EngineConfig};

use crate::memory::{self, Memory, Shared, Writers};
use crate::walk;

/// A pool in memory and its dataset layer.
pub(crate) struct Harness {
    pub(crate) memory: Arc<Memory>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) mos: Arc<ObjectSet>,
    workers: SyncWorkers,
    /// Only notes broken invariants.
    pub(crate) engine: Arc<Engine>,
    txg: u64,
}

impl Harness {
    pub(crate) fn new(seed: u64, disabled: &[&'static str]) -> Self {
        Self::of_version(seed, disabled, VERSION_FEATURES)
    }

    /// A new pool of a version.
    pub(crate) fn of_version(seed: u64, disabled: &[&'static str], version: u64) -> Self {
        let memory = Memory::new(seed, disabled, version);
        let store: Arc<dyn BlockStore> = memory.clone();
        let options = OpenObjectSet {
            store,
            id: ObjectSetId(0),
            writable: true,
            objects_max: 1000,
        };
        let tx = Tx::syncing(Txg(4));
        let size = ObjectSetPhys::size_in(version);
        let mos = ObjectSet::create_sized(options, ObjectSetKind::Meta, &tx, size).unwrap();
        memory::new_directory(&mos, &tx);
        let workers = SyncWorkers::new(1);
        let engine = Engine::new(EngineConfig::default());
        let writers = Writers {
            memory: memory.clone(),
            txg: Txg(4),
        };
        let pass = SyncPass {
            txg: Txg(4),
            pass: 1,
            workers: &workers,
            engine: Some(&engine),
            writers: &writers,
        };
        let open = OpenDsl {
            mos: mos.clone(),
            services: Arc::new(Shared(memory.clone())),
            engine: None,
            name: "tank".to_owned(),
            objects_max: 1000,
        };
        // Small slices, so that walks pause and go on.
        millpond_dsl::tunables::BACKGROUND_BLOCKS.set(7);
        let dsl = Dsl::create(open, &pass).unwrap();
        dsl.create_root(NewPool::default(), &pass).unwrap();
        let mut harness = Self {
            memory,
            dsl,
            mos,
            workers,
            engine,
            txg: 4,
        };
        harness.sync();
        harness
    }

    /// Syncs on so many threads from now on.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.workers = SyncWorkers::new(threads);
    }

    pub(crate) fn with_pass<R>(&self, number: u32, run: impl FnOnce(&SyncPass<'_>) -> R) -> R {
        let txg = Txg(self.txg);
        let writers = Writers {
            memory: self.memory.clone(),
            txg,
        };
        let workers = &self.workers;
        run(&SyncPass {
            txg,
            pass: number,
            workers,
            engine: Some(&self.engine),
            writers: &writers,
        })
    }

    /// Ends the txg: the passes, then the next one opens.
    pub(crate) fn sync(&mut self) {
        self.with_pass(1, |pass| {
            self.dsl.sync(pass).unwrap();
        });
        self.finish();
    }

    /// What a txg's sync begins with: no head may be found that cannot be written.
    pub(crate) fn look_ahead(&self) {
        self.with_pass(1, |pass| self.dsl.look_ahead(pass).unwrap());
        assert_eq!(self.dsl.stopped_heads(), []);
    }

    pub(crate) fn finish(&mut self) {
        self.with_pass(1, |pass| self.dsl.background(pass).unwrap());
        let mut number = 2;
        while self.dsl.is_dirty(Txg(self.txg)) {
            assert!(number < 12, "the passes do not end");
            self.with_pass(number, |pass| {
                self.dsl.sync(pass).unwrap();
            });
            number += 1;
        }
        self.dsl.finish(Txg(self.txg));
        self.txg += 1;
    }

    /// Forgets everything in memory and opens the pool anew.
    pub(crate) fn reopen(&mut self) {
        self.sync();
        self.dsl.close();
        let store: Arc<dyn BlockStore> = self.memory.clone();
        let options = OpenObjectSet {
            store,
            id: ObjectSetId(0),
            writable: true,
            objects_max: 1000,
        };
        self.mos = ObjectSet::open(options, &self.mos.root_pointer()).unwrap();
        self.dsl = Dsl::open(OpenDsl {
            mos: self.mos.clone(),
            services: Arc::new(Shared(self.memory.clone())),
            engine: None,
            name: "tank".to_owned(),
            objects_max: 1000,
        })
        .unwrap();
    }

    /// Runs a task in a txg of its own.
    pub(crate) fn run<T: Task>(&mut self, task: T) -> Result<T::Output, DslError> {
        let result = self.with_pass(1, |pass| {
            self.dsl.sync(pass).unwrap();
            self.dsl.run_now(task, pass)
        });
        self.finish();
        result
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.engine.findings().first(), None);
        walk::check(&self.dsl, &self.memory);
    }

    /// Frees everything that waits.
    pub(crate) fn drain(&mut self) {
        while self.dsl.has_background_frees().unwrap() {
            self.sync();
        }
        // What the last frees changed in the pool's own object set.
        self.sync();
    }

    pub(crate) fn write(&self, path: &str, object: u64, block: u64, seed: u8, length: usize) {
        let set = self.dsl.head(path).unwrap().object_set().unwrap();
        let tx = Tx::syncing(Txg(self.txg));
        let id = ObjectId(object);
        let file = match set.object(id) {
            Ok(file) => file,
            Err(_) => {
                let shape = AllocateObject {
                    object_type: ObjectType::PLAIN_OTHER,
                    block_size: 4096,
                    indirect_shift: 12,
                    ..AllocateObject::default()
                };
                set.claim(&tx, id, &shape).unwrap()
            }
        };
        file.write(&tx, block * 4096, &vec![seed | 1; length])
            .unwrap();
    }

    /// Makes an object of the pool itself dirty.
    pub(crate) fn touch_mos(&self) {
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_OTHER,
            block_size: 4096,
            ..AllocateObject::default()
        };
        let tx = Tx::syncing(Txg(self.txg));
        let object = self.mos.allocate(&tx, &shape).unwrap();
        object.write(&tx, 0, &[1; 4096]).unwrap();
    }

    pub(crate) fn free(&self, path: &str, object: u64) {
        let set = self.dsl.head(path).unwrap().object_set().unwrap();
        let _ = set.free(&Tx::syncing(Txg(self.txg)), ObjectId(object));
    }

    pub(crate) fn contents(&self, name: &str) -> BTreeMap<u64, Vec<u8>> {
        let dataset = match name.contains('@') {
            true => self.dsl.dataset(name).unwrap(),
            false => self.dsl.head(name).unwrap(),
        };
        let set = dataset.object_set().unwrap();
        let mut found = BTreeMap::new();
        let mut after = ObjectId(0);
        while let Some(id) = set.next_object(after).unwrap() {
            let object = set.object(id).unwrap();
            let info = object.info();
            let mut data = vec![0; (info.max_block as usize + 1) * info.block_size as usize];
            object.read(0, &mut data).unwrap();
            found.insert(id.0, data);
            after = id;
        }
        found
    }
}

pub(crate) fn create(path: &str) -> CreateDataset {
    CreateDataset {
        path: path.to_owned(),
        kind: ObjectSetKind::FileSystem,
        properties: Vec::new(),
        case_insensitive: false,
        populate: None,
    }
}

pub(crate) fn snapshot(name: &str) -> Snapshot {
    Snapshot {
        names: vec![name.to_owned()],
        properties: Vec::new(),
    }
}

pub(crate) fn destroy(name: &str) -> DestroySnapshots {
    DestroySnapshots {
        names: vec![name.to_owned()],
        defer: false,
    }
}

pub(crate) fn clone(origin: &str, path: &str) -> Clone {
    Clone {
        origin: origin.to_owned(),
        path: path.to_owned(),
        properties: Vec::new(),
    }
}

pub(crate) fn promote(path: &str) -> Promote {
    Promote {
        path: path.to_owned(),
    }
}

pub(crate) fn destroy_head(path: &str) -> DestroyHead {
    DestroyHead {
        path: path.to_owned(),
    }
}
