//! A log whose records build on each other, one of them about what is damaged: no file may get what is another's, and
//! none that the log keeps may go.

use crate::stage::{Stage, create, look_up, path, read, read_object};
use crate::{Trial, step, try_blocks};
use base::ObjectId;
use millpond_torture::real::new_node;
use millpond_torture::test_pool::TestPool;
use posix::{Credentials, Errno, FileSystem, FileType, PosixError, RenameMode};

/// Names in the directory, in so many of its blocks that they can be damaged one by one.
const COUNT: usize = 200;
const DIRECTORY: &str = "long";

fn name(number: usize) -> String {
    format!("{number:03}-{}", "x".repeat(200))
}

fn moved(number: usize) -> String {
    format!("moved-{}", name(number))
}

fn again(number: usize) -> String {
    format!("again-{number}")
}

fn own(number: usize) -> String {
    format!("contents of {number}")
}

/// Makes the directory, with contents of its own for each file, on disk. Answers the numbers of the files.
fn fill(stage: &mut Stage) -> Vec<u64> {
    stage.restore();
    let test_pool = stage.import(false).unwrap();
    let system = test_pool.system(&path("work"));
    let node = new_node(FileType::Directory, 0o755);
    let who = Credentials::root();
    let made = system.mkdir(&who, system.root(), DIRECTORY.as_bytes(), &node);
    let directory = made.unwrap().object;
    let make = |number| create(&system, directory, &name(number), own(number).as_bytes());
    let objects = (0..COUNT).map(|number| make(number).unwrap()).collect();
    drop(system);
    test_pool.export().unwrap();
    stage.keep();
    stage.walk();
    objects
}

/// What is done in the log, by the number modulo 4. 0: moved, its name given to a new file, and that removed. 1:
/// removed, and a new file made elsewhere, which may get its object number. 2 and 3: change places, then the second
/// name is removed.
fn change(system: &FileSystem) -> posix::Result<()> {
    let who = Credentials::root();
    let directory = look_up(system, DIRECTORY)?;
    let rename = |from: String, to: String, mode| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        system.rename(&who, (directory, from), (directory, to), mode)
    };
    for number in 0..COUNT {
        let own = name(number);
        match number % 4 {
            0 => {
                rename(own.clone(), moved(number), RenameMode::Replace)?;
                create(system, directory, &own, b"short-lived")?;
                system.unlink(&who, directory, own.as_bytes())?;
            }
            1 => {
                system.unlink(&who, directory, own.as_bytes())?;
                create(
                    system,
                    system.root(),
                    &again(number),
                    again(number).as_bytes(),
                )?;
            }
            2 => rename(own, name(number + 1), RenameMode::Exchange).map(drop)?,
            _ => system
                .unlink(&who, directory, name(number - 1).as_bytes())
                .map(drop)?,
        }
    }
    system.fsync_directory(directory)
}

fn with_log() -> (Stage, Vec<u64>) {
    let mut stage = Stage::new();
    let objects = fill(&mut stage);
    stage.restore();
    let test_pool = stage.import_with_log();
    change(&test_pool.system(&path("work"))).unwrap();
    // As at a crash.
    stage.keep();
    assert_owed(&stage);
    (stage, objects)
}

/// Without damage the log is replayed whole.
fn assert_owed(stage: &Stage) {
    stage.restore();
    let test_pool = stage.import(false).unwrap();
    let system = test_pool.system(&path("work"));
    let place = format!("{DIRECTORY}/{}", moved(0));
    assert_eq!(text(read(&system, &place)).unwrap(), own(0));
    assert!(test_pool.replayed_records() > 0 && test_pool.lost_records() == 0);
    drop(system);
    test_pool.export().unwrap();
}

fn text(read: posix::Result<Vec<u8>>) -> posix::Result<String> {
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl Trial<'_> {
    /// What a name gives was there once; what cannot be read was told.
    fn look(&mut self, system: &FileSystem, place: &str, ever: &[String]) {
        match text(read(system, place)) {
            Ok(text) if text.is_empty() || ever.contains(&text) => {}
            Ok(text) => self.fault(format!("{place} has {text:?}, which never was there")),
            Err(PosixError::NotFound) => {}
            Err(error) if error.errno() == Errno::EIO => {}
            Err(error) => self.fault(format!("{place}: {error}")),
        }
    }

    fn check_following(&mut self, system: &FileSystem, objects: &[u64]) {
        for (number, object) in objects.iter().enumerate() {
            let inside = |name: String| format!("{DIRECTORY}/{name}");
            let wanted = own(number);
            let ever = [wanted.clone(), "short-lived".to_owned(), own(number ^ 1)];
            self.look(system, &inside(name(number)), &ever);
            self.look(system, &inside(moved(number)), &ever[..1]);
            self.look(system, &again(number), &[again(number)]);
            if matches!(number % 4, 1 | 3) {
                continue;
            }
            // The log keeps it, under whatever name.
            match text(read_object(system, ObjectId(*object))) {
                Ok(text) if text == wanted => {}
                Ok(text) => self.fault(format!("{wanted} is {text:?} now")),
                Err(error) if error.errno() == Errno::EIO => {}
                Err(error) => self.fault(format!("{wanted} is gone: {error}")),
            }
        }
    }

    fn follow(mut self, objects: &[u64]) -> Vec<String> {
        let Some(test_pool) = self.import("import") else {
            return self.faults;
        };
        if let Some(system) = self.system(&test_pool, "work") {
            self.check_following(&system, objects);
        }
        self.goes_on("after the replay", &test_pool);
        println!(
            "{}: {} records are lost",
            self.block,
            test_pool.lost_records()
        );
        if let Err(error) = TestPool::export(test_pool) {
            self.fault(format!("export: {error}"));
        }
        self.faults
    }
}

#[test]
fn what_builds_on_a_lost_record_is_lost_with_it() {
    let (stage, objects) = with_log();
    let directory = {
        let test_pool = stage.import(true).unwrap();
        let system = test_pool.system(&path("work"));
        look_up(&system, DIRECTORY).unwrap()
    };
    let of_directory = |block: &crate::walk::Block| {
        let ObjectId(number) = directory;
        !block.is_of_a_file() && block.describes(&path("work"), number)
    };
    try_blocks(
        &stage,
        of_directory,
        |trial| trial.follow(&objects),
        step(1),
    );
}

/// How often a replay is cut off, at most.
const CUTS: usize = 12;

/// What the names of the directory and the new files lead to.
fn outcome(test_pool: &TestPool) -> Vec<Option<String>> {
    let system = test_pool.system(&path("work"));
    let inside = |name: String| format!("{DIRECTORY}/{name}");
    let places = |number| [inside(name(number)), inside(moved(number)), again(number)];
    let all = (0..COUNT).flat_map(places);
    all.map(|place| text(read(&system, &place)).ok()).collect()
}

/// A replay that a crash cuts off goes on as if it had not been, and says all that is lost.
#[test]
fn a_replay_that_goes_on_knows_what_was_lost() {
    let (stage, _) = with_log();
    let directory = {
        let test_pool = stage.import(true).unwrap();
        let system = test_pool.system(&path("work"));
        look_up(&system, DIRECTORY).unwrap().0
    };
    let of_directory = |block: &&crate::walk::Block| {
        !block.is_of_a_file() && block.describes(&path("work"), directory)
    };
    let folder = tempfile::tempdir().unwrap();
    let mut some = stage.blocks.iter().filter(of_directory);
    let (lost, whole, cuts) = some
        .find_map(|block| {
            stage.damage(block);
            let (test_pool, cuts) = stage.import_and_keep(folder.path());
            test_pool.try_system(&path("work")).ok()?;
            let lost = test_pool.lost_records();
            let is_some = lost > 10 && test_pool.replayed_records() > 10;
            is_some.then(|| (lost, outcome(&test_pool), cuts))
        })
        .expect("a block that some of the records need");
    let mut went_on = 0;
    let cuts = cuts.lock().unwrap();
    let step = cuts.len().div_ceil(CUTS).max(1);
    for cut in cuts.iter().step_by(step) {
        stage.set(cut);
        let test_pool = stage.import(false).unwrap();
        let found = outcome(&test_pool);
        let (replayed, lost_now) = (test_pool.replayed_records(), test_pool.lost_records());
        println!("{replayed} records were left, {lost_now} of {lost} lost");
        assert!(found == whole, "after {}", cut.display());
        if replayed + lost_now as u64 > 0 {
            went_on += 1;
            assert_eq!(lost_now, lost, "after {}", cut.display());
        }
        test_pool.export().unwrap();
    }
    assert!(went_on > 2, "{went_on} of {} cuts", cuts.len());
}
