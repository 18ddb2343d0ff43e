//! Tests that draw, beside tests that never heard of limits.

use super::*;
use crate::test_pool::{TestPool, image};
use pool::NewDevice;
use std::path::Path;
use std::time::{Duration, Instant};

/// For as long as nothing is expected to happen.
const QUIET: Duration = Duration::from_millis(200);

fn create(folder: &Path, name: &str) -> TestPool {
    let path = image(folder, name);
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    TestPool::create(vec![NewDevice::Path(path)]).unwrap()
}

fn somebody_has_a_turn_within(time: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if users().turn {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn nobody_draws_while_a_test_pool_is_under_the_usual_limits() {
    let folder = tempfile::tempdir().unwrap();
    let first = create(folder.path(), "first");
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| {
            let _turn = drawn(1);
            // Within a turn none is waited for.
            create(folder.path(), "drawn").export().unwrap();
        });
        assert!(!somebody_has_a_turn_within(QUIET));
        assert_eq!(described(), "default");
        // Nor does a second of the same test wait for those who wait for the first.
        let second = create(folder.path(), "second");
        first.export().unwrap();
        assert!(!somebody_has_a_turn_within(QUIET));
        drop(second);
        drawing.join().unwrap();
    });
}

#[test]
fn a_test_pool_waits_until_limits_are_usual_again() {
    let folder = tempfile::tempdir().unwrap();
    let turn = drawn(2);
    std::thread::scope(|scope| {
        let fixed = scope.spawn(|| {
            let test_pool = create(folder.path(), "fixed");
            let limits = described();
            test_pool.export().unwrap();
            limits
        });
        std::thread::sleep(QUIET);
        assert!(!fixed.is_finished());
        drop(turn);
        assert_eq!(fixed.join().unwrap(), "default");
    });
}
