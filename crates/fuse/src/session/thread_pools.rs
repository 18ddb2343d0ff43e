//! The threads of a mount that answer what its readers do not. They are started when there is such work.

use crate::tunables::{
    DURABLE_QUEUED_MAX, DURABLE_THREADS_MAX, PARKED_REQUESTS_MAX, PARKED_THREADS_MAX,
};
use base::queue::Bounded;
use base::thread_pool::ThreadPool;
use std::sync::Arc;

/// For what is waited for until it is durable.
pub(super) fn durable() -> Arc<ThreadPool> {
    ThreadPool::new(
        ("fuse-durable", sys::thread::ANSWERS),
        DURABLE_THREADS_MAX.count(),
        Bounded::new("fuse.durable", DURABLE_QUEUED_MAX.count()),
    )
}

/// For requests that wait without a reader. When the mount has ended, nobody waits any more for those that are left.
pub(super) fn parked() -> Arc<ThreadPool> {
    let queue = Bounded::new("fuse.parked", PARKED_REQUESTS_MAX.count());
    ThreadPool::new(
        ("fuse-parked", sys::thread::ANSWERS),
        PARKED_THREADS_MAX.count(),
        queue,
    )
}
