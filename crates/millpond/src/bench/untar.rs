//! `untar`: a tree like that of a kernel's sources is unpacked, as `tar x` would do it.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base::clock::real_now;
use base::random::{Rng, SeededRng};

use super::measure::{Phase, Tally};
use super::run::Run;

/// Files in a directory, on average.
const FILES_A_DIRECTORY: u64 = 15;
/// Of so many entries one is a symbolic link.
const LINK_OF: u64 = 800;
/// `tar` writes what one record of its archive holds.
const RECORD: usize = 10 << 10;
const FILE_MAX: u64 = 4 << 20;

/// Unpacks, in the order of an archive: directories as they come, each file created, written
/// record by record, given its time and mode, closed; directories get their times at the end. An
/// operation is one entry.
pub(super) fn untar(run: &Run) -> io::Result<Vec<Phase>> {
    let _shown = run.shown("unpack");
    let random = SeededRng::new(2024);
    let mut tally = Tally::new(real_now());
    let root = run.directory.join("tree");
    tally.time(|| fs::create_dir(&root))?;
    let mut directories: Vec<(PathBuf, u32)> = vec![(root, 0)];
    let mut here = 0;
    for number in 0..run.files {
        if number > 0 && random.below(FILES_A_DIRECTORY) == 0 {
            here = next_directory(&mut directories, &random, &mut tally)?;
        }
        let Some((directory, _)) = directories.get(here) else {
            continue;
        };
        let path = directory.join(name(number, &random));
        if random.below(LINK_OF) == 0 {
            tally.time(|| symlink(format!("../include/file-{number}.h"), &path))?;
            continue;
        }
        let length = file_length(&random);
        tally.time(|| unpack(run, &path, length, &random))?;
        tally.bytes += length;
    }
    for (directory, _) in directories.iter().rev() {
        let opened = File::open(directory)?;
        tally.time(|| opened.set_times(FileTimes::new().set_modified(archived())))?;
    }
    let unpacked = Phase::ended("unpack", tally.clone());
    let begun = real_now();
    run.make_durable()?;
    let mut durable = Tally::new(begun);
    durable.add(begun);
    Ok(vec![unpacked, Phase::ended("make durable", durable)])
}

/// A new directory in one of the last ones, or beside them: up to eight deep.
fn next_directory(
    directories: &mut Vec<(PathBuf, u32)>,
    random: &SeededRng,
    tally: &mut Tally,
) -> io::Result<usize> {
    let count = directories.len() as u64;
    let near = random.below(count.min(12));
    let parent = usize::try_from(count - 1 - near).unwrap_or(0);
    let Some((path, depth)) = directories.get(parent).filter(|(_, depth)| *depth < 8) else {
        return Ok(0);
    };
    let (path, depth) = (path.join(format!("dir{count}")), depth + 1);
    tally.time(|| fs::create_dir(&path))?;
    directories.push((path, depth));
    Ok(directories.len() - 1)
}

fn unpack(run: &Run, path: &PathBuf, length: u64, random: &SeededRng) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    for record in run.contents.piece(random, length).chunks(RECORD) {
        file.write_all(record)?;
    }
    file.set_times(FileTimes::new().set_modified(archived()))?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// The time of all entries of the archive.
fn archived() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn name(number: u64, random: &SeededRng) -> String {
    const ENDS: [&str; 6] = [".c", ".h", ".c", ".h", ".rst", ".dts"];
    let length = random.below(12) as usize;
    let end = ENDS[random.below(ENDS.len() as u64) as usize];
    format!("{:x<length$}-{number}{end}", "")
}

/// Lengths of source files: half below 4.5 KB, 14 KB on average, a few of megabytes.
fn file_length(random: &SeededRng) -> u64 {
    let uniform = |value: u64| ((value >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (a, b) = (uniform(random.next_u64()), uniform(random.next_u64()));
    let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    let length = (4500f64.ln() + 1.5 * normal).exp();
    (length as u64).clamp(1, FILE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_sources() {
        let random = SeededRng::new(5);
        let mut lengths: Vec<u64> = (0..70_000).map(|_| file_length(&random)).collect();
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<u64>() / 70_000;
        assert!(
            (4_000..5_000).contains(&lengths[35_000]),
            "{}",
            lengths[35_000]
        );
        assert!((12_000..16_000).contains(&mean), "{mean}");
        assert!(lengths[69_999] > 1 << 20);
    }
}
