use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::FailureKind;

use super::Streams;

const WHAT: &str = "a stream is sent or received";

#[test]
fn a_pool_in_use_by_a_stream_is_closed_by_force_only() {
    let streams = Streams::new();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let running = streams.begin(WHAT, Arc::clone(&stop)).unwrap();
        let refused = streams.close(false).err().unwrap();
        assert_eq!(
            (refused.kind, refused.message.as_str()),
            (FailureKind::Busy, WHAT)
        );
        assert!(!stop.load(Ordering::Acquire));
        let closing = scope.spawn(|| drop(streams.close(true).unwrap()));
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = streams.begin(WHAT, Arc::default()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(!closing.is_finished());
        drop(running);
        closing.join().unwrap();
    });
    // The pool could not be closed after all.
    drop(streams.begin(WHAT, stop).unwrap());
    streams.close(false).unwrap().for_good();
    assert!(streams.begin(WHAT, Arc::default()).is_err());
}
