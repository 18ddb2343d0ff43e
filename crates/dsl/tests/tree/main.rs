//! The tree of datasets under random changes: after each, every account of space, every feature
//! count and every reference is recomputed from the blocks, and nothing may differ.

mod memory;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ObjectId, ObjectSetId, Txg};
use dmu::{AllocateObject, BlockStore, ObjectSet, OpenObjectSet, SyncWorkers, Tx};
use format::features;
use format::{ObjectSetKind, ObjectType};
use memory::{Memory, Shared, Writers};
use millpond_dsl::tasks::{
    Clone, CreateBookmark, CreateDataset, DestroyBookmark, DestroyHead, DestroySnapshots, Hold,
    Promote, Release, Rename, RenameSnapshot, Rollback, Snapshot,
};
use millpond_dsl::{
    Dsl, DslError, NewPool, OpenDsl, PropertyChange, PropertyValue, SetProperties, SyncPass, Task,
};

struct Harness {
    memory: Arc<Memory>,
    dsl: Arc<Dsl>,
    mos: Arc<ObjectSet>,
    workers: SyncWorkers,
    txg: u64,
}

impl Harness {
    fn new(seed: u64, disabled: &[&'static str]) -> Self {
        let memory = Memory::new(seed, disabled);
        let store: Arc<dyn BlockStore> = memory.clone();
        let options = OpenObjectSet {
            store,
            id: ObjectSetId(0),
            writable: true,
            objects_max: 1000,
        };
        let tx = Tx::syncing(Txg(4));
        let mos = ObjectSet::create(options, ObjectSetKind::Meta, &tx).unwrap();
        memory::new_directory(&mos, &tx);
        let workers = SyncWorkers::new(1);
        let writers = Writers {
            memory: memory.clone(),
            txg: Txg(4),
        };
        let pass = SyncPass {
            txg: Txg(4),
            pass: 1,
            workers: &workers,
            engine: None,
            writers: &writers,
        };
        let open = OpenDsl {
            mos: mos.clone(),
            services: Arc::new(Shared(memory.clone())),
            engine: None,
            name: "tank".to_owned(),
            objects_max: 1000,
        };
        let dsl = Dsl::create(open, &pass).unwrap();
        dsl.create_root(NewPool::default(), &pass).unwrap();
        let mut harness = Self {
            memory,
            dsl,
            mos,
            workers,
            txg: 4,
        };
        harness.sync();
        harness
    }

    fn with_pass<R>(&self, number: u32, run: impl FnOnce(&SyncPass<'_>) -> R) -> R {
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
            engine: None,
            writers: &writers,
        })
    }

    /// Ends the txg: the passes, then the next one opens.
    fn sync(&mut self) {
        self.with_pass(1, |pass| {
            self.dsl.sync(pass).unwrap();
        });
        self.finish();
    }

    fn finish(&mut self) {
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

    /// Runs a task in a txg of its own.
    fn run<T: Task>(&mut self, task: T) -> Result<T::Output, DslError> {
        let result = self.with_pass(1, |pass| {
            self.dsl.sync(pass).unwrap();
            self.dsl.run_now(task, pass)
        });
        self.finish();
        result
    }

    fn check(&self) {
        walk::check(&self.dsl, &self.memory);
    }

    /// Frees everything that waits.
    fn drain(&mut self) {
        while self.dsl.has_background_frees().unwrap() {
            self.sync();
        }
        // What the last frees changed in the pool's own object set.
        self.sync();
    }

    fn write(&self, path: &str, object: u64, block: u64, seed: u8, length: usize) {
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

    fn free(&self, path: &str, object: u64) {
        let set = self.dsl.head(path).unwrap().object_set().unwrap();
        let _ = set.free(&Tx::syncing(Txg(self.txg)), ObjectId(object));
    }

    fn contents(&self, name: &str) -> BTreeMap<u64, Vec<u8>> {
        let set = self.dsl.dataset(name).unwrap().object_set().unwrap();
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

fn create(path: &str) -> CreateDataset {
    CreateDataset {
        path: path.to_owned(),
        kind: ObjectSetKind::FileSystem,
        properties: Vec::new(),
        case_insensitive: false,
        populate: None,
    }
}

fn snapshot(name: &str) -> Snapshot {
    Snapshot {
        names: vec![name.to_owned()],
        properties: Vec::new(),
    }
}

fn destroy(name: &str) -> DestroySnapshots {
    DestroySnapshots {
        names: vec![name.to_owned()],
        defer: false,
    }
}

fn clone(origin: &str, path: &str) -> Clone {
    Clone {
        origin: origin.to_owned(),
        path: path.to_owned(),
        properties: Vec::new(),
    }
}

#[test]
fn a_new_pool_has_the_objects_that_openzfs_makes() {
    let harness = Harness::new(1, &[features::EMPTY_BPOBJ.guid]);
    harness.check();
    let root = harness.dsl.root_directory().unwrap();
    assert_eq!(root.id(), ObjectId(32));
    let children = ["$MOS", "$FREE", "$ORIGIN"].map(|name| root.child(name).unwrap().unwrap().id());
    assert_eq!(children, [ObjectId(35), ObjectId(38), ObjectId(42)]);
    let origin = root.child("$ORIGIN").unwrap().unwrap();
    assert_eq!(origin.head().unwrap().unwrap().id(), ObjectId(45));
    assert_eq!(harness.dsl.origin_snapshot().unwrap(), Some(ObjectId(48)));
    assert_eq!(
        harness.mos.object(ObjectId(41)).unwrap().info().object_type,
        ObjectType::BPOBJ
    );
    assert_eq!(
        harness.mos.object(ObjectId(50)).unwrap().info().object_type,
        ObjectType::BPOBJ
    );
}

#[test]
fn the_life_of_a_snapshot() {
    let mut harness = Harness::new(2, &[]);
    harness.run(create("tank/a")).unwrap();
    assert!(matches!(
        harness.run(create("tank/a")),
        Err(DslError::Exists { .. })
    ));
    assert!(matches!(
        harness.run(create("tank/x/y")),
        Err(DslError::NotFound { .. })
    ));
    harness.check();
    for block in 0..40 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.check();
    let one = harness.contents("tank/a@one");
    for block in 10..20 {
        harness.write("tank/a", 5, block, 77, 1000);
    }
    harness.run(snapshot("tank/a@two")).unwrap();
    let two = harness.contents("tank/a@two");
    harness.check();
    harness.free("tank/a", 5);
    harness.run(snapshot("tank/a@three")).unwrap();
    harness.check();
    assert_eq!(harness.contents("tank/a@one"), one);
    assert_eq!(harness.contents("tank/a@two"), two);
    harness.run(destroy("tank/a@two")).unwrap();
    harness.check();
    harness.drain();
    harness.check();
    assert_eq!(harness.contents("tank/a@one"), one);
    let path = "tank/a".to_owned();
    let back = Rollback {
        path: path.clone(),
        snapshot: Some("one".to_owned()),
    };
    assert!(matches!(harness.run(back), Err(DslError::NotLatest { .. })));
    harness.write("tank/a", 9, 0, 3, 4096);
    let back = Rollback {
        path: path.clone(),
        snapshot: Some("three".to_owned()),
    };
    assert_eq!(harness.run(back).unwrap(), "tank/a@three");
    harness.check();
    assert!(harness.contents("tank/a").is_empty());
    let held = vec![("tank/a@one".to_owned(), "keep".to_owned())];
    harness
        .run(Hold {
            holds: held.clone(),
        })
        .unwrap();
    assert!(matches!(
        harness.run(destroy("tank/a@one")),
        Err(DslError::Busy { .. })
    ));
    let defer = DestroySnapshots {
        names: vec!["tank/a@one".to_owned()],
        defer: true,
    };
    harness.run(defer).unwrap();
    harness.check();
    harness.run(Release { holds: held }).unwrap();
    assert!(harness.dsl.dataset("tank/a@one").is_err());
    harness.drain();
    harness.check();
}

#[test]
fn clones_are_promoted_and_destroyed() {
    for disabled in [
        vec![],
        vec![features::LIVELIST.guid, features::ASYNC_DESTROY.guid],
    ] {
        let mut harness = Harness::new(3, &disabled);
        harness.run(create("tank/a")).unwrap();
        for block in 0..30 {
            harness.write("tank/a", 5, block, block as u8, 4096);
        }
        harness.run(snapshot("tank/a@one")).unwrap();
        harness.write("tank/a", 5, 3, 99, 4096);
        harness.run(snapshot("tank/a@two")).unwrap();
        harness.run(clone("tank/a@two", "tank/c")).unwrap();
        harness.check();
        let has_list = harness
            .dsl
            .directory("tank/c")
            .unwrap()
            .livelist()
            .unwrap()
            .is_some();
        assert_eq!(has_list, disabled.is_empty());
        harness.write("tank/c", 5, 7, 1, 4096);
        harness.sync();
        harness.check();
        harness.write("tank/c", 5, 7, 5, 4096);
        harness.write("tank/c", 6, 0, 5, 4096);
        harness.sync();
        harness.check();
        harness.run(clone("tank/a@one", "tank/d")).unwrap();
        let error = harness.run(destroy("tank/a@one"));
        assert!(matches!(error, Err(DslError::HasClones { .. })));
        harness
            .run(Promote {
                path: "tank/c".to_owned(),
            })
            .unwrap();
        harness.check();
        assert!(harness.dsl.dataset("tank/c@one").is_ok());
        assert_eq!(
            harness
                .dsl
                .directory("tank/a")
                .unwrap()
                .origin()
                .unwrap()
                .unwrap()
                .name()
                .unwrap(),
            "tank/c@two"
        );
        let defer = DestroySnapshots {
            names: vec!["tank/c@one".to_owned()],
            defer: true,
        };
        harness.run(defer).unwrap();
        harness
            .run(DestroyHead {
                path: "tank/d".to_owned(),
            })
            .unwrap();
        assert!(harness.dsl.dataset("tank/c@one").is_err());
        harness.check();
        harness
            .run(DestroyHead {
                path: "tank/a".to_owned(),
            })
            .unwrap();
        harness.check();
        harness.run(destroy("tank/c@two")).unwrap();
        harness.drain();
        harness.check();
        harness
            .run(DestroyHead {
                path: "tank/c".to_owned(),
            })
            .unwrap();
        harness.drain();
        harness.check();
        assert!(
            harness
                .dsl
                .root_directory()
                .unwrap()
                .children()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn properties_come_from_where_they_are_set() {
    let mut harness = Harness::new(4, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.run(create("tank/a/b")).unwrap();
    let set = |name: &str, property: &str, change| SetProperties {
        name: name.to_owned(),
        changes: vec![(property.to_owned(), change)],
    };
    let number = PropertyValue::Number;
    harness
        .run(set("tank/a", "atime", PropertyChange::Set(number(0))))
        .unwrap();
    let below = harness.dsl.head("tank/a/b").unwrap();
    let from = millpond_dsl::Source::Inherited("tank/a".to_owned());
    assert_eq!(
        below.property("atime", true).unwrap(),
        Some((number(0), from))
    );
    assert_eq!(below.property("atime", false).unwrap(), None);
    harness
        .run(set("tank/a/b", "atime", PropertyChange::Receive(number(1))))
        .unwrap();
    let received = millpond_dsl::Source::Received;
    assert_eq!(
        below.property("atime", true).unwrap(),
        Some((number(1), received))
    );
    harness
        .run(set("tank/a/b", "atime", PropertyChange::Inherit))
        .unwrap();
    assert_eq!(below.property("atime", true).unwrap().unwrap().0, number(0));
    harness
        .run(set("tank/a", "snapdir", PropertyChange::Set(number(2))))
        .unwrap();
    assert_eq!(below.number_property("snapdir", true, 0).unwrap(), 2);
    harness
        .run(set(
            "tank/a",
            "reservation",
            PropertyChange::Set(number(1 << 20)),
        ))
        .unwrap();
    harness
        .run(set(
            "tank/a/b",
            "refreservation",
            PropertyChange::Set(number(3 << 19)),
        ))
        .unwrap();
    harness.write("tank/a/b", 4, 0, 1, 4096);
    harness.sync();
    harness.check();
    let quota = set("tank/a", "quota", PropertyChange::Set(number(4096)));
    assert!(matches!(harness.run(quota), Err(DslError::NoSpace)));
    harness
        .run(set("tank/a", "quota", PropertyChange::Set(number(2 << 20))))
        .unwrap();
    assert!(
        harness
            .dsl
            .head("tank/a/b")
            .unwrap()
            .space()
            .unwrap()
            .available
            <= 2 << 20
    );
    harness
        .run(Rename {
            from: "tank/a/b".to_owned(),
            to: "tank/z".to_owned(),
        })
        .unwrap();
    harness.check();
    assert_eq!(below.name().unwrap(), "tank/z");
    harness.run(snapshot("tank/z@s")).unwrap();
    harness.check();
    harness
        .run(RenameSnapshot {
            from: "tank/z@s".to_owned(),
            to: "t".to_owned(),
            recursive: false,
        })
        .unwrap();
    let note = PropertyValue::Text("x".to_owned());
    harness
        .run(set(
            "tank/z@t",
            "my:note",
            PropertyChange::Set(note.clone()),
        ))
        .unwrap();
    let taken = harness.dsl.dataset("tank/z@t").unwrap();
    assert_eq!(taken.property("my:note", true).unwrap().unwrap().0, note);
    harness
        .run(set("tank/z@t", "my:note", PropertyChange::Inherit))
        .unwrap();
    harness
        .run(set("tank/a", "reservation", PropertyChange::Set(number(0))))
        .unwrap();
    harness.check();
}

/// A small source of numbers for choices.
struct Choice(u64);

impl Choice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() {
            None
        } else {
            Some(&all[self.below(all.len())])
        }
    }
}

/// Heads and snapshots by name.
fn names(dsl: &Arc<Dsl>) -> (Vec<String>, Vec<String>) {
    let mut heads = Vec::new();
    let mut snapshots = Vec::new();
    for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
        heads.push(head.name().unwrap());
        for snapshot in head.snapshots().unwrap() {
            snapshots.push(snapshot.name().unwrap());
        }
    }
    (heads, snapshots)
}

fn step(harness: &mut Harness, choice: &mut Choice, count: usize) -> Option<DslError> {
    let (heads, snapshots) = names(&harness.dsl);
    let head = choice.of(&heads).cloned().unwrap();
    let taken = choice.of(&snapshots).cloned();
    for _ in 0..choice.below(12) {
        let (object, block) = (2 + choice.below(4) as u64, choice.below(60) as u64);
        let length = 1 + choice.below(6000);
        harness.write(&head, object, block, choice.below(256) as u8, length);
    }
    if choice.below(8) == 0 {
        harness.free(&head, 2 + choice.below(4) as u64);
    }
    let number = |value: usize| PropertyChange::Set(PropertyValue::Number(value as u64));
    let result = match (choice.below(14), taken) {
        (0, _) => harness.run(create(&format!("{head}/f{count}"))).map(drop),
        (1..=3, _) => harness.run(snapshot(&format!("{head}@s{count}"))).map(drop),
        (4, Some(taken)) => harness
            .run(clone(&taken, &format!("tank/c{count}")))
            .map(drop),
        (5 | 6, Some(taken)) => {
            let defer = choice.below(3) == 0;
            harness.run(DestroySnapshots {
                names: vec![taken],
                defer,
            })
        }
        (7, _) => harness.run(DestroyHead { path: head }),
        (8, _) => harness
            .run(Rollback {
                path: head,
                snapshot: None,
            })
            .map(drop),
        (9, _) => harness.run(Promote { path: head }),
        (10, _) => {
            let to = format!("tank/r{count}");
            harness.run(Rename { from: head, to })
        }
        (11, Some(taken)) => {
            let path = taken.split('@').next().unwrap_or_default();
            let name = format!("{path}#b{count}");
            harness.run(CreateBookmark {
                name,
                source: taken,
            })
        }
        (12, _) => {
            let bookmarks = harness.dsl.head(&head).unwrap().bookmarks().unwrap();
            match choice.of(&bookmarks) {
                None => {
                    harness.sync();
                    Ok(())
                }
                Some(bookmark) => {
                    let name = format!("{head}#{}", bookmark.name);
                    harness.run(DestroyBookmark { name })
                }
            }
        }
        (13, _) => {
            let property = *choice
                .of(&["reservation", "refreservation", "quota"])
                .unwrap();
            let value = choice.below(3) * 300_000;
            let changes = vec![(property.to_owned(), number(value))];
            harness.run(SetProperties {
                name: head,
                changes,
            })
        }
        _ => {
            harness.sync();
            Ok(())
        }
    };
    result.err()
}

fn random_life(seed: u64, steps: usize) {
    let disabled = match seed % 3 {
        0 => vec![],
        1 => vec![features::LIVELIST.guid, features::BOOKMARK_WRITTEN.guid],
        _ => vec![features::EMPTY_BPOBJ.guid, features::ASYNC_DESTROY.guid],
    };
    let mut harness = Harness::new(seed, &disabled);
    let mut choice = Choice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for count in 0..steps {
        let (_, snapshots) = names(&harness.dsl);
        let kept = choice.of(&snapshots).cloned();
        let before = kept.as_ref().map(|name| harness.contents(name));
        step(&mut harness, &mut choice, count);
        harness.check();
        if let (Some(name), Some(before)) = (kept, before)
            && harness.dsl.dataset(&name).is_ok()
        {
            assert_eq!(harness.contents(&name), before, "contents of {name}");
        }
    }
    harness.drain();
    harness.check();
}

/// Changes in a life: more on request.
fn steps() -> usize {
    const STEPS: usize = 30;
    let wanted = std::env::var("MILLPOND_STEPS").ok();
    wanted.map_or(STEPS, |steps| steps.parse().expect("MILLPOND_STEPS is a number"))
}

#[test]
fn random_lives_keep_every_account() {
    let seeds = match std::env::var("MILLPOND_SEED") {
        Ok(seed) => vec![seed.parse().expect("MILLPOND_SEED is a number")],
        Err(_) => (1..=3).collect(),
    };
    for seed in seeds {
        println!("repeat with MILLPOND_SEED={seed}");
        random_life(seed, steps());
    }
}
