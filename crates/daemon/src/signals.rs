//! Signals that end the process, from its first moment on, and who started it.
//!
//! Before the pool is up, a signal ends the process at once: nothing was promised yet, and what is on the disks is as
//! after a crash. So does the end of the command that started a daemon: nobody waits for it any more, and nobody would
//! know that it came up. Afterwards signals go to the server, which lets the pool go properly; who sends
//! a second one does not want to wait for that.

use base::lock::{LockClass, Mutex, rank};
use base::thread;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;
use sys::{SignalDescriptor, TerminationSignal};

/// Why the server's main thread wakes.
pub(super) enum Event {
    Signal,
    Finished,
}

static TARGET_CLASS: LockClass = LockClass::new("daemon.signals", rank::FRONT_END + 3);

/// How often it is looked whether the command is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Takes the signals of this process.
pub(super) struct Signals {
    target: Arc<Mutex<Option<SyncSender<Event>>>>,
}

impl Signals {
    /// From now on; `survives_hang_up`: there is no terminal that could hang up. There must be no other
    /// threads.
    ///
    /// # Errors
    /// When signals cannot be had as data, or no thread is to be had.
    pub(super) fn watch(survives_hang_up: bool) -> io::Result<Self> {
        let descriptor = SignalDescriptor::new()?;
        let target = Arc::new(Mutex::new(&TARGET_CLASS, None::<SyncSender<Event>>));
        let for_thread = Arc::clone(&target);
        let mut ending = false;
        let forward = move || {
            while let Ok(signal) = descriptor.wait() {
                if survives_hang_up && signal == TerminationSignal::HangUp {
                    continue;
                }
                let target = for_thread.lock().clone();
                let Some(target) = target.filter(|_| !ending) else {
                    leave();
                };
                ending = true;
                match target.try_send(Event::Signal) {
                    // Enough is on its way that ends it.
                    Ok(()) | Err(TrySendError::Full(_)) => {}
                    Err(TrySendError::Disconnected(_)) => return,
                }
            }
        };
        thread::named("signals", sys::thread::ORDINARY).spawn(forward)?;
        Ok(Self { target })
    }

    /// The pool is up: signals are events from now on.
    pub(super) fn deliver_to(&self, events: SyncSender<Event>) {
        *self.target.lock() = Some(events);
    }
}

/// Ends the process, as a crash does to the pool.
fn leave() -> ! {
    std::process::exit(1)
}

/// Ends the process when nobody reads `output` any more, until [`Starter::let_go`].
pub(super) struct Starter {
    up: Arc<AtomicBool>,
}

impl Starter {
    /// Looks from now on.
    ///
    /// # Errors
    /// When no thread is to be had.
    pub(super) fn watch(output: File) -> io::Result<Self> {
        let up = Arc::new(AtomicBool::new(false));
        let for_thread = Arc::clone(&up);
        let look = move || {
            // The pipe is not kept longer than it is looked at: somebody may wait for its end.
            while !for_thread.load(Ordering::Acquire) {
                if sys::is_reader_gone(&output, LOOK) && !for_thread.load(Ordering::Acquire) {
                    leave();
                }
            }
        };
        thread::named("starter", sys::thread::ORDINARY).spawn(look)?;
        Ok(Self { up })
    }

    /// The pool is up and is served from now on, whoever asked for it.
    pub(super) fn let_go(self) {
        self.up.store(true, Ordering::Release);
    }
}
