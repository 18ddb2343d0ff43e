//! Reads from several leaves that are under way at once: the columns of a block, the sides of a mirror.
//!
//! Each asks its leaf for a turn without waiting for it. When it is its turn it goes to a thread of the vdev, of which
//! there are at most [`READ_THREADS_MAX`]; the last one is done by who waits for all of them, so a single read changes
//! no threads, and neither do pieces on devices that answer before a thread would. A turn that comes is used at once:
//! nobody holds one leaf's turn while he waits for another's.

use crate::leaf::{AskedRead, Awaited, Leaf, ReadResult};
use crate::tunables::READ_THREADS_MAX;
use crate::{Failure, IoClass, VdevAux, VdevState};
use base::queue::Bounded;
use base::thread_pool::{Job, ThreadPool};
use std::sync::Arc;

/// The threads of a vdev that read.
pub(crate) struct ReadThreads(Arc<ThreadPool>);

impl ReadThreads {
    /// None yet.
    pub(crate) fn new() -> Self {
        let threads = READ_THREADS_MAX.count();
        let queue = Bounded::new("vdev.reads", threads);
        let role = ("vdev-read", sys::thread::ORDINARY);
        Self(ThreadPool::new(role, threads, queue))
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Reads `len` bytes at `offset` of the device of each leaf, and answers when all are done.
pub(crate) fn read_all(
    wanted: &[(Arc<Leaf>, u64, usize)],
    class: IoClass,
    threads: &ReadThreads,
) -> Vec<ReadResult> {
    if let [(leaf, offset, len)] = wanted {
        return vec![leaf.read(*offset, *len, class)];
    }
    let awaited = Arc::new(Awaited::new());
    let ask = |(leaf, offset, len): &(Arc<Leaf>, u64, usize)| {
        let number = awaited.add();
        let asked = leaf.ask_read((*offset, *len), class, (&awaited, number));
        asked.map_err(|known| awaited.done(number, known)).ok()
    };
    let mut asked: Vec<_> = wanted.iter().map(ask).collect();
    let mut left = asked.iter().flatten().count();
    loop {
        let mut turns = awaited.next_turns();
        if turns.is_empty() {
            break;
        }
        left -= turns.len();
        let last = if left == 0 { turns.pop() } else { None };
        let mut own = Vec::new();
        for (number, start_ns) in turns {
            let Some(read) = asked[number].take() else {
                continue;
            };
            if read.is_prompt() {
                own.push((number, start_ns, read));
                continue;
            }
            let job = job(read, start_ns, Told::new(&awaited, number));
            // Too many are under way, or there is no thread to be had.
            threads.0.run(job).unwrap_or_else(|job| job());
        }
        let last = last.and_then(|(number, start_ns)| {
            let read = asked[number].take()?;
            Some((number, start_ns, read))
        });
        for (number, start_ns, read) in own.into_iter().chain(last) {
            awaited.done(number, read.run(start_ns));
        }
    }
    let results = awaited.take_results().into_iter();
    results.map(|result| result.unwrap_or(GONE)).collect()
}

fn job(read: AskedRead, start_ns: u64, told: Told) -> Job {
    Box::new(move || {
        // The device is let go of before anybody hears of the end.
        let result = read.run(start_ns);
        told.of(result);
    })
}

/// What becomes of a read whose thread did not come to its end.
const GONE: ReadResult = Err(Failure::Unavailable(VdevState::Unknown, VdevAux::None));

/// Tells who waits, in any case.
struct Told {
    awaited: Arc<Awaited>,
    number: usize,
    is_told: bool,
}

impl Told {
    fn new(awaited: &Arc<Awaited>, number: usize) -> Self {
        Self {
            awaited: Arc::clone(awaited),
            number,
            is_told: false,
        }
    }

    fn of(mut self, result: ReadResult) {
        self.is_told = true;
        self.awaited.done(self.number, result);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if !self.is_told {
            self.awaited.done(self.number, GONE);
        }
    }
}

#[cfg(test)]
mod tests;
