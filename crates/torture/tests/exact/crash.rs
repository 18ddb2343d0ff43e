//! What a power loss leaves of a history, imported under a schedule of its own.

use crate::history::{History, Shape};
use base::schedule;
use millpond_torture::durable::{Commits, Demand, Found};
use millpond_torture::random::Random;
use millpond_torture::test_pool::{POOL, TestPool, image};
use millpond_torture::{aftermath, tunables};
use sim::SimulatedDisk;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A crash point, by itself: which of the writes that no flush covered survive follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) seed: u64,
    pub(crate) event: usize,
}

impl Point {
    fn survivors(self) -> u64 {
        Random::new(self.seed ^ (self.event as u64) << 32).draw()
    }

    /// Imports what the power loss leaves, and compares.
    pub(crate) fn check(self, history: &Arc<History>, folder: &Path) {
        let (history, images) = (Arc::clone(history), folder.to_owned());
        let crashed = history.disk.crash_at(self.event, self.survivors());
        let checked = schedule::run(self.survivors(), move || {
            self.import(&history, &crashed, &images);
        });
        // The check has threads of its own, and what it finds does not depend on their order.
        let outcome = checked
            .map_err(|failure| failure.to_string())
            .and_then(|_| {
                let check = || aftermath::on_devices(folder);
                std::panic::catch_unwind(check).map_err(|_| "what it left is not sound".to_owned())
            });
        if let Err(failure) = outcome {
            let Shape { threads, steps } = Shape::of(self.seed);
            panic!(
                "{threads} threads, {steps} steps: {failure}\nrepeat with: MILLPOND_SEED={} MILLPOND_EVENT={} \
                 cargo test -p millpond-torture --test exact -- --ignored --exact one_point",
                self.seed, self.event
            );
        }
    }

    fn import(self, history: &History, crashed: &SimulatedDisk, folder: &Path) {
        let _limits = tunables::drawn_silently(self.seed, tunables::CALLS_WHOLE);
        let path: PathBuf = image(folder, "crashed");
        let _ = std::fs::remove_file(&path);
        crashed.write_to_file(&path).unwrap();
        let test_pool = TestPool::import(folder, false).expect("imported");
        let system = test_pool.try_system(POOL).expect("mounted");
        assert_eq!(test_pool.lost_records(), 0, "records are lost");
        for record in &history.records {
            let found = Found::read(&system, &record.place);
            let demand = Demand::Promised(self.event);
            if let Err(lines) = record.judge(&found, demand, Commits::Others) {
                panic!("{:?}:\n{}", record.place, lines.join("\n"));
            }
        }
        for (at, name) in &history.snapshots {
            if *at <= self.event {
                let there = test_pool.pool.dsl().dataset(name);
                assert!(there.is_ok(), "{name} is gone");
            }
        }
        drop(system);
        aftermath::leave(test_pool);
    }
}
