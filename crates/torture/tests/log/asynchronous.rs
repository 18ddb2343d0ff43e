//! Commits of callers that have no thread to wait with.

use super::*;
use crate::devices::logged_object;

/// Counts what it is told.
#[derive(Default)]
struct Told {
    durable: AtomicU64,
    refused: AtomicU64,
}

impl Completion for Told {
    fn committed(&self, durable: bool) {
        let count = if durable {
            &self.durable
        } else {
            &self.refused
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl Told {
    /// Waits until so many were told either.
    fn wait(&self, count: u64) {
        let start = Instant::now();
        let told = || self.durable.load(Ordering::SeqCst) + self.refused.load(Ordering::SeqCst);
        while told() < count {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "callers are forgotten"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Commits of callers without threads are led, share batches, and are durable when that is said.
#[test]
fn commits_without_threads_survive() {
    const OBJECTS: u64 = 40;
    let bench = Bench::new(11, 0);
    let told = Arc::new(Told::default());
    let completion = || Arc::clone(&told) as Arc<dyn Completion>;
    // There is no chain yet: they are told to wait for the txg.
    let first = bench.create();
    assert!(bench.log.commit_async(first.id(), completion()));
    told.wait(1);
    assert_eq!(told.refused.load(Ordering::SeqCst), 1);
    bench.log.commit_all().unwrap();
    // A large write may be written where it belongs first: that takes a thread.
    let objects: Vec<_> = (0..OBJECTS).map(|_| bench.create()).collect();
    let large = objects.iter().find(|object| object.id().0 % 4 == 3);
    bench.write(large.unwrap(), 1, false);
    assert!(!bench.log.commit_async(large.unwrap().id(), completion()));
    bench.commit(large.unwrap().id(), 1);
    let before = bench.log.statistics();
    for object in &objects {
        bench.write(object, 2, true);
        assert!(bench.log.commit_async(object.id(), completion()));
    }
    told.wait(1 + OBJECTS);
    assert_eq!(told.durable.load(Ordering::SeqCst), OBJECTS);
    let after = bench.log.statistics();
    assert_eq!(after.commits - before.commits, OBJECTS);
    let events = bench.timeline.now();
    let acknowledged = objects.iter().map(|object| (events, object.id(), 2));
    bench.acknowledged.lock().unwrap().extend(acknowledged);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, events, 5, folder.path(), true);
}

/// Leads on its own thread, and says on which thread it was told.
struct Leader(Mutex<Option<std::thread::ThreadId>>);

impl Completion for Leader {
    fn committed(&self, durable: bool) {
        assert!(durable);
        *self.0.lock().unwrap() = Some(std::thread::current().id());
    }

    fn may_lead(&self) -> bool {
        true
    }
}

#[test]
fn whoever_may_lead_wakes_nobody() {
    let bench = Bench::new(12, 0);
    let (object, version) = logged_object(&bench);
    bench.write(&object, version + 1, true);
    let leader = Arc::new(Leader(Mutex::new(None)));
    let completion = Arc::clone(&leader) as Arc<dyn Completion>;
    assert!(bench.log.commit_async(object.id(), completion));
    let told = *leader.0.lock().unwrap();
    assert_eq!(told, Some(std::thread::current().id()));
}
