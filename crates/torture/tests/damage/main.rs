//! Pools in which any one block of metadata is gone, in all its copies: it costs at most what it describes, and the
//! pool goes on; also after the next import.

mod between;
mod following;
mod lists;
mod maps;
mod stage;
mod walk;

use dsl::DslError;
use dsl::tasks::{DestroyHead, DestroySnapshots, Rollback};
use format::ObjectType;
use millpond_torture::random::seed;
use millpond_torture::test_pool::TestPool;
use posix::{Credentials, Errno, FileSystem, PosixError};
use stage::{Stage, contents, create, look_up, make_dataset, path, read, snapshot};
use std::sync::Arc;
use walk::{Block, Walk};

/// One block is gone.
struct Trial<'a> {
    stage: &'a Stage,
    block: &'a Block,
    /// What went wrong that must not.
    faults: Vec<String>,
}

impl<'a> Trial<'a> {
    fn new(stage: &'a Stage, block: &'a Block) -> Self {
        stage.damage(block);
        Self {
            stage,
            block,
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, what: impl std::fmt::Display) {
        self.faults.push(what.to_string());
    }

    /// Judges how an operation on an object ended.
    fn judge(
        &mut self,
        what: &str,
        dataset: &str,
        objects: &[u64],
        found: Result<(), PosixError>,
    ) -> bool {
        let may_fail = self.block.is_of_pool() || self.stage.may_fail(self.block, dataset, objects);
        match found {
            Ok(()) => return true,
            Err(error) if may_fail && error.errno() == Errno::EIO => {}
            Err(error) => self.fault(format!(
                "{what}: {error} ({:?}, may fail: {may_fail})",
                error.errno()
            )),
        }
        false
    }

    /// Judges how a command ended that reads `source`, if any dataset.
    fn judge_task(&mut self, what: &str, source: &str, found: dsl::Result<()>) {
        let may_fail = self.block.is_of_pool() || self.block.is_root_of(source);
        match found {
            Ok(()) => {}
            Err(DslError::Engine(error)) => self.fault(format!("{what}: {error}")),
            Err(error) if !may_fail => self.fault(format!("{what}: {error}")),
            Err(_) => {}
        }
    }

    /// The pool goes on.
    fn goes_on(&mut self, when: &str, test_pool: &TestPool) {
        if let Err(error) = test_pool.pool.sync() {
            self.fault(format!("{when}: {error}"));
        }
        if let Some(reason) = test_pool.pool.suspended() {
            self.fault(format!("{when}: suspended: {reason}"));
        }
        // What a change of a file needs is read before, so that only the change fails.
        let status = test_pool.pool.status();
        if self.block.is_of_a_file()
            && let Some(stopped) = status
                .ok()
                .and_then(|status| status.stopped.into_iter().next())
        {
            let (name, reason) = (stopped.name, stopped.reason);
            self.fault(format!("{when}: {name} is out of service: {reason}"));
        }
    }

    fn import(&mut self, when: &str) -> Option<TestPool> {
        match self.stage.import(false) {
            Ok(test_pool) => Some(test_pool),
            Err(error) => {
                if !self.block.is_of_pool() {
                    self.fault(format!("{when}: {error}"));
                }
                None
            }
        }
    }

    fn system(&mut self, test_pool: &TestPool, name: &str) -> Option<Arc<FileSystem>> {
        let dataset = path(name);
        match test_pool.try_system(&dataset) {
            Ok(system) => Some(system),
            Err(error) => {
                let root = self.stage.root_of(&dataset);
                if !self.block.is_of_pool() && !self.stage.may_fail(self.block, &dataset, &[root]) {
                    self.fault(format!("mount of {dataset}: {error}"));
                }
                None
            }
        }
    }

    /// What is done to one file; the name says what.
    fn change(&mut self, system: &FileSystem, name: &str) {
        let dataset = path("work");
        let (object, length) = {
            let file = self.stage.file(&dataset, name);
            (file.object, file.bytes.len() as u64)
        };
        let root = system.root();
        let found = stage::change(system, name, length);
        self.judge(
            &format!("change of {name}"),
            &dataset,
            &[object, root.0],
            found,
        );
    }

    /// Everything that nobody changed is as it was.
    fn check(&mut self, when: &str, test_pool: &TestPool) {
        let stage = self.stage;
        for file in &stage.files {
            let is_kept = file.name.contains("-keep") || file.dataset == path("calm");
            if !is_kept {
                continue;
            }
            let name = file.dataset.rsplit('/').next().unwrap();
            let Some(system) = self.system(test_pool, name) else {
                continue;
            };
            let what = format!("{when}: {} of {}", file.name, file.dataset);
            let objects = [file.object, system.root().0];
            match read(&system, &file.name) {
                Ok(bytes) if bytes != file.bytes => self.fault(format!("{what} has changed")),
                found => {
                    self.judge(&what, &file.dataset, &objects, found.map(drop));
                }
            }
        }
    }

    fn change_files(&mut self, test_pool: &TestPool) {
        let Some(system) = self.system(test_pool, "work") else {
            return;
        };
        let stage = self.stage;
        for file in stage
            .files
            .iter()
            .filter(|file| file.dataset == path("work"))
        {
            self.change(&system, &file.name);
        }
        for directory in ["old-many", "new-many"] {
            let found = self.empty_directory(&system, directory);
            if let Err(error) = found
                && error.errno() != Errno::EIO
            {
                self.fault(format!("{directory}: {error}"));
            }
        }
        let found = create(&system, system.root(), "fresh", &contents(1, 3000)).map(drop);
        self.judge("a new file", &path("work"), &[system.root().0], found);
    }

    fn empty_directory(&mut self, system: &FileSystem, name: &str) -> posix::Result<()> {
        let who = Credentials::root();
        let directory = look_up(system, name)?;
        let mut names = Vec::new();
        system.readdir(&who, directory, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.object));
            posix::Visit::Continue
        })?;
        for (name, object) in names {
            if name.starts_with(b".") {
                continue;
            }
            let found = system.unlink(&who, directory, &name).map(drop);
            let objects = [object.0, directory.0, system.root().0];
            let what = format!("removal of {object} in {directory}");
            self.judge(&what, &path("work"), &objects, found);
        }
        Ok(())
    }

    fn change_datasets(&mut self, test_pool: &TestPool) {
        let dsl = Arc::clone(test_pool.pool.dsl());
        let found = snapshot(&dsl, path("work@new"));
        self.judge_task("snapshot", "", found);
        test_pool.close(&path("doomed"));
        let found = dsl.run(DestroyHead {
            path: path("doomed"),
        });
        self.judge_task("destroy", "", found);
        test_pool.close(&path("back"));
        let snapshot = Some("s".to_owned());
        let found = dsl.run(Rollback {
            path: path("back"),
            snapshot,
        });
        self.judge_task("rollback", &path("back@s"), found.map(drop));
        let names = vec![path("work@old")];
        let found = dsl.run(DestroySnapshots {
            names,
            defer: false,
        });
        self.judge_task("destroy of a snapshot", "", found);
        let found = make_dataset(&dsl, path("more"));
        self.judge_task("create", "", found);
    }

    /// A log with changes is applied over what is damaged.
    fn replay(mut self) -> Vec<String> {
        for when in ["first import", "second import"] {
            let Some(test_pool) = self.import(when) else {
                return self.faults;
            };
            self.system(&test_pool, "work");
            self.goes_on(when, &test_pool);
            self.check(when, &test_pool);
            if when == "first import" {
                continue; // as at a crash
            }
            if let Err(error) = test_pool.export() {
                self.fault(format!("export: {error}"));
            }
        }
        self.faults
    }

    fn run(mut self) -> Vec<String> {
        let Some(test_pool) = self.import("import") else {
            return self.faults;
        };
        self.change_files(&test_pool);
        self.goes_on("after changes of files", &test_pool);
        self.change_datasets(&test_pool);
        for _ in 0..3 {
            self.goes_on("after changes of datasets", &test_pool);
        }
        self.check("before the export", &test_pool);
        if !self.faults.is_empty() {
            return self.faults;
        }
        if let Err(error) = test_pool.export() {
            self.fault(format!("export: {error}"));
            return self.faults;
        }
        let Some(test_pool) = self.import("second import") else {
            return self.faults;
        };
        self.goes_on("after the second import", &test_pool);
        self.check("after the second import", &test_pool);
        if let Err(error) = test_pool.export() {
            self.fault(format!("second export: {error}"));
        }
        self.faults
    }
}

/// Runs trials with every `step`-th of the blocks that `pick` picks; all must be without a fault.
fn try_blocks(
    stage: &Stage,
    pick: impl Fn(&Block) -> bool,
    run: impl Fn(Trial<'_>) -> Vec<String>,
    step: usize,
) {
    let blocks = stage.blocks.iter().filter(|block| pick(block));
    let mut all: Vec<String> = Vec::new();
    let first = usize::try_from(seed(0)).unwrap_or(0) % step;
    for block in blocks.skip(first).step_by(step) {
        let faults = run(Trial::new(stage, block));
        all.extend(
            faults
                .into_iter()
                .map(|fault| format!("{block}\n    {fault}")),
        );
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

/// One block in so many is tried, a different one with each seed.
fn step(usual: usize) -> usize {
    let step = std::env::var("MILLPOND_STEP");
    step.map_or(usual, |step| step.parse().expect("a number"))
}

#[test]
fn a_damaged_block_of_a_file_system_costs_what_it_describes() {
    let stage = Stage::new();
    try_blocks(
        &stage,
        |block| !block.is_of_pool(),
        |trial| trial.run(),
        step(12),
    );
}

/// The same of blocks in pieces, of which the list of the pieces is gone.
#[test]
fn a_damaged_block_in_pieces_costs_what_it_describes() {
    let mut stage = Stage::with_blocks_up_to(Some(512));
    stage.walk();
    let in_pieces = |block: &Block| block.pointer.is_gang();
    assert!(stage.blocks.iter().any(in_pieces));
    try_blocks(&stage, in_pieces, |trial| trial.run(), step(12));
}

#[test]
fn a_log_is_replayed_around_what_is_damaged() {
    let stage = Stage::with_log();
    let of_work = |block: &Block| {
        block.describes(&path("work"), 0)
            || block
                .places
                .iter()
                .any(|place| place.dataset == path("work"))
    };
    try_blocks(&stage, of_work, |trial| trial.replay(), step(12));
}

#[test]
fn a_damaged_block_of_the_pool_costs_what_it_describes() {
    let stage = Stage::new();
    try_blocks(&stage, Block::is_of_pool, |trial| trial.run(), step(4));
}

/// Damage that comes after the change was accepted: the file system is read-only as of its last txg, whoever waits is
/// told, its log keeps what was synced, and the rest of the pool goes on.
#[test]
fn a_file_system_that_cannot_be_written_is_taken_out_of_service() {
    let stage = Stage::new();
    let dataset = path("work");
    let object = stage.file(&dataset, "new-keep").object;
    let first = object - object % 32;
    let objects = first..=first + 31;
    stage.restore();
    // Nothing stays in the cache.
    let test_pool = stage.import_with_cache(1).unwrap();
    let work = test_pool.system(&dataset);
    let file = stage::open(&work, "new-keep", stage::OPEN).unwrap();
    // A log has begun.
    stage::write(&file, 0, &contents(50, 512)).unwrap();
    file.fsync().unwrap();
    test_pool.pool.sync().unwrap();
    // The block is written anew by each sync: rot it where it lies now.
    let blocks = Walk::new(&test_pool.pool).blocks();
    let dnodes = blocks.iter().find(|block| {
        let mut places = block.places.iter();
        places.any(|place| place.dataset == dataset && place.at.0 == 0 && place.objects == objects)
    });
    let dnodes = dnodes.expect("a block of dnodes").clone();
    stage.flip(&dnodes);
    stage::write(&file, 0, &contents(51, 512)).unwrap();
    assert_eq!(
        file.fsync().map_err(|error| error.errno()),
        Ok(()),
        "the log has it"
    );
    let pool = Arc::clone(&test_pool.pool);
    pool.sync().unwrap();
    let status = pool.status().unwrap();
    assert_eq!(status.suspended, None);
    let stopped: Vec<&str> = status
        .stopped
        .iter()
        .map(|head| head.name.as_str())
        .collect();
    assert_eq!(stopped, [dataset.as_str()], "{:?}", status.stopped);
    let events = pool.events(0);
    assert!(
        events
            .iter()
            .any(|event| event.class.ends_with("dataset_stopped"))
    );
    is_read_only(&work, &file);
    others_go_on(&test_pool);
    drop((file, work, pool));
    test_pool.export().unwrap();
    // With the block repaired, the log has what the sync had not.
    stage.flip(&dnodes);
    let test_pool = stage.import(false).unwrap();
    let work = test_pool.system(&dataset);
    let file = stage::open(&work, "new-keep", stage::OPEN).unwrap();
    let mut seen = vec![0; 512];
    file.read(0, &mut seen).unwrap();
    assert_eq!(
        seen,
        contents(51, 512),
        "what was synced to the log is there"
    );
    assert!(test_pool.pool.status().unwrap().stopped.is_empty());
    drop((file, work));
    test_pool.export().unwrap();
}

/// What was written is still seen, nothing more is taken, and nobody is told that it is safe.
fn is_read_only(work: &FileSystem, file: &posix::OpenFile) {
    let refused = stage::write(file, 0, &contents(52, 512)).map_err(|error| error.errno());
    assert_eq!(refused, Err(Errno::EROFS));
    assert_eq!(file.fsync().map_err(|error| error.errno()), Err(Errno::EIO));
    assert_eq!(work.sync().map_err(|error| error.errno()), Err(Errno::EIO));
    let mut seen = vec![0; 512];
    file.read(0, &mut seen).unwrap();
    assert_eq!(seen, contents(51, 512));
}

/// The others go on, and the one itself can be snapshotted.
fn others_go_on(test_pool: &TestPool) {
    let pool = &test_pool.pool;
    let calm = test_pool.system(&path("calm"));
    create(&calm, calm.root(), "more", &contents(1, 3000)).unwrap();
    calm.sync().unwrap();
    snapshot(pool.dsl(), path("calm@now")).unwrap();
    snapshot(pool.dsl(), path("work@now")).unwrap();
    for _ in 0..4 {
        pool.sync().unwrap();
    }
}

/// What an import looks for in the tree of datasets costs it nothing where the tree is damaged.
#[test]
fn a_damaged_list_of_datasets_costs_what_it_lists() {
    let mut stage = Stage::new();
    let test_pool = stage.import(false).unwrap();
    for number in 0..20 {
        // So many that their list has a block of its own.
        let name = format!("calm/{number}-{}", "x".repeat(30));
        make_dataset(test_pool.pool.dsl(), path(&name)).unwrap();
    }
    test_pool.export().unwrap();
    stage.keep();
    stage.walk();
    let is_list = |block: &&Block| {
        let mut places = block.places.iter();
        places.any(|place| place.kind == ObjectType::DSL_DIRECTORY_CHILD_MAP)
    };
    let lists: Vec<&Block> = stage.blocks.iter().filter(is_list).collect();
    let mut failed = Vec::new();
    for block in &lists {
        stage.damage(block);
        match stage.import(false) {
            Ok(test_pool) => {
                test_pool.pool.sync().unwrap();
                assert_eq!(test_pool.pool.suspended(), None, "{block}");
            }
            Err(error) => failed.push(format!("{block}: {error}")),
        }
    }
    // That of the root has all datasets of the pool, its own among them.
    assert!(failed.len() < lists.len(), "{}", failed.join("; "));
}
