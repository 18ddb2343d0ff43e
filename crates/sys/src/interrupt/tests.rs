use super::{ThreadNumber, interrupt_thread};
use rustix::io::Errno;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn a_thread_that_waits_in_a_call_is_woken() {
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let (told, number) = mpsc::channel();
    let (done, outcome) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        told.send(ThreadNumber::own()).unwrap();
        let read = rustix::io::read(&reader, &mut [0][..]);
        done.send(read).unwrap();
    });
    let number = number.recv().unwrap();
    // It may not wait yet.
    let outcome = loop {
        let _ended = interrupt_thread(number.raw());
        if let Ok(outcome) = outcome.recv_timeout(Duration::from_millis(5)) {
            break outcome;
        }
    };
    assert_eq!(outcome, Err(Errno::INTR));
    waiting.join().unwrap();
    assert!(interrupt_thread(0).is_err());
}
