//! Operations that find devices away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Recorder, slow_timer, start};
use crate::engine::Engine;
use crate::{Absence, AwaitedDevices, is_repeatable, repeatable};

const REASON: &str = "the disk is away";

/// An operation that finds devices away, as a read tells that was made after the engine had gone on so often.
fn finds_them_away(engine: &Arc<Engine>, resumptions: u64) -> (Absence, Option<AwaitedDevices>) {
    repeatable(|| {
        assert!(is_repeatable());
        engine.await_devices(REASON, resumptions)
    })
}

/// What counts how often it was called.
fn counted(calls: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let calls = Arc::clone(calls);
    move || {
        calls.fetch_add(1, Ordering::SeqCst);
    }
}

fn running() -> (Arc<Engine>, Arc<Recorder>) {
    let (engine, recorder) = start(slow_timer());
    engine.wait_synced(None).unwrap();
    (engine, recorder)
}

#[test]
fn what_finds_devices_away_suspends_and_is_called_when_the_engine_goes_on() {
    let (engine, _recorder) = running();
    let calls = Arc::new(AtomicUsize::new(0));
    let (absence, first) = finds_them_away(&engine, 0);
    assert_eq!(absence, Absence::Awaited { is_news: true });
    assert_eq!(engine.suspension().as_deref(), Some(REASON));
    assert!(engine.is_suspended_for_reads());
    assert!(engine.wait_synced(None).is_err(), "nothing is promised");
    let (absence, second) = finds_them_away(&engine, 0);
    assert_eq!(absence, Absence::Awaited { is_news: false });
    // Twice for one, once for another.
    first.unwrap().leave(1, counted(&calls));
    second.unwrap().leave(1, counted(&calls));
    let (_, third) = finds_them_away(&engine, 0);
    third.unwrap().leave(2, counted(&calls));
    let (_, late) = finds_them_away(&engine, 0);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    engine.resume();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    late.unwrap().leave(3, counted(&calls));
    assert_eq!(calls.load(Ordering::SeqCst), 3, "at once");
    assert!(engine.suspension().is_none());
    engine.wait_synced(None).unwrap();
    engine.stop();
}

/// A device that came back between the read and its consequences suspends nothing.
#[test]
fn a_read_from_before_the_engine_went_on_is_made_again() {
    let (engine, _recorder) = running();
    let before = engine.resumptions();
    assert_eq!(engine.resume(), None);
    let (absence, awaited) = finds_them_away(&engine, before);
    assert_eq!(absence, Absence::Over);
    assert!(awaited.is_none() && engine.suspension().is_none());
    engine.stop();
}

#[test]
fn nobody_awaits_devices_where_all_is_to_fail_at_once() {
    let (engine, _recorder) = running();
    engine.fail_at_once(true);
    let (absence, awaited) = finds_them_away(&engine, 0);
    assert_eq!(absence, Absence::Fails);
    assert!(awaited.is_none() && engine.suspension().is_none());
    engine.stop();
    engine.fail_at_once(false);
    assert_eq!(finds_them_away(&engine, 0).0, Absence::Fails, "it is over");
}

#[test]
fn what_may_have_changed_something_is_not_done_again() {
    let (engine, _recorder) = running();
    let (_, awaited) = repeatable(|| {
        let hold = engine.hold().unwrap();
        assert!(!is_repeatable());
        drop(hold);
        assert!(!is_repeatable(), "nor after that");
    });
    assert!(awaited.is_none());
    // It found something away, did without, and changed something.
    let (_, awaited) = repeatable(|| {
        let absence = engine.await_devices(REASON, 0);
        assert_eq!(absence, Absence::Awaited { is_news: true });
        drop(engine.hold().unwrap());
    });
    assert!(awaited.is_none());
    assert!(!is_repeatable(), "only within");
    engine.resume();
    engine.stop();
}

#[test]
fn an_engine_that_ends_lets_go_of_those_who_wait() {
    let (engine, recorder) = running();
    let calls = Arc::new(AtomicUsize::new(0));
    let (_, awaited) = finds_them_away(&engine, 0);
    awaited.unwrap().leave(1, counted(&calls));
    engine.stop();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    // Also one that fails for good.
    let (engine, failing) = running();
    let (_, awaited) = finds_them_away(&engine, 0);
    awaited.unwrap().leave(1, counted(&calls));
    failing.fail_at.store(engine.open_txg().0, Ordering::SeqCst);
    engine.kick();
    while calls.load(Ordering::SeqCst) == 1 {
        std::thread::yield_now();
    }
    assert!(engine.failure().is_some());
    engine.stop();
    drop(recorder);
}
