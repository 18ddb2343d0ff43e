//! How the system runs a thread: the roles that threads are started with (`base::thread`).
//!
//! All are of one weight: nobody is starved. They differ in who interrupts whom. A thread that wakes up interrupts one
//! whose slice is longer than its own (Linux 6.12 and later; before, all have the same slice), and one of the batch
//! policy interrupts nobody. Threads inherit this from those that start them, so each role says all of it.
//!
//! Threads that answer have the system's own slice. With the shortest one (0.1 ms) no request was answered sooner,
//! nor with real-time priority by much (docs/performance.md, "`stat` beside 200 writers at the dirty limit").

#![allow(
    unsafe_code,
    reason = "the C library has no function for the system call; each block has its argument"
)]

use base::thread::Role;
use std::mem::size_of;
use std::sync::OnceLock;

/// Answers somebody who waits, with little work each time.
pub const ANSWERS: Role = Role::new(|| {
    begin(&USUAL);
    crate::session_weight::count_as_answering();
});
/// Anything else that is not long work.
pub const ORDINARY: Role = Role::new(|| begin(&USUAL));
/// Does long work that nobody waits for step by step (txgs, compression, scrubs): it gets its share of the CPU,
/// but gives way at once to threads that wake up to answer somebody.
pub const BACKGROUND: Role = Role::new(|| begin(&LONG_WORK));

/// The system call's argument, version 0 (48 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

#[derive(Debug)]
struct Scheduling {
    policy: i32,
    /// 0: the system's own, some milliseconds.
    slice_ns: u64,
}

const USUAL: Scheduling = Scheduling {
    policy: libc::SCHED_OTHER,
    slice_ns: 0,
};
/// Longer than anybody's who answers requests, which are 3 ms at most, and not by much: a session is taken to want the
/// shortest slice of its threads, and where others compute one that wants a long slice waits for as many of theirs.
/// With 20 ms a thread beside 32 programs waited for seconds (docs/internals/io_classes.md).
const LONG_WORK: Scheduling = Scheduling {
    policy: libc::SCHED_BATCH,
    slice_ns: 4_000_000,
};

/// Where the system knows no such thing nothing changes.
fn begin(scheduling: &Scheduling) {
    if !is_usual() {
        return;
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: scheduling.policy as u32,
        nice: nice_value(),
        runtime_ns: scheduling.slice_ns,
        ..Attributes::default()
    };
    // SAFETY: the pointer is to a value that lives through the call, of the size that it says; the
    // call reads it and changes nothing but the calling thread's (0) scheduling.
    let _unsupported = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            0,
            std::ptr::from_ref(&attributes),
            0,
        )
    };
}

/// Whether the program was started under the usual policy. Another one was its user's choice, for all of it.
fn is_usual() -> bool {
    static IS_USUAL: OnceLock<bool> = OnceLock::new();
    *IS_USUAL.get_or_init(|| {
        let process = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: the call takes a plain number, that of the process's first thread.
        let policy = unsafe { libc::sched_getscheduler(process) };
        policy == libc::SCHED_OTHER
    })
}

/// The thread's nice value, which the call would set as well.
fn nice_value() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or_default()
}

#[cfg(test)]
mod tests;
