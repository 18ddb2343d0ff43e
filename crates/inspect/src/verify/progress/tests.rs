use super::*;

#[test]
fn a_line_says_what_how_much_how_fast_and_how_long() {
    let second = Duration::from_secs(1);
    assert_eq!(
        line(0, Some(1 << 30), Duration::ZERO),
        "verifying: 0B of 1GB"
    );
    assert_eq!(line(5 << 20, None, second), "verifying: 5MB, 5MB/s");
    assert_eq!(
        line(256 << 20, Some(1 << 30), second),
        "verifying: 256MB of 1GB, 256MB/s, 3 s left"
    );
}

#[test]
fn work_is_done_in_a_pipe_as_well() {
    assert_eq!(
        shown(
            Watcher::Audience(Audience::Nobody),
            &AtomicU64::new(0),
            None,
            || 7
        ),
        7
    );
}

#[test]
fn a_function_is_told_the_end() {
    let told = std::sync::Mutex::new(Vec::new());
    let watch = |done, total| told.lock().unwrap().push((done, total));
    let done = AtomicU64::new(1);
    let work = || done.store(5, Ordering::Relaxed);
    shown(Watcher::Function(&watch), &done, Some(9), work);
    assert_eq!(told.lock().unwrap().last(), Some(&(5, Some(9))));
}
