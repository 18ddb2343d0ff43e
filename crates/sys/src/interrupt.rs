//! Waking threads that wait in a system call.

#![allow(
    unsafe_code,
    reason = "the standard library has no signals; each block has its argument"
)]

use rustix::io::Errno;
use std::sync::OnceLock;

/// By itself it does nothing in any program, and nobody else sends it here.
const SIGNAL: libc::c_int = libc::SIGURG;

/// A thread of this process, as the kernel calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNumber(u32);

impl ThreadNumber {
    /// The calling thread.
    #[must_use]
    pub fn own() -> Self {
        let raw = rustix::thread::gettid().as_raw_nonzero().get();
        Self(raw.unsigned_abs())
    }

    /// As a plain number; 0 is no thread.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// Makes the signal end system calls, once for the process. False: it cannot be had.
fn installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: a structure of integers and a pointer to a function, for which zeros are good: no flags (so calls are
        // not begun again), no signals blocked meanwhile.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, which is safe at any moment; the structure lives through the call, and no
        // old one is asked for.
        unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) == 0 }
    })
}

/// Ends the system call in which the thread of this number waits, with INTR. One that does not wait yet waits all the
/// same: whoever needs its attention asks again. The number must be of a thread of this process that has not ended; of
/// another one, a call ends early.
///
/// # Errors
/// What the system calls say.
pub fn interrupt_thread(number: u32) -> Result<(), Errno> {
    let (Ok(number @ 1..), true) = (libc::pid_t::try_from(number), installed()) else {
        return Err(Errno::SRCH);
    };
    let process = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: plain numbers; the signal's handler is installed, and does nothing.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process, number, SIGNAL) };
    match status {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests;
