//! Requests that wait for devices that are away, without a thread, for as long as that takes.
//!
//! Each is done again, from the start, when its pool goes on or is given up. A signal to its caller ends its wait
//! before that, and the end of the mount, which needs no answer.

use super::counters::counters;
use super::send::send_error;
use super::shared::Shared;
use crate::errno::EINTR;
use base::lock::{LockClass, Mutex, rank};
use base::thread_pool::Job;
use posix::AwaitedDevices;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use sys::FuseDevice;

static AWAITING_CLASS: LockClass = LockClass::new("fuse.awaiting", rank::FRONT_END + 40);

/// So many requests are remembered that a signal was for while they were served: it comes just before they would wait.
const INTERRUPTED_MAX: usize = 256;

/// A request that waits.
pub(super) struct AwaitingRequest {
    /// Where it is answered.
    pub(super) device: Arc<FuseDevice>,
    /// Has it done again, by another thread.
    pub(super) again: Job,
}

/// Those of a connection, by the numbers that the kernel gave them.
pub(super) struct AwaitingRequests(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    waiting: HashMap<u64, AwaitingRequest>,
    /// Those that did not wait when a signal came for them, the latest last.
    interrupted: VecDeque<u64>,
    has_ended: bool,
}

impl Requests {
    fn note_interrupted(&mut self, unique: u64) {
        if self.interrupted.len() >= INTERRUPTED_MAX {
            self.interrupted.pop_front();
        }
        self.interrupted.push_back(unique);
    }

    fn is_interrupted(&self, unique: u64) -> bool {
        self.interrupted.contains(&unique)
    }
}

impl Default for AwaitingRequests {
    fn default() -> Self {
        Self(Mutex::new(&AWAITING_CLASS, Requests::default()))
    }
}

impl AwaitingRequests {
    /// A signal came for the caller of a request.
    pub(super) fn interrupt(&self, unique: u64) {
        let mut requests = self.0.lock();
        let Some(request) = requests.waiting.remove(&unique) else {
            requests.note_interrupted(unique);
            return;
        };
        drop(requests);
        answer_interrupted(&request.device, unique);
    }

    /// The connection has ended: nobody waits for an answer.
    pub(super) fn end(&self) {
        let mut requests = self.0.lock();
        requests.has_ended = true;
        let waiting = std::mem::take(&mut requests.waiting);
        drop(requests);
        // They lead back to the connection.
        drop(waiting);
    }

    fn go_on(&self) {
        let waiting = std::mem::take(&mut self.0.lock().waiting);
        waiting.into_values().for_each(|request| (request.again)());
    }
}

fn answer_interrupted(device: &FuseDevice, unique: u64) {
    counters().interrupted.increment();
    send_error(device, unique, EINTR);
}

/// Has a request wait for devices.
pub(super) fn until_devices_are_back(
    shared: &Arc<Shared>,
    unique: u64,
    request: AwaitingRequest,
    devices: AwaitedDevices,
) {
    let mut requests = shared.awaiting.0.lock();
    if requests.has_ended {
        return;
    }
    if requests.is_interrupted(unique) {
        drop(requests);
        answer_interrupted(&request.device, unique);
        return;
    }
    counters().awaited_devices.increment();
    requests.waiting.insert(unique, request);
    drop(requests);
    let connection = Arc::downgrade(shared);
    devices.leave(shared.number, move || {
        if let Some(shared) = connection.upgrade() {
            shared.awaiting.go_on();
        }
    });
}

#[cfg(test)]
mod tests;
