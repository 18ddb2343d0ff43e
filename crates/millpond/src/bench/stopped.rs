//! A run that a signal stops removes what it wrote: the operations after it fail, and the run ends as one that failed
//! does.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use base::thread::{self, Role};
use sys::{SignalDescriptor, TerminationSignal};

/// The exit status of a run that a signal stopped; 0 while there was none.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Hears signals from here on: to be called before there are other threads. The second one ends the process at once: an
/// operation may never return, or the removal take long.
pub(super) fn listen() {
    // Without it a signal ends the process, as it does others.
    let Ok(signals) = SignalDescriptor::new() else {
        return;
    };
    let _started = thread::named("signals", Role::PART).spawn(move || {
        while let Ok(signal) = signals.wait() {
            if status().is_some() {
                std::process::exit(status_of(signal).into());
            }
            STATUS.store(status_of(signal), Ordering::Relaxed);
        }
    });
}

/// What a shell says of a program that the signal ended: 128 and its number.
const fn status_of(signal: TerminationSignal) -> u8 {
    match signal {
        TerminationSignal::HangUp => 129,
        TerminationSignal::Interrupt => 130,
        TerminationSignal::Terminate => 143,
    }
}

/// The exit status, once a signal came.
pub(super) fn status() -> Option<u8> {
    Some(STATUS.load(Ordering::Relaxed)).filter(|status| *status != 0)
}

/// Fails once a signal came.
pub(super) fn check() -> io::Result<()> {
    match status() {
        Some(_) => Err(io::Error::other("stopped by a signal")),
        None => Ok(()),
    }
}
