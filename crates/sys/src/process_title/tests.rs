use super::*;
use std::fs;

/// In the child process that the test below starts.
#[test]
fn child() {
    if std::env::var_os("SHOWS_A_TITLE").is_none() {
        return;
    }
    let shown = || fs::read("/proc/self/cmdline").unwrap();
    let before = shown().len();
    let title = ProcessTitle::new().unwrap();
    title.set("zfs: sending tank").unwrap();
    let line = shown();
    assert_eq!(line.len(), before);
    assert!(line.starts_with(b"zfs: sending tank\0"), "{line:?}");
    assert!(line[17..].iter().all(|byte| *byte == 0), "{line:?}");
    // Longer than there is room.
    title.set(&"äöü".repeat(before)).unwrap();
    let line = shown();
    assert_eq!((line.len(), line.last()), (before, Some(&0)));
    assert!(std::env::args().next().unwrap().starts_with("äö"));
}

#[test]
fn a_process_shows_a_title() {
    let own = std::env::current_exe().unwrap();
    let run = std::process::Command::new(own)
        .args(["--exact", "process_title::tests::child", "--nocapture"])
        .env("SHOWS_A_TITLE", "1")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
}
