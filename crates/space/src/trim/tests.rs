//! Allocations beside trims.

use super::TrimGate;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_mark_tells_of_every_trim() {
    let gate = TrimGate::new();
    let mark = gate.quiet();
    assert!(mark.is_some() && gate.was_quiet_since(mark));
    assert!(gate.begin());
    assert!(gate.quiet().is_none());
    assert!(!gate.was_quiet_since(gate.quiet()));
    gate.end();
    // It had begun and ended since, and may have hidden space.
    assert!(!gate.was_quiet_since(mark));
    assert!(gate.was_quiet_since(gate.quiet()));
}

#[test]
fn nothing_is_under_way_while_held_off() {
    const ROUNDS: usize = 2000;
    let gate = TrimGate::new();
    let under_way = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    if gate.begin() {
                        under_way.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        gate.end();
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let _held = gate.hold_off();
                    assert_eq!(under_way.load(Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    assert_eq!(under_way.load(Ordering::SeqCst), 0);
                }
            });
        }
    });
}
