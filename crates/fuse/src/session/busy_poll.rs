//! Polling for the next request instead of sleeping until it comes.
//!
//! A caller that makes one request after the other sleeps while we serve, and we sleep while it
//! computes: two wake-ups of an idle CPU a request, which on a virtual machine cost more
//! than the request. So while requests follow each other closely, readers with nothing to do stay
//! runnable for a bounded time: they ask their descriptor without waiting, and yield the CPU
//! after each poll. All readers do so, also those that serve none of these requests: a reader
//! asleep in the kernel would be woken for each request, and a CPU that goes idle draws the
//! caller to it.
//!
//! Nothing is spent where it does not pay: a reader stops when no request has come for
//! [`WINDOW_NS`]; after a few gaps longer than that nobody begins. Whoever else wants the CPU gets it
//! at each poll, and a reader that gets it back late finds its time used up.
//!
//! Where programs compute beside it, polling is the wrong thing: a yield gives them whole slices, and the system, which
//! lets those go first that have slept, sees one more thread that computes. So nobody polls while more others could
//! run than there are CPUs ([`Demand`]). What that does not see has an [`Account`]: what is found is what was saved, a
//! yield that took long is what it cost, and who owes sleeps until the loss is a small part of the time.

mod demand;

use super::counters::counters;
use crate::tunables::{POLLS_LOSS_PARTS, POLLS_SAVED_NS_MAX};
use base::clock::monotonic_ns;
use demand::others_want_cpus;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sys::{Errno, FuseDevice};

/// So long after the last request a reader polls for another.
const WINDOW_NS: u64 = 80_000;
/// A request that follows the last one closely and comes from the same thread adds a point; any
/// other halves the points.
const POINTS_MAX: u32 = 16;
/// So many points, and it is worth polling.
const POINTS_MIN: u32 = 4;
/// Threads of this process that poll, of all its mounts; and never more than there are cores.
const POLLING_MAX: usize = 2;
/// A yield that took longer let somebody else run here, who may have made a request.
const SWITCH_NS: u64 = 4_000;
/// So long after the last request every reader that polls may take the next one: the one beside
/// the caller seems to be busy.
const PATIENCE_NS: u64 = 40_000;

/// A yield that took longer gave the CPU to somebody who computes.
const LOST_NS: u64 = 100_000;
/// What a request saves that was found: the wake-up of a reader, and that of the caller's CPU, with care.
const SAVED_NS: u64 = 15_000;

/// How often the time without polling is doubled at most.
const DOUBLINGS_MAX: u32 = 6;
/// It is never longer: who computed may be gone.
const CLOSED_NS_MAX: u64 = 10_000_000_000;

static POLLING: AtomicUsize = AtomicUsize::new(0);
static PLACES: LazyLock<usize> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism();
    cores.map_or(1, |cores| cores.get().min(POLLING_MAX))
});

/// How closely the requests of a mount follow each other.
#[derive(Debug, Default)]
pub(super) struct ArrivalRate {
    last_ns: AtomicU64,
    last_thread: AtomicU32,
    points: AtomicU32,
}

impl ArrivalRate {
    /// A request of this thread of a caller was read; 0: the kernel's own, nobody waits for it.
    /// Races between readers lose a point, no more.
    pub(super) fn arrived(&self, thread: u32, now_ns: u64) {
        if thread == 0 {
            return;
        }
        let is_same = self.last_thread.load(Ordering::Relaxed) == thread;
        let points = self.points.load(Ordering::Relaxed);
        let after = if is_same && self.quiet_ns(now_ns) < WINDOW_NS {
            (points + 1).min(POINTS_MAX)
        } else {
            points / 2
        };
        if after != points {
            self.points.store(after, Ordering::Relaxed);
        }
        if !is_same {
            self.last_thread.store(thread, Ordering::Relaxed);
        }
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    /// A request was answered: from now on its caller may make the next.
    pub(super) fn answered(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
    }

    /// How long ago the last request was read or answered.
    pub(super) fn quiet_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_ns.load(Ordering::Relaxed))
    }

    fn is_worth_polling(&self) -> bool {
        self.points.load(Ordering::Relaxed) >= POINTS_MIN
    }
}

/// What polling has saved and cost, of all the process's mounts: they share its CPUs.
static ACCOUNT: Account = Account::new();

/// See the module. Whoever polls while others compute finds out by a slice of theirs; then nobody polls for
/// [`POLLS_LOSS_PARTS`] times as long as was lost beyond what was saved, and twice as long each time that the next try
/// ends so as well: a thread that has computed and yielded is put behind others for a while, which costs more than the
/// slices that are counted. Races between readers misplace an entry.
struct Account {
    /// What was saved and is not lost again, up to a limit: it is to say how things are, not how they were.
    saved_ns: AtomicU64,
    /// Nobody polls before.
    closed_until_ns: AtomicU64,
    /// How many tries in a row ended with a loss.
    losses: AtomicU32,
}

impl Account {
    const fn new() -> Self {
        Self {
            saved_ns: AtomicU64::new(0),
            closed_until_ns: AtomicU64::new(0),
            losses: AtomicU32::new(0),
        }
    }

    fn allows(&self, now_ns: u64) -> bool {
        now_ns >= self.closed_until_ns.load(Ordering::Relaxed)
    }

    /// A request was found.
    fn saved(&self) {
        let max_ns = POLLS_SAVED_NS_MAX.get();
        let before_ns = self.saved_ns.load(Ordering::Relaxed);
        if before_ns < max_ns {
            let after_ns = (before_ns + SAVED_NS).min(max_ns);
            self.saved_ns.store(after_ns, Ordering::Relaxed);
            if after_ns == max_ns {
                self.losses.store(0, Ordering::Relaxed);
            }
        }
    }

    /// A yield took so long; whether nobody is to poll now.
    fn lost(&self, away_ns: u64, now_ns: u64) -> bool {
        let before_ns = self.saved_ns.load(Ordering::Relaxed);
        let after_ns = before_ns.saturating_sub(away_ns);
        self.saved_ns.store(after_ns, Ordering::Relaxed);
        let owed_ns = away_ns.saturating_sub(before_ns);
        if owed_ns == 0 {
            return false;
        }
        let losses = self.losses.load(Ordering::Relaxed).min(DOUBLINGS_MAX);
        // Two readers that lose at once have made one try.
        if self.allows(now_ns) {
            self.losses.store(losses + 1, Ordering::Relaxed);
        }
        let times = POLLS_LOSS_PARTS.get() << losses;
        let closed_ns = owed_ns.saturating_mul(times).min(CLOSED_NS_MAX);
        let until_ns = now_ns.saturating_add(closed_ns);
        self.closed_until_ns.fetch_max(until_ns, Ordering::Relaxed);
        true
    }
}

/// One of the process's places for threads that poll.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let taken = POLLING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |polling| {
            (polling < *PLACES).then_some(polling + 1)
        });
        taken.ok().map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        POLLING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a reader knows of where its callers run.
#[derive(Debug, Default)]
pub(super) struct BusyPoller {
    /// The last request came from a caller on the reader's own CPU.
    beside_caller: bool,
}

impl BusyPoller {
    /// Reads the next request: polls for it for a while if that is worth it, then waits.
    pub(super) fn next_request(
        &mut self,
        device: &FuseDevice,
        arrivals: &ArrivalRate,
        buffer: &mut [u8],
    ) -> Result<usize, Errno> {
        if arrivals.is_worth_polling()
            && ACCOUNT.allows(monotonic_ns())
            && let Some(_place) = Place::take()
            && !others_want_cpus(monotonic_ns())
            && let Some(read) = self.poll(device, arrivals, buffer)
        {
            return read;
        }
        device.set_waits(true)?;
        device.read(buffer)
    }

    /// None when nothing came in time.
    fn poll(
        &mut self,
        device: &FuseDevice,
        arrivals: &ArrivalRate,
        buffer: &mut [u8],
    ) -> Option<Result<usize, Errno>> {
        // A descriptor that others may hold as well is not switched.
        device.set_waits(false).ok()?;
        let mut now_ns = monotonic_ns();
        // The caller may have run, and asked, while the last answer was sent.
        let mut switched = self.beside_caller;
        loop {
            let quiet_ns = arrivals.quiet_ns(now_ns);
            if switched || quiet_ns > PATIENCE_NS {
                match device.read(buffer) {
                    Err(Errno::AGAIN) => {}
                    read => {
                        self.beside_caller = switched;
                        counters().polls_caught.increment();
                        ACCOUNT.saved();
                        return Some(read);
                    }
                }
            }
            if quiet_ns > WINDOW_NS {
                counters().polls_in_vain.increment();
                return None;
            }
            std::thread::yield_now();
            let yielded_ns = std::mem::replace(&mut now_ns, monotonic_ns());
            let away_ns = now_ns.saturating_sub(yielded_ns);
            switched = away_ns > SWITCH_NS;
            if away_ns > LOST_NS {
                counters().polls_lost_ns.add(away_ns);
                if ACCOUNT.lost(away_ns, now_ns) {
                    counters().polls_given_up.increment();
                    return None;
                }
            }
            // Another reader has met somebody who computes.
            if !ACCOUNT.allows(now_ns) || switched && others_want_cpus(now_ns) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
