//! `zpool import` without a name: pools that cannot be imported are listed as such, with what the import itself says,
//! and the listing changes nothing.

use crate::session::{Session, path};
use base::VdevId;
use format::block_pointer::Dva;
use format::config::keys;
use format::features::{Feature, Flags, Support};
use format::{NvList, Uberblock, label};
use millpond_torture::pool_model::real;
use pool::{CreateOptions, NewDevice, NewVdev, Pool};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIZE: u64 = 96 << 20;
const ASHIFT: u32 = 12;

/// A feature that nobody knows, in use from the beginning.
const fn unknown(guid: &'static str, read_only_compatible: bool) -> Feature {
    Feature {
        name: "unknown",
        guid,
        read_only_compatible,
        flags: Flags {
            in_label: false,
            active_when_enabled: true,
            per_dataset: false,
            later: false,
        },
        depends_on: &[],
        support: Support::Write,
        description: "What nobody knows.",
    }
}

static FOR_READING: Feature = unknown("com.example:hologram", false);
static FOR_WRITING: Feature = unknown("com.example:ledger", true);

/// A pool of one image each, with another feature.
fn make(session: &Session, name: &str, feature: Option<&'static Feature>) -> PathBuf {
    make_of(session, name, &[name], feature).remove(0)
}

/// A pool without redundancy.
fn make_of(
    session: &Session,
    name: &str,
    images: &[&str],
    feature: Option<&'static Feature>,
) -> Vec<PathBuf> {
    let image = |name: &&str| session.images().join(format!("{name}.img"));
    let images: Vec<PathBuf> = images.iter().map(image).collect();
    for image in &images {
        device_file(image);
    }
    let vdev = |image: &PathBuf| NewVdev::Single(NewDevice::Path(image.clone()));
    let mut options = CreateOptions::new(name, images.iter().map(vdev).collect());
    options.root.populate = Some(real::populate());
    options.cache_bytes = 16 << 20;
    options.ashift = Some(ASHIFT);
    let mut features = pool::default_features();
    features.extend(feature);
    options.features = Some(features);
    Pool::create(options)
        .expect("made")
        .export()
        .expect("exported");
    images
}

fn device_file(image: &Path) {
    let file = File::create_new(image).expect("an image");
    file.set_len(SIZE).expect("its size");
}

fn opened(image: &Path) -> File {
    let file = File::options().read(true).write(true).open(image);
    file.expect("an image")
}

/// Changes the configuration in all labels of an image, and makes their checksums right.
fn forge_labels(image: &Path, change: impl Fn(&mut NvList)) {
    let file = opened(image);
    for index in 0..label::COUNT {
        let at = label::offset(SIZE, index).expect("a label") + label::CONFIG_OFFSET;
        let mut piece = vec![0; label::CONFIG_SIZE];
        file.read_exact_at(&mut piece, at).expect("read");
        let mut config = label::decode_config(&piece, at).expect("a configuration");
        change(&mut config);
        let piece = label::encode_config(&config, at).expect("it has room");
        file.write_all_at(&piece, at).expect("written");
    }
}

/// The same with the top-level vdev in them.
fn forge_vdev(image: &Path, change: impl Fn(&mut NvList)) {
    forge_labels(image, |config| {
        let mut top = config.list(keys::VDEV_TREE).expect("a vdev").clone();
        change(&mut top);
        config.set(keys::VDEV_TREE, top);
    });
}

/// Changes all uberblocks of an image.
fn forge_uberblocks(image: &Path, change: impl Fn(&mut Uberblock)) {
    let file = opened(image);
    for index in 0..label::COUNT {
        let start = label::offset(SIZE, index).expect("a label");
        for slot in 0..label::slot_count(ASHIFT) {
            let at = start + label::slot_offset(slot, ASHIFT);
            let mut piece = vec![0; 1 << label::slot_shift(ASHIFT)];
            file.read_exact_at(&mut piece, at).expect("read");
            if let Ok(mut uberblock) = label::decode_uberblock(&piece, at) {
                change(&mut uberblock);
                let piece = label::encode_uberblock(&uberblock, ASHIFT, at);
                file.write_all_at(&piece, at).expect("written");
            }
        }
    }
}

/// The root of a pool is on another vdev, and nowhere else.
fn move_root(uberblock: &mut Uberblock, vdev: u64) {
    let dva = uberblock.root.dva(0).expect("a place");
    let vdev = VdevId(vdev);
    uberblock.root.set_dvas(&[Dva { vdev, ..dva }]);
}

/// What lies in the session's folder.
fn bytes(session: &Session) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(session.images()).expect("images");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("an image").path())
        .map(|path| (path.clone(), fs::read(path).expect("read")))
        .collect();
    found.sort();
    found
}

/// The entries of the list, by the pools' names. It is made fast, and changes nothing.
fn listed(session: &Session, flags: &[&str]) -> Vec<(String, String)> {
    let before = bytes(session);
    let images = session.images();
    let words = [&["zpool", "import", "-d", path(&images)], flags].concat();
    let begun = Instant::now();
    let output = session.run(&words);
    assert!(begun.elapsed() < Duration::from_secs(15), "{words:?}");
    assert!(before == bytes(session), "{words:?} wrote something");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    let text = String::from_utf8(output.stdout).expect("text");
    let parts = text.split("  pool: ").skip(1);
    let parts = parts.map(|part| (part.lines().next().unwrap_or_default().to_owned(), part));
    parts.map(|(name, part)| (name, without_id(part))).collect()
}

/// An entry without the number of the pool and its first line.
fn without_id(entry: &str) -> String {
    let lines = entry.lines().skip(1);
    let lines = lines.filter(|line| !line.starts_with("    id: "));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n").trim_end().to_owned()
}

fn entry(session: &Session, flags: &[&str]) -> String {
    let mut found = listed(session, flags);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0).1
}

/// What the import itself says.
fn refusal(session: &Session, name: &str, flags: &[&str]) -> String {
    let images = session.images();
    let words = ["zpool", "import", "-N", "-d", path(&images)];
    session.refused(&[&words[..], flags, &[name]].concat())
}

const UNKNOWN_FOR_READING: &str = " state: UNAVAIL
status: The pool uses the following feature(s) not supported on this system:
	com.example:hologram (What nobody knows.)
action: The pool cannot be imported. Access the pool on a system that supports
	the required feature(s), or recreate the pool from backup.
config:

";
const UNKNOWN_FOR_WRITING: &str = " state: UNAVAIL
status: The pool can only be accessed in read-only mode on this system. It
	cannot be accessed in read-write mode because it uses the following
	feature(s) not supported on this system:
	com.example:ledger (What nobody knows.)
action: The pool cannot be imported in read-write mode. Import the pool with
	'-o readonly=on', access the pool on a system that supports the
	required feature(s), or recreate the pool from backup.
config:

";

#[test]
fn features_that_are_not_known_are_told_by_the_list() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let image = make(&session, "tank", Some(&FOR_READING));
    let rows = |image: &Path| {
        let width = path(image).len() + 2;
        format!(
            "\t{:width$}  UNAVAIL  unsupported feature(s)\n\t  {}  ONLINE",
            "tank",
            path(image)
        )
    };
    let expected = UNKNOWN_FOR_READING.to_owned() + &rows(&image);
    assert_eq!(entry(&session, &[]), expected);
    let told = refusal(&session, "tank", &[]);
    assert!(
        told.contains("\n\tcom.example:hologram (What nobody knows.)\n"),
        "{told}"
    );
    // Labels tell of features without which nothing can be read.
    forge_labels(&image, |config| {
        let mut features = NvList::new();
        features.set("com.example:hologram", format::nvlist::Value::Boolean);
        config.set(keys::FEATURES_FOR_READ, features);
    });
    let shown = entry(&session, &[]);
    assert!(
        shown.contains("this system:\n\tcom.example:hologram\naction: "),
        "{shown}"
    );
    fs::remove_file(&image).expect("removed");

    let image = make(&session, "tank", Some(&FOR_WRITING));
    let expected = UNKNOWN_FOR_WRITING.to_owned() + &rows(&image);
    assert_eq!(entry(&session, &[]), expected);
    let told = refusal(&session, "tank", &[]);
    let only = "All unsupported features are only required for writing to the pool.";
    assert!(told.contains(only), "{told}");
    session.import("tank", &["-N", "-o", "readonly=on"]);
    session.export("tank");
    assert_eq!(entry(&session, &[]), expected);
}

#[test]
fn a_destroyed_pool_is_listed_with_what_forbids_its_import() {
    let Some(session) = Session::new() else {
        return;
    };
    for (name, feature) in [("reads", &FOR_READING), ("writes", &FOR_WRITING)] {
        let image = make(&session, name, Some(feature));
        forge_labels(&image, |config| {
            config.set(keys::STATE, label::PoolState::Destroyed.number());
        });
    }
    let there = make(&session, "there", None);
    let found = listed(&session, &["-D"]);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["reads", "writes"]);
    let destroyed = |text: &str| text.replacen("UNAVAIL\n", "UNAVAIL (DESTROYED)\n", 1);
    assert!(
        found[0].1.starts_with(&destroyed(UNKNOWN_FOR_READING)),
        "{found:?}"
    );
    assert!(
        found[1].1.starts_with(&destroyed(UNKNOWN_FOR_WRITING)),
        "{found:?}"
    );
    let shown = entry(&session, &[]);
    assert!(shown.contains(path(&there)), "{shown}");
    assert!(shown.contains("state: ONLINE"), "{shown}");
}

#[test]
fn versions_and_vdevs_that_are_not_known_are_told_by_the_list() {
    let Some(session) = Session::new() else {
        return;
    };
    let image = make(&session, "tank", None);
    let good = fs::read(&image).expect("read");
    let again = || fs::write(&image, &good).expect("written");
    forge_uberblocks(&image, |uberblock| uberblock.version = 5001);
    let shown = entry(&session, &[]);
    let status = " state: UNAVAIL
status: The pool is formatted using an incompatible version.
action: The pool cannot be imported.  Access the pool on a system running newer
	software, or recreate the pool from backup.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-A5
config:
";
    assert!(shown.starts_with(status), "{shown}");
    assert!(shown.contains("  UNAVAIL  newer version\n"), "{shown}");
    let told = refusal(&session, "tank", &[]);
    assert!(
        told.contains("pool is formatted using an unsupported ZFS version"),
        "{told}"
    );

    again();
    forge_vdev(&image, |top| {
        top.set(keys::TYPE, "hologram");
    });
    let shown = entry(&session, &[]);
    let status = " state: UNAVAIL
status: The pool has a vdev of a kind that is not supported on this system:
	hologram
action: The pool cannot be imported. Access the pool on a system that supports
	the required feature(s), or recreate the pool from backup.
config:
";
    assert!(shown.starts_with(status), "{shown}");
    let told = refusal(&session, "tank", &[]);
    assert!(told.contains("hologram vdevs are not supported"), "{told}");
}

#[test]
fn sectors_of_no_size_are_told_by_the_list() {
    let Some(session) = Session::new() else {
        return;
    };
    let image = make(&session, "tank", None);
    let good = fs::read(&image).expect("read");
    let again = || fs::write(&image, &good).expect("written");
    for ashift in [8_u64, 17] {
        again();
        forge_vdev(&image, |top| {
            top.set(keys::ASHIFT, ashift);
        });
        let shown = entry(&session, &[]);
        let reason = format!("vdev 0 has an invalid ashift: {ashift}; it must be 9 to 16");
        let status = format!(
            " state: FAULTED\nstatus: The pool metadata is corrupted.\n\t({reason})\n\
             action: The pool cannot be imported due to damaged devices or data.\n"
        );
        assert!(shown.starts_with(&status), "{shown}");
        assert!(shown.contains("  FAULTED  corrupted data\n"), "{shown}");
        let told = refusal(&session, "tank", &[]);
        assert!(told.contains(&reason), "{told}");
    }
}

#[test]
fn missing_vdevs_are_told_by_the_list() {
    const ATTACH: &str = "action: The pool cannot be imported. Attach the missing
	devices and try again.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-";
    let Some(session) = Session::new() else {
        return;
    };
    let images = make_of(&session, "tank", &["one", "two"], None);
    fs::remove_file(&images[1]).expect("removed");
    let shown = entry(&session, &[]);
    assert!(
        shown.starts_with(" state: UNAVAIL\nstatus: One or more devices are missing"),
        "{shown}"
    );
    let told = refusal(&session, "tank", &[]);
    assert!(
        told.contains("one or more devices is currently unavailable"),
        "{told}"
    );
    assert!(shown.contains(&format!("{ATTACH}3C\n")), "{shown}");
    assert!(
        shown.contains("  UNAVAIL  insufficient replicas\n"),
        "{shown}"
    );
    assert!(shown.ends_with("  UNAVAIL  cannot open"), "{shown}");
    // Nothing is known of it where what the pool has stored lies on it alone.
    forge_uberblocks(&images[0], |uberblock| move_root(uberblock, 1));
    let shown = entry(&session, &[]);
    assert!(shown.contains(&format!("{ATTACH}6X\n")), "{shown}");
    assert!(shown.contains("  UNAVAIL  missing device\n"), "{shown}");
    assert!(
        shown.ends_with(
            "\n\n\tAdditional devices are known to be part of this pool, though their\n\t\
             exact configuration cannot be determined."
        ),
        "{shown}"
    );
}

#[test]
fn missing_log_devices_are_told_by_the_list() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let log = session.images().join("log.img");
    device_file(&log);
    session.create("tank", 96, &["-m", "none"]);
    session.ok(&["zpool", "add", "tank", "log", path(&log)]);
    session.export("tank");
    let data = session.images().join("tank.img");
    let width = path(&data).len() + 2;
    let shown = entry(&session, &[]);
    assert!(shown.starts_with(" state: ONLINE\naction: "), "{shown}");
    let kept = fs::read(&log).expect("read");
    fs::remove_file(&log).expect("removed");
    let expected = format!(
        " state: UNAVAIL
status: One or more devices are missing from the system.
action: The pool cannot be imported. Attach the missing
	devices and try again.
	It can be imported without its log devices, using the '-m' flag.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-6X
config:

	{:width$}  UNAVAIL  missing device
	  {}  ONLINE
	logs	
	  ",
        "tank",
        path(&data),
    );
    let shown = entry(&session, &[]);
    assert!(shown.starts_with(&expected), "{shown}");
    // By its number, as it is not there.
    let rest = shown[expected.len()..].split_once(' ').expect("a row");
    assert!(rest.0.parse::<u64>().is_ok(), "{shown}");
    assert_eq!(rest.1.trim_start(), "UNAVAIL  cannot open");
    let told = refusal(&session, "tank", &[]);
    assert!(
        told.contains("use '-m' to import the pool anyway"),
        "{told}"
    );
    // Nobody misses one that is out of use.
    fs::write(&log, kept).expect("written");
    session.import("tank", &[]);
    session.ok(&["zpool", "offline", "tank", path(&log)]);
    session.export("tank");
    fs::remove_file(&log).expect("removed");
    let shown = entry(&session, &[]);
    assert!(shown.starts_with(" state: DEGRADED\n"), "{shown}");
    session.import("tank", &[]);
    session.export("tank");
}

#[test]
fn a_pool_in_use_elsewhere_is_told_by_the_list_unless_more_forbids_it() {
    let Some(session) = Session::new() else {
        return;
    };
    for (name, feature) in [("plain", None), ("reads", Some(&FOR_READING))] {
        let image = make(&session, name, feature);
        forge_labels(&image, |config| {
            config.set(keys::STATE, label::PoolState::Active.number());
            config.set(keys::HOST_ID, 77_u64);
            config.set(keys::HOST_NAME, "elsewhere");
        });
    }
    let found = listed(&session, &[]);
    let of = |name: &str| {
        let entry = found.iter().find(|(found, _)| found == name);
        entry.map(|(_, entry)| entry.clone()).unwrap_or_default()
    };
    let status = " state: ONLINE\nstatus: The pool was last accessed by another system.\n";
    assert!(of("plain").starts_with(status), "{found:?}");
    assert!(of("reads").starts_with(UNKNOWN_FOR_READING), "{found:?}");
    let told = refusal(&session, "plain", &[]);
    assert!(
        told.contains("previously in use from another system"),
        "{told}"
    );
    let told = refusal(&session, "reads", &["-f"]);
    assert!(told.contains("com.example:hologram"), "{told}");
}

/// What is done to an image.
type Damage<'a> = &'a dyn Fn(&Path);

/// What is wrong with one pool keeps nobody from seeing the others.
#[test]
fn a_pool_that_cannot_be_read_does_not_hide_others() {
    let Some(session) = Session::new() else {
        return;
    };
    let damage: [(&str, Damage<'_>); 5] = [
        ("checksum", &|image| {
            forge_uberblocks(image, |uberblock| {
                let mut value = uberblock.root.checksum_value();
                value.0[0] ^= 1;
                let kind = uberblock.root.checksum().expect("a kind");
                uberblock.root.set_checksum(kind, value);
            });
        }),
        ("nowhere", &|image| {
            forge_uberblocks(image, |uberblock| move_root(uberblock, 7));
        }),
        ("hole", &|image| {
            forge_uberblocks(image, |uberblock| uberblock.root.set_dvas(&[]));
        }),
        ("children", &|image| {
            forge_labels(image, |config| {
                config.set(keys::VDEV_CHILDREN, u64::MAX);
            });
        }),
        ("endless", &|image| {
            forge_vdev(image, |top| {
                top.set(keys::ASIZE, u64::MAX);
                top.set(keys::METASLAB_SHIFT, u64::MAX);
            });
        }),
    ];
    for (name, forge) in damage {
        forge(&make(&session, name, None));
    }
    make(&session, "whole", None);
    let found = listed(&session, &[]);
    for (name, entry) in &found {
        println!("{name}\n{entry}\n");
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "checksum", "children", "endless", "hole", "nowhere", "whole"
        ]
    );
    for (name, entry) in &found {
        let is_ready = entry.contains("action: The pool can be imported using its name");
        let images = session.images();
        let import = ["zpool", "import", "-N", "-d", path(&images), name];
        let imported = session.run(&import);
        assert_eq!(is_ready, imported.status.success(), "{entry}\n{imported:?}");
        if imported.status.success() {
            session.ok(&["zpool", "export", name]);
        }
    }
    assert!(
        found[0]
            .1
            .starts_with(" state: FAULTED\nstatus: The pool metadata is corrupted.")
    );
    assert!(
        found[5].1.starts_with(" state: ONLINE\naction: "),
        "{:?}",
        found[5]
    );
}

#[test]
fn what_openzfs_made_is_listed_as_the_import_finds_it() {
    for golden in golden::all_pools() {
        let Some(session) = Session::new() else {
            return;
        };
        session.bring(&golden.images());
        let found = listed(&session, &[]);
        let (name, entry) = found.first().expect("a pool");
        let images = session.images();
        let import = ["zpool", "import", "-N", "-f", "-d", path(&images), name];
        let imported = session.run(&import);
        let is_ready = entry.contains("action: The pool can be imported");
        assert_eq!(is_ready, imported.status.success(), "{entry}\n{imported:?}");
        println!("{name}: {}", entry.lines().next().unwrap_or_default());
        if imported.status.success() {
            session.ok(&["zpool", "export", name]);
        }
    }
}

/// Who may read a device and not write it is told what the import would say.
#[test]
fn devices_that_may_not_be_written_are_told_by_the_list() {
    const NOBODY: u32 = 65534;
    let Some(session) = Session::new() else {
        return;
    };
    let image = make(&session, "tank", None);
    if !session.open_to(NOBODY) {
        return;
    }
    let images = session.images();
    for (path, mode) in [(&images, 0o755), (&image, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    }
    let own = session.mounts().join("own");
    fs::create_dir(&own).expect("made");
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("root gives it away");
    let run = |words: &[&str]| {
        let mut command = session.command(words);
        command.env("MILLPOND_RUN", &own).uid(NOBODY).gid(NOBODY);
        command.output().expect("it ran before")
    };
    let list = ["zpool", "import", "-d", path(&images)];
    let import = |words: &[&str]| run(&[&list[..], words].concat());
    let listed = import(&[]);
    let shown = String::from_utf8_lossy(&listed.stdout);
    let reason = format!(
        "{}: permission denied to open it for writing;",
        path(&image)
    );
    let status = " state: UNAVAIL
status: The pool can only be accessed in read-only mode on this system:
";
    assert!(shown.contains(&format!("{status}\t{reason} ")), "{shown}");
    let action = "action: The pool cannot be imported in read-write mode. Import the pool with
	'-o readonly=on'.
";
    assert!(shown.contains(action), "{shown}");
    let refused = import(&["-N", "tank"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains(&reason), "{told}");
    let read = import(&["-N", "-o", "readonly=on", "tank"]);
    assert!(read.status.success(), "{read:?}");
    let exported = run(&["zpool", "export", "tank"]);
    assert!(exported.status.success(), "{exported:?}");
    let shown = entry(&session, &[]);
    assert!(shown.starts_with(" state: ONLINE\naction: "), "{shown}");
}

/// It is shown as its labels are: its hot spares and its cache are known to it alone.
#[test]
fn a_pool_that_another_process_has_is_not_tried() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let cache = session.images().join("cache.img");
    device_file(&cache);
    session.create("tank", 96, &["-m", "none"]);
    session.ok(&["zpool", "add", "tank", "cache", path(&cache)]);
    let elsewhere = session.mounts().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let list = || {
        let images = session.images();
        let mut command = session.command(&["zpool", "import", "-d", path(&images)]);
        let output = command.env("MILLPOND_RUN", &elsewhere).output();
        let output = output.expect("the binary runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let shown = list();
    assert!(shown.contains("The pool is in use by "), "{shown}");
    assert!(shown.contains("/tank.img"), "{shown}");
    assert!(!shown.contains("cache"), "{shown}");
    session.ok(&["zpool", "export", "tank"]);
    let shown = list();
    assert!(shown.contains("\n\tcache\n"), "{shown}");
    assert!(shown.contains("/cache.img"), "{shown}");
}
