use super::*;
use std::os::unix::net::UnixStream;

#[test]
fn a_peer_is_known() {
    let (one, _other) = UnixStream::pair().unwrap();
    let peer = peer_credentials(&one).unwrap();
    assert_eq!((peer.uid, peer.pid), (user_id(), std::process::id()));
}
