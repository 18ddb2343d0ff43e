//! Changes of every kind to a pool, for tests: a volume that is written, overwritten, snapshotted,
//! trimmed and destroyed, and a model of what must be in it.

use std::sync::Arc;

use base::ObjectId;
use base::random::{Rng, SeededRng};
use dmu::{AllocateObject, CreateZap, Reservation, Tx, Zap};
use dsl::tasks::{CreateDataset, DestroyHead, DestroySnapshots, Snapshot};
use format::{ObjectSetKind, ObjectType};

use crate::Pool;

const BLOCK: usize = 8192;
const BLOCKS: usize = 256;

pub(crate) struct Churn {
    rng: SeededRng,
    model: Vec<u8>,
    round: u32,
}

fn path(pool: &Pool, name: &str) -> String {
    format!("{}/{name}", pool.name())
}

pub(crate) fn create_volume(pool: &Pool, name: &str) {
    let populate = |set: &Arc<dmu::ObjectSet>, tx: &Tx| -> Result<(), String> {
        let shape = AllocateObject {
            object_type: ObjectType::ZVOL,
            block_size: BLOCK as u32,
            ..AllocateObject::default()
        };
        set.claim(tx, ObjectId(1), &shape)
            .map_err(|error| error.to_string())?;
        let shape = CreateZap {
            object_type: ObjectType::ZVOL_PROPERTIES,
            id: Some(ObjectId(2)),
            ..CreateZap::default()
        };
        let zap = Zap::create(set, tx, &shape).map_err(|error| error.to_string())?;
        zap.add(tx, b"size", (BLOCK * BLOCKS) as u64)
            .map_err(|error| error.to_string())
    };
    let create = CreateDataset {
        path: path(pool, name),
        kind: ObjectSetKind::Volume,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(Box::new(populate)),
    };
    pool.dsl().run(create).unwrap();
}

impl Churn {
    pub(crate) fn new(pool: &Arc<Pool>, seed: u64) -> Self {
        let churn = Self {
            rng: SeededRng::new(seed),
            model: vec![0; BLOCK * BLOCKS],
            round: 0,
        };
        create_volume(pool, "churn");
        churn
    }

    /// What must be in it as of now, for a pool that is taken back to this.
    pub(crate) fn as_of_now(&self) -> Self {
        Self {
            rng: SeededRng::new(u64::from(self.round)),
            model: self.model.clone(),
            round: self.round,
        }
    }

    /// Rounds of changes, each followed by a snapshot or a destroy.
    pub(crate) fn run(&mut self, pool: &Arc<Pool>, rounds: u32) {
        for _ in 0..rounds {
            self.round += 1;
            self.write_some(pool);
            let snapshot = format!("{}@{}", path(pool, "churn"), self.round);
            let names = vec![snapshot];
            let properties = Vec::new();
            pool.dsl().run(Snapshot { names, properties }).unwrap();
            self.write_some(pool);
            pool.sync().unwrap();
            if self.round.is_multiple_of(3) {
                let old = format!("{}@{}", path(pool, "churn"), self.round - 1);
                let names = vec![old];
                pool.dsl()
                    .run(DestroySnapshots {
                        names,
                        defer: false,
                    })
                    .unwrap();
            }
            create_volume(pool, "short");
            let path = path(pool, "short");
            pool.dsl().run(DestroyHead { path }).unwrap();
        }
    }

    fn write_some(&mut self, pool: &Pool) {
        let head = pool.dsl().head(&path(pool, "churn")).unwrap();
        let set = head.object_set().unwrap();
        let object = set.object(ObjectId(1)).unwrap();
        let engine = pool.engine().unwrap();
        for _ in 0..20 {
            let block = self.rng.below(BLOCKS as u64) as usize;
            let count = 1 + self.rng.below(16) as usize;
            let range = block * BLOCK..(block + count).min(BLOCKS) * BLOCK;
            let reservation = Reservation {
                write_bytes: range.len() as u64,
                objects: 1,
                ..Reservation::default()
            };
            let kind = self.rng.below(4);
            let part = &mut self.model[range.clone()];
            match kind {
                0 => part.fill(0),
                1 => part.fill(block as u8),
                _ => self.rng.fill(part),
            }
            let tx = Tx::assign(engine, &reservation).unwrap();
            if kind == 0 {
                object
                    .free_range(&tx, range.start as u64, range.len() as u64)
                    .unwrap();
            } else {
                object.write(&tx, range.start as u64, part).unwrap();
            }
        }
    }

    /// A block of the volume that lies on a device, and the object it is of.
    pub(crate) fn some_block(&self, pool: &Pool) -> (format::BlockPointer, ObjectId) {
        (self.blocks(pool)[0], ObjectId(1))
    }

    /// All blocks of the volume that lie on a device.
    pub(crate) fn blocks(&self, pool: &Pool) -> Vec<format::BlockPointer> {
        let head = pool.dsl().head(&path(pool, "churn")).unwrap();
        let object = head.object_set().unwrap().object(ObjectId(1)).unwrap();
        let blocks = (0..BLOCKS as u64).map(|block| object.block_pointer(block).unwrap());
        blocks
            .filter(|block| !block.is_hole() && !block.is_embedded())
            .collect()
    }

    /// Destroys the volume with its snapshots.
    pub(crate) fn destroy_all(&self, pool: &Pool) {
        let path = path(pool, "churn");
        let snapshots = pool.dsl().head(&path).unwrap().snapshots().unwrap();
        let names = snapshots.iter().map(|snapshot| snapshot.name().unwrap());
        let names: Vec<_> = names.collect();
        drop(snapshots);
        let defer = false;
        pool.dsl().run(DestroySnapshots { names, defer }).unwrap();
        pool.dsl().run(DestroyHead { path }).unwrap();
        while pool.dsl().has_background_frees().unwrap() {
            pool.sync().unwrap();
        }
    }

    /// Whether the volume holds what was written.
    pub(crate) fn check(&self, pool: &Pool) {
        let head = pool.dsl().head(&path(pool, "churn")).unwrap();
        let set = head.object_set().unwrap();
        let object = set.object(ObjectId(1)).unwrap();
        let mut found = vec![0; self.model.len()];
        object.read(0, &mut found).unwrap();
        assert!(found == self.model, "{}: other data", pool.name());
    }
}

/// Fills a pool to the brim with blocks of random sizes, and makes holes in it.
pub(crate) struct Filler {
    rng: SeededRng,
    /// By object: the block size and the seed of each block's content.
    objects: Vec<(ObjectId, usize, Vec<Option<u64>>)>,
}

fn content(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    SeededRng::new(seed).fill(&mut bytes);
    bytes
}

impl Filler {
    pub(crate) fn new(pool: &Arc<Pool>, seed: u64) -> Self {
        create_volume(pool, "full");
        Self {
            rng: SeededRng::new(seed),
            objects: Vec::new(),
        }
    }

    /// Writes until there is no space; answers how many bytes.
    pub(crate) fn fill(&mut self, pool: &Pool) -> u64 {
        const SIZES: [usize; 4] = [512, 4096, 16_384, 131_072];
        let head = pool.dsl().head(&path(pool, "full")).unwrap();
        let set = head.object_set().unwrap();
        let admission = head.admission();
        let engine = pool.engine().unwrap();
        let mut written = 0;
        loop {
            let size = SIZES[self.rng.below(4) as usize];
            let reservation = |bytes| Reservation {
                write_bytes: bytes,
                objects: 1,
                admission: Some(&*admission),
                ..Reservation::default()
            };
            let Ok(tx) = Tx::assign(engine, &reservation(0)) else {
                return written;
            };
            let shape = AllocateObject {
                object_type: ObjectType::ZVOL,
                block_size: size as u32,
                ..AllocateObject::default()
            };
            let object = set.allocate(&tx, &shape).unwrap();
            drop(tx);
            let mut blocks = Vec::new();
            for block in 0..200 {
                let Ok(tx) = Tx::assign(engine, &reservation(size as u64)) else {
                    self.objects.push((object.id(), size, blocks));
                    return written;
                };
                let seed = self.rng.next_u64();
                object
                    .write(&tx, (block * size) as u64, &content(seed, size))
                    .unwrap();
                blocks.push(Some(seed));
                written += size as u64;
            }
            self.objects.push((object.id(), size, blocks));
        }
    }

    /// Frees two of three blocks.
    pub(crate) fn punch(&mut self, pool: &Pool) {
        let head = pool.dsl().head(&path(pool, "full")).unwrap();
        let set = head.object_set().unwrap();
        let engine = pool.engine().unwrap();
        let admission = head.admission();
        for (id, size, blocks) in &mut self.objects {
            let object = set.object(*id).unwrap();
            let reservation = Reservation {
                objects: 1,
                net_free: true,
                admission: Some(&*admission),
                ..Reservation::default()
            };
            let tx = Tx::assign(engine, &reservation).unwrap();
            for (index, block) in blocks.iter_mut().enumerate() {
                if index % 3 != 0 && block.take().is_some() {
                    let offset = (index * *size) as u64;
                    object.free_range(&tx, offset, *size as u64).unwrap();
                }
            }
        }
    }

    pub(crate) fn check(&self, pool: &Pool) {
        let head = pool.dsl().head(&path(pool, "full")).unwrap();
        let set = head.object_set().unwrap();
        for (id, size, blocks) in &self.objects {
            let object = set.object(*id).unwrap();
            let mut found = vec![0; *size];
            for (index, block) in blocks.iter().enumerate() {
                object.read((index * size) as u64, &mut found).unwrap();
                match block {
                    Some(seed) => assert!(found == content(*seed, *size)),
                    None => assert!(found.iter().all(|byte| *byte == 0)),
                }
            }
        }
    }

    /// Its blocks that lie on a device.
    pub(crate) fn blocks(&self, pool: &Pool) -> Vec<format::BlockPointer> {
        let head = pool.dsl().head(&path(pool, "full")).unwrap();
        let set = head.object_set().unwrap();
        let objects = self.objects.iter();
        let blocks = objects.flat_map(|(id, _, blocks)| {
            let object = set.object(*id).unwrap();
            let pointer = move |index| object.block_pointer(index as u64).unwrap();
            (0..blocks.len()).map(pointer)
        });
        blocks
            .filter(|block| !block.is_hole() && !block.is_embedded())
            .collect()
    }

    pub(crate) fn destroy(&self, pool: &Pool) {
        let path = path(pool, "full");
        pool.dsl().run(DestroyHead { path }).unwrap();
    }
}
