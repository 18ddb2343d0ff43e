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
mod pools;
mod tree;
mod trial;

use image::PoolImage;
use millpond_torture::random::{Random, asked, seed};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tree::Tree;

const FOLDER: &str = "MILLPOND_FORGED";
const POOL_NAME: &str = "MILLPOND_FORGED_POOL";
const TIME_MAX: Duration = Duration::from_secs(60);
/// What a trial needs when nothing is forged is a tenth of it.
const MEMORY_MAX_KIB: u64 = 1 << 20;

/// What a trial told.
#[derive(Default)]
struct Told {
    /// What went wrong that must not.
    fault: Option<String>,
    /// What those who use the pool were told.
    errors: Vec<String>,
}

/// How long the threads of a process had to wait because others were running, all together: one may wait for another
/// that waits. Those that have ended count as they were seen last.
#[derive(Default)]
struct Waits(BTreeMap<String, u64>);

impl Waits {
    fn look(&mut self, process: u32) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            if let Some(Ok(waited_ns)) = text.split_whitespace().nth(1).map(str::parse) {
                let name = thread.file_name().to_string_lossy().into_owned();
                self.0.insert(name, waited_ns);
            }
        }
        Duration::from_nanos(self.0.values().sum())
    }
}

/// How a trial ended.
fn judge(mut child: Child, log: &Path) -> Told {
    let begun = Instant::now();
    let mut waits = Waits::default();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break (!status.success()).then(|| format!("it ended with {status}"));
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let memory_kib = status.ok().and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        let fault = if begun.elapsed().saturating_sub(waits.look(child.id())) > TIME_MAX {
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
    let mut lines = said.lines();
    let panicked = lines.find(|line| line.contains("panicked at"));
    // What it said is in the next line.
    let panicked = panicked.map(|line| format!("{line} {}", lines.next().unwrap_or_default()));
    let last = said.lines().rfind(|line| line.starts_with("stage: "));
    let fault = match (ended, panicked) {
        (Some(ended), Some(panicked)) => Some(format!("{ended}: {panicked}")),
        (ended, panicked) => ended.or(panicked),
    };
    Told {
        fault: fault.map(|fault| format!("{fault}; {}", last.unwrap_or("no stage"))),
        errors: said
            .lines()
            .filter(|line| line.starts_with(trial::ERROR))
            .map(str::to_owned)
            .collect(),
    }
}

/// A pool without a fault, and its blocks.
struct Base {
    /// As [`pools::NAMES`] has it.
    name: &'static str,
    /// As the pool is called.
    pool: String,
    image: PoolImage,
    tree: Tree,
    /// Where it lies.
    _folder: tempfile::TempDir,
}

impl Base {
    /// None where it is not at hand.
    fn make(name: &'static str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let pool = pools::make(name, folder.path())?;
        let image = PoolImage::read(folder.path()).unwrap();
        let tree = Tree::of(&image);
        Some(Self {
            name,
            pool,
            image,
            tree,
            _folder: folder,
        })
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
        let mut text = "nothing".to_owned();
        if let Some(seed) = seed {
            text = self.forge(&mut Random::new(seed));
        }
        self.image.copy_to(folder.path()).unwrap();
        let log = folder.path().join("log");
        let output = File::create(&log).unwrap();
        // A file of endless blocks ends with an error when it is copied out.
        let child = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 524288; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(POOL_NAME, &self.pool)
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
        let tail: Vec<&str> = said.lines().rev().take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let fault = format!(
            "{}, seed {seed:?}: {text}: {fault}\n{}\nrepeat with: MILLPOND_SEED={} MILLPOND_SECONDS=1 cargo test \
             --profile fast -p millpond-torture --test forged -- --ignored --nocapture random_forged_pools",
            self.name,
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
    let pool = std::env::var(POOL_NAME).expect("its name");
    trial::run(Path::new(&folder), &pool);
}

/// The pools that are at hand, as they are asked for.
#[derive(Default)]
struct Bases(BTreeMap<usize, Option<Base>>);

impl Bases {
    /// The one that a seed forges.
    fn of(&mut self, seed: u64) -> &mut Base {
        let wanted = seed as usize % pools::NAMES.len();
        for index in [wanted, 0] {
            let base = self.0.entry(index);
            base.or_insert_with(|| Base::make(pools::NAMES[index]));
            if self.0[&index].is_some() {
                let base = self.0.get_mut(&index).and_then(Option::as_mut);
                return base.expect("it is there");
            }
        }
        unreachable!("one is made here");
    }
}

#[test]
fn forged_blocks_cost_errors_only() {
    let mut noticed = 0;
    for (index, name) in pools::NAMES.into_iter().enumerate().take(2) {
        let mut base = Base::make(name).expect("it is made here");
        let blocks = base.tree.blocks.len();
        assert!(blocks > 100, "only {blocks} blocks");
        let mut told = base.try_out(None);
        // What was received in part, and what needs a key, is not copied.
        told.errors.retain(|line| !line.contains("cp: "));
        assert_eq!((told.fault, told.errors), (None, Vec::new()), "{name}");
        for seed in seed(1)..=seed(6) {
            let told = base.try_out(Some(seed * pools::NAMES.len() as u64 + index as u64));
            assert_eq!(told.fault, None);
            noticed += u64::from(!told.errors.is_empty());
        }
    }
    assert!(noticed > 3, "{noticed} of the forged blocks were noticed");
}

/// For as long as `MILLPOND_SECONDS` says.
#[test]
#[ignore = "takes as long as it is told to"]
fn random_forged_pools() {
    let begun = Instant::now();
    let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
    let mut bases = Bases::default();
    let (mut seed, mut faults, mut noticed) = (seed(1000), 0, 0);
    let first = seed;
    while seed == first || begun.elapsed().as_secs() < seconds {
        let told = bases.of(seed).try_out(Some(seed));
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
