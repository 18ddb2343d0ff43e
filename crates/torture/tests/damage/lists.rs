//! Lists of block pointers of every kind, full, in a pool of which any block of them is gone: deadlists, livelists,
//! the list of later frees with lists in it, the queue of destroyed datasets.

use crate::stage::{LARGE, OPEN, Stage, contents, make_dataset, open, path, snapshot, write};
use crate::walk::Block;
use crate::{Trial, step, try_blocks};
use dsl::Dsl;
use dsl::tasks::{Clone as CloneTask, DestroyHead, DestroySnapshots};
use dsl::tunables::BACKGROUND_BLOCKS;
use format::ObjectType;
use inspect::{Checks, Image, SpaceFaultKind};
use millpond_torture::test_pool::{POOL, TestPool};
use std::path::Path;
use std::sync::Arc;

/// Blocks that a txg frees in the background while nothing is to be freed.
const FEW: u64 = 1;
/// The same while it is: several txgs a list.
const SOME: u64 = 700;

/// Snapshots of which a deadlist has so many keys that they are a block of their own.
const OFTEN: u64 = 24;

fn clone(dsl: &Arc<Dsl>, origin: &str, name: &str) -> dsl::Result<()> {
    let task = CloneTask {
        origin: path(origin),
        path: path(name),
        properties: Vec::new(),
    };
    dsl.run(task).map(drop)
}

fn destroy(test_pool: &TestPool, name: &str) -> dsl::Result<()> {
    test_pool.close(&path(name));
    let path = path(name);
    test_pool.pool.dsl().run(DestroyHead { path }).map(drop)
}

fn destroy_snapshot(dsl: &Arc<Dsl>, name: &str) -> dsl::Result<()> {
    let names = vec![path(name)];
    let task = DestroySnapshots {
        names,
        defer: false,
    };
    dsl.run(task).map(drop)
}

/// Writes a part of the one file of a dataset anew.
fn overwrite(test_pool: &TestPool, dataset: &str, offset: u64, length: u64) -> Result<(), String> {
    let system = test_pool.try_system(&path(dataset))?;
    let written = open(&system, "first", OPEN)
        .and_then(|file| write(&file, offset, &contents(offset + length, length)));
    written.map_err(|error| error.to_string())
}

impl Stage {
    /// The same pool with lists: deadlists of `layers`, with many keys of `often`, a livelist of `kid`, and what is
    /// still to be freed of a snapshot, of a file system and of a clone with a livelist.
    fn with_lists() -> Self {
        let mut stage = Self::new();
        let test_pool = stage.import(false).unwrap();
        let dsl = Arc::clone(test_pool.pool.dsl());
        BACKGROUND_BLOCKS.set(FEW);
        for name in ["layers", "heap", "burnt", "often"] {
            make_dataset(&dsl, path(name)).unwrap();
            stage.add(&test_pool, name, "first", LARGE);
            snapshot(&dsl, path(&format!("{name}@a"))).unwrap();
        }
        for (name, offset) in [("b", 0), ("c", LARGE / 4), ("d", LARGE / 2)] {
            overwrite(&test_pool, "layers", offset, LARGE / 3).unwrap();
            snapshot(&dsl, path(&format!("layers@{name}"))).unwrap();
        }
        overwrite(&test_pool, "layers", 512, LARGE - 512).unwrap();
        for number in 0..OFTEN {
            overwrite(&test_pool, "often", number * 512, 512).unwrap();
            snapshot(&dsl, path(&format!("often@{number}"))).unwrap();
        }
        clone(&dsl, "layers@d", "kid").unwrap();
        clone(&dsl, "layers@c", "gone").unwrap();
        for offset in [0, LARGE / 3] {
            for name in ["kid", "gone"] {
                overwrite(&test_pool, name, offset, 60_000).unwrap();
            }
            test_pool.pool.sync().unwrap();
        }
        destroy(&test_pool, "gone").unwrap();
        overwrite(&test_pool, "heap", 0, LARGE).unwrap();
        destroy_snapshot(&dsl, "heap@a").unwrap();
        destroy_snapshot(&dsl, "burnt@a").unwrap();
        destroy(&test_pool, "burnt").unwrap();
        drop(dsl);
        stage.files.retain(|file| {
            let name = file.dataset.rsplit('/').next().unwrap();
            !["layers", "heap", "burnt", "often"].contains(&name)
        });
        test_pool.export().unwrap();
        stage.keep();
        BACKGROUND_BLOCKS.set(SOME);
        stage.walk();
        stage
    }
}

fn is_list(block: &Block) -> bool {
    const KINDS: [ObjectType; 4] = [
        ObjectType::BPOBJ,
        ObjectType::BPOBJ_SUBOBJECTS,
        ObjectType::DEADLIST,
        ObjectType::OTN_U64_METADATA,
    ];
    let mut places = block.places.iter();
    places.any(|place| KINDS.contains(&place.kind))
}

impl Trial<'_> {
    /// Whatever adds to lists and frees from them.
    fn use_lists(mut self) -> Vec<String> {
        let Some(test_pool) = self.import("import") else {
            return self.faults;
        };
        let dsl = Arc::clone(test_pool.pool.dsl());
        self.goes_on("at first", &test_pool);
        // One that cannot be mounted is not written.
        for name in ["layers", "kid", "back", "often"] {
            let _ = overwrite(&test_pool, name, LARGE / 2, LARGE / 8);
        }
        self.goes_on("after writes", &test_pool);
        let found = destroy_snapshot(&dsl, "layers@b");
        self.judge_task("destroy of layers@b", "", found);
        let found = snapshot(&dsl, path("layers@e"));
        self.judge_task("snapshot of layers", "", found);
        let _ = overwrite(&test_pool, "layers", 0, LARGE / 8);
        for name in ["layers@a", "often@5"] {
            let found = destroy_snapshot(&dsl, name);
            self.judge_task(&format!("destroy of {name}"), "", found);
        }
        for name in ["kid", "doomed", "heap"] {
            let found = destroy(&test_pool, name);
            self.judge_task(&format!("destroy of {name}"), "", found);
        }
        for _ in 0..12 {
            self.goes_on("while freeing", &test_pool);
        }
        if self.faults.is_empty() && dsl.has_background_frees().unwrap_or(true) {
            self.fault("something is never freed");
        }
        drop(dsl);
        self.check("before the export", &test_pool);
        let leaked = leaked_bytes(&test_pool);
        self.end(test_pool, leaked)
    }

    /// Exports, and looks at the pool from outside and from inside.
    fn end(mut self, test_pool: TestPool, leaked: u64) -> Vec<String> {
        if !self.faults.is_empty() {
            return self.faults;
        }
        if let Err(error) = test_pool.export() {
            self.fault(format!("export: {error}"));
            return self.faults;
        }
        self.verify(leaked);
        self.zdb();
        let Some(test_pool) = self.import("second import") else {
            return self.faults;
        };
        self.goes_on("after the second import", &test_pool);
        self.check("after the second import", &test_pool);
        if leaked_bytes(&test_pool) != leaked {
            self.fault("what leaked has changed");
        }
        if let Err(error) = test_pool.export() {
            self.fault(format!("second export: {error}"));
        }
        self.faults
    }

    fn verify(&mut self, leaked: u64) {
        if let Err(faults) = check_image(&self.stage.image(), leaked, 0) {
            self.faults.extend(faults);
        }
    }

    /// zdb may complain of the damage; it comes to its end. But not with a map of a deadlist that nobody can read:
    /// there it stops by itself, whoever wrote the pool.
    fn zdb(&mut self) {
        const ONE_IN: u64 = 4;
        let sector = self
            .block
            .pointer
            .dvas()
            .next()
            .map_or(0, |dva| dva.offset / 512);
        let mut places = self.block.places.iter();
        let is_map = places.any(|place| place.kind == ObjectType::DEADLIST);
        if is_map || !sector.is_multiple_of(ONE_IN) {
            return;
        }
        if let Some(zdb) = golden::Zdb::from_environment() {
            let image = self.stage.image();
            let output = zdb.run(image.parent().unwrap(), &["-bccd"], &[POOL]);
            let text = String::from_utf8_lossy(&output.stderr);
            if output.status.code().is_none() || text.contains("ASSERT") || text.contains("VERIFY")
            {
                self.fault(format!("zdb: {}: {text}", output.status));
            }
        }
    }
}

/// What is referred to is there, and what leaked is what the pool says, but for `beside` bytes.
pub(crate) fn check_image(image: &Path, leaked: u64, beside: u64) -> Result<(), Vec<String>> {
    let checks = Checks {
        data: true,
        space: true,
    };
    let open = Image::open(&[image.to_owned()], None, None);
    let checked = open
        .and_then(|image| image.check(checks, &|_, _| {}))
        .map_err(|error| vec![format!("inspect: {error}")])?;
    let mut faults = checked.others;
    let of = |kind| {
        let faults = checked.space_faults.iter();
        let lengths = faults
            .filter(|fault| fault.kind == kind)
            .map(|fault| fault.length);
        lengths.sum::<u64>()
    };
    let missing = of(SpaceFaultKind::Missing) + of(SpaceFaultKind::Misplaced);
    if missing != 0 {
        faults.push(format!("{missing} bytes are referred to and not allocated"));
    }
    let seen = of(SpaceFaultKind::Leaked);
    // Of what cannot be read nobody sees to what it refers.
    let hides = !checked.unreadable.is_empty();
    if seen < leaked || (seen > leaked + beside && !hides) {
        faults.push(format!("{seen} bytes leaked, and the pool says {leaked}"));
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

/// Bytes that nobody refers to and nobody can free, as the pool says.
fn leaked_bytes(test_pool: &TestPool) -> u64 {
    let root = test_pool.pool.dsl().root_directory();
    let leak = root.and_then(|root| root.child(format::dsl::hidden::LEAK));
    let phys = leak.and_then(|leak| leak.map(|leak| leak.phys()).transpose());
    phys.ok().flatten().map_or(0, |phys| phys.used_bytes)
}

#[test]
fn a_damaged_list_costs_what_it_lists() {
    let stage = Stage::with_lists();
    let pick = |block: &Block| block.is_of_pool() && is_list(block);
    try_blocks(&stage, pick, |trial| trial.use_lists(), step(8));
    BACKGROUND_BLOCKS.reset();
}
