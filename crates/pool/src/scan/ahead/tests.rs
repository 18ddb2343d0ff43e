//! A walk that has blocks read ahead sees what one without sees, whatever the limit and the damage.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use base::ObjectSetId;

use super::*;
use crate::churn::Churn;
use crate::scan::course::Target;
use crate::scan::scrub::tests::LIMITED;
use crate::scan::walk::{Found, Walk};
use crate::scan::work::root_of;
use crate::{CreateOptions, NewDevice, NewVdev, Pool};

/// Where the allocatable area of a device begins.
const AREA: u64 = 4 << 20;

fn new_pool(folder: &Path) -> (Arc<Pool>, Vec<PathBuf>) {
    let paths: Vec<PathBuf> = ["a.img", "b.img"].map(|name| folder.join(name)).into();
    for path in &paths {
        device::FileDevice::create(path, 96 << 20).unwrap();
    }
    let devices = paths.iter().cloned().map(NewDevice::Path).collect();
    let mirror = vec![NewVdev::Mirror(devices)];
    let pool = Pool::create(CreateOptions::new("tank", mirror)).unwrap();
    Churn::new(&pool, 3).run(&pool, 5);
    (pool, paths)
}

fn births() -> Births {
    Births {
        tree_after: Txg(0),
        after: Txg(0),
        until: Txg(u64::MAX),
    }
}

fn targets(pool: &Pool) -> Vec<Target> {
    let root = pool.dsl().root_directory().unwrap();
    let heads = pool.dsl().heads_under(&root).unwrap();
    let heads = heads.iter().map(|head| Target::Dataset(head.id()));
    [Target::Meta].into_iter().chain(heads).collect()
}

/// What a walk over an object set finds in slices, and how often it stopped for more.
fn walk(pool: &Pool, target: Target, ahead: &mut Option<Ahead>) -> (Vec<Found>, usize) {
    let (set, root) = root_of(pool, target).unwrap();
    let (mut place, mut all, mut stops) = (Place::default(), Vec::new(), 0);
    loop {
        // Whatever was read so far is to be read again.
        pool.pipeline.cache().clear();
        let mut walk = Walk {
            pipeline: &pool.pipeline,
            set,
            births: births(),
            place,
            found: Vec::new(),
            found_max: 20,
            unreadable: 0,
            unseen_through: Txg(0),
            met_rewriting: false,
            settled: Txg(u64::MAX),
            ahead: ahead.as_ref(),
            wants_more: false,
        };
        let done = walk.run(&root);
        assert_eq!(walk.unreadable, 0);
        let wants_more = walk.wants_more;
        place = walk.place;
        all.extend(walk.found);
        if done {
            return (all, stops);
        }
        if let Some(ahead) = ahead.as_mut().filter(|_| wants_more) {
            stops += 1;
            pool.pipeline.cache().clear();
            let source = Source {
                pipeline: &pool.pipeline,
                vdevs: &pool.vdevs,
                births: births(),
                goes_on: &|| true,
            };
            ahead.fill(&source, &root, place);
            let max = SCAN_AHEAD_BYTES.get() + (128 << 10);
            assert!(ahead.bytes <= max, "{} of {max}", ahead.bytes);
        }
    }
}

fn names(found: &[Found]) -> Vec<(Bookmark, Option<u64>)> {
    let name = |found: &Found| (found.bookmark, found.block.dva(0).map(|dva| dva.offset));
    found.iter().map(name).collect()
}

#[test]
fn a_walk_finds_the_same_whatever_is_read_ahead() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (pool, _) = new_pool(folder.path());
    for target in targets(&pool) {
        let (plain, _) = walk(&pool, target, &mut None);
        assert!(!plain.is_empty());
        let mut before = usize::MAX;
        for bytes in [1, 2 << 10, 16 << 10, 32 << 20] {
            SCAN_AHEAD_BYTES.set(bytes);
            let (found, stops) = walk(&pool, target, &mut Some(Ahead::default()));
            assert_eq!(names(&found), names(&plain), "{bytes}");
            println!("{target:?} {bytes}: {stops} of {}", found.len());
            assert!(stops > 0 && stops <= before);
            before = stops;
        }
        assert_eq!(before, 1, "all of it fits");
        SCAN_AHEAD_BYTES.reset();
    }
    pool.export().unwrap();
}

fn write_over(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0x55; 512], AREA + offset).unwrap();
}

/// Of each block that the walk reads all copies but one are damaged, on one side and the other.
#[test]
fn what_the_closest_copies_do_not_have_comes_from_the_others() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (pool, paths) = new_pool(folder.path());
    let read: Vec<BlockPointer> = targets(&pool)
        .into_iter()
        .flat_map(|target| walk(&pool, target, &mut None).0)
        .filter(|found| found.bookmark.level > 0 || found.bookmark.object.0 == 0)
        .map(|found| found.block)
        .collect();
    for block in &read {
        let copies = block.dvas().count();
        for (index, dva) in block.dvas().enumerate() {
            write_over(&paths[index % 2], dva.offset);
            if copies > 1 && index > 0 {
                write_over(&paths[1 - index % 2], dva.offset);
            }
        }
    }
    for target in targets(&pool) {
        let mut ahead = Some(Ahead::default());
        let (_, stops) = walk(&pool, target, &mut ahead);
        assert_eq!(stops, 1);
        let ahead = ahead.unwrap();
        assert!(ahead.held.values().all(|held| held.stored.is_some()));
    }
    let top = Arc::clone(&pool.vdevs.tops()[0]);
    let blamed: u64 = top.leaves().iter().map(|leaf| leaf.errors().checksum).sum();
    // By the walk that reads without, that is: nothing before.
    assert_eq!(blamed, 0, "reading ahead blames no device");
}

/// What was read may be another block's by the time it is used.
#[test]
fn what_is_not_the_block_any_more_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, _) = new_pool(folder.path());
    let (_, root) = root_of(&pool, Target::Meta).unwrap();
    let mut ahead = Ahead::default();
    let wanted = Wanted {
        block: root,
        place: Place::default(),
        end: Place::LAST,
    };
    let request = ReadRequest::new(Bookmark::root(ObjectSetId::MOS));
    let stored = pool.pipeline.read_stored(&root, &request).unwrap();
    ahead.hold(&wanted, Some(stored.clone()));
    assert!(ahead.get(&pool.pipeline, &root).is_some());
    let mut other = stored.to_vec();
    other[3] ^= 1;
    ahead.hold(&wanted, Some(Buffer::from_slice(&other)));
    assert!(ahead.get(&pool.pipeline, &root).is_none());
    pool.export().unwrap();
}

/// The newest root of a file system may be one that a later pass of the sync writes over.
#[test]
fn what_a_sync_may_be_rewriting_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, paths) = new_pool(folder.path());
    let target = targets(&pool)[1];
    let (set, root) = root_of(&pool, target).unwrap();
    for dva in root.dvas() {
        paths.iter().for_each(|path| write_over(path, dva.offset));
    }
    let top = Arc::clone(&pool.vdevs.tops()[0]);
    let blamed = || -> u64 { top.leaves().iter().map(|leaf| leaf.errors().checksum).sum() };
    let birth = root.physical_birth();
    for (settled, is_damage) in [(Txg(birth.0 - 1), false), (birth, true)] {
        pool.pipeline.cache().clear();
        let mut walk = Walk {
            pipeline: &pool.pipeline,
            set,
            births: births(),
            place: Place::default(),
            found: Vec::new(),
            found_max: 20,
            unreadable: 0,
            unseen_through: Txg(0),
            met_rewriting: false,
            settled,
            ahead: None,
            wants_more: false,
        };
        walk.run(&root);
        assert_eq!(walk.met_rewriting, !is_damage);
        assert_eq!(walk.unreadable, u64::from(is_damage));
        assert_eq!(blamed() > 0, is_damage);
    }
}
