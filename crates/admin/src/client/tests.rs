use super::*;
use std::os::unix::net::UnixListener;

#[test]
fn a_daemon_is_asked_and_answers() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("1.sock");
    assert!(Connection::open(&socket).unwrap().is_none());
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while let Some(request) = receive::<Request>(&mut stream).unwrap() {
            if request == Request::Hello {
                let hello = Response::Hello {
                    pool: "tank".into(),
                    guid: 7,
                    pid: 1,
                    version: "0".into(),
                };
                send(&mut stream, &hello).unwrap();
                send(&mut stream, &Response::Done).unwrap();
            } else {
                let failure = Failure::cannot(FailureKind::Busy, "export", "tank", "pool is busy");
                send(&mut stream, &Response::Failed(failure)).unwrap();
            }
        }
    });
    let mut connection = Connection::open(&socket).unwrap().unwrap();
    assert_eq!((connection.pool(), connection.guid()), ("tank", 7));
    let failure = connection
        .call(&Request::Status, &mut |_| Ok(()))
        .unwrap_err();
    assert_eq!(failure.to_string(), "cannot export 'tank': pool is busy");
    drop(connection);
    server.join().unwrap();
    assert!(Connection::open(&socket).unwrap().is_none());
}

/// Someone who takes one connection and does that with it.
fn someone(act: impl FnOnce(UnixStream) + Send + 'static) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("1.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || act(listener.accept().unwrap().0));
    (directory, socket)
}

#[test]
fn a_daemon_that_is_ending_is_nobody() {
    // Closed with the request unread, which resets the connection.
    let (_directory, socket) = someone(|stream| {
        std::thread::sleep(Duration::from_millis(50));
        drop(stream);
    });
    assert!(Connection::open(&socket).unwrap().is_none());
    let (_directory, socket) = someone(|mut stream| {
        let asked = receive::<Request>(&mut stream).unwrap();
        assert_eq!(asked, Some(Request::Hello));
    });
    assert!(Connection::open(&socket).unwrap().is_none());
}

#[test]
fn somebody_who_answers_nonsense_is_told_of() {
    // The request is read first: closing with it unread looks like a daemon that is ending.
    let (_directory, socket) = someone(|mut stream| {
        let asked = receive::<Request>(&mut stream).unwrap();
        assert_eq!(asked, Some(Request::Hello));
        send(&mut stream, &"nonsense").unwrap();
    });
    let failure = Connection::open(&socket).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Service);
}

#[test]
fn places_last_beyond_a_session() {
    use super::places::{sockets_of, state_of};
    let with = |set: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| std::ffi::OsString::from(value))
        }
    };
    let user = with(&[("HOME", "/home/a"), ("XDG_RUNTIME_DIR", "/run/user/7")]);
    let lasting = PathBuf::from("/home/a/.local/state/millpond");
    assert_eq!(state_of(7, &user), Some(lasting.clone()));
    let session = PathBuf::from("/run/user/7/millpond");
    assert_eq!(sockets_of(7, &user), [lasting, session]);
    let own = with(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]);
    assert_eq!(state_of(7, &own), Some("/s/millpond".into()));
    let set = with(&[("MILLPOND_RUN", "/r"), ("HOME", "/home/a")]);
    assert_eq!(state_of(7, &set), Some("/r".into()));
    assert_eq!(sockets_of(0, &set), [PathBuf::from("/r")]);
    let root = with(&[("HOME", "/root")]);
    assert_eq!(state_of(0, &root), Some("/var/lib/millpond".into()));
    assert_eq!(sockets_of(0, &root), [PathBuf::from("/run/millpond")]);
    let nothing = with(&[("HOME", "relative")]);
    assert_eq!(state_of(7, &nothing), None);
    assert_eq!(sockets_of(7, &nothing), [PathBuf::from("/tmp/millpond-7")]);
}
