//! Who looks after a set of readers: starts helpers while all of them wait for something.

use super::counters::counters;
use super::reader_states::Readers;
use base::clock::monotonic_ns;
use base::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the monitor looks while the readers are busy.
const TICK: Duration = Duration::from_millis(1);
/// After so many quiet looks it looks half as often, and after as many more half as often again: where CPUs are short,
/// its own turns are those of readers.
const QUIET_TICKS: u32 = 6;
/// So much less often, and the monitor sleeps until it is called: after 42 ms.
const TICK_DOUBLINGS: u32 = 3;

/// What a monitor does when readers have been free for a while.
pub(super) enum Rest {
    /// Nothing any more: the set is gone.
    Over,
    /// Sleeps until it is called.
    Sleep,
    /// The same, but not longer than that.
    SleepFor(Duration),
}

/// Readers that a monitor looks after.
pub(super) trait ReaderSet: Send + Sync + 'static {
    fn readers(&self) -> &Readers;
    /// Starts a reader more, if there may be one.
    fn start_helper(self: &Arc<Self>);
    /// Called when readers have been free for a while, or when none is left.
    fn rest(&self) -> Rest;
}

/// Starts the monitor of a set.
pub(super) fn start<S: ReaderSet>(set: Arc<S>) -> io::Result<()> {
    let for_monitor = Arc::clone(&set);
    let monitor = thread::named("fuse-monitor", sys::thread::ANSWERS)
        .stack_bytes(128 << 10)
        .spawn(move || run(&for_monitor))?;
    // Called only after this is set; until then nobody waits for long.
    drop(set.readers().monitor.set(monitor.thread().clone()));
    Ok(())
}

fn run<S: ReaderSet>(set: &Arc<S>) {
    let readers = set.readers();
    let mut quiet = 0;
    loop {
        let is_empty = readers.alive.load(Ordering::SeqCst) == 0;
        let doublings = quiet / QUIET_TICKS;
        if doublings >= TICK_DOUBLINGS || is_empty {
            let limit = match set.rest() {
                Rest::Over => return,
                Rest::Sleep => None,
                Rest::SleepFor(limit) => Some(limit),
            };
            readers.monitor_sleeps.store(true, Ordering::SeqCst);
            if readers.waiting.load(Ordering::SeqCst) > 0 {
                // A spurious return costs a look.
                match limit {
                    None => std::thread::park(),
                    Some(limit) => std::thread::park_timeout(limit),
                }
            }
            readers.monitor_sleeps.store(false, Ordering::SeqCst);
            quiet = 0;
            continue;
        }
        std::thread::sleep(TICK * (1 << doublings));
        if readers.waiting.load(Ordering::Relaxed) > 0 {
            quiet += 1;
            continue;
        }
        quiet = 0;
        let running = readers
            .alive
            .load(Ordering::Relaxed)
            .saturating_sub(readers.stuck());
        if running < readers.residents {
            readers.missed_ns.store(monotonic_ns(), Ordering::Relaxed);
            counters().helpers_started.increment();
            set.start_helper();
        }
    }
}
