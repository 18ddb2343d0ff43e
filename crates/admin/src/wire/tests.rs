use super::*;
use crate::{Change, Request, Response};

#[test]
fn messages_come_back_as_they_were() {
    let requests = [
        Request::Hello,
        Request::Change {
            change: Change::Sync,
            command: "zpool sync".into(),
        },
    ];
    let mut stream = Vec::new();
    for request in &requests {
        send(&mut stream, request).unwrap();
    }
    let mut stream = stream.as_slice();
    for request in requests {
        assert_eq!(receive::<Request>(&mut stream).unwrap(), Some(request));
    }
    assert_eq!(receive::<Request>(&mut stream).unwrap(), None);
}

#[test]
fn hostile_bytes_are_refused() {
    let mut long = u32::MAX.to_le_bytes().to_vec();
    long.extend_from_slice(b"x");
    assert!(matches!(
        receive::<Request>(&mut long.as_slice()),
        Err(WireError::TooLong(_))
    ));
    let short = [9, 0, 0, 0, b'"'];
    assert!(matches!(
        receive::<Request>(&mut short.as_slice()),
        Err(WireError::Stream(_))
    ));
    let cut = [9, 0];
    assert!(matches!(
        receive::<Request>(&mut cut.as_slice()),
        Err(WireError::Stream(_))
    ));
    let garbage = [1, 0, 0, 0, b'{'];
    assert!(matches!(
        receive::<Response>(&mut garbage.as_slice()),
        Err(WireError::Malformed(_))
    ));
}
