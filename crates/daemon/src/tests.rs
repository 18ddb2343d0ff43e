use super::endpoint::Endpoint;
use super::names::NameClaim;
use super::runtime::{Place, prepare};
use super::server::{Guests, Server, strangers_request};
use super::signals::Signals;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admin::changes::Export;
use admin::client::Connection;
use admin::queries::DeleteQueue;
use admin::{
    Caller, Change, Failure, FailureKind, Handler, ReceiveRequest, Request, Response, SendRequest,
    Sink, StreamRequest, WireError, send,
};

#[derive(Default)]
struct Fake {
    finished: AtomicBool,
    /// A request with data was answered.
    ended: Arc<AtomicBool>,
}

/// More than any pipe or socket holds.
fn pattern() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at % 253) as u8).collect()
}

impl Handler for Fake {
    fn identity(&self) -> (String, u64) {
        ("tank".into(), 0xABCD)
    }

    fn handle(&self, request: &Request, caller: &Caller, sink: Sink<'_>) -> io::Result<()> {
        match request {
            Request::Status => {
                sink(Response::Line(format!("uid {}", caller.uid)))?;
                sink(Response::Done)
            }
            Request::Metrics => {
                let readings = [("bytes.log", admin::Reading::Count(5))];
                let report = admin::MetricsReport::new("tank", 1, readings);
                sink(Response::Metrics(report))?;
                sink(Response::Done)
            }
            Request::Change {
                change: Change::Export(_),
                ..
            } => {
                self.finished.store(true, Ordering::SeqCst);
                sink(Response::Done)
            }
            _ => sink(Response::Failed(Failure::new(
                FailureKind::Unsupported,
                "no",
            ))),
        }
    }

    fn handle_with(
        &self,
        request: &Request,
        _caller: &Caller,
        mut data: sys::PassedDescriptor,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let went = match request {
            Request::Stream(StreamRequest::Send(_)) => {
                io::Write::write_all(&mut data, &pattern()).map(|()| "sent".to_owned())
            }
            Request::Stream(StreamRequest::Receive(_)) => {
                let mut found = Vec::new();
                io::Read::read_to_end(&mut data, &mut found)
                    .map(|count| format!("{count} bytes, {}", found == pattern()))
            }
            _ => Ok("no data".to_owned()),
        };
        self.ended.store(true, Ordering::SeqCst);
        match went {
            Ok(text) => sink(Response::Line(text)).and_then(|()| sink(Response::Done)),
            Err(error) => sink(Response::Failed(Failure::new(
                FailureKind::Service,
                error.to_string(),
            ))),
        }
    }

    fn finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    fn shut_down(&self) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn one_daemon_a_pool() {
    let directory = tempfile::tempdir().unwrap();
    let taken = Place::take(directory.path(), "tank", 1).unwrap();
    let refused = Place::take(directory.path(), "tank", 1).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Busy);
    Place::take(directory.path(), "tank", 2).unwrap();
    drop(taken);
    Place::take(directory.path(), "tank", 1).unwrap();
}

#[test]
fn the_socket_of_a_killed_daemon_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("0000000000000007.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let (place, _listener) = Place::take(directory.path(), "tank", 7).unwrap();
    assert!(UnixStream::connect(&socket).is_ok());
    drop(place);
    assert!(!socket.exists());
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    prepare(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(prepare(&path).unwrap_err().kind, FailureKind::Service);
}

type Serving = std::thread::JoinHandle<Result<(), Failure>>;

/// A daemon with nothing behind it, and its socket.
fn serve_fake(directory: &Path) -> (PathBuf, Serving) {
    let server = Server::bind_in(directory, Arc::new(Fake::default())).unwrap();
    let serving = std::thread::spawn(move || {
        let signals = Signals::watch(true).unwrap();
        server.start(&signals)?.wait()
    });
    (directory.join("000000000000abcd.sock"), serving)
}

fn export() -> Request {
    Request::Change {
        change: Change::Export(Export { force: false }),
        command: String::new(),
    }
}

#[test]
fn requests_are_answered_until_the_pool_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, serving) = serve_fake(directory.path());
    let mut connection = Connection::open(&socket).unwrap().unwrap();
    assert_eq!((connection.pool(), connection.guid()), ("tank", 0xABCD));
    let mut said = Vec::new();
    let asked = connection.call(&Request::Status, &mut |part| {
        said.push(part);
        Ok(())
    });
    asked.unwrap();
    assert_eq!(said, [Response::Line(format!("uid {}", sys::user_id()))]);
    let refused = connection.call(&Request::Mounted, &mut |_| Ok(()));
    assert_eq!(refused.unwrap_err().kind, FailureKind::Unsupported);

    connection.call(&export(), &mut |_| Ok(())).unwrap();
    serving.join().unwrap().unwrap();
    assert!(Connection::open(&socket).unwrap().is_none());
}

fn send_request() -> Request {
    Request::Stream(StreamRequest::Send(SendRequest::default()))
}

#[test]
fn data_goes_through_the_commands_own_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, serving) = serve_fake(directory.path());
    let mut connection = Connection::open(&socket).unwrap().unwrap();
    let mut said = Vec::new();
    let (mut ours, theirs) = std::io::pipe().unwrap();
    let reading = std::thread::spawn(move || {
        let mut found = Vec::new();
        io::Read::read_to_end(&mut ours, &mut found).map(|_| found == pattern())
    });
    let mut hear = |part| {
        said.push(part);
        Ok(())
    };
    let sent = connection.call_with(&send_request(), theirs.as_fd(), &mut hear);
    sent.unwrap();
    drop(theirs);
    assert!(reading.join().unwrap().unwrap());

    let (theirs, mut ours) = std::io::pipe().unwrap();
    let writing = std::thread::spawn(move || io::Write::write_all(&mut ours, &pattern()));
    let request = Request::Stream(StreamRequest::Receive(ReceiveRequest::default()));
    let received = connection.call_with(&request, theirs.as_fd(), &mut hear);
    received.unwrap();
    writing.join().unwrap().unwrap();
    let line = |text: &str| Response::Line(text.to_owned());
    assert_eq!(said, [line("sent"), line("3000000 bytes, true")]);
    // The connection goes on as before.
    connection.call(&export(), &mut |_| Ok(())).unwrap();
    serving.join().unwrap().unwrap();
}

#[test]
fn data_ends_when_the_command_goes() {
    let directory = tempfile::tempdir().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let fake = Fake {
        ended: Arc::clone(&ended),
        ..Fake::default()
    };
    let server = Server::bind_in(directory.path(), Arc::new(fake)).unwrap();
    let serving = std::thread::spawn(move || {
        let signals = Signals::watch(true).unwrap();
        server.start(&signals)?.wait()
    });
    let socket = directory.path().join("000000000000abcd.sock");
    // Nobody reads it.
    let (_ours, theirs) = std::io::pipe().unwrap();
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut frame = Vec::new();
    send(&mut frame, &send_request()).unwrap();
    sys::send_descriptor(&stream, &frame, theirs.as_fd()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!ended.load(Ordering::SeqCst));
    stream.shutdown(std::net::Shutdown::Both).unwrap();
    drop(stream);
    let begun = std::time::Instant::now();
    while !ended.load(Ordering::SeqCst) {
        assert!(begun.elapsed().as_secs() < 20, "it waits for ever");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    stream = UnixStream::connect(&socket).unwrap();
    send(&mut stream, &export()).unwrap();
    serving.join().unwrap().unwrap();
}

#[test]
fn the_end_of_the_connection_tells_that_the_place_is_free() {
    for _ in 0..50 {
        let directory = tempfile::tempdir().unwrap();
        let (socket, serving) = serve_fake(directory.path());
        let mut connection = Connection::open(&socket).unwrap().unwrap();
        connection.call(&export(), &mut |_| Ok(())).unwrap();
        connection.wait_for_end();
        assert!(!socket.exists());
        Place::take(directory.path(), "tank", 0xABCD).unwrap();
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn a_daemon_whose_socket_was_removed_ends_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bind_in(directory.path(), Arc::new(Fake::default())).unwrap();
    let socket = directory.path().join("000000000000abcd.sock");
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let signals = Signals::watch(true).unwrap();
        let serving = server.start(&signals).unwrap();
        ended.send(serving.wait()).unwrap();
    });
    let mut connection = Connection::open(&socket).unwrap().unwrap();
    std::fs::remove_file(&socket).unwrap();
    connection.call(&export(), &mut |_| Ok(())).unwrap();
    let outcome = end.recv_timeout(std::time::Duration::from_secs(20));
    outcome.expect("the daemon still runs").unwrap();
}

/// What the endpoint answers to a request.
fn asked(stream: &mut (impl io::Read + io::Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_offered_on_a_port_of_this_host() {
    let endpoint = Endpoint::bind("0").unwrap();
    let address = endpoint.address().unwrap();
    assert!(address.ip().is_loopback());
    let handler: Arc<dyn Handler> = Arc::new(Fake::default());
    endpoint.start(&handler).unwrap();
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        asked(&mut stream, request)
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body,
        "# HELP millpond_bytes_log_total Bytes that pass each level: log.\n\
         # TYPE millpond_bytes_log_total counter\nmillpond_bytes_log_total{pool=\"tank\"} 5\n"
    );
    assert!(ask("GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask("\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // A request without end is dropped, and the next one is answered.
    let mut endless = std::net::TcpStream::connect(address).unwrap();
    let nothing = asked(&mut endless, &"x".repeat(8192));
    assert_eq!(nothing, "");
    assert!(ask("HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
}

#[test]
fn metrics_are_offered_on_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics.sock");
    let text = path.to_str().unwrap();
    let endpoint = Endpoint::bind(text).unwrap();
    assert!(Endpoint::bind(text).is_err(), "somebody listens there");
    let handler: Arc<dyn Handler> = Arc::new(Fake::default());
    endpoint.start(&handler).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    assert!(asked(&mut stream, "GET /metrics HTTP/1.0\r\n\r\n").contains("bytes_log_total"));
    assert!(Endpoint::bind("nonsense").is_err());
}

#[test]
fn a_file_that_is_no_socket_is_not_removed_for_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    std::fs::write(&path, "mine").unwrap();
    let refused = Endpoint::bind(path.to_str().unwrap()).unwrap_err();
    assert!(refused.to_string().ends_with("is no socket"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_strangers_request_is_short_and_in_time() {
    let patience = std::time::Duration::from_millis(20);
    let holds = |bytes: usize| {
        let name = "x".repeat(bytes);
        Request::DeleteQueue(DeleteQueue { name })
    };
    let (here, mut there) = UnixStream::pair().unwrap();
    send(&mut there, &holds(60 << 10)).unwrap();
    let request = strangers_request(&here, &mut None, patience).unwrap();
    assert_eq!(request, Some(holds(60 << 10)));
    send(&mut there, &holds(64 << 10)).unwrap();
    let refused = strangers_request(&here, &mut None, patience);
    assert!(matches!(refused, Err(WireError::TooLong(_))), "{refused:?}");

    let (here, mut there) = UnixStream::pair().unwrap();
    io::Write::write_all(&mut there, &[9, 0, 0, 0, b'"']).unwrap();
    let refused = strangers_request(&here, &mut None, patience);
    assert!(matches!(refused, Err(WireError::Stream(_))), "{refused:?}");
}

#[test]
fn one_user_keeps_neither_others_nor_the_administrator_out() {
    let (one, another, root) = (70_001, 70_002, 0);
    let guests = Guests::new();
    let in_of = |uid: u32| (0..100).filter(|_| guests.let_in(uid)).count();
    assert_eq!((in_of(one), in_of(another)), (16, 16));
    assert_eq!(in_of(70_003) + in_of(70_004), 16, "of all strangers, 48");
    assert_eq!(in_of(root), 16);
    guests.let_out(one);
    assert!(guests.let_in(root));
}

#[test]
fn a_name_is_one_daemons_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let take = |name: &str, is_served: bool| {
        NameClaim::take_in(directory.path(), name, &|| Ok(is_served)).unwrap()
    };
    let held = take("tank", false).unwrap();
    assert!(take("tank", false).is_none());
    let other = take("other", false).unwrap();
    drop(held);
    // It is served from elsewhere.
    assert!(take("tank", true).is_none());
    assert!(take("tank", false).is_some());
    drop(other);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // A killed daemon leaves its file.
    std::fs::write(directory.path().join("tank.name"), "").unwrap();
    assert!(take("tank", false).is_some());
}

#[test]
fn a_name_is_had_by_one_of_many_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let holders = std::sync::atomic::AtomicUsize::new(0);
    let contend = || {
        for _ in 0..200 {
            let claim = NameClaim::take_in(directory.path(), "tank", &|| Ok(false)).unwrap();
            let Some(claim) = claim else { continue };
            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
            std::thread::yield_now();
            holders.fetch_sub(1, Ordering::SeqCst);
            drop(claim);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(contend);
        }
    });
}
