//! The metrics endpoint: `GET /metrics` in the text format of Prometheus, over HTTP/1; with `?buckets=all`, every
//! distribution bucket by bucket.
//!
//! One thread answers one request after the other, each on a connection of its own that is closed
//! after the answer; a peer that dawdles is dropped. Without an address in its name a port is bound
//! to the loopback interface only.

use crate::prometheus::{Buckets, Readings};
use admin::queries::{Heard, IoStatistics, Metrics, Part, Status, answer_of, pages_of};
use admin::{
    Caller, DatasetQuery, Failure, FailureKind, Handler, Request, Response, Said, Selection, Types,
    VdevState,
};
use base::clock::real_now;
use base::thread;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a peer may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// A bound endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Port(TcpListener),
    Socket {
        listener: UnixListener,
        _file: SocketFile,
    },
}

/// Removes the socket at the end.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already is as good.
        let _removed = std::fs::remove_file(&self.0);
    }
}

trait Peer: Read + Write {
    fn limit(&self, left: Duration) -> io::Result<()>;
}

impl Peer for TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Peer for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Endpoint {
    /// Binds `port`, `address:port`, or the path of a socket (anything with a slash).
    ///
    /// # Errors
    /// The text is none of these, or it cannot be bound.
    pub fn bind(text: &str) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            let text = format!("cannot offer metrics at '{text}': {error}");
            Failure::new(FailureKind::Service, text)
        };
        if text.contains('/') {
            let path = Path::new(text);
            // Left by a daemon that was killed: nobody listens there. To connect to a file that is no socket is refused
            // in the same way.
            let host = |error: io::Error| failed(&base::host_reason(&error));
            if let Ok(found) = std::fs::symlink_metadata(path) {
                if !found.file_type().is_socket() {
                    return Err(failed(&"it is there already, and is no socket"));
                }
                let connected = UnixStream::connect(path);
                if connected.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
                    std::fs::remove_file(path).map_err(host)?;
                }
            }
            let socket = UnixListener::bind(path).map_err(host)?;
            let listener = Listener::Socket {
                listener: socket,
                _file: SocketFile(path.to_owned()),
            };
            return Ok(Self { listener });
        }
        let address = match text.parse::<u16>() {
            Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Err(_) => text
                .parse()
                .map_err(|_| failed(&"it must be a port, an address with a port, or a path"))?,
        };
        let listener =
            TcpListener::bind(address).map_err(|error| failed(&base::host_reason(&error)))?;
        Ok(Self {
            listener: Listener::Port(listener),
        })
    }

    /// The port, if it is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Port(listener) => listener.local_addr().ok(),
            Listener::Socket { .. } => None,
        }
    }

    /// Answers until the process ends; once the handler is gone, nobody any more.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(self, handler: &Arc<dyn Handler>) -> Result<(), Failure> {
        let handler = Arc::downgrade(handler);
        let start = thread::named("metrics", sys::thread::ORDINARY);
        let started = start.spawn(move || match &self.listener {
            Listener::Port(listener) => {
                listener.incoming().all(|peer| answered(peer, &handler));
            }
            Listener::Socket { listener, .. } => {
                listener.incoming().all(|peer| answered(peer, &handler));
            }
        });
        match started {
            Ok(_detached) => Ok(()),
            Err(error) => Err(Failure::new(FailureKind::Service, error.to_string())),
        }
    }
}

/// Answers a peer; false when there is nothing left to tell.
fn answered(peer: io::Result<impl Peer>, handler: &Weak<dyn Handler>) -> bool {
    let Some(handler) = handler.upgrade() else {
        return false;
    };
    match peer {
        // A peer that went away loses its answer.
        Ok(mut peer) => drop(answer(&mut peer, &*handler)),
        // Out of descriptors: the next one may do better.
        Err(_) => std::thread::sleep(Duration::from_millis(10)),
    }
    true
}

fn answer(peer: &mut impl Peer, handler: &dyn Handler) -> io::Result<()> {
    let head = request_head(peer)?;
    let mut words = head.split(|byte| *byte == b' ');
    let (method, path) = (words.next(), words.next());
    let mut parts = path.unwrap_or_default().splitn(2, |byte| *byte == b'?');
    let (path, query) = (parts.next(), parts.next().unwrap_or_default());
    let (status, body) = match (method, path) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics" | b"/")) => {
            match readings(handler, buckets(query)) {
                Ok(body) => ("200 OK", body),
                Err(error) => ("503 Service Unavailable", format!("{error}\n")),
            }
        }
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != Some(b"HEAD") {
        answer += &body;
    }
    peer.limit(PATIENCE)?;
    peer.write_all(answer.as_bytes())
}

/// What is asked for behind the path; what is not known there is passed over.
fn buckets(query: &[u8]) -> Buckets {
    let mut pairs = query.split(|byte| *byte == b'&');
    match pairs.any(|pair| pair == b"buckets=all") {
        true => Buckets::All,
        false => Buckets::Usual,
    }
}

/// Everything up to the empty line.
fn request_head(peer: &mut impl Peer) -> io::Result<Vec<u8>> {
    let deadline = real_now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(real_now());
        if left.is_zero() || head.len() >= REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        peer.limit(left)?;
        match peer.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(head)
}

fn readings(handler: &dyn Handler, buckets: Buckets) -> io::Result<String> {
    let caller = Caller {
        uid: sys::user_id(),
        gid: sys::group_id(),
        pid: std::process::id(),
    };
    let mut found = Readings::default();
    let call = |request: &Request, part: Part<'_>| {
        let mut failed = Ok(());
        let answered = handler.handle(request, &caller, &mut |said| {
            let heard = match said.said() {
                Said::Done => Ok(()),
                Said::Failed(failure) => Err(failure),
                Said::Answer(answer) => part(answer),
                Said::Notice(_) => Ok(()),
                Said::Line(line) => part(Response::Line(line)),
                Said::Warning(failure) => part(Response::Warning(failure)),
            };
            if failed.is_ok() {
                failed = heard;
            }
            Ok(())
        });
        let answered =
            answered.map_err(|error| Failure::new(FailureKind::Service, error.to_string()));
        failed.and(answered)
    };
    let metrics = answer_of(Metrics, call);
    found
        .metrics
        .push(metrics.map_err(|failure| io::Error::other(failure.to_string()))?);
    // What cannot be had of the pool just now must not hide the rest.
    found.status = answer_of(Status, call).ok().map(|status| *status);
    found.io = answer_of(IoStatistics, call).ok().map(|report| *report);
    // Of a pool that is suspended these could wait for what does not come.
    if found
        .status
        .as_ref()
        .is_some_and(|status| status.state != VdevState::Suspended)
    {
        let _known = pages_of(datasets(), call, &mut |heard| {
            if let Heard::Page(page) = heard {
                found.datasets.extend(page);
            }
            Ok(())
        });
    }
    Ok(crate::prometheus(&found, buckets))
}

fn datasets() -> DatasetQuery {
    DatasetQuery {
        roots: Vec::new(),
        depth: None,
        types: Types::HEADS,
        properties: Selection::Names(crate::prometheus::dataset_properties()),
    }
}
