use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_txg_waits_for_its_own_batches_and_older_ones() {
    let in_flight = InFlight::new();
    in_flight.wait(Txg(5));
    let (older, own, newer) = (
        in_flight.enter(Txg(4)),
        in_flight.enter(Txg(5)),
        in_flight.enter(Txg(6)),
    );
    let again = in_flight.enter(Txg(5));
    let passed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            in_flight.wait(Txg(5));
            passed.store(true, Ordering::SeqCst);
        });
        for passage in [own, older] {
            drop(passage);
            assert!(!passed.load(Ordering::SeqCst));
        }
        drop(again);
    });
    assert!(passed.load(Ordering::SeqCst));
    drop(newer);
    in_flight.wait(Txg(6));
}
