//! Lists of block pointers of every kind, full, in a pool of which any block of them is gone: dead lists, livelists,
//! the list of later frees with lists in it, the queue of destroyed datasets.

use crate::stage::{LARGE, OPEN, Stage, contents, make_dataset, open, path, snapshot, write};
use crate::walk::Block;
use crate::{Trial, step, try_blocks};
use dsl::Dsl;
use dsl::tasks::{Clone as CloneTask, DestroyHead, DestroySnapshots};
use dsl::tunables::BACKGROUND_BLOCKS;
use format::ObjectType;
use inspect::{Checks, Image, SpaceFaultKind};
use millpond_torture::laboratory::{Laboratory, POOL};
use std::path::Path;
use std::sync::Arc;

/// Blocks that a txg frees in the background while nothing is to be freed.
const FEW: u64 = 1;
/// The same while it is: several txgs a list.
const SOME: u64 = 700;

/// Snapshots of which a dead list has so many keys that they are a block of their own.
const OFTEN: u64 = 24;

fn clone(dsl: &Arc<Dsl>, origin: &str, name: &str) -> dsl::Result<()> {
    let task = CloneTask {
        origin: path(origin),
        path: path(name),
        properties: Vec::new(),
    };
    dsl.run(task).map(drop)
}

fn destroy(laboratory: &Laboratory, name: &str) -> dsl::Result<()> {
    laboratory.close(&path(name));
    let path = path(name);
    laboratory.pool.dsl().run(DestroyHead { path }).map(drop)
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
fn overwrite(
    laboratory: &Laboratory,
    dataset: &str,
    offset: u64,
    length: u64,
) -> Result<(), String> {
    let system = laboratory.try_system(&path(dataset))?;
    let written = open(&system, "first", OPEN)
        .and_then(|file| write(&file, offset, &contents(offset + length, length)));
    written.map_err(|error| error.to_string())
}

impl Stage {
    /// The same pool with lists: dead lists of `layers`, with many keys of `often`, a livelist of `kid`, and what is
    /// still to be freed of a snapshot, of a file system and of a clone with a livelist.
    fn with_lists() -> Self {
        let mut stage = Self::new();
        let laboratory = stage.import(false).unwrap();
        let dsl = Arc::clone(laboratory.pool.dsl());
        BACKGROUND_BLOCKS.set(FEW);
        for name in ["layers", "heap", "burnt", "often"] {
            make_dataset(&dsl, path(name)).unwrap();
            stage.add(&laboratory, name, "first", LARGE);
            snapshot(&dsl, path(&format!("{name}@a"))).unwrap();
        }
        for (name, offset) in [("b", 0), ("c", LARGE / 4), ("d", LARGE / 2)] {
            overwrite(&laboratory, "layers", offset, LARGE / 3).unwrap();
            snapshot(&dsl, path(&format!("layers@{name}"))).unwrap();
        }
        overwrite(&laboratory, "layers", 512, LARGE - 512).unwrap();
        for number in 0..OFTEN {
            overwrite(&laboratory, "often", number * 512, 512).unwrap();
            snapshot(&dsl, path(&format!("often@{number}"))).unwrap();
        }
        clone(&dsl, "layers@d", "kid").unwrap();
        clone(&dsl, "layers@c", "gone").unwrap();
        for offset in [0, LARGE / 3] {
            for name in ["kid", "gone"] {
                overwrite(&laboratory, name, offset, 60_000).unwrap();
            }
            laboratory.pool.sync().unwrap();
        }
        destroy(&laboratory, "gone").unwrap();
        overwrite(&laboratory, "heap", 0, LARGE).unwrap();
        destroy_snapshot(&dsl, "heap@a").unwrap();
        destroy_snapshot(&dsl, "burnt@a").unwrap();
        destroy(&laboratory, "burnt").unwrap();
        drop(dsl);
        stage.files.retain(|file| {
            let name = file.dataset.rsplit('/').next().unwrap();
            !["layers", "heap", "burnt", "often"].contains(&name)
        });
        laboratory.export().unwrap();
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
        let Some(laboratory) = self.import("import") else {
            return self.faults;
        };
        let dsl = Arc::clone(laboratory.pool.dsl());
        self.goes_on("at first", &laboratory);
        // One that cannot be mounted is not written.
        for name in ["layers", "kid", "back", "often"] {
            let _ = overwrite(&laboratory, name, LARGE / 2, LARGE / 8);
        }
        self.goes_on("after writes", &laboratory);
        let found = destroy_snapshot(&dsl, "layers@b");
        self.judge_task("destroy of layers@b", "", found);
        let found = snapshot(&dsl, path("layers@e"));
        self.judge_task("snapshot of layers", "", found);
        let _ = overwrite(&laboratory, "layers", 0, LARGE / 8);
        for name in ["layers@a", "often@5"] {
            let found = destroy_snapshot(&dsl, name);
            self.judge_task(&format!("destroy of {name}"), "", found);
        }
        for name in ["kid", "doomed", "heap"] {
            let found = destroy(&laboratory, name);
            self.judge_task(&format!("destroy of {name}"), "", found);
        }
        for _ in 0..12 {
            self.goes_on("while freeing", &laboratory);
        }
        if self.faults.is_empty() && dsl.has_background_frees().unwrap_or(true) {
            self.fault("something is never freed");
        }
        drop(dsl);
        self.check("before the export", &laboratory);
        let leaked = leaked_bytes(&laboratory);
        self.end(laboratory, leaked)
    }

    /// Exports, and looks at the pool from outside and from inside.
    fn end(mut self, laboratory: Laboratory, leaked: u64) -> Vec<String> {
        if !self.faults.is_empty() {
            return self.faults;
        }
        if let Err(error) = laboratory.export() {
            self.fault(format!("export: {error}"));
            return self.faults;
        }
        self.verify(leaked);
        self.zdb();
        let Some(laboratory) = self.import("second import") else {
            return self.faults;
        };
        self.goes_on("after the second import", &laboratory);
        self.check("after the second import", &laboratory);
        if leaked_bytes(&laboratory) != leaked {
            self.fault("what leaked has changed");
        }
        if let Err(error) = laboratory.export() {
            self.fault(format!("second export: {error}"));
        }
        self.faults
    }

    fn verify(&mut self, leaked: u64) {
        if let Err(faults) = check_image(&self.stage.image(), leaked, 0) {
            self.faults.extend(faults);
        }
    }

    /// zdb may complain of the damage; it comes to its end. But not with a map of a dead list that nobody can read:
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
fn leaked_bytes(laboratory: &Laboratory) -> u64 {
    let root = laboratory.pool.dsl().root_directory();
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
