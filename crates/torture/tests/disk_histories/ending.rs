//! How a history ends: everything comes to rest, and what must hold then.

use crate::disk::Disk;
use crate::history::History;
use crate::view::View;
use millpond_torture::aftermath;
use millpond_torture::test_pool::{POOL, TestPool};
use pool::{Pool, ScanPhys};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vdev::VdevState;

/// What goes on longer than this goes on for ever.
const PATIENCE: Duration = Duration::from_secs(120);

fn wait(what: &str, pool: &Arc<Pool>, goes_on: impl Fn() -> bool) {
    let begun = Instant::now();
    while goes_on() {
        assert_eq!(pool.suspended(), None, "{what}");
        let events = || {
            let all = pool.events(0);
            all[all.len().saturating_sub(12)..].to_vec()
        };
        assert!(
            begun.elapsed() < PATIENCE,
            "{what} does not end: {:#?}, {:#?}, last {:#?}",
            View::of(pool),
            pool.status().unwrap().root,
            events()
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl History {
    /// Every device is there, and nothing goes on any more.
    pub(crate) fn rest(&mut self, test_pool: &TestPool) {
        let pool = &test_pool.pool;
        self.put_all_back(test_pool);
        if pool
            .facts()
            .checkpoint()
            .is_some_and(|one| one.created_s.is_some())
        {
            pool.discard_checkpoint().unwrap();
        }
        self.checkpoint = None;
        wait("discarding the checkpoint", pool, || {
            pool.sync().unwrap();
            pool.facts().checkpoint().is_some()
        });
        self.all_online(pool);
        // One that is paused would go on for ever.
        if pool.scan().unwrap().is_some_and(|scan| scan.is_paused()) {
            let _ = pool.stop_scrub();
        }
        wait("the expansion", pool, || pool.is_expanding());
        pool.wait_removal().unwrap();
        let lacks = || {
            View::of(pool)
                .sides()
                .any(|(_, side)| !side.missing.is_empty())
        };
        let is_out = || View::of(pool).sides().any(|(_, side)| !side.is_writable);
        wait("the resilver", pool, || {
            // What went wrong before is judged by a thread of its own: it may put one out of use only now.
            if is_out() {
                self.all_online(pool);
            }
            lacks() || is_out()
        });
        wait("the rebuild", pool, || pool.is_rebuilding());
        pool.wait_scrub().unwrap();
        self.sync(test_pool);
    }

    fn all_online(&self, pool: &Arc<Pool>) {
        pool.clear(&|_| true).unwrap();
        for (_, side) in View::of(pool).sides() {
            // One may be gone by now, for it was replaced.
            if side.state == VdevState::Offline || !side.is_writable {
                let _gone = pool.bring_online(side.guid);
            }
        }
    }

    /// The outcome of a scrub.
    fn scrub(&mut self, test_pool: &TestPool) -> ScanPhys {
        let pool = &test_pool.pool;
        loop {
            // Another one may begin by itself here: with the end of an expansion.
            wait("a scrub that began by itself", pool, || {
                pool.start_scrub().is_err()
            });
            let begun = View::of(pool);
            let lacks = begun.sides().any(|(_, side)| !side.missing.is_empty());
            pool.wait_scrub().unwrap();
            let scan = pool.scan().unwrap().unwrap();
            // What a scrub found is judged by a thread of its own: a spare may have stepped in, and was given what it
            // lacks by the scrub that ran meanwhile, or by another scan.
            let is_other = scan.function != 1 && !View::of(pool).spares.is_empty();
            if !is_other && !lacks && View::of(pool).shape() == begun.shape() {
                return scan;
            }
            self.rest(test_pool);
        }
    }

    /// A scrub repairs, and another finds nothing.
    pub(crate) fn scrub_twice(&mut self, test_pool: &TestPool) {
        let pool = &test_pool.pool;
        for round in 0..2 {
            let scan = self.scrub(test_pool);
            assert_eq!(
                (scan.function, scan.errors),
                (1, 0),
                "scrub {round}: {scan:?}"
            );
            if round == 1 {
                let root = || pool.status().unwrap().root;
                assert_eq!(
                    scan.processed,
                    0,
                    "the second scrub repairs: {scan:?}, {:#?}",
                    root()
                );
            }
        }
        self.rotten.clear();
        pool.clear(&|_| true).unwrap();
        self.sync(test_pool);
    }

    /// The end: the pool is at rest, whole, and exported; what is on its devices is right.
    pub(crate) fn end(mut self, test_pool: TestPool, with_zdb: bool) -> Self {
        self.rest(&test_pool);
        self.same(&test_pool, "at rest");
        self.scrub_twice(&test_pool);
        self.same(&test_pool, "scrubbed");
        self.do_without(&test_pool);
        let view = View::of(&test_pool.pool);
        let is_stray = |disk: &&Arc<Disk>| !view.uses(disk.number(), &disk.path());
        let strays: Vec<Arc<Disk>> = self.disks.iter().filter(is_stray).cloned().collect();
        aftermath::leave(test_pool);
        let folder = tempfile::tempdir().unwrap();
        self.copies(folder.path());
        aftermath::on_devices(folder.path());
        if with_zdb && let Some(zdb) = golden::Zdb::from_environment() {
            // zdb believes the labels of a log device that was detached as the power went, in the place of a hole.
            for disk in strays {
                let _ = std::fs::remove_file(disk.path_in(folder.path()));
            }
            zdb.assert_clean(folder.path(), POOL);
        }
        self
    }
}
