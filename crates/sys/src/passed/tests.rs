use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().unwrap()
}

fn passed(descriptor: OwnedFd) -> (PassedDescriptor, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (
        PassedDescriptor::new(descriptor, ours.into()).unwrap(),
        theirs,
    )
}

#[test]
fn a_descriptor_comes_with_the_bytes_it_was_sent_with() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (read, write) = pipe();
    assert_eq!(send_descriptor(&ours, b"abc", write.as_fd()).unwrap(), 3);
    drop(write);
    let mut bytes = [0; 8];
    let (count, found) = receive_descriptor(&theirs, &mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"abc");
    rustix::io::write(found.unwrap(), b"through it").unwrap();
    let mut text = String::new();
    std::fs::File::from(read).read_to_string(&mut text).unwrap();
    assert_eq!(text, "through it");
    (&ours).write_all(b"alone").unwrap();
    let (count, found) = receive_descriptor(&theirs, &mut bytes).unwrap();
    assert_eq!((&bytes[..count], found.is_none()), (&b"alone"[..], true));
}

#[test]
fn data_goes_through_a_pipe_that_is_smaller() {
    let (read, write) = pipe();
    let (mut output, _client) = passed(write.try_clone().unwrap());
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let expected = data.clone();
    let writing = std::thread::spawn(move || output.write_all(&data));
    let (mut input, _client) = passed(read);
    let mut found = vec![0; expected.len()];
    input.read_exact(&mut found).unwrap();
    assert!(found == expected);
    writing.join().unwrap().unwrap();
    // What the client has is as it was.
    let flags = rustix::fs::fcntl_getfl(&write).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK));
    drop(write);
    assert_eq!(input.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_pipe_gets_as_much_room_as_anybody_may_give_it() {
    let (_other_read, other) = pipe();
    // As far as this user's pipes have not all the room that he may have.
    let can_grow = rustix::pipe::fcntl_setpipe_size(&other, PIPE_BYTES).is_ok();
    let (_read, write) = pipe();
    let _passed = passed(write.try_clone().unwrap());
    let size = rustix::pipe::fcntl_getpipe_size(&write).unwrap();
    assert_eq!(size >= PIPE_BYTES, can_grow, "{size}");
    // One that has more keeps it.
    if rustix::pipe::fcntl_setpipe_size(&write, 2 * PIPE_BYTES).is_ok() {
        let _again = passed(write.try_clone().unwrap());
        assert_eq!(
            rustix::pipe::fcntl_getpipe_size(&write).unwrap(),
            2 * PIPE_BYTES
        );
    }
}

/// What a write into a full pipe, or a socket, ends with when something happens.
fn ended_by(
    descriptor: OwnedFd,
    happens: impl FnOnce(&mut Option<UnixStream>, &AtomicBool),
) -> io::Error {
    let (mut output, client) = passed(descriptor);
    let stop = output.stop();
    let writing = std::thread::spawn(move || output.write_all(&vec![1; 4 << 20]));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!writing.is_finished());
    let mut client = Some(client);
    happens(&mut client, &stop);
    writing.join().unwrap().unwrap_err()
}

#[test]
fn nobody_waits_for_a_client_that_is_gone() {
    let (_read, write) = pipe();
    let error = ended_by(write, |client, _| *client = None);
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    let (_other, socket) = UnixStream::pair().unwrap();
    let error = ended_by(socket.into(), |client, _| *client = None);
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
}

#[test]
fn nobody_waits_once_told_to_stop() {
    let (_read, write) = pipe();
    let error = ended_by(write, |_, stop| stop.store(true, Ordering::Release));
    assert_eq!(error.kind(), ErrorKind::Other);
}

#[test]
fn a_pipe_without_a_reader_is_an_error_and_no_signal() {
    let (read, write) = pipe();
    let mut read = Some(read);
    let error = ended_by(write, |_, _| drop(read.take()));
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}
