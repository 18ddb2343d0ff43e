//! Random histories in which all disk operations meet, in any order: pools of single disks, mirrors, RAID-Z and dRAID,
//! with special, log and spare devices and distributed spares, on simulated disks. Devices are attached, replaced,
//! detached, taken out of use and back, added, removed, expanded over; scans, trims and checkpoints come and go; files,
//! snapshots and clones change meanwhile. Disks fail, rot, are pulled out and put back within what the pool tolerates;
//! the power goes at any moment.
//!
//! Requests that are refused are so for a reason that the rules know (`rules.rs`). Nothing is lost: after each import
//! the files are as the model says, also without the devices that the pool says it does not need. At the end, when all
//! is at rest, a scrub repairs, another finds nothing, and `inspect` and zdb find everything in its place.

mod disk;
mod ending;
mod files;
mod history;
mod requests;
mod rules;
mod view;

use history::{Counts, History};
use millpond_torture::random::{asked, seed, seeds};
use millpond_torture::tunables::{self, TXGS_AS_ASKED};
use std::time::{Duration, Instant};

/// Sessions of a history, and steps of each.
const SESSIONS: usize = 3;
const STEPS: usize = 14;

fn explore(seed: u64) -> Counts {
    println!(
        "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test disk_histories -- \
         --include-ignored --exact a_random_history --nocapture"
    );
    let _limits = tunables::drawn_but(seed, TXGS_AS_ASKED);
    let mut history = History::new(seed);
    let mut test_pool = history.import();
    for session in 0..SESSIONS {
        for _ in 0..STEPS {
            history.step(&test_pool);
        }
        if session + 1 == SESSIONS {
            break;
        }
        if history.random.one_in(2) {
            history.do_without(&test_pool);
        }
        test_pool = history.next_session(test_pool);
    }
    let with_zdb = seed.is_multiple_of(4);
    history.end(test_pool, with_zdb).counts
}

impl History {
    fn step(&mut self, test_pool: &millpond_torture::test_pool::TestPool) {
        if self.random.one_in(2) {
            self.change_files(test_pool);
        }
        if self.random.one_in(4) {
            self.change_datasets(test_pool);
        }
        if self.random.one_in(2) {
            self.sync(test_pool);
        }
        if self.random.one_in(5) {
            self.strike(test_pool);
        }
        if self.random.one_in(6) {
            let pause_ms = self.random.below(30) as u64;
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        self.request(test_pool);
    }

    fn next_session(
        &mut self,
        test_pool: millpond_torture::test_pool::TestPool,
    ) -> millpond_torture::test_pool::TestPool {
        if self.checkpoint.is_some() && self.random.one_in(2) {
            return self.take_back(test_pool);
        }
        if self.random.one_in(4) {
            self.export(test_pool);
            return self.import();
        }
        self.lose_power(test_pool)
    }
}

#[test]
#[ignore = "torture: not every history is judged right yet (docs/reliability.md)"]
fn a_random_history() {
    for seed in seeds(1..2) {
        println!("{:?}", explore(seed));
    }
}

/// `MILLPOND_SECONDS` (60) of histories, from `MILLPOND_SEED` (20000) on.
#[test]
#[ignore = "torture: histories one after the other"]
fn many_disk_histories() {
    let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
    let (begun, first) = (Instant::now(), seed(20_000));
    let (mut seed, mut all) = (first, Counts::default());
    while begun.elapsed() < time {
        all.add(&explore(seed));
        seed += 1;
    }
    println!("seeds {first} to {seed}: {all:?}, 0 differences");
}
