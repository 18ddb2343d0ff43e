//! What the device itself can do: the latency that no file system on it can beat.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::real_now;
use base::random::{Rng, SeededRng};

use super::measure::Times;

/// The file's size; its blocks are allocated before the clock starts.
const FILE_BYTES: u64 = 16 << 20;
const WRITE_BYTES: usize = 8 << 10;
const ROUNDS_MAX: u32 = 500;
const TIME_MAX: Duration = Duration::from_secs(2);

/// Removes the file however the probe ends.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Its directory may be gone, which is as good.
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Latency of writing 8 KiB into allocated space and `fdatasync`, one at a time, on a file in
/// `directory`.
pub(super) fn probe(directory: &Path) -> io::Result<Times> {
    let path = directory.join(format!(".millpond-probe-{}", std::process::id()));
    let file = File::options().create_new(true).write(true).open(&path)?;
    let _scratch = Scratch(path);
    let piece = vec![0x5a; 1 << 20];
    for offset in (0..FILE_BYTES).step_by(piece.len()) {
        file.write_all_at(&piece, offset)?;
    }
    file.sync_all()?;
    let random = SeededRng::new(1);
    let mut data = vec![0; WRITE_BYTES];
    let mut times = Times::default();
    let started = real_now();
    while times.count() < u64::from(ROUNDS_MAX) && started.elapsed() < TIME_MAX {
        random.fill(&mut data);
        let offset = random.below(FILE_BYTES / WRITE_BYTES as u64) * WRITE_BYTES as u64;
        let begun = real_now();
        file.write_all_at(&data, offset)?;
        file.sync_data()?;
        times.add(begun.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_measures_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let times = probe(directory.path()).unwrap();
        assert!(times.count() > 0 && times.max_ns() > 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
