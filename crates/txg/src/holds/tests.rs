use super::thread_index;

#[test]
fn threads_that_come_and_go_take_no_new_numbers() {
    const THREADS: usize = 1000;
    let highest = (0..THREADS)
        .map(|_| std::thread::spawn(thread_index).join().unwrap())
        .max();
    assert!(highest < Some(THREADS / 2), "{highest:?}");
}

#[test]
fn threads_that_run_at_once_have_numbers_of_their_own() {
    let barrier = std::sync::Barrier::new(8);
    let mut found: Vec<usize> = std::thread::scope(|scope| {
        let work = || {
            let index = thread_index();
            barrier.wait();
            index
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 8);
}
