use super::*;
use std::os::unix::net::UnixStream;

#[test]
fn a_peer_is_known() {
    let (one, _other) = UnixStream::pair().unwrap();
    let peer = peer_credentials(&one).unwrap();
    assert_eq!((peer.uid, peer.pid), (user_id(), std::process::id()));
}

#[test]
fn a_pipe_whose_reader_went_is_known() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let moment = std::time::Duration::from_millis(1);
    assert!(!is_reader_gone(&writer, moment));
    drop(reader);
    assert!(is_reader_gone(&writer, std::time::Duration::from_secs(60)));
}
