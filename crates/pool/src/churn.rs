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

fn create_volume(pool: &Pool, name: &str) {
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
