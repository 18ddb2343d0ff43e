use super::*;
use crate::SimulatedDisk;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn operations_take_what_the_model_says_and_threads_take_nothing() {
    let model = DeviceModel::SolidState {
        channels: 2,
        latency_ns: 1_000,
        bytes_per_second: 2_000_000_000,
    };
    let clock = VirtualClock::new(model);
    let inner = Arc::new(SimulatedDisk::new(1 << 20, 1));
    let disk = PacedDisk::new(inner, &clock, 5_000);
    let left = AtomicUsize::new(3);
    let ends = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (disk, clock, left, ends) = (&disk, &clock, &left, &ends);
            scope.spawn(move || {
                // Until the clock runs.
                while !clock.is_running() {
                    std::thread::yield_now();
                }
                disk.write(thread * 4096, &[1; 1000]).unwrap();
                disk.flush().unwrap();
                ends.lock().unwrap().push(clock.now_ns());
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        clock.run(|| left.load(Ordering::SeqCst) == 0);
    });
    let mut ends = ends.into_inner().unwrap();
    ends.sort_unstable();
    // Two channels of a byte a nanosecond each: the third write begins when the first have ended.
    assert_eq!(ends, [7_000, 7_000, 9_000]);
}
