//! The thread pool under the model checker: a job that nobody takes is a deadlock of whoever waits for it.

use super::ThreadPool;
use crate::queue::Bounded;
use crate::sync::{check, thread};
use crate::thread::Role;
use std::sync::Arc;

/// Every job that was taken is done, though threads leave as soon as they are idle.
fn all_jobs_are_done(threads_max: usize, jobs: usize) {
    let thread_pool = ThreadPool::new(("model", Role::PART), threads_max, Bounded::new("model", 8));
    let (done, ends) = shuttle::sync::mpsc::channel();
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let (thread_pool, done) = (Arc::clone(&thread_pool), done.clone());
            thread::spawn(move || {
                for _ in 0..jobs {
                    let done = done.clone();
                    let job = Box::new(move || done.send(()).expect("somebody waits"));
                    assert!(thread_pool.run(job).is_ok());
                }
            })
        })
        .collect();
    for _ in 0..2 * jobs {
        ends.recv().expect("a job is done");
    }
    for caller in callers {
        caller.join().expect("no thread fails");
    }
    thread_pool.close();
}

#[test]
fn one_thread_forgets_no_job() {
    check(|| all_jobs_are_done(1, 2));
}

#[test]
fn two_threads_forget_no_job() {
    check(|| all_jobs_are_done(2, 2));
}

/// Its only thread leaves when the last job comes.
#[test]
fn a_thread_that_leaves_forgets_no_job() {
    check(|| {
        let thread_pool = ThreadPool::new(("model", Role::PART), 1, Bounded::new("model", 8));
        let (done, ends) = shuttle::sync::mpsc::channel();
        for _ in 0..2 {
            let done = done.clone();
            let job = Box::new(move || done.send(()).expect("somebody waits"));
            assert!(thread_pool.run(job).is_ok());
            ends.recv().expect("a job is done");
        }
    });
}

/// Two jobs that come at once while one thread is idle: the second does not wait for the first.
#[test]
fn jobs_that_wait_for_each_other_end() {
    check(|| {
        let thread_pool = ThreadPool::new(("model", Role::PART), 2, Bounded::new("model", 8));
        let (done, ends) = shuttle::sync::mpsc::channel();
        let first = done.clone();
        let job = Box::new(move || first.send(()).expect("somebody waits"));
        assert!(thread_pool.run(job).is_ok());
        ends.recv().expect("a job is done");
        let (here, there) = (Arc::new(shuttle::sync::Barrier::new(2)), done);
        for _ in 0..2 {
            let (meet, done) = (Arc::clone(&here), there.clone());
            let job = Box::new(move || {
                meet.wait();
                done.send(()).expect("somebody waits");
            });
            assert!(thread_pool.run(job).is_ok());
        }
        for _ in 0..2 {
            ends.recv().expect("a job is done");
        }
    });
}
