//! Pools whose checksums are right and whose contents nobody can have written: whatever a block says, those who read
//! the pool, use it and check it get errors at worst. Nothing panics, hangs, or takes memory without end.
//!
//! Each trial changes blocks of metadata and stores them and all blocks above them anew, or changes labels, uberblocks
//! or boot blocks, and uses the pool in a process of its own. Files are copied out of it as well: none gets outside
//! the folder that they are copied to.

mod image;
mod labels;
mod lists;
mod mutation;
mod tree;
mod trial;

use base::ObjectId;
use dsl::tasks::Snapshot;
use image::DeviceImage;
use millpond_torture::pool_model::{Change, real};
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::test_pool::{POOL, TestPool};
use pool::NewDevice;
use posix::{Credentials, FileSystem, FileType, NewNode, OpenOptions, WriteOptions, XattrMode};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tree::Tree;

const SIZE: u64 = 128 << 20;
const FOLDER: &str = "MILLPOND_FORGED";
const TIME_MAX: Duration = Duration::from_secs(60);
/// What a trial needs when nothing is forged is a tenth of it.
const MEMORY_MAX_KIB: u64 = 1 << 20;

fn main_image(folder: &Path) -> PathBuf {
    folder.join("forged.img")
}

fn writing() -> OpenOptions {
    OpenOptions {
        read: true,
        write: true,
        ..OpenOptions::default()
    }
}

fn node(file_type: FileType) -> NewNode {
    NewNode {
        file_type,
        permissions: 0o755,
        umask: 0,
        device: (0, 0),
    }
}

/// Files and directories of all kinds.
fn fill(system: &FileSystem, random: &mut Random) {
    let who = Credentials::root();
    let root = system.root();
    let file = |directory: ObjectId, name: &str, size: usize, random: &mut Random| {
        let made = system.create(
            &who,
            directory,
            name.as_bytes(),
            &node(FileType::Regular),
            writing(),
        );
        let (file, shown) = made.unwrap();
        file.write(0, &random.bytes(size), WriteOptions::default())
            .unwrap();
        shown.object
    };
    for (index, size) in [0, 10, 5000, 140_000, 700_000].into_iter().enumerate() {
        let object = file(root, &format!("file-{index}"), size, random);
        for (name, len) in [("user.short", 10), ("user.long", 3000)] {
            let value = vec![1; len];
            let set = system.setxattr(&who, object, name.as_bytes(), &value, XattrMode::Either);
            set.unwrap();
        }
    }
    for (name, count) in [("few", 5), ("many", 300)] {
        let made = system.mkdir(&who, root, name.as_bytes(), &node(FileType::Directory));
        let directory = made.unwrap().object;
        for index in 0..count {
            file(
                directory,
                &format!("a longer name, number {index}"),
                100,
                random,
            );
        }
    }
    // The second has as many letters as a directory: forged names can be the same.
    for (name, target) in [
        ("link", &b"a/target/somewhere"[..]),
        ("away", trial::AWAY.as_bytes()),
    ] {
        system.symlink(&who, root, name.as_bytes(), target).unwrap();
    }
}

/// A pool with something of everything, left without an export, its log unreplayed.
fn make(folder: &Path) {
    let path = main_image(folder);
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    let test_pool = TestPool::create(vec![NewDevice::Path(path.clone())]).unwrap();
    let mut random = Random::new(1);
    let dsl = test_pool.pool.dsl();
    let run_snapshot = |name: &str| {
        let names = vec![format!("{POOL}@{name}")];
        let properties = Vec::new();
        dsl.run(Snapshot { names, properties }).unwrap();
    };
    let root = test_pool.root();
    fill(&root, &mut random);
    run_snapshot("one");
    let who = Credentials::root();
    for name in ["file-3", "file-2"] {
        drop(root.unlink(&who, root.root(), name.as_bytes()).unwrap());
    }
    run_snapshot("two");
    drop(root);
    let path_of = |name: &str| format!("{POOL}/{name}");
    let changes = [
        Change::Create(path_of("child")),
        Change::Clone(format!("{POOL}@one"), path_of("clone")),
        Change::Bookmark(format!("{POOL}#mark"), format!("{POOL}@one")),
        Change::Hold(format!("{POOL}@two"), "held".to_owned()),
        Change::Set(
            path_of("child"),
            "quota".to_owned(),
            dsl::PropertyValue::Number(50 << 20),
        ),
    ];
    for change in &changes {
        real::apply(&test_pool, change).unwrap();
    }
    fill(&test_pool.system(&path_of("child")), &mut random);
    let clone = test_pool.system(&path_of("clone"));
    let changed = clone.lookup(&Credentials::root(), clone.root(), b"file-4");
    let changed = clone.open(&Credentials::root(), changed.unwrap().object, writing());
    let changed = changed.unwrap();
    changed
        .write(1000, &[5; 9000], WriteOptions::default())
        .unwrap();
    changed.fsync().unwrap();
    drop((changed, clone));
    test_pool.pool.sync().unwrap();
    // It stays as a crash leaves it, with records in a log.
    let root = test_pool.root();
    let (file, _) = root
        .create(
            &who,
            root.root(),
            b"in the log",
            &node(FileType::Regular),
            writing(),
        )
        .unwrap();
    file.write(0, &[3; 20_000], WriteOptions::default())
        .unwrap();
    file.fsync().unwrap();
    drop((file, root));
    let kept = folder.join("kept.img");
    std::fs::copy(&path, &kept).unwrap();
    test_pool.close_all();
    test_pool.pool.export().unwrap();
    drop(test_pool);
    std::fs::rename(kept, path).unwrap();
}

/// What a trial told.
#[derive(Default)]
struct Told {
    /// What went wrong that must not.
    fault: Option<String>,
    /// What those who use the pool were told.
    errors: Vec<String>,
}

/// How a trial ended.
fn judge(mut child: Child, log: &Path) -> Told {
    let begun = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break (!status.success()).then(|| format!("it ended with {status}"));
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let memory_kib = status.ok().and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        let fault = if begun.elapsed() > TIME_MAX {
            Some(format!("it ran longer than {TIME_MAX:?}"))
        } else {
            let used = memory_kib.unwrap_or(0);
            (used > MEMORY_MAX_KIB).then(|| format!("it took {used} KiB of memory"))
        };
        if fault.is_some() {
            let _ = child.kill();
            let _ = child.wait();
            break fault;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = std::fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let panicked = said.lines().find(|line| line.contains("panicked at"));
    let last = said.lines().rfind(|line| line.starts_with("stage: "));
    let fault = ended.or_else(|| panicked.map(str::to_owned));
    Told {
        fault: fault.map(|fault| format!("{fault}; {}", last.unwrap_or("no stage"))),
        errors: said
            .lines()
            .filter(|line| line.starts_with(trial::ERROR))
            .map(str::to_owned)
            .collect(),
    }
}

/// The pool without a fault, and its blocks.
struct Base {
    folder: tempfile::TempDir,
    image: DeviceImage,
    tree: Tree,
}

impl Base {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let image = DeviceImage::read(&main_image(folder.path()), 9).unwrap();
        let tree = Tree::of(&image);
        Self {
            folder,
            image,
            tree,
        }
    }

    /// Changes something; says what.
    fn forge(&mut self, random: &mut Random) -> String {
        let (image, tree) = (&mut self.image, &self.tree);
        let mutation = match random.below(12) {
            0..2 => return labels::configurations(image, random),
            2 => return labels::uberblocks(image, tree, random),
            3 => {
                let boot = labels::boot_blocks(image, random);
                return format!("{boot} | {}", labels::configurations(image, random));
            }
            4..6 => mutation::configuration(image, tree, random),
            6..9 => mutation::draw(image, tree, 2 + random.below(5), random),
            _ => mutation::draw(image, tree, 1, random),
        };
        tree.replace(image, mutation.plain);
        mutation.text
    }

    /// Uses the pool with something changed.
    fn try_out(&mut self, seed: Option<u64>) -> Told {
        let folder = tempfile::tempdir().unwrap();
        let path = main_image(folder.path());
        let copied = Command::new("cp")
            .arg("--sparse=always")
            .args([&main_image(self.folder.path()), &path])
            .status();
        assert!(copied.unwrap().success());
        let mut text = "nothing".to_owned();
        if let Some(seed) = seed {
            text = self.forge(&mut Random::new(seed));
            self.image.flush_to(&path).unwrap();
        }
        let log = folder.path().join("log");
        let output = File::create(&log).unwrap();
        // A file of endless blocks ends with an error when it is copied out.
        let child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 524288; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let told = judge(child, &log);
        let Some(fault) = told.fault else {
            return told;
        };
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let tail: Vec<&str> = said.lines().rev().take(25).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let fault = format!(
            "seed {seed:?}: {text}: {fault}\n{}\nrepeat with: MILLPOND_SEED={} MILLPOND_SECONDS=1 cargo test \
             --profile fast -p millpond-torture --test forged -- --ignored --nocapture random_forged_pools",
            tail.join("\n"),
            seed.unwrap_or(0)
        );
        Told {
            fault: Some(fault),
            ..told
        }
    }
}

/// The process of a trial.
#[test]
#[ignore = "the other tests start it"]
fn child() {
    let folder = std::env::var_os(FOLDER).expect("the folder of a forged pool");
    trial::run(Path::new(&folder));
}

#[test]
fn forged_blocks_cost_errors_only() {
    let mut base = Base::make();
    let blocks = base.tree.blocks.len();
    assert!(blocks > 100, "only {blocks} blocks");
    let told = base.try_out(None);
    assert_eq!((told.fault, told.errors), (None, Vec::new()));
    let mut noticed = 0;
    for seed in seed(1)..=seed(12) {
        let told = base.try_out(Some(seed));
        assert_eq!(told.fault, None);
        noticed += u64::from(!told.errors.is_empty());
    }
    assert!(noticed > 3, "{noticed} of the forged blocks were noticed");
}

/// For as long as `MILLPOND_SECONDS` says.
#[test]
#[ignore = "takes as long as it is told to"]
fn random_forged_pools() {
    let begun = Instant::now();
    let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
    let mut base = Base::make();
    let (mut seed, mut faults, mut noticed) = (seed(1000), 0, 0);
    let first = seed;
    while seed == first || begun.elapsed().as_secs() < seconds {
        let told = base.try_out(Some(seed));
        noticed += u64::from(!told.errors.is_empty());
        if let Some(fault) = told.fault {
            println!("{fault}\n");
            faults += 1;
        }
        seed += 1;
    }
    println!(
        "seeds {first} to {}: {noticed} noticed, {faults} faults",
        seed - 1
    );
    assert_eq!(faults, 0);
}
