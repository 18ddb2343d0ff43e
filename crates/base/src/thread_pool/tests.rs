use super::*;
use std::sync::mpsc::channel;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn jobs_that_wait_for_each_other_have_a_thread_each() {
    let thread_pool = ThreadPool::new(("test-pool", Role::PART), 2, Bounded::new("test.pool", 8));
    let (first, first_came) = channel();
    let (second, second_came) = channel();
    let (both, ended) = channel();
    let done = both.clone();
    thread_pool
        .run(Box::new(move || {
            first.send(()).unwrap();
            second_came.recv_timeout(SOON).unwrap();
            done.send(()).unwrap();
        }))
        .unwrap_or_else(|_| panic!("there is room"));
    thread_pool
        .run(Box::new(move || {
            second.send(()).unwrap();
            first_came.recv_timeout(SOON).unwrap();
            both.send(()).unwrap();
        }))
        .unwrap_or_else(|_| panic!("there is room"));
    for _ in 0..2 {
        ended.recv_timeout(SOON).unwrap();
    }
}

#[test]
fn what_was_taken_in_before_finds_room() {
    let thread_pool = ThreadPool::new(("test-owed", Role::PART), 1, Bounded::new("test.owed", 1));
    let (go, gone) = channel::<()>();
    let (done, ended) = channel();
    thread_pool
        .run(Box::new(move || gone.recv_timeout(SOON).unwrap()))
        .unwrap_or_else(|_| panic!("there is room"));
    for _ in 0..3 {
        let done = done.clone();
        thread_pool
            .run_owed(Box::new(move || done.send(()).unwrap()))
            .unwrap_or_else(|_| panic!("nobody is held up"));
    }
    go.send(()).unwrap();
    for _ in 0..3 {
        ended.recv_timeout(SOON).unwrap();
    }
}

#[test]
fn who_finds_no_room_has_the_job_back() {
    let thread_pool = ThreadPool::new(("test-full", Role::PART), 1, Bounded::new("test.full", 1));
    let (go, gone) = channel::<()>();
    let (began, has_begun) = channel();
    thread_pool
        .run(Box::new(move || {
            began.send(()).unwrap();
            gone.recv_timeout(SOON).unwrap();
        }))
        .unwrap_or_else(|_| panic!("there is room"));
    has_begun.recv_timeout(SOON).unwrap();
    let (told, was_told) = channel();
    let job = move || told.send(()).unwrap();
    thread_pool
        .run(Box::new(job))
        .unwrap_or_else(|_| panic!("there is room"));
    assert!(thread_pool.run(Box::new(|| {})).is_err());
    assert_eq!(thread_pool.threads.load(Ordering::SeqCst), 1);
    go.send(()).unwrap();
    was_told.recv_timeout(SOON).unwrap();
    thread_pool.close();
    assert!(thread_pool.run(Box::new(|| {})).is_err());
}
