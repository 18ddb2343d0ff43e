use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base::Txg;
use parking_lot::Mutex;

use super::{Engine, SyncTarget};
use crate::config::{EngineConfig, NO_DELAY};
use crate::error::{SyncFailure, TxgError};

/// Notes which txgs were synced, and checks that none of their holders is left.
#[derive(Default)]
struct Recorder {
    synced: Mutex<Vec<Txg>>,
    holders: [AtomicUsize; Txg::SLOTS],
    fail_at: AtomicU64,
    pause_ms: AtomicU64,
}

impl SyncTarget for Recorder {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        assert_eq!(self.holders[txg.slot()].load(Ordering::SeqCst), 0);
        std::thread::sleep(Duration::from_millis(self.pause_ms.load(Ordering::SeqCst)));
        if self.fail_at.load(Ordering::SeqCst) == txg.0 {
            return Err(SyncFailure {
                reason: "the disk is gone".into(),
            });
        }
        self.synced.lock().push(txg);
        Ok(())
    }
}

fn start(config: EngineConfig) -> (Arc<Engine>, Arc<Recorder>) {
    let engine = Engine::new(config);
    let recorder = Arc::new(Recorder::default());
    engine.start(Arc::clone(&recorder) as Arc<dyn SyncTarget>);
    (engine, recorder)
}

fn slow_timer() -> EngineConfig {
    EngineConfig {
        timeout_ns: 3_600_000_000_000,
        ..EngineConfig::default()
    }
}

#[test]
fn txgs_sync_in_order_and_never_with_holders() {
    let (engine, recorder) = start(slow_timer());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2000 {
                    let hold = engine.hold().unwrap();
                    let count = &recorder.holders[hold.txg().slot()];
                    count.fetch_add(1, Ordering::SeqCst);
                    std::hint::black_box(round);
                    count.fetch_sub(1, Ordering::SeqCst);
                    drop(hold);
                    if round % 500 == 0 {
                        engine.kick();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                let before = engine.open_txg();
                engine.wait_synced(None).unwrap();
                assert!(engine.synced_txg() >= before);
            }
        });
    });
    engine.stop();
    let synced = recorder.synced.lock();
    assert!(synced.len() >= 20);
    for (index, txg) in synced.iter().enumerate() {
        assert_eq!(txg.0, Txg::INITIAL.0 + index as u64);
    }
}

/// A thread that raised its counter while the txg closed takes it back; if that was the last thing
/// the quiescer waited for, it must hear of it.
///
/// Nothing here is a question of speed: it fails when no txg closes for `SILENCE`, however many did.
#[test]
fn holders_that_come_too_late_leave_nobody_waiting() {
    const CLOSES: u64 = 20_000;
    const LONG_ENOUGH: Duration = Duration::from_secs(10);
    const SILENCE: Duration = Duration::from_secs(60);
    let (engine, _recorder) = start(slow_timer());
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..2 {
        let (engine, over) = (Arc::clone(&engine), Arc::clone(&over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                drop(engine.hold());
            }
        });
    }
    let (close, closes) = std::sync::mpsc::sync_channel(1);
    let closer = Arc::clone(&engine);
    std::thread::spawn(
        move || {
            while closer.wait_synced(None).is_ok() && close.send(()).is_ok() {}
        },
    );
    let began = std::time::Instant::now();
    let mut silent = false;
    for _ in 0..CLOSES {
        silent = closes.recv_timeout(SILENCE).is_err();
        if silent || began.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    let stuck = engine.open_txg();
    drop(closes);
    engine.stop();
    assert!(!silent, "the txg {stuck} never closed");
}

#[test]
fn a_hold_keeps_its_txg_open_and_the_next_closed() {
    let (engine, _) = start(slow_timer());
    let hold = engine.hold().unwrap();
    let txg = hold.txg();
    engine.kick();
    std::thread::scope(|scope| {
        let later = scope.spawn(|| engine.hold().unwrap().txg());
        std::thread::sleep(Duration::from_millis(20));
        assert!(engine.synced_txg() < txg);
        drop(hold);
        let later = later.join().unwrap();
        assert!(later == txg || later == txg.next());
    });
    engine.wait_synced(Some(txg)).unwrap();
    engine.wait_open(Some(txg.next())).unwrap();
    engine.stop();
}

#[test]
fn age_alone_closes_a_txg() {
    let config = EngineConfig {
        timeout_ns: 5_000_000,
        ..EngineConfig::default()
    };
    let (engine, recorder) = start(config);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while recorder.synced.lock().len() < 3 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
    engine.stop();
}

#[test]
fn a_failed_sync_ends_the_engine_with_its_reason() {
    let (engine, recorder) = start(slow_timer());
    recorder.fail_at.store(Txg::INITIAL.0 + 1, Ordering::SeqCst);
    engine.wait_synced(Some(Txg::INITIAL)).unwrap();
    let failed = engine.wait_synced(Some(Txg::INITIAL.next()));
    let reason = "the disk is gone".to_owned();
    assert_eq!(
        failed,
        Err(TxgError::SyncFailed {
            txg: Txg::INITIAL.next(),
            reason
        })
    );
    // Nothing is accepted that would be lost.
    assert!(engine.hold().is_err());
    assert!(engine.reserve(1).is_err());
    engine.stop();
    assert!(engine.wait_synced(None).is_err());
}

#[test]
fn dirty_bytes_never_pass_the_limit() {
    const LIMIT: u64 = 1 << 20;
    const PIECE: u64 = 48 << 10;
    let config = EngineConfig {
        dirty_bytes_max: LIMIT,
        delay_scale_ns: 1000,
        ..slow_timer()
    };
    let (engine, recorder) = start(config);
    recorder.pause_ms.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut credit = engine.reserve(PIECE).unwrap();
                    let hold = engine.hold().unwrap();
                    credit.spend(hold.txg(), PIECE / 2);
                    assert_eq!(credit.bytes(), PIECE / 2);
                    drop(credit);
                    drop(hold);
                }
            });
        }
    });
    let counts = engine.dirty_counts();
    assert!(counts.high_water_bytes <= LIMIT, "{counts:?}");
    engine.wait_synced(None).unwrap();
    assert_eq!(engine.dirty_counts().total_bytes, 0);
    engine.stop();
}

#[test]
fn delays_grow_without_a_step() {
    let config = EngineConfig {
        dirty_bytes_max: 1_000_000,
        ..EngineConfig::default()
    };
    let mut last = 0;
    for dirty in (0..1_000_000).step_by(1000) {
        let delay = config.delay_ns(dirty, 1_000_000);
        assert!(delay >= last && delay <= config.delay_ns_max);
        last = delay;
    }
    assert_eq!(config.delay_ns(600_000, 1_000_000), 0);
    assert!(config.delay_ns(610_000, 1_000_000) < 20_000);
    assert!(last > 10_000_000);
}

/// How often writers park that want more than the devices take, for a while.
fn parks_of_eager_writers(writers: usize, no_delay: bool) -> u64 {
    const PIECE: u64 = 16 << 10;
    const LIMIT: u64 = 8 << 20;
    let config = EngineConfig {
        dirty_bytes_max: LIMIT,
        ..slow_timer()
    };
    let engine = Engine::new(config);
    let over = AtomicUsize::new(0);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Devices: two pieces each millisecond at most.
            while over.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
                engine.written(engine.open_txg(), 2 * PIECE);
            }
        });
        let write = || {
            NO_DELAY.set(no_delay);
            while start.elapsed() < Duration::from_millis(300) {
                let mut credit = engine.reserve(PIECE).unwrap();
                credit.spend(engine.open_txg(), PIECE);
            }
        };
        let threads = (0..writers).map(|_| scope.spawn(write));
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        over.store(1, Ordering::Relaxed);
    });
    assert!(engine.dirty_counts().high_water_bytes <= LIMIT);
    engine.meters.parked.get()
}

#[test]
fn delays_keep_writers_from_ever_parking() {
    assert_eq!(parks_of_eager_writers(1, false), 0);
    // As many as they like: they go on one after the other.
    assert_eq!(parks_of_eager_writers(64, false), 0);
    // Negative control: without them the limit is a wall, and the counter sees it.
    let parked = parks_of_eager_writers(1, true);
    assert!(parked > 0, "the instrument does not see the old fault");
}

#[test]
fn what_was_reserved_and_what_became_dirty_add_up() {
    let engine = Engine::new(slow_timer());
    let mut credit = engine.try_reserve(1000).unwrap();
    credit.spend(engine.open_txg(), 300);
    drop(credit);
    let mut wrong = engine.try_reserve(100).unwrap();
    wrong.spend(engine.open_txg(), 150);
    let mut found = std::collections::BTreeMap::new();
    base::metrics::Source::collect(engine.dirty(), &mut |name, value| {
        let number = match value {
            base::metrics::Value::Counter(count) => count,
            base::metrics::Value::Gauge { level, .. } => level.cast_unsigned(),
            base::metrics::Value::Histogram(_) => 0,
        };
        found.insert(name.to_owned(), number);
    });
    assert_eq!(found["reserved_bytes"], 1100);
    assert_eq!(found["dirtied_bytes"], 450);
    assert_eq!(found["returned_bytes"], 700);
    assert_eq!(found["overrun_bytes"], 50);
    assert_eq!(found["bytes"], 450);
    assert_eq!(found["limit_bytes"], engine.dirty_counts().limit_bytes);
}

#[test]
fn what_is_written_makes_room_at_once() {
    let config = EngineConfig {
        dirty_bytes_max: 1000,
        ..slow_timer()
    };
    let engine = Engine::new(config);
    let mut credit = engine.try_reserve(900).unwrap();
    assert!(engine.try_reserve(200).is_none());
    credit.spend(engine.open_txg(), 900);
    engine.written(engine.open_txg(), 700);
    assert!(engine.try_reserve(200).is_some());
    assert_eq!(engine.dirty_counts().total_bytes, 200);
}

#[test]
fn what_was_not_reserved_is_counted_all_the_same() {
    let engine = Engine::new(slow_timer());
    let mut credit = engine.try_reserve(100).unwrap();
    credit.spend(engine.open_txg(), 150);
    drop(credit);
    let counts = engine.dirty_counts();
    assert_eq!((counts.total_bytes, counts.overrun_bytes), (150, 50));
    engine.written(engine.open_txg(), 150);
    assert_eq!(engine.dirty_counts().total_bytes, 0);
}

#[test]
fn a_failed_assertion_ends_the_engine_and_nothing_hangs() {
    struct Panics;
    impl SyncTarget for Panics {
        fn sync(&self, _: Txg) -> Result<(), SyncFailure> {
            panic!("this cannot be");
        }
    }
    let engine = Engine::new(slow_timer());
    engine.start(Arc::new(Panics));
    let error = engine.wait_synced(None).unwrap_err();
    assert!(error.to_string().contains("this cannot be"), "{error}");
    engine.stop();
}

#[test]
fn a_txg_closes_for_its_four_reasons_only() {
    let config = EngineConfig {
        dirty_bytes_max: 1 << 20,
        ..slow_timer()
    };
    let (engine, _) = start(config);
    let counts = || engine.close_counts().map(|(_, count)| count);
    // However many small changes there are, none of them closes the txg.
    for _ in 0..5000 {
        let mut credit = engine.reserve(10).unwrap();
        let hold = engine.hold().unwrap();
        credit.spend(hold.txg(), 10);
    }
    assert_eq!(counts(), [0, 0, 0, 0]);
    let mut credit = engine.reserve(500 << 10).unwrap();
    let hold = engine.hold().unwrap();
    credit.spend(hold.txg(), 500 << 10);
    let next = hold.txg().next();
    drop((credit, hold));
    while engine.open_txg() < next {
        std::thread::yield_now();
    }
    assert_eq!(counts(), [1, 0, 0, 0]);
    engine.wait_synced(None).unwrap();
    assert_eq!(counts(), [1, 0, 1, 0]);
    engine.kick_for_memory();
    engine.wait_open(Some(Txg(next.0 + 2))).unwrap();
    assert_eq!(counts(), [1, 0, 1, 1]);
    engine.stop();
}

/// A target whose device fails once, in the second txg, until the test repairs it.
struct Failing {
    engine: parking_lot::Mutex<Option<Arc<Engine>>>,
    failed: AtomicUsize,
    done: AtomicUsize,
}

impl SyncTarget for Failing {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        assert!(super::SyncContext::is_current());
        let engine = self.engine.lock().clone();
        if let Some(engine) = engine.filter(|_| self.failed.fetch_add(1, Ordering::SeqCst) == 1) {
            let waited = engine.suspend(&format!("the disk of txg {txg} is gone"));
            waited.map_err(|error| SyncFailure {
                reason: error.to_string(),
            })?;
        }
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn failing() -> (Arc<Engine>, Arc<Failing>) {
    let engine = Engine::new(EngineConfig {
        dirty_bytes_max: 1 << 20,
        ..slow_timer()
    });
    let target = Arc::new(Failing {
        engine: parking_lot::Mutex::new(Some(Arc::clone(&engine))),
        failed: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
    });
    engine.start(Arc::clone(&target) as Arc<dyn SyncTarget>);
    engine.wait_synced(None).unwrap();
    (engine, target)
}

#[test]
fn a_suspended_engine_tells_everyone_and_goes_on_where_it_stopped() {
    let (engine, target) = failing();
    let stopped = engine.open_txg();
    let error = engine.wait_synced(None).unwrap_err();
    assert!(matches!(error, TxgError::Suspended { .. }), "{error}");
    assert!(engine.suspension().unwrap().contains("is gone"));
    assert!(engine.wait_synced(Some(stopped)).is_err(), "at once");
    // Memory still takes changes; where there is no room, the wait has an end.
    drop(engine.reserve(1000).unwrap());
    engine.fail_at_once(true);
    assert!(engine.reserve(1000).is_err());
    engine.fail_at_once(false);
    let full = engine.reserve(1 << 20).unwrap();
    let before = std::time::Instant::now();
    assert!(engine.reserve(1000).is_err());
    assert!(before.elapsed() < Duration::from_secs(8));
    drop(full);
    assert_eq!(target.done.load(Ordering::SeqCst), 1);
    assert_eq!(engine.resume(), Some(stopped));
    engine.wait_synced(Some(stopped)).unwrap();
    assert_eq!((engine.suspension(), engine.resume()), (None, None));
    engine.stop();
}

#[test]
fn a_suspended_engine_can_be_stopped() {
    let (engine, target) = failing();
    assert!(engine.wait_synced(None).is_err());
    engine.stop();
    assert_eq!(engine.wait_synced(None), Err(TxgError::Stopped));
    *target.engine.lock() = None;
}

mod awaiting;
mod invariants;
