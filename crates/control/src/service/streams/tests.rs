use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::FailureKind;

use super::Streams;

#[test]
fn a_pool_in_use_by_a_stream_is_closed_by_force_only() {
    let streams = Streams::new();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let running = streams.begin(Arc::clone(&stop)).unwrap();
        let refused = streams.close(false).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(!stop.load(Ordering::Acquire));
        let closing = scope.spawn(|| drop(streams.close(true).unwrap()));
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = streams.begin(Arc::default()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(!closing.is_finished());
        drop(running);
        closing.join().unwrap();
    });
    // The pool could not be closed after all.
    drop(streams.begin(stop).unwrap());
    streams.close(false).unwrap().for_good();
    assert!(streams.begin(Arc::default()).is_err());
}
