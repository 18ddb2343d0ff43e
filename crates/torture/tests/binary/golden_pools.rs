//! Pools made by OpenZFS: read equal to their manifests, and changed so that zdb finds nothing wrong.

use crate::session::{Session, path};
use golden::{GoldenPool, describe_tree};
use std::fs;
use std::path::Path;

/// Pools that must read equal, mounted and by `cp`.
const READABLE: &[&str] = &[
    "default",
    "codecs",
    "mirror",
    "old",
    "v28",
    "nofeat",
    "grub2",
    "gang",
    "checkpoint",
    "many",
    "streams",
    "raidz1",
    "raidz2",
    "raidz3",
    "expanded",
    "draid",
    "removed",
];
/// Pools that must import for writing.
const WRITABLE: &[&str] = &[
    "default",
    "codecs",
    "classes",
    "nofeat",
    "grub2",
    "gang",
    "streams",
    "raidz1",
    "raidz3",
    "expanded",
    "draid",
    "checkpoint",
    "removed",
];
/// Pools of stripes, whose devices may be away or lie one at a time.
const STRIPES: &[&str] = &["expanded", "draid"];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn golden_pools_read_equal() {
    if !is_root() {
        println!("skipped: owners and device nodes can be compared by root only");
        return;
    }
    for pool in READABLE.iter().filter_map(|name| golden::pool(name)) {
        let Some(mut session) = Session::new() else {
            return;
        };
        session.bring(&pool.images());
        session.import(&pool.pool_name(), &["-o", "readonly=on"]);
        read_equal(session, &pool);
    }
}

/// An imported pool is what OpenZFS printed of it, and showed in it.
pub(crate) fn read_equal(mut session: Session, pool: &GoldenPool) {
    let name = pool.pool_name();
    let columns = "name,type,used,available,refer,guid,createtxg,compressratio,origin";
    let list = session.ok(&[
        "zfs", "list", "-Hp", "-t", "all", "-o", columns, "-r", &name,
    ]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines, pool.lines("list.tsv"), "{}: zfs list", pool.name);
    for (dataset, manifest) in pool.manifests() {
        let (head, snapshot) = dataset
            .split_once('@')
            .map_or((&*dataset, None), |(h, s)| (h, Some(s)));
        let mut root = session.mount(head);
        if let Some(snapshot) = snapshot {
            root = root.join(".zfs/snapshot").join(snapshot);
        }
        let differences = manifest.differences(&describe_tree(&root));
        assert!(
            differences.is_empty(),
            "{}: {dataset}:\n{}",
            pool.name,
            differences.join("\n")
        );
    }
    session.export(&name);
    println!("{}: equal", pool.name);
}

/// What `zpool get` says of the moment and not of the pool: OpenZFS counts no space of a pool that it
/// imported read-only.
const OF_THE_MOMENT: [&str; 5] = [
    "load_guid",
    "free",
    "allocated",
    "capacity",
    "fragmentation",
];

#[test]
fn properties_of_golden_pools_are_what_openzfs_printed() {
    let more = ["classes", "vol", "enc"];
    for pool in READABLE
        .iter()
        .chain(&more)
        .filter_map(|name| golden::pool(name))
    {
        let Some(session) = Session::new() else {
            return;
        };
        session.bring(&pool.images());
        let (name, images) = (pool.pool_name(), session.images());
        let images = path(&images);
        session.ok(&[
            "zpool",
            "import",
            "-d",
            images,
            "-o",
            "readonly=on",
            "-N",
            "-R",
            "/g",
            &name,
        ]);
        crate::encryption::load_keys(&session, &pool);
        let shown = session.ok(&["zfs", "get", "-Hp", "-t", "all", "-r", "all", &name]);
        let of_pool = session.ok(&["zpool", "get", "-Hp", "all", &name]);
        session.ok(&["zpool", "export", &name]);
        let known = pool.lines("props.tsv");
        let shown: Vec<&str> = shown.lines().collect();
        assert!(
            known.is_empty() || shown == known,
            "{}: zfs get\n{shown:#?}",
            pool.name
        );
        let lasting = |line: &&str| {
            let property = line.split('\t').nth(1).unwrap_or_default();
            !OF_THE_MOMENT.contains(&property)
        };
        let shown: Vec<&str> = of_pool.lines().filter(lasting).collect();
        let known = pool.lines("pool.tsv");
        let known: Vec<&str> = known.iter().map(String::as_str).filter(lasting).collect();
        assert_eq!(shown, known, "{}: zpool get", pool.name);
    }
}

#[test]
fn golden_pools_of_stripes_do_without_each_of_their_devices() {
    if !is_root() {
        println!("skipped: owners and device nodes can be compared by root only");
        return;
    }
    for pool in STRIPES.iter().filter_map(|name| golden::pool(name)) {
        for away in pool.images() {
            let Some(mut session) = Session::new() else {
                return;
            };
            session.bring(&pool.images());
            let name = away.file_name().expect("a name");
            fs::remove_file(session.images().join(name)).expect("it goes");
            session.import(&pool.pool_name(), &["-o", "readonly=on"]);
            read_equal(session, &pool);
        }
    }
}

#[test]
fn golden_pools_of_stripes_are_repaired() {
    for pool in STRIPES.iter().filter_map(|name| golden::pool(name)) {
        let name = pool.pool_name();
        for liar in pool.images() {
            let Some(mut session) = Session::new() else {
                return;
            };
            session.bring(&pool.images());
            // No spare is to step in for the device that lies, and the dRAID has one: a rebuild and its scrub would
            // come between. It can step in as soon as the pool is imported, so this is set while no device lies.
            session.import(&name, &["-f"]);
            for image in pool.images() {
                let device = session.images().join(image.file_name().expect("a name"));
                session.ok(&["zpool", "set", "checksum_n=1000000", &name, path(&device)]);
            }
            session.export(&name);
            spoil(&session.images().join(liar.file_name().expect("a name")));
            session.import(&name, &[]);
            for (found, scrub) in [(true, "first"), (false, "second")] {
                session.ok(&["zpool", "scrub", "-w", &name]);
                let status = session.ok(&["zpool", "status", &name]);
                assert!(status.contains("with 0 errors"), "{status}");
                let repaired = !status.contains("repaired 0B");
                // One device of the dRAID has nothing but the room of the spare where blocks are.
                let may_have_none = pool.name == "draid";
                assert!(
                    repaired == found || may_have_none && !repaired,
                    "{scrub}: {status}"
                );
            }
            session.export_clean(&name);
        }
    }
}

/// Noise over every other 64 kB of an image between its labels.
fn spoil(image: &Path) {
    use std::os::unix::fs::FileExt;
    const PIECE: usize = 64 << 10;
    let file = fs::File::options().write(true).open(image).expect("opened");
    let length = file.metadata().expect("its size").len();
    let noise: Vec<u8> = (0..PIECE as u64)
        .map(|at| ((at * 2_654_435_761) >> 13) as u8)
        .collect();
    for at in ((4 << 20)..length - (1 << 20)).step_by(2 * PIECE) {
        file.write_all_at(&noise, at).expect("written");
    }
}

#[test]
fn golden_pools_can_be_changed() {
    for pool in WRITABLE.iter().filter_map(|name| golden::pool(name)) {
        let Some(session) = Session::new() else {
            return;
        };
        change(session, &pool);
    }
}

/// Deletes old files, overwrites others, destroys snapshots and clones; then everything. zdb looks after each.
fn change(mut session: Session, pool: &GoldenPool) {
    let name = pool.pool_name();
    session.bring(&pool.images());
    session.import(&name, &["-f"]);
    for dataset in session
        .ok(&[
            "zfs",
            "list",
            "-H",
            "-o",
            "name",
            "-t",
            "filesystem",
            "-r",
            &name,
        ])
        .lines()
    {
        change_files(&session.mount(dataset), &mut 0);
    }
    session.ok(&["zfs", "snapshot", "-r", &format!("{name}@changed")]);
    session.export_clean(&name);

    session.import(&name, &[]);
    let clones = session.ok(&[
        "zfs",
        "list",
        "-H",
        "-o",
        "name,origin",
        "-t",
        "filesystem",
        "-r",
        &name,
    ]);
    for line in clones.lines() {
        let (clone, origin) = line.split_once('\t').expect("two columns");
        if origin != "-" {
            session.ok(&["zfs", "destroy", "-r", clone]);
        }
    }
    session.export_clean(&name);

    session.import(&name, &[]);
    destroy_everything(&session, &name);
    session.export_clean(&name);
    println!("{}: changed, and zdb finds nothing wrong", pool.name);
}

fn change_files(folder: &Path, count: &mut usize) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if entry.file_name() == ".zfs" {
            continue;
        }
        if kind.is_dir() {
            change_files(&entry.path(), count);
        } else if kind.is_file() {
            *count += 1;
            match *count % 3 {
                0 => fs::remove_file(entry.path()).expect("a file is removed"),
                1 => fs::write(entry.path(), vec![b'x'; *count * 997 % 300_000]).expect("written"),
                _ => {}
            }
        } else if kind.is_symlink() && count.is_multiple_of(2) {
            fs::remove_file(entry.path()).expect("a link is removed");
        }
    }
    let fresh = folder.join("fresh");
    fs::create_dir_all(&fresh).expect("a folder");
    for index in 0..50 {
        fs::write(
            fresh.join(format!("file {index}")),
            vec![index; usize::from(index) * 3000],
        )
        .expect("a new file");
    }
}

fn destroy_everything(session: &Session, name: &str) {
    let bookmarks = session.ok(&[
        "zfs", "list", "-H", "-o", "name", "-t", "bookmark", "-r", name,
    ]);
    for bookmark in bookmarks.lines() {
        session.ok(&["zfs", "destroy", bookmark]);
    }
    let snapshots = session.ok(&[
        "zfs",
        "list",
        "-H",
        "-o",
        "name,userrefs",
        "-t",
        "snapshot",
        "-r",
        name,
    ]);
    for line in snapshots.lines() {
        let (snapshot, holds) = line.split_once('\t').expect("two columns");
        if holds != "0" && holds != "-" {
            let text = session.ok(&["zfs", "holds", "-H", snapshot]);
            for tag in text.lines().filter_map(|line| line.split('\t').nth(1)) {
                session.ok(&["zfs", "release", tag, snapshot]);
            }
        }
    }
    let children = session.ok(&[
        "zfs",
        "list",
        "-H",
        "-o",
        "name",
        "-d",
        "1",
        "-t",
        "filesystem",
        name,
    ]);
    for child in children.lines().filter(|child| *child != name) {
        session.ok(&["zfs", "destroy", "-R", child]);
    }
    let rest = session.ok(&[
        "zfs", "list", "-H", "-o", "name", "-t", "snapshot", "-d", "1", name,
    ]);
    for snapshot in rest.lines() {
        session.ok(&["zfs", "destroy", snapshot]);
    }
    for entry in fs::read_dir(session.mount(name))
        .expect("the root is listed")
        .flatten()
    {
        let remove = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        };
        remove.unwrap_or_else(|error| panic!("{}: {error}", path(&entry.path())));
    }
}
