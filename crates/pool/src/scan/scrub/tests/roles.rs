//! How the system runs the threads of scans.

use super::{begin, mirror};
use crate::{CreateOptions, Pool};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Of the fields of a thread's `stat` that follow its name: the number of its policy.
const POLICY: usize = 38;
const SCHED_BATCH: &str = "3";
const PATIENCE: Duration = Duration::from_secs(20);

/// The policies of this process's threads of that name.
fn policies(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stat_of = |folder: PathBuf| {
        // A thread may have ended meanwhile.
        let its_name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let policy = fields.split(' ').nth(POLICY)?;
        (its_name.trim_end() == name).then(|| policy.to_owned())
    };
    let threads = tasks.filter_map(|task| stat_of(task.unwrap().path()));
    threads.collect()
}

#[test]
fn a_scrub_runs_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    begin(&pool);
    // The new thread takes its role a moment after its name.
    let is_seen = || {
        policies("pool-scrub")
            .iter()
            .any(|policy| policy == SCHED_BATCH)
    };
    let begun = Instant::now();
    while !is_seen() && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert!(is_seen());
    pool.stop_scrub().unwrap();
}
