//! Histories that a seed says to the byte, and their crash points: threads take turns as `base::schedule` says.

#![cfg(debug_assertions)]

mod crash;
mod history;

use crash::Point;
use history::{History, Shape, Summary};
use millpond_torture::random::{Random, asked, seed};
use std::process::Command;
use std::sync::Arc;

fn summary(seed: u64) -> Summary {
    History::of(seed, Shape::of(seed)).1
}

/// The same seed is the same history, whatever the process did before.
#[test]
fn a_seed_is_a_history() {
    let seed = seed(1);
    let seeds = [seed, seed + 1, seed + 2, seed + 3];
    let first = seeds.map(summary);
    for (seed, first) in seeds.into_iter().zip(&first).rev() {
        println!("seed {seed}: {first:?}");
        assert_eq!(*first, summary(seed), "seed {seed}");
    }
    let mut disks: Vec<_> = first.iter().map(|summary| summary.disk).collect();
    disks.sort_unstable();
    disks.dedup();
    assert_eq!(disks.len(), first.len(), "seeds do not differ");
}

/// And in another process.
#[test]
fn a_seed_is_a_history_elsewhere() {
    for seed in [5, 6] {
        let own = format!("{:?}", summary(seed));
        let elsewhere = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "one_history", "--nocapture"])
            .env("MILLPOND_SEED", seed.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&elsewhere.stdout);
        assert!(text.contains(&own), "{own}\nelsewhere:\n{text}");
    }
}

#[test]
#[ignore = "a part of others: prints the history of MILLPOND_SEED"]
fn one_history() {
    let seed = seed(1);
    println!("{:?}", summary(seed));
}

/// Crash points of histories of consecutive seeds, `each` of each, until there were `points`.
fn explore(first: u64, each: usize, points: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (mut done, mut seed) = (0, first);
    while done < points {
        let (history, summary) = History::of(seed, Shape::of(seed));
        println!("seed {seed}: {:?}, {summary:?}", Shape::of(seed));
        let history = Arc::new(history);
        let mut random = Random::new(seed);
        // All of them, in turn, or as many as are wanted.
        let (begin, end) = history.events;
        let events: Vec<_> = if end - begin < each {
            (begin..=end).collect()
        } else {
            (0..each).map(|_| history.event(&mut random)).collect()
        };
        for event in events.into_iter().take(points - done) {
            Point { seed, event }.check(&history, folder.path());
            done += 1;
        }
        seed += 1;
    }
    println!("{done} crash points, seeds {first} to {}", seed - 1);
}

#[test]
fn crash_points() {
    explore(seed(100), 20, 100);
}

#[test]
#[ignore = "a part of others: the crash point of MILLPOND_SEED and MILLPOND_EVENT"]
fn one_point() {
    let seed = seed(100);
    let (history, summary) = History::of(seed, Shape::of(seed));
    println!("{summary:?}, events {:?}", history.events);
    let event = asked("MILLPOND_EVENT").map_or(history.events.1, |event| event as usize);
    let folder = tempfile::tempdir().unwrap();
    Point { seed, event }.check(&Arc::new(history), folder.path());
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        #[test]
        #[ignore = "sim: 500 crash points"]
        fn five_hundred_crash_points() {
            super::super::explore(super::super::seed(1000), 100, 500);
        }
    }

    mod torture {
        #[test]
        #[ignore = "torture: 10,000 crash points"]
        fn ten_thousand_crash_points() {
            super::super::explore(super::super::seed(1000), 100, 10_000);
        }
    }
}
