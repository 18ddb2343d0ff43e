//! Blocks that go bad while a sync is under way, after it has looked at what it needs: from the n-th read on, for every
//! n that there is.

use crate::stage::{OPEN, contents, make_dataset, open, path, read, write};
use crate::walk::{Block, Walk};
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use posix::FileSystem;
use sim::{Fault, FaultKind, SimulatedDisk, Times};
use std::path::Path;
use std::sync::Arc;

pub(crate) const DISK_BYTES: u64 = 128 << 20;
const SPACE_START: u64 = 4 << 20;
/// Two blocks of level 1 and one of level 2.
const LENGTH: u64 = 700_000;
/// Blocks of the log of a file system that is out of service, which nobody frees.
const LOG_BYTES: u64 = 64 << 10;
/// More often no sync here reads a block.
const READS_MAX: u32 = 24;

/// How a file system fared whose block went bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fared {
    /// The change was refused, or a part of it.
    Refused,
    /// It was taken out of service before anything of it was written.
    Stopped,
    /// The same after some of it was written.
    StoppedBetween,
    /// Nobody read the block so often.
    Well,
}

/// A pool without a cache, with a file that was written and synced.
pub(crate) fn rig(disk: &Arc<SimulatedDisk>) -> TestPool {
    let device = NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _);
    let mut options = CreateOptions::new(POOL, vec![NewVdev::Single(device)]);
    options.root.populate = Some(millpond_torture::pool_model::real::populate());
    options.cache_bytes = 1;
    let test_pool = TestPool::open(Pool::create(options).unwrap(), false);
    for name in ["work", "calm"] {
        make_dataset(test_pool.pool.dsl(), path(name)).unwrap();
        for file in ["first", "other"] {
            let system = test_pool.system(&path(name));
            crate::stage::create(&system, system.root(), file, &contents(1, LENGTH)).unwrap();
        }
    }
    test_pool.pool.sync().unwrap();
    test_pool
}

pub(crate) fn leaked_bytes(test_pool: &TestPool) -> u64 {
    let root = test_pool.pool.dsl().root_directory().unwrap();
    let leak = root.child(format::dsl::hidden::LEAK).unwrap();
    leak.map_or(0, |leak| leak.phys().unwrap().used_bytes)
}

/// Has a block go bad from its read number `after` on.
pub(crate) fn spoil(disk: &SimulatedDisk, block: &Block, after: u32) {
    for (index, dva) in block.pointer.dvas().enumerate() {
        let start = SPACE_START + dva.offset;
        disk.inject(Fault {
            kind: FaultKind::RottenRead,
            range: start..start + block.pointer.psize(),
            // Another copy is read when the first is bad.
            times: if index == 0 {
                Times::After(after)
            } else {
                Times::Always
            },
        });
    }
}

/// Changes both files of `work` here and there, and syncs one of them to the log.
fn change(system: &FileSystem) -> posix::Result<()> {
    for name in ["other", "first"] {
        let file = open(system, name, OPEN)?;
        for at in [100, LENGTH / 2, LENGTH - 600] {
            write(&file, at, &contents(at, 512))?;
        }
        file.fsync()?;
    }
    Ok(())
}

fn changed(name: &str) -> Vec<u8> {
    assert!(["other", "first"].contains(&name));
    let mut bytes = contents(1, LENGTH);
    for at in [100, LENGTH / 2, LENGTH - 600] {
        let from = usize::try_from(at).unwrap();
        bytes[from..from + 512].copy_from_slice(&contents(at, 512));
    }
    bytes
}

/// One block, bad from one read on.
fn trial(pick: &dyn Fn(&Block, u64) -> bool, after: u32) -> Fared {
    let disk = Arc::new(SimulatedDisk::new(DISK_BYTES, 7));
    let test_pool = rig(&disk);
    let work = test_pool.system(&path("work"));
    let object = crate::stage::look_up(&work, "first").unwrap().0;
    let blocks = Walk::new(&test_pool.pool).blocks();
    let block = blocks
        .iter()
        .find(|block| pick(block, object))
        .expect("such a block");
    spoil(&disk, block, after);
    let accepted = change(&work);
    let pool = Arc::clone(&test_pool.pool);
    let what = format!("{block} after {after} reads");
    for _ in 0..2 {
        pool.sync()
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let status = pool.status().unwrap();
    assert_eq!(status.suspended, None, "{what}");
    let leaked = leaked_bytes(&test_pool);
    let calm = test_pool.system(&path("calm"));
    change(&calm).unwrap();
    pool.sync().unwrap();
    assert_eq!(read(&calm, "first").unwrap(), changed("first"), "{what}");
    let fared = match (accepted.is_ok(), status.stopped.is_empty()) {
        (false, true) => Fared::Refused,
        (_, false) if leaked == 0 => Fared::Stopped,
        (_, false) => Fared::StoppedBetween,
        (true, true) => Fared::Well,
    };
    drop((work, calm, pool));
    disk.heal();
    test_pool.export().unwrap();
    after_import(&disk, accepted.is_ok(), &what, leaked);
    fared
}

/// With the block repaired, what was synced to the log is there, and what leaked is what the pool says.
fn after_import(disk: &SimulatedDisk, accepted: bool, what: &str, leaked: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = image(folder.path(), "disk");
    disk.write_to_file(&file).unwrap();
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let work = test_pool.system(&path("work"));
    if accepted {
        for name in ["other", "first"] {
            assert!(
                read(&work, name).unwrap() == changed(name),
                "{what}: {name}"
            );
        }
    }
    drop(work);
    assert_eq!(leaked_bytes(&test_pool), leaked, "{what}");
    test_pool.export().unwrap();
    crate::lists::check_image(&file, leaked, LOG_BYTES).unwrap_or_else(|faults| {
        panic!("{what}: {}", faults.join("; "));
    });
}

/// Tries every n; how the pools fared.
fn all(pick: &dyn Fn(&Block, u64) -> bool) -> Vec<Fared> {
    let mut all = Vec::new();
    for after in 0..READS_MAX {
        let fared = trial(pick, after);
        all.push(fared);
        if fared == Fared::Well {
            break;
        }
    }
    println!("{all:?}");
    assert_eq!(all.last(), Some(&Fared::Well));
    all
}

fn is_at(block: &Block, object: u64, level: i8) -> bool {
    let mut places = block.places.iter();
    places.any(|place| {
        place.dataset == path("work") && *place.objects.start() == object && place.at.0 == level
    })
}

#[test]
fn an_indirect_block_that_goes_bad_inside_a_sync_stops_its_file_system_alone() {
    let fared = all(&|block, object| is_at(block, object, 1));
    assert!(fared.contains(&Fared::StoppedBetween), "{fared:?}");
}

#[test]
fn a_block_of_dnodes_that_goes_bad_inside_a_sync_stops_its_file_system_alone() {
    // It is read first, when nothing of its objects is written: by the look ahead, and by the sync.
    let fared = all(&|block, object| {
        let mut places = block.places.iter();
        places.any(|place| {
            place.dataset == path("work")
                && place.at.0 == 0
                && place.objects.clone().count() == 32
                && place.objects.contains(&object)
        })
    });
    assert_eq!(fared, [Fared::Stopped, Fared::Stopped, Fared::Well]);
}

/// Where a block of the pool's own object set is, which is the same in each such pool.
fn own_places(blocks: &[Block]) -> Vec<(u64, i8, u64)> {
    let own = blocks.iter().flat_map(|block| &block.places);
    let mut places: Vec<_> = own
        .filter(|place| place.dataset == crate::walk::OWN && place.at.0 >= 0)
        .map(|place| (*place.objects.start(), place.at.0, place.at.1))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// What is done to a pool one of whose own blocks is bad: no more than the one thing may be refused.
pub(crate) fn work_on(
    test_pool: &TestPool,
    systems: &[Arc<FileSystem>],
    what: &str,
) -> Vec<String> {
    let mut faults = Vec::new();
    let dsl = test_pool.pool.dsl();
    let mut judge = |step: &str, done: dsl::Result<()>| {
        if let Err(dsl::DslError::Engine(error)) = done {
            faults.push(format!("{what}: {step}: {error}"));
        }
    };
    for (name, system) in ["work", "calm"].into_iter().zip(systems) {
        let snapshot = format!("{}@s", path(name));
        let _ = change(system);
        judge("snapshot", crate::stage::snapshot(dsl, snapshot.clone()));
        let defer = false;
        let names = vec![snapshot];
        judge(
            "destroy",
            dsl.run(dsl::tasks::DestroySnapshots { names, defer })
                .map(|_| ()),
        );
    }
    judge("create", make_dataset(dsl, path("new")));
    judge("remove", dsl.destroy_head(&path("new")));
    for _ in 0..3 {
        if let Err(error) = test_pool.pool.sync() {
            faults.push(format!("{what}: sync: {error}"));
        }
    }
    if let Some(reason) = test_pool.pool.suspended() {
        faults.push(format!("{what}: suspended: {reason}"));
    }
    faults
}

/// One of the pool's own blocks is bad from one read on.
fn own_trial(place: (u64, i8, u64), after: u32) -> Vec<String> {
    let disk = Arc::new(SimulatedDisk::new(DISK_BYTES, 7));
    let test_pool = rig(&disk);
    // Somebody has them open.
    let systems = ["work", "calm"].map(|name| test_pool.system(&path(name)));
    let blocks = Walk::new(&test_pool.pool).blocks();
    let Some(block) = blocks
        .iter()
        .find(|block| own_places(std::slice::from_ref(block)).contains(&place))
    else {
        return Vec::new();
    };
    spoil(&disk, block, after);
    let what = format!("{block} after {after} reads");
    let mut faults = work_on(&test_pool, &systems, &what);
    disk.heal();
    let leaked = leaked_bytes(&test_pool);
    drop(systems);
    if faults.is_empty()
        && let Err(error) = test_pool.export()
    {
        faults.push(format!("{what}: export: {error}"));
    }
    if faults.is_empty() {
        let folder = tempfile::tempdir().unwrap();
        faults.extend(on_disk(&disk, folder.path(), leaked, &what));
    }
    faults
}

/// What is wrong on a disk whose pool was exported, written to an image in `folder`.
pub(crate) fn on_disk(disk: &SimulatedDisk, folder: &Path, leaked: u64, what: &str) -> Vec<String> {
    let file = image(folder, "disk");
    disk.write_to_file(&file).unwrap();
    let found = crate::lists::check_image(&file, leaked, LOG_BYTES);
    let found = found.err().unwrap_or_default().into_iter();
    found.map(|fault| format!("{what}: {fault}")).collect()
}

/// In all its copies, while the pool is open: what has it in memory goes on.
#[test]
fn a_block_of_the_pools_own_that_goes_bad_stops_nothing() {
    const READS: u32 = 2;
    let disk = Arc::new(SimulatedDisk::new(DISK_BYTES, 7));
    let test_pool = rig(&disk);
    let places = own_places(&Walk::new(&test_pool.pool).blocks());
    test_pool.export().unwrap();
    let step = std::env::var("MILLPOND_STEP").map_or(6, |step| step.parse().unwrap());
    let first = millpond_torture::random::seed(0) as usize % step;
    println!("{} blocks, from {first} in steps of {step}", places.len());
    let mut faults = Vec::new();
    for place in places.into_iter().skip(first).step_by(step) {
        for after in 0..READS {
            faults.extend(own_trial(place, after));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
