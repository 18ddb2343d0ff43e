//! How much of the CPUs the process's session gets, and what its threads use of it.
//!
//! Linux shares CPUs between sessions first (autogroups), each with the weight of one program. The weight of a
//! session can be asked for like that of a thread, by a nice value.

#![allow(
    unsafe_code,
    reason = "no crate has a function for what a process used; the block has its argument"
)]

use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const AUTOGROUP: &str = "/proc/self/autogroup";

/// The nice value of this process's session; none where the system does not share CPUs by sessions.
#[must_use]
pub fn session_nice() -> Option<i32> {
    let switch = std::fs::read("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    if !switch.starts_with(b"1") {
        return None;
    }
    nice_of(&std::fs::read_to_string(AUTOGROUP).ok()?)
}

/// `/autogroup-53 nice -10`.
fn nice_of(text: &str) -> Option<i32> {
    let (_, nice) = text.trim_end().rsplit_once(" nice ")?;
    nice.parse().ok()
}

/// Gives the session of this process another nice value, from -20 to 19.
///
/// # Errors
/// PERM or ACCESS for a lower value without the privilege; what the file's functions say.
pub fn set_session_nice(nice: i32) -> Result<(), Errno> {
    let written = std::fs::write(AUTOGROUP, nice.to_string());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// More are not told from other threads.
const ANSWERING_MAX: usize = 256;

/// The living threads of the role that answers; 0: a free place.
static ANSWERING: [AtomicU32; ANSWERING_MAX] = [const { AtomicU32::new(0) }; ANSWERING_MAX];
/// What those used that have ended.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PLACE: Option<Place> = Place::take();
}

/// A thread's place among those that answer, until it ends.
struct Place(&'static AtomicU32);

impl Place {
    fn take() -> Option<Self> {
        let number = crate::ThreadNumber::own().raw();
        let is_free = |place: &&AtomicU32| {
            let taken = place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        ANSWERING.iter().find(is_free).map(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
        ENDED_NS.fetch_add(run_ns("thread-self"), Ordering::Relaxed);
    }
}

/// The calling thread answers.
pub(crate) fn count_as_answering() {
    // A thread that is ending answers nobody.
    let _counted = PLACE.try_with(Option::is_some);
}

/// What a process has used of the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// All of its threads.
    pub all_ns: u64,
    /// Those that answer (`thread::ANSWERS`).
    pub answering_ns: u64,
}

/// What this process has used of the CPUs.
#[must_use]
pub fn cpu_use() -> CpuUse {
    let threads = ANSWERING.iter().map(|place| place.load(Ordering::Relaxed));
    let living = threads.filter(|number| *number != 0);
    let living = living.map(|number| run_ns(&format!("self/task/{number}")));
    CpuUse {
        answering_ns: living.sum::<u64>() + ENDED_NS.load(Ordering::Relaxed),
        all_ns: process_ns(),
    }
}

/// How many threads of this process run or wait for a CPU, the calling one included. It costs some microseconds for
/// each of its threads.
#[must_use]
pub fn runnable_threads() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let states = tasks.flatten().map(|task| {
        let text = std::fs::read_to_string(task.path().join("stat"));
        text.is_ok_and(|text| is_runnable(&text))
    });
    states.map(u64::from).sum()
}

/// `12 (name) R 1 …`: the name may hold anything.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// What a thread of this process has run, by its folder in /proc; 0 where that is not told, or it has ended.
fn run_ns(folder: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{folder}/schedstat")).unwrap_or_default();
    let ran = text.split(' ').next();
    ran.and_then(|ran| ran.parse().ok()).unwrap_or(0)
}

fn process_ns() -> u64 {
    // SAFETY: a structure of integers, for which zeros are good.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure that it is given, which lives through it, or fails.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut used) };
    if answer != 0 {
        return 0;
    }
    let nanoseconds = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
        seconds * 1_000_000_000 + microseconds * 1000
    };
    nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime)
}

#[cfg(test)]
mod tests;
