//! Devices that hesitate: what threads do on the way to a disk meets at other moments than on one that answers at once.

use crate::random::Random;
use device::BlockDevice;
use sim::WatchedDevice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many writes there are to one that hesitates, and how long that may take: the last is as long as a txg's sync.
const MANNERS: [(usize, usize); 3] = [(8, 1_000), (32, 5_000), (128, 50_000)];

/// A device in front of another, as a seed says: of four one is as fast as the other, the others let some of their
/// writes wait.
#[must_use]
pub fn device(inner: Arc<dyn BlockDevice>, seed: u64) -> Arc<dyn BlockDevice> {
    let mut random = Random::new(seed);
    if random.one_in(4) {
        return inner;
    }
    let (one_in, longest_us) = *random.pick(&MANNERS);
    let random = Mutex::new(random);
    let watch = move |_, _| {
        let wait_us = {
            let mut random = random.lock().unwrap_or_else(|error| error.into_inner());
            let waits = random.one_in(one_in);
            if waits { random.below(longest_us) } else { 0 }
        };
        if wait_us > 0 {
            base::thread::sleep(Duration::from_micros(wait_us as u64));
        }
    };
    Arc::new(WatchedDevice::writes(inner, watch))
}
