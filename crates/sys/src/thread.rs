//! How the system runs a thread.

#![allow(
    unsafe_code,
    reason = "the C library has no function for the system call; the block has its argument"
)]

use std::mem::size_of;

/// The system call's argument, version 0 (48 bytes).
#[repr(C)]
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

/// Longer than anybody's who answers requests: they interrupt such a thread when they wake up.
const BACKGROUND_SLICE_NS: u64 = 20_000_000;

/// The calling thread does long work that nobody waits for step by step (txgs, compression): it gets
/// its share of the processor, but gives way at once to threads that wake up to answer somebody.
/// Threads that it starts inherit this. Where the system knows no such thing nothing changes.
pub fn work_in_background() {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_BATCH as u32,
        flags: 0,
        nice: nice_value(),
        priority: 0,
        runtime_ns: BACKGROUND_SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
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

/// The thread's nice value, which the call would set as well.
fn nice_value() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_in_the_background_is_of_the_batch_policy() {
        std::thread::spawn(|| {
            super::work_in_background();
            // SAFETY: the call takes plain numbers; 0 is the calling thread.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy, libc::SCHED_BATCH);
        })
        .join()
        .unwrap();
    }
}
