//! Speed of the object layer on a file in memory: creations, names, small files, a stream, cold
//! reading of dnodes. `cargo run --release -p millpond-dmu --example creates [count] [folder] [phases]`
#![allow(clippy::print_stdout, reason = "it prints its results")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, ObjectSetId, Txg};
use codec::Compression;
use device::Access;
use format::{ObjectSetKind, ObjectType};
use millpond_dmu::{
    AllocateObject, CreateZap, Object, ObjectSet, OpenObjectSet, Reservation, SyncContext,
    SyncWorkers, Tx, Zap,
};
use pipeline::Pipeline;
use sys::{Buffer, BufferMut};
use txg::{Engine, EngineConfig, SyncFailure, SyncTarget};
use vdev::WriteGroup;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

static SETS: LockClass = LockClass::new("bench.sets", rank::POOL);

struct Target {
    pipeline: Arc<Pipeline>,
    engine: Mutex<Option<Arc<Engine>>>,
    set: Mutex<Option<Arc<ObjectSet>>>,
    workers: SyncWorkers,
    busy_ns: AtomicU64,
}

impl SyncTarget for Target {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        let Some(set) = self.set.lock().clone() else {
            return Ok(());
        };
        let engine = self.engine.lock().clone();
        let start = Instant::now();
        let group = WriteGroup::new(txg);
        let writer = support::Writer {
            pipeline: &self.pipeline,
            group: Arc::clone(&group),
            txg,
            compression: Compression::Lz4,
        };
        let accounting = support::Frees {
            pipeline: Arc::clone(&self.pipeline),
            txg,
        };
        while set.is_dirty(txg) {
            let context = SyncContext {
                txg,
                writer: &writer,
                accounting: &accounting,
                workers: &self.workers,
                engine: engine.as_deref(),
                hole_birth: true,
                counts_bytes: true,
                account_owners: true,
                account_objects: true,
            };
            set.sync(&context).map_err(|error| SyncFailure {
                reason: error.to_string(),
            })?;
        }
        group.wait().map_err(|error| SyncFailure {
            reason: error.to_string(),
        })?;
        set.synced(txg);
        self.busy_ns
            .fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}

struct Bench {
    engine: Arc<Engine>,
    target: Arc<Target>,
    set: Arc<ObjectSet>,
    directory: Zap,
}

fn options(pipeline: &Arc<Pipeline>) -> OpenObjectSet {
    OpenObjectSet {
        store: Arc::new(support::Store(Arc::clone(pipeline))),
        id: ObjectSetId(54),
        writable: true,
        objects_max: 65536,
    }
}

fn attributes() -> [u8; 176] {
    let mut bonus = [0; 176];
    bonus[..4].copy_from_slice(&0x002F_505Au32.to_ne_bytes());
    bonus[4..6].copy_from_slice(&((1u16 << 10) | 2).to_ne_bytes());
    bonus[40] = 100;
    bonus
}

impl Bench {
    fn new(image: &Path) -> Self {
        let pipeline = support::pipeline(image, Access::ReadWrite, 12);
        let engine = Engine::new(EngineConfig::for_memory(Txg(4), 8 << 30));
        let target = Arc::new(Target {
            pipeline: Arc::clone(&pipeline),
            engine: Mutex::new(&SETS, Some(Arc::clone(&engine))),
            set: Mutex::new(&SETS, None),
            workers: SyncWorkers::per_core(),
            busy_ns: AtomicU64::new(0),
        });
        let tx = Tx::syncing(Txg(4));
        let set = ObjectSet::create(options(&pipeline), ObjectSetKind::FileSystem, &tx).unwrap();
        let kind = CreateZap {
            object_type: ObjectType::DIRECTORY,
            ..CreateZap::default()
        };
        let directory = Zap::create(&set, &tx, &kind).unwrap();
        *target.set.lock() = Some(Arc::clone(&set));
        engine.start(Arc::clone(&target) as Arc<dyn SyncTarget>);
        engine.wait_synced(None).unwrap();
        Self {
            engine,
            target,
            set,
            directory,
        }
    }

    fn report(&self, what: &str, count: u64, bytes: u64, run: impl FnOnce()) {
        self.engine.wait_synced(None).unwrap();
        self.target.busy_ns.store(0, Ordering::Relaxed);
        let start = Instant::now();
        run();
        let open = start.elapsed();
        self.engine.wait_synced(None).unwrap();
        let all = start.elapsed();
        let busy = Duration::from_nanos(self.target.busy_ns.load(Ordering::Relaxed));
        let each = |time: Duration| time.as_nanos() as f64 / 1000.0 / count as f64;
        println!(
            "{what:24} {:9.0}/s to the end of syncing, {:9.0}/s before; {:6.2} us open, {:6.2} us sync each{}",
            count as f64 / all.as_secs_f64(),
            count as f64 / open.as_secs_f64(),
            each(open),
            each(busy),
            if bytes == 0 {
                String::new()
            } else {
                format!("; {:.0} MB/s", bytes as f64 / 1e6 / all.as_secs_f64())
            }
        );
    }

    fn create(&self, index: u64, data: &[u8]) -> Arc<Object> {
        let reservation = Reservation {
            write_bytes: data.len() as u64,
            names: 1,
            objects: 2,
            ..Reservation::default()
        };
        let tx = Tx::assign(&self.engine, &reservation).unwrap();
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_FILE,
            bonus_type: ObjectType::SYSTEM_ATTRIBUTES,
            bonus_len: 176,
            ..AllocateObject::default()
        };
        let object = self.set.allocate(&tx, &shape).unwrap();
        let kind = ObjectType::SYSTEM_ATTRIBUTES;
        object.set_bonus(&tx, kind, &attributes()).unwrap();
        if !data.is_empty() {
            object.set_block_size(&tx, data.len() as u32, 0).unwrap();
            object.write(&tx, 0, data).unwrap();
        }
        let name = format!("some-file-{index:09}");
        self.directory
            .add(&tx, name.as_bytes(), object.id().0 | 8 << 60)
            .unwrap();
        object
    }

    fn stream(&self, bytes: u64) {
        const BLOCK: usize = 128 * 1024;
        let tx = Tx::assign(&self.engine, &Reservation::default()).unwrap();
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_FILE,
            block_size: BLOCK as u32,
            ..AllocateObject::default()
        };
        let object = self.set.allocate(&tx, &shape).unwrap();
        drop(tx);
        let mut data = BufferMut::zeroed(BLOCK);
        let mut seed = 1u64;
        for (index, byte) in data.iter_mut().enumerate() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = if index % 64 < 32 {
                (seed >> 56) as u8
            } else {
                b' '
            };
        }
        let data = data.freeze();
        for block in 0..bytes / BLOCK as u64 {
            let reservation = Reservation {
                write_bytes: BLOCK as u64,
                ..Reservation::default()
            };
            let tx = Tx::assign(&self.engine, &reservation).unwrap();
            // A copy each, as a request from outside would be.
            object
                .write_block(&tx, block, Buffer::from_slice(&data))
                .unwrap();
        }
    }

    fn names(&self, count: u64) {
        let one = Reservation {
            names: 1,
            ..Reservation::default()
        };
        let tx = Tx::assign(&self.engine, &one).unwrap();
        let kind = CreateZap {
            object_type: ObjectType::DIRECTORY,
            ..CreateZap::default()
        };
        let zap = Zap::create(&self.set, &tx, &kind).unwrap();
        drop(tx);
        for index in 0..count {
            let tx = Tx::assign(&self.engine, &one).unwrap();
            zap.add(&tx, format!("n{index}").as_bytes(), index).unwrap();
        }
    }

    fn cold(&self, ids: &[ObjectId]) {
        let root = self.set.root_pointer();
        let set = ObjectSet::open(options(&self.target.pipeline), &root).unwrap();
        let start = Instant::now();
        let mut sum = 0;
        for id in ids {
            sum += set.object(*id).unwrap().with_bonus(<[u8]>::len);
        }
        let time = start.elapsed();
        println!(
            "{:24} {:9.0}/s ({sum} bytes)",
            "cold dnodes",
            ids.len() as f64 / time.as_secs_f64()
        );
        let start = Instant::now();
        for id in &ids[ids.len().saturating_sub(10_000)..] {
            sum += set.object(*id).unwrap().with_bonus(<[u8]>::len);
        }
        let time = start.elapsed();
        println!(
            "{:24} {:9.0}/s ({sum})",
            "warm dnodes",
            10_000f64 / time.as_secs_f64()
        );
    }
}

/// One thing that is measured.
type Phase<'a> = (&'a str, Box<dyn Fn() + 'a>);

fn phases<'a>(bench: &'a Bench, count: u64, ids: &'a Mutex<Vec<ObjectId>>) -> Vec<Phase<'a>> {
    let small = move || {
        let data: Vec<u8> = (0..4096u32)
            .map(|byte| ((byte * byte) >> 5) as u8)
            .collect();
        for index in count..count + count / 2 {
            bench.create(index, &data);
        }
    };
    let lookups = move || {
        for index in 0..count {
            let name = format!("some-file-{index:09}");
            assert!(bench.directory.lookup(name.as_bytes()).unwrap().is_some());
        }
    };
    let frees = move || {
        for (index, id) in ids.lock().iter().enumerate() {
            let reservation = Reservation {
                names: 1,
                objects: 2,
                ..Reservation::default()
            };
            let tx = Tx::assign(&bench.engine, &reservation).unwrap();
            bench
                .directory
                .remove(&tx, format!("some-file-{index:09}").as_bytes())
                .unwrap();
            bench.set.free(&tx, *id).unwrap();
        }
    };
    vec![
        (
            "names",
            Box::new(move || {
                bench.report("names, a new directory", count, 0, || bench.names(count))
            }),
        ),
        (
            "small",
            Box::new(move || bench.report("files of 4 KiB", count / 2, count * 2048, small)),
        ),
        (
            "stream",
            Box::new(move || {
                bench.report("stream, 128 KiB blocks", 16384, 2 << 30, || {
                    bench.stream(2 << 30)
                });
            }),
        ),
        (
            "lookups",
            Box::new(move || bench.report("names looked up", count, 0, lookups)),
        ),
        ("cold", Box::new(move || bench.cold(&ids.lock()))),
        (
            "frees",
            Box::new(move || bench.report("frees", count, 0, frees)),
        ),
    ]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200_000);
    let folder = arguments
        .next()
        .map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let only: Vec<String> = arguments.collect();
    let image = folder.join(format!("millpond-creates-{}.img", std::process::id()));
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(16 << 30).unwrap();
    let bench = Bench::new(&image);
    let ids = Mutex::new(&SETS, Vec::new());
    bench.report("creates", count, 0, || {
        let made = (0..count).map(|index| bench.create(index, &[]).id());
        *ids.lock() = made.collect();
    });
    for (name, phase) in phases(&bench, count, &ids) {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            phase();
        }
    }
    bench.engine.stop();
    drop(file);
    std::fs::remove_file(&image).unwrap();
}
