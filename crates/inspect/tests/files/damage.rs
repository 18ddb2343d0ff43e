//! Images with random bytes flipped: no panic, no hang, nothing wrong without a word.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use golden::{GoldenPool, Manifest};
use millpond_inspect::cp;

use crate::random::Random;
use crate::{RECURSIVE, words};

const POOLS: [&str; 5] = ["codecs", "default", "old", "mirror", "gang"];
const LONGEST: Duration = Duration::from_secs(60);

/// Places in an image that hold something: flips in holes would test little.
fn data_ranges(image: &Path) -> Vec<(u64, u64)> {
    let mode = sys::OpenMode {
        write: false,
        direct: false,
        exclusive: false,
    };
    let file = sys::File::open(image, mode, sys::Create::Never).unwrap();
    let mut found = Vec::new();
    let mut offset = 0;
    const STEP: u64 = 4096;
    while let Ok(Some(data)) = file.next_data(offset) {
        found.push((data, STEP));
        offset = (data / STEP + 1) * STEP;
    }
    found
}

/// Flips `count` bytes; returns how to do it again.
fn flip(image: &Path, ranges: &[(u64, u64)], random: &mut Random, count: u64) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(image)
        .unwrap();
    let length = file.metadata().unwrap().len();
    for _ in 0..count {
        let (start, size) = ranges[random.below(ranges.len() as u64) as usize];
        let offset = (start + random.below(size)).min(length - 1);
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        byte[0] ^= (random.below(255) + 1) as u8;
        file.write_all_at(&byte, offset).unwrap();
    }
}

/// What differs although nothing was said about it.
fn silent_differences(wanted: &Manifest, out: &Path, problems: &[String]) -> Vec<String> {
    let mut differences = wanted.differences(&golden::describe_tree(out));
    differences.retain(|line| {
        let path = line.split_once(": ").map_or(&line[..], |(path, _)| path);
        // Said of this path, or of a directory above it (which then has other links and entries).
        let told = |problem: &String| {
            let about = problem.split(": ").next().unwrap_or_default();
            path == "."
                || about.ends_with(path)
                || path
                    .split('/')
                    .any(|part| about.rsplit('/').next() == Some(part))
        };
        let is_count = line.contains(": nlink: ");
        let missing = line.ends_with(": missing");
        !(problems.iter().any(told) || (!problems.is_empty() && (is_count || missing)))
    });
    differences
}

struct Subject {
    pool: GoldenPool,
    images: Vec<PathBuf>,
    originals: Vec<PathBuf>,
    ranges: Vec<Vec<(u64, u64)>>,
    datasets: Vec<(String, Manifest)>,
    _folder: tempfile::TempDir,
}

impl Subject {
    fn new(name: &str) -> Option<Self> {
        let pool = golden::pool(name)?;
        let (folder, images) = pool.copy();
        let originals = pool.images();
        let children = pool.lines("list.tsv");
        let mut datasets = pool.manifests();
        // Where children are mounted, the manifest shows them: datasets without children do. One has its
        // checksums turned off, so that nothing could tell.
        datasets.retain(|(name, _)| {
            let below = format!("{name}/");
            let is_fit = !name.ends_with("/ln") && !name.ends_with("/k-off");
            is_fit && !children.iter().any(|line| line.starts_with(&below))
        });
        let ranges = originals.iter().map(|image| data_ranges(image)).collect();
        Some(Self {
            pool,
            images,
            originals,
            ranges,
            datasets,
            _folder: folder,
        })
    }

    fn restore(&self) {
        for (original, image) in self.originals.iter().zip(&self.images) {
            let status = std::process::Command::new("cp")
                .args(["--sparse=always", "--no-preserve=mode"])
                .args([original, image])
                .status();
            assert!(status.unwrap().success());
        }
    }

    fn run(&self, seed: u64) -> usize {
        self.restore();
        let mut random = Random(seed);
        let count = 1 << random.below(11);
        let images = self.images.iter().zip(&self.ranges);
        // One side of a mirror stays whole: the other's damage must not be seen.
        let damaged = if self.images.len() > 1 {
            1
        } else {
            self.images.len()
        };
        for (image, ranges) in images.take(damaged) {
            flip(image, ranges, &mut random, count);
        }
        let chosen = random.below(self.datasets.len() as u64) as usize;
        let (name, wanted) = &self.datasets[chosen];
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let start = Instant::now();
        let copied = cp(&words(&self.images, name), &out, &RECURSIVE).unwrap();
        let repro = format!(
            "seed {seed}, pool {}, dataset {name}, {count} bytes; again: MILLPOND_SEED={seed} \
             cargo test -p millpond-inspect --test files damage::one_seed",
            self.pool.name
        );
        assert!(
            start.elapsed() < LONGEST,
            "{repro}: took {:?}",
            start.elapsed()
        );
        let problems: Vec<String> = copied.problems.lines().collect();
        if self.images.len() > 1 {
            assert_eq!(problems, Vec::<String>::new(), "{repro}");
        }
        if out.exists() {
            let silent = silent_differences(wanted, &out, &problems);
            assert_eq!(silent, Vec::<String>::new(), "{repro}\n{problems:#?}");
        } else {
            assert!(
                !problems.is_empty(),
                "{repro}: nothing copied and nothing said"
            );
        }
        problems.len()
    }
}

/// Seeds are dealt out over the pools; a seed alone says what is done.
fn run(seeds: impl Iterator<Item = u64>) {
    if sys::user_id() != 0 {
        println!("skipped: manifests have owners and device nodes, which root restores");
        return;
    }
    let subjects: Vec<Subject> = POOLS.iter().filter_map(|name| Subject::new(name)).collect();
    let (mut runs, mut damaged) = (0, 0);
    for seed in seeds {
        let Some(subject) = subjects.get((seed % POOLS.len() as u64) as usize) else {
            return;
        };
        damaged += usize::from(subject.run(seed) > 0);
        runs += 1;
    }
    println!("{runs} damaged images, {damaged} with reported losses");
}

#[test]
fn one_hundred_seeds() {
    run(0..100);
}

#[test]
fn one_seed() {
    let seed = std::env::var("MILLPOND_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    run(seed.into_iter());
}

/// A thousand damaged images, in quarters that run side by side.
mod torture {
    #[test]
    #[ignore = "torture: a thousand damaged images"]
    fn first_quarter_of_a_thousand() {
        super::run(1000..1250);
    }

    #[test]
    #[ignore = "torture: a thousand damaged images"]
    fn second_quarter_of_a_thousand() {
        super::run(1250..1500);
    }

    #[test]
    #[ignore = "torture: a thousand damaged images"]
    fn third_quarter_of_a_thousand() {
        super::run(1500..1750);
    }

    #[test]
    #[ignore = "torture: a thousand damaged images"]
    fn last_quarter_of_a_thousand() {
        super::run(1750..2000);
    }
}
