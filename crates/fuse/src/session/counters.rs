//! Counts and latencies of requests, by operation, for the whole process.

use crate::wire::Opcode;
use base::metrics::{Counter, Histogram, registry};
use std::sync::{Arc, OnceLock};

const OPCODES: usize = 64;

/// The instruments of all sessions of this process.
#[derive(Debug)]
pub(crate) struct Counters {
    latency_ns: Vec<Option<Arc<Histogram>>>,
    /// How long fsync and its relatives waited for a thread.
    pub(crate) durable_queue_ns: Arc<Histogram>,
    /// How long they took on it.
    pub(crate) durable_serve_ns: Arc<Histogram>,
    /// Messages that were no requests.
    pub(crate) malformed: Arc<Counter>,
    /// Answers that said an error.
    pub(crate) errors: Arc<Counter>,
    /// Threads started because all others waited for something.
    pub(crate) helpers_started: Arc<Counter>,
    /// Times that a blocked set of readers could not grow: the limit was reached.
    pub(crate) helpers_refused: Arc<Counter>,
    /// Requests that waited for room without a thread.
    pub(crate) postponed: Arc<Counter>,
    /// Times that a request waited for devices that were away.
    pub(crate) awaited_devices: Arc<Counter>,
    /// Requests whose wait for devices a signal ended.
    pub(crate) interrupted: Arc<Counter>,
    /// Requests that the last free reader left to another thread.
    pub(crate) handed_over: Arc<Counter>,
    /// Times that a mount gave readers of its own back.
    pub(crate) given_back: Arc<Counter>,
    /// Operations that panicked.
    pub(crate) panics: Arc<Counter>,
    /// Requests found by a reader that polled instead of sleeping.
    pub(crate) polls_caught: Arc<Counter>,
    /// Times that a reader polled until its time was up.
    pub(crate) polls_in_vain: Arc<Counter>,
    /// Times that polling was given up for a while: others want the CPUs.
    pub(crate) polls_given_up: Arc<Counter>,
    /// Looks at the machine's runnable threads that found the CPUs wanted: nobody polls for a while.
    pub(crate) polls_put_off: Arc<Counter>,
    /// How long those who computed kept a reader that polled from its CPU.
    pub(crate) polls_lost_ns: Arc<Counter>,
    /// Times that the daemon's session got more weight.
    pub(crate) session_raised: Arc<Counter>,
    /// Invalidations sent.
    pub(crate) notifications: Arc<Counter>,
}

impl Counters {
    fn new() -> Self {
        let registry = registry();
        let mut latency_ns = vec![None; OPCODES];
        for opcode in Opcode::ALL {
            if let Some(place) = latency_ns.get_mut(*opcode as usize) {
                *place = Some(registry.histogram(&format!("fuse.{}.latency_ns", opcode.label())));
            }
        }
        Self {
            latency_ns,
            durable_queue_ns: registry.histogram("fuse.durable.queue_ns"),
            durable_serve_ns: registry.histogram("fuse.durable.serve_ns"),
            malformed: registry.counter("fuse.malformed"),
            errors: registry.counter("fuse.errors"),
            helpers_started: registry.counter("fuse.helpers_started"),
            helpers_refused: registry.counter("fuse.helpers_refused"),
            postponed: registry.counter("fuse.postponed"),
            awaited_devices: registry.counter("fuse.awaited_devices"),
            interrupted: registry.counter("fuse.interrupted"),
            handed_over: registry.counter("fuse.handed_over"),
            given_back: registry.counter("fuse.readers_given_back"),
            panics: registry.counter("fuse.panics"),
            polls_caught: registry.counter("fuse.polls_caught"),
            polls_in_vain: registry.counter("fuse.polls_in_vain"),
            polls_given_up: registry.counter("fuse.polls_given_up"),
            polls_put_off: registry.counter("fuse.polls_put_off"),
            polls_lost_ns: registry.counter("fuse.polls_lost_ns"),
            session_raised: registry.counter("fuse.session_raised"),
            notifications: registry.counter("fuse.notifications"),
        }
    }

    /// Counts a request of this operation that took so long.
    pub(crate) fn record(&self, opcode: u32, elapsed_ns: u64) {
        let place = usize::try_from(opcode)
            .ok()
            .and_then(|index| self.latency_ns.get(index));
        if let Some(Some(histogram)) = place {
            histogram.record(elapsed_ns);
        }
    }
}

/// The process's instruments.
pub(crate) fn counters() -> &'static Counters {
    static COUNTERS: OnceLock<Counters> = OnceLock::new();
    COUNTERS.get_or_init(Counters::new)
}
