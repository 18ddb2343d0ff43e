//! Pools made by OpenZFS pass the check, and its own zdb counts the same; damaged ones do not.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dsl::tasks::{CreateDataset, DestroyHead};
use format::config::keys;
use golden::Zdb;
use millpond_inspect::{InspectError, Inspection};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};

/// Pools whose devices are read: plain disks, mirrors and RAID-Z.
const POOLS: [&str; 20] = [
    "default",
    "mirror",
    "codecs",
    "classes",
    "enc",
    "zil",
    "checkpoint",
    "v28",
    "nofeat",
    "grub2",
    "vol",
    "old",
    "gang",
    "many",
    "streams",
    "ztest-be",
    "raidz1",
    "raidz2",
    "raidz3",
    "removed",
];
/// Lines of zdb's report that must be the same here, numbers included.
const SAME: [&str; 9] = [
    "\tNo leaks",
    "\tbp count:",
    "\tganged count:",
    "\tbp logical:",
    "\tbp physical:",
    "\tbp allocated:",
    "\tbp deduped:",
    "\tbp cloned:",
    "\tadditional, non-pointer bps",
];

fn verify(folder: &Path) -> (u8, String) {
    let mut out = Vec::new();
    let inspection = Inspection::of(vec![folder.to_owned()]).verifying();
    let status = inspection.print(&mut out).unwrap();
    (status, String::from_utf8_lossy(&out).into_owned())
}

fn comparable(text: &str) -> Vec<String> {
    let wanted = |line: &&str| SAME.iter().any(|start| line.starts_with(start));
    text.lines()
        .filter(wanted)
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn pools_made_by_openzfs_are_whole_and_count_as_zdb_counts() {
    let zdb = Zdb::from_environment();
    for name in POOLS {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        let (status, ours) = verify(&pool.folder);
        assert_eq!(status, 0, "{name}: {ours}");
        assert!(
            ours.contains("No leaks (block sum matches space maps exactly)"),
            "{name}: {ours}"
        );
        let recorded = pool.lines("zdb-bcc.txt").join("\n");
        let theirs = match &zdb {
            _ if !recorded.is_empty() => recorded,
            // zdb takes seconds for each: these have all there is to count.
            Some(zdb) if ["default", "codecs", "gang", "v28", "raidz2"].contains(&name) => {
                let output = zdb.run(&pool.folder, &["-bcc"], &[&pool.pool_name()]);
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            _ => continue,
        };
        assert_eq!(
            comparable(&ours),
            comparable(&theirs),
            "{name}: {ours}\n{theirs}"
        );
    }
}

/// Turns over bytes of the allocatable area that hold something.
fn damage(image: &Path, every_bytes: u64) -> u32 {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(image)
        .expect("an image");
    let size = file.metadata().expect("an image").len();
    let mut damaged = 0;
    let mut at = 4 << 20;
    while at + 4096 < size - (512 << 10) {
        let mut bytes = [0; 512];
        file.read_exact_at(&mut bytes, at).expect("inside");
        if bytes != [0; 512] {
            bytes.iter_mut().for_each(|byte| *byte ^= 0xFF);
            file.write_all_at(&bytes, at).expect("a copy of ours");
            damaged += 1;
            at += every_bytes;
        } else {
            at += 4096;
        }
    }
    damaged
}

#[test]
fn one_damaged_side_of_a_mirror_is_found_and_costs_nothing() {
    let Some(pool) = golden::pool("mirror") else {
        return;
    };
    let (folder, images) = pool.copy();
    assert!(damage(&images[0], 256 << 10) > 0);
    let (status, report) = verify(folder.path());
    assert_eq!(status, 3, "{report}");
    assert!(report.contains("another copy is good"), "{report}");
    assert!(!report.contains("no copy is good"), "{report}");
    assert!(report.contains("No leaks"), "{report}");
    assert!(report.contains("\nDamage: 0 blocks lost, "), "{report}");
}

#[test]
fn damaged_devices_of_a_raidz_are_found_and_cost_nothing() {
    for (name, count) in [("raidz1", 1), ("raidz2", 2), ("raidz3", 3)] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        let (folder, images) = pool.copy();
        let damaged = images
            .iter()
            .take(count)
            .map(|image| damage(image, 64 << 10));
        assert!(damaged.sum::<u32>() > 0);
        let (status, report) = verify(folder.path());
        assert_eq!(status, 3, "{report}");
        assert!(report.contains("another copy is good"), "{report}");
        assert!(!report.contains("no copy is good"), "{report}");
        assert!(report.contains("No leaks"), "{report}");
    }
}

#[test]
fn damaged_data_is_found_and_named() {
    let Some(pool) = golden::pool("default") else {
        return;
    };
    let (folder, images) = pool.copy();
    assert!(damage(&images[0], 700 << 10) > 0);
    let (status, report) = verify(folder.path());
    assert_eq!(status, 3, "{report}");
    assert!(report.contains("no copy is good"), "{report}");
    assert!(report.contains("checksum mismatch"), "{report}");
    let sum = report.lines().find(|line| line.starts_with("Damage: "));
    let sum = sum.expect("what it comes to");
    let lost = sum.split(' ').nth(1).and_then(|count| count.parse().ok());
    assert!(lost.unwrap_or(0) > 0, "{sum}");
    let whole = golden::pool("default").expect("it was there");
    let (_, report) = verify(&whole.folder);
    assert!(!report.contains("Damage: "), "{report}");
}

#[test]
fn no_pool_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inspection = Inspection::of(vec![folder.path().to_owned()]);
    let error = inspection.print(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, InspectError::NoPool(_)), "{error}");
    assert_eq!(error.exit_status(), 1);
}

fn sparse(folder: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = folder.join(name);
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(bytes).expect("a sparse file");
    path
}

/// What a side of a mirror missed while it was away is not there, and it is not to blame: the pool knows.
#[test]
fn what_a_side_missed_is_no_damage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let away = tempfile::tempdir().expect("a temporary folder");
    let sides = ["a.img", "b.img"].map(|name| sparse(folder.path(), name, 96 << 20));
    let devices = sides.iter().cloned().map(NewDevice::Path).collect();
    let options = CreateOptions::new("tank", vec![NewVdev::Mirror(devices)]);
    Pool::create(options)
        .expect("a pool")
        .export()
        .expect("exported");
    let parked = away.path().join("b.img");
    std::fs::copy(&sides[1], &parked).expect("copied");
    std::fs::remove_file(&sides[1]).expect("removed");
    let import = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&import).expect("imported");
    for number in 0..20 {
        let create = CreateDataset {
            path: format!("tank/{number}"),
            kind: format::ObjectSetKind::FileSystem,
            properties: Vec::new(),
            case_insensitive: false,
            populate: None,
        };
        pool.dsl().run(create).expect("a dataset");
    }
    pool.export().expect("exported");
    let (status, report) = verify(folder.path());
    assert_eq!(status, 0, "{report}");
    std::fs::copy(&parked, &sides[1]).expect("copied");
    let (status, report) = verify(folder.path());
    assert_eq!(status, 0, "{report}");
    assert!(report.contains("to be resilvered"), "{report}");
    // What it did not miss counts.
    assert!(damage(&sides[1], 8 << 10) > 0);
    let (status, report) = verify(folder.path());
    assert_eq!(status, 3, "{report}");
    assert!(report.contains("\nDamage: 0 blocks lost, "), "{report}");
}

/// What a destroyed dataset had waits to be freed, some of it on a vdev that was removed since.
#[test]
fn what_is_still_to_be_freed_on_a_removed_vdev_is_no_leak() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let (folder, images) = golden.copy();
    let mut import = ImportOptions::new(images, Selection::Only);
    import.force = true;
    let pool = Pool::import(&import).expect("imported");
    // So that little is freed in a txg.
    base::tunable::set_all(&pool::tunables::all(), "dsl.background_blocks=1")
        .expect("there is one");
    let destroy = DestroyHead {
        path: "gremoved/d".to_owned(),
    };
    pool.dsl().run(destroy).expect("destroyed");
    let _last = pool.abandon();
    drop(pool);
    base::tunable::set_all(&pool::tunables::all(), "default").expect("as before");
    let (status, report) = verify(folder.path());
    assert_eq!(status, 0, "{report}");
}

/// A device has such a label if the power went as it was to come into a pool.
#[test]
fn a_label_that_was_never_committed_names_no_pool() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = sparse(folder.path(), "a.img", 96 << 20);
    let devices = vec![NewVdev::Single(NewDevice::Path(path))];
    let pool = Pool::create(CreateOptions::new("tank", devices)).expect("a pool");
    pool.export().expect("exported");
    let path = sparse(folder.path(), "b.img", 96 << 20);
    let mut list = format::NvList::new();
    list.set(keys::VERSION, 5000_u64)
        .set(keys::NAME, "tank")
        .set(keys::STATE, 0_u64)
        .set(keys::TXG, 0_u64)
        .set(keys::POOL_GUID, 4711_u64)
        .set(keys::GUID, 4712_u64);
    let config = vdev::LeafConfig {
        guid: base::Guid(4712),
        path: path.display().to_string(),
        ashift: 9,
        spare_room: None,
    };
    let device = device::open(&path, device::Access::ReadWrite).expect("a device");
    let hole = format::BlockPointer::HOLE;
    let blank = format::Uberblock::new(5000, base::Txg(0), 0, 0, hole);
    vdev::Leaf::new(config, Some(device))
        .initialise_labels(&list, &blank)
        .expect("labels");
    let (status, report) = verify(folder.path());
    assert_eq!(status, 0, "{report}");
}

/// The time follows what a pool holds, not how large it is.
#[test]
fn an_empty_pool_of_105_terabytes_is_checked_at_once() {
    const MAX: Duration = Duration::from_secs(15);
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Of a size that every file system has room for.
    let vdev = |number| {
        let path = sparse(folder.path(), &format!("{number}.img"), 15_000_000_000_000);
        NewVdev::Single(NewDevice::Path(path))
    };
    let options = CreateOptions::new("tank", (0..7).map(vdev).collect());
    Pool::create(options)
        .expect("a pool")
        .export()
        .expect("exported");
    let started = Instant::now();
    let (status, report) = verify(folder.path());
    println!("{:?}: {report}", started.elapsed());
    assert_eq!(status, 0, "{report}");
    assert!(started.elapsed() < MAX, "{:?}", started.elapsed());
}
