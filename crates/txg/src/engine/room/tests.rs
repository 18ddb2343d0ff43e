use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use base::Txg;
use parking_lot::{Condvar, Mutex};

use crate::config::EngineConfig;
use crate::engine::{Engine, SyncTarget};
use crate::error::{SyncFailure, TxgError};
use crate::manner::{Admitted, without_waiting};

const LIMIT: u64 = 1_000_000;
const LONG: Duration = Duration::from_secs(30);

/// A target that syncs while it may.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.changed.notify_all();
    }
}

impl SyncTarget for Gate {
    fn sync(&self, _: Txg) -> Result<(), SyncFailure> {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.changed.wait(&mut is_open);
        }
        Ok(())
    }
}

fn start() -> (Arc<Engine>, Arc<Gate>) {
    start_with(EngineConfig::default().delay_scale_ns)
}

fn start_with(delay_scale_ns: u64) -> (Arc<Engine>, Arc<Gate>) {
    let engine = Engine::new(EngineConfig {
        dirty_bytes_max: LIMIT,
        delay_scale_ns,
        timeout_ns: 3_600_000_000_000,
        delay_ns_max: 1_000_000,
        ..EngineConfig::default()
    });
    let gate = Arc::new(Gate::default());
    engine.start(Arc::clone(&gate) as Arc<dyn SyncTarget>);
    (engine, gate)
}

/// As a transaction does it: the txg.
fn change(engine: &Arc<Engine>, bytes: u64) -> Result<Txg, TxgError> {
    let mut credit = engine.reserve(bytes)?;
    let hold = engine.hold()?;
    credit.spend(hold.txg(), bytes);
    Ok(hold.txg())
}

fn fill(engine: &Arc<Engine>) {
    change(engine, LIMIT).unwrap();
}

/// Leaves an operation that wants `bytes`, which comes out of the other end by its number.
fn leave(engine: &Arc<Engine>, bytes: u64, number: u32, done: &Sender<(u32, Admitted)>) {
    let (result, postponed) = without_waiting(|| change(engine, bytes));
    assert_eq!(result, Err(TxgError::Postponed));
    let done = done.clone();
    postponed.unwrap().leave(move |admitted| {
        // The test that no longer looks has failed.
        drop(done.send((number, admitted)));
    });
}

fn next(done: &Receiver<(u32, Admitted)>) -> (u32, Admitted) {
    done.recv_timeout(LONG).expect("nobody is forgotten")
}

#[test]
fn who_need_not_wait_is_not_postponed() {
    let (engine, gate) = start();
    gate.open();
    let (result, postponed) = without_waiting(|| change(&engine, 100));
    assert!(result.is_ok() && postponed.is_none());
    engine.stop();
}

#[test]
fn those_without_room_go_on_in_their_order() {
    const EACH: u64 = LIMIT / 4;
    // Each has a delay of its own, as long as what was dirty at its turn.
    let (engine, gate) = start_with(0);
    fill(&engine);
    let (sender, done) = channel();
    for number in 0..20 {
        // A large one is not overtaken by the small ones behind it.
        let bytes = if number == 3 { LIMIT } else { EACH };
        leave(&engine, bytes, number, &sender);
    }
    assert!(done.recv_timeout(Duration::from_millis(50)).is_err());
    gate.open();
    for expected in 0..20 {
        let (number, admitted) = next(&done);
        assert_eq!(number, expected);
        let bytes = if number == 3 { LIMIT } else { EACH };
        admitted.run(|| change(&engine, bytes)).unwrap();
        engine.wait_synced(None).unwrap();
    }
    let counts = engine.dirty_counts();
    assert!(counts.high_water_bytes <= LIMIT, "{counts:?}");
    assert_eq!((counts.total_bytes, counts.overrun_bytes), (0, 0));
    engine.stop();
}

#[test]
fn an_operation_that_was_admitted_may_need_more_or_less_or_nothing() {
    let (engine, gate) = start();
    let (sender, done) = channel();
    for (asked, needed) in [(1000, 500), (1000, 2000), (1000, 0)] {
        fill(&engine);
        leave(&engine, asked, 0, &sender);
        gate.open();
        let (_, admitted) = next(&done);
        admitted.run(|| {
            if needed != 0 {
                change(&engine, needed).unwrap();
                assert_eq!(engine.dirty_counts().overrun_bytes, 0);
            }
        });
        engine.wait_synced(None).unwrap();
        assert_eq!(engine.dirty_counts().total_bytes, 0);
        *gate.is_open.lock() = false;
    }
    gate.open();
    engine.stop();
}

#[test]
fn a_delay_is_waited_for_without_the_thread() {
    let (engine, gate) = start();
    gate.open();
    let held = engine.try_reserve(LIMIT / 10 * 7).unwrap();
    let before = Instant::now();
    let (sender, done) = channel();
    leave(&engine, LIMIT / 10, 0, &sender);
    let (_, admitted) = next(&done);
    assert!(before.elapsed() >= Duration::from_micros(400));
    drop(held);
    admitted.run(|| change(&engine, LIMIT / 10)).unwrap();
    engine.wait_synced(None).unwrap();
    assert_eq!(engine.dirty_counts().total_bytes, 0);
    engine.stop();
}

#[test]
fn an_operation_that_has_begun_waits_as_usual() {
    let (engine, gate) = start();
    let opener = Arc::clone(&gate);
    let (result, postponed) = without_waiting(|| {
        change(&engine, 100).unwrap();
        std::thread::spawn(move || opener.open());
        change(&engine, LIMIT)
    });
    assert!(result.is_ok() && postponed.is_none());
    engine.stop();
}

#[test]
fn waiting_for_a_txg_is_left_to_another_thread() {
    let (engine, gate) = start();
    let (result, postponed) = without_waiting(|| engine.wait_synced(None));
    assert_eq!(result, Err(TxgError::Postponed));
    let (sender, done) = channel();
    postponed
        .unwrap()
        .leave(move |admitted| sender.send((0, admitted)).unwrap());
    let (_, admitted) = next(&done);
    gate.open();
    admitted.run(|| engine.wait_synced(None)).unwrap();
    engine.stop();
}

#[test]
fn the_end_of_the_engine_is_told_to_all() {
    let (engine, gate) = start();
    fill(&engine);
    let (sender, done) = channel();
    for number in 0..10 {
        leave(&engine, 1000, number, &sender);
    }
    let stopper = Arc::clone(&engine);
    let stopped = std::thread::spawn(move || stopper.stop());
    for _ in 0..10 {
        let (_, admitted) = next(&done);
        assert_eq!(
            admitted.run(|| change(&engine, 1000)),
            Err(TxgError::Stopped)
        );
    }
    gate.open();
    stopped.join().unwrap();
}

#[test]
fn a_suspended_engine_makes_nobody_wait_for_ever() {
    let (engine, gate) = start();
    fill(&engine);
    let suspended = Arc::clone(&engine);
    let waits = std::thread::spawn(move || suspended.suspend("the disk is gone"));
    while engine.suspension().is_none() {
        std::thread::yield_now();
    }
    let before = Instant::now();
    let (sender, done) = channel();
    leave(&engine, 1000, 0, &sender);
    let (_, admitted) = next(&done);
    assert!(before.elapsed() < Duration::from_secs(10));
    let error = admitted.run(|| change(&engine, 1000)).unwrap_err();
    assert!(matches!(error, TxgError::Suspended { .. }), "{error}");
    engine.resume();
    waits.join().unwrap().unwrap();
    gate.open();
    engine.wait_synced(None).unwrap();
    assert_eq!(engine.dirty_counts().total_bytes, 0);
    engine.stop();
}
