//! Each invariant of the crate, broken on purpose: the engine ends, and says which.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Txg;
use base::invariant;
use base::invariant::Findings;

use super::{Recorder, slow_timer, start};
use crate::engine::{Engine, SyncTarget};
use crate::error::{SyncFailure, TxgError};

/// Has `fault` happen in a running engine: which txg was not synced because of it, and why. Nothing is synced any more.
fn stopped_by(fault: impl FnOnce(&Arc<Engine>, &Recorder)) -> (Txg, String) {
    let (engine, recorder) = start(slow_timer());
    engine.wait_synced(None).unwrap();
    fault(&engine, &recorder);
    let found = loop {
        match engine.wait_synced(None) {
            Ok(()) => assert!(engine.synced_txg().0 < 20, "nothing was found"),
            Err(TxgError::SyncFailed { txg, reason }) => break (txg, reason),
            Err(other) => panic!("{other}"),
        }
    };
    assert!(engine.hold().is_err() && engine.reserve(1).is_err());
    engine.stop();
    let last = recorder.synced.lock().last().copied();
    assert_eq!(last, Some(found.0.previous()));
    found
}

#[track_caller]
fn assert_names(name: &str, fault: impl FnOnce(&Arc<Engine>, &Recorder)) {
    let (_, reason) = stopped_by(fault);
    let start = format!("an invariant is broken: {name}: ");
    assert!(reason.starts_with(&start), "{reason}");
}

#[test]
fn what_is_noted_between_two_txgs_keeps_the_next_from_being_synced() {
    let mut open = Txg(0);
    let (txg, reason) = stopped_by(|engine, _| {
        open = engine.open_txg();
        let findings = Arc::clone(engine.findings());
        let helper = std::thread::spawn(move || {
            invariant!(findings, false, "test.helper", "{} is odd", 2);
        });
        helper.join().unwrap();
    });
    assert_eq!(txg, open);
    assert_eq!(reason, "an invariant is broken: test.helper: 2 is odd");
}

#[test]
fn what_is_noted_during_a_sync_ends_the_engine_with_it() {
    struct Notes(Arc<Findings>, AtomicBool);
    impl SyncTarget for Notes {
        fn sync(&self, _: Txg) -> Result<(), SyncFailure> {
            assert!(!self.1.swap(true, Ordering::SeqCst), "no further one");
            invariant!(self.0, false, "test.sync", "too late for this one");
            Ok(())
        }
    }
    let engine = Engine::new(slow_timer());
    let findings = Arc::clone(engine.findings());
    engine.start(Arc::new(Notes(findings, AtomicBool::new(false))));
    let txg = engine.open_txg();
    // The target said that it is on disk.
    engine.wait_synced(Some(txg)).unwrap();
    let error = engine.wait_synced(Some(txg.next())).unwrap_err();
    assert!(error.to_string().contains("test.sync"), "{error}");
    assert_eq!(engine.synced_txg(), txg);
    engine.stop();
}

#[test]
fn two_engines_do_not_hear_of_each_other() {
    let (other, _) = start(slow_timer());
    assert_names("test.mine", |engine, _| {
        invariant!(engine.findings(), false, "test.mine", "not the other's");
    });
    other.wait_synced(None).unwrap();
    other.stop();
}

#[test]
fn more_credit_comes_back_than_was_given() {
    assert_names("txg.credit", |engine, _| {
        let credit = engine.reserve(1000).unwrap();
        engine.dirty().subtract_total(600);
        drop(credit);
        // Who waits for room does not wait for what is below zero.
        assert_eq!(engine.dirty_counts().total_bytes, 0);
    });
}

#[test]
fn bytes_are_booked_on_a_txg_that_has_synced() {
    assert_names("txg.credit", |engine, _| {
        let mut credit = engine.reserve(1000).unwrap();
        credit.spend(engine.synced_txg(), 1000);
    });
}

#[test]
fn frees_are_booked_on_a_txg_that_has_synced() {
    assert_names("txg.frees", |engine, _| {
        assert!(engine.frees.try_book(engine.synced_txg(), 3, 10));
    });
}

#[test]
fn a_hold_is_given_back_twice() {
    assert_names("txg.holds", |engine, _| {
        let txg = engine.open_txg();
        engine.holds.leave(0, txg, engine.findings());
    });
}
