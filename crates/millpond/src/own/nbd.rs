//! `millpond nbd`.

mod secured;

use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{Failure, FailureKind, NameKind, Request, ServeRequest, StreamRequest};

use crate::daemons::pool_of;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};

/// `millpond nbd`.
pub(super) const COMMAND: Command = Command {
    name: "nbd",
    aliases: &[],
    summary: "Serve volumes of a running pool, or snapshots of some, to clients of NBD, until it is ended.",
    forms: &[
        "--socket path volume|snapshot ...",
        "--listen [address:]port volume|snapshot ...",
    ],
    flags: &[
        option(
            "socket",
            "path",
            "for clients of this machine, by a socket there",
        ),
        option(
            "listen",
            "[address:]port",
            "by TCP; without an address for this machine only",
        ),
        option(
            "tls-cert",
            "file",
            "serve nobody without TLS; show this certificate, with those that vouch for it (PEM)",
        ),
        option(
            "tls-key",
            "file",
            "the private key of that certificate (PEM)",
        ),
        option(
            "tls-client-ca",
            "file",
            "serve only clients whose certificates one of these authorities vouches for (PEM)",
        ),
        switch("r", "nothing is changed").or("read-only"),
    ],
    operands: Operands::at_least(1, "missing volume argument"),
    run: nbd,
};

/// Where clients come from.
enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

fn nbd(call: &Invocation) -> Outcome {
    let volumes = call.operands().to_vec();
    for name in &volumes {
        let kind = admin::check_name(name);
        let refuse = |text: &dyn std::fmt::Display| {
            Failure::cannot(FailureKind::Invalid, "serve", name, text)
        };
        match kind {
            Err(error) => return Err(refuse(&error).into()),
            Ok(NameKind::Dataset | NameKind::Snapshot) => {}
            Ok(NameKind::Bookmark) => {
                let text = "operation not applicable to datasets of this type";
                return Err(refuse(&text).into());
            }
        }
        if admin::pool_of(name) != admin::pool_of(&volumes[0]) {
            return Err(usage("all volumes must be of one pool"));
        }
    }
    let security = security(call)?;
    let scheme = if security.is_some() { "nbds" } else { "nbd" };
    // Before there is a socket it is known that there is such a pool.
    drop(pool_of(&volumes[0])?);
    let (listener, place) = match (call.value("socket"), call.value("listen")) {
        (Some(path), None) => {
            let bound = bind(Path::new(path)).map_err(|error| listening(path, &error))?;
            let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
            let place = format!("{scheme}+unix:///{}?socket={}", volumes[0], whole.display());
            (Listener::Socket(bound), place)
        }
        (None, Some(text)) => {
            let bound = listen(text).map_err(|error| listening(text, &error))?;
            let address = bound
                .local_addr()
                .map_err(|error| listening(text, &error))?;
            let place = format!("{scheme}://{address}/{}", volumes[0]);
            (Listener::Port(bound), place)
        }
        (Some(_), Some(_)) => return Err(usage("--socket and --listen exclude each other")),
        (None, None) => return Err(usage("missing --socket or --listen")),
    };
    let request = Arc::new(ServeRequest {
        volumes,
        read_only: call.has("r"),
        secured: None,
    });
    print(&format!("{place}\n"))?;
    loop {
        let accepted = listener.accept();
        let client = accepted.map_err(|error| listening(&place, &error))?;
        let (request, security) = (Arc::clone(&request), security.clone());
        let start = base::thread::named("nbd-client", sys::thread::ORDINARY);
        let served = start.spawn(move || {
            let ended = match security {
                None => serve(&request, &client),
                Some(server) => secured::serve(&server, &request, client),
            };
            if let Err(failure) = ended {
                complain(&failure);
            }
        });
        if let Err(error) = served {
            complain(&listening(&place, &error));
        }
    }
}

/// Who clients are told that we are, if they must have TLS.
fn security(call: &Invocation) -> Result<Option<tls::Server>, Stop> {
    let file = |key| call.value(key).map(Path::new);
    match (file("tls-cert"), file("tls-key"), file("tls-client-ca")) {
        (None, None, None) => Ok(None),
        (Some(certificate), Some(key), clients) => {
            let server = tls::Server::new(certificate, key, clients);
            let server =
                server.map_err(|error| Failure::new(FailureKind::Invalid, error.to_string()))?;
            Ok(Some(server))
        }
        _ => Err(usage("TLS needs both --tls-cert and --tls-key")),
    }
}

/// Has the pool's daemon serve a client.
fn serve(request: &ServeRequest, client: &impl AsFd) -> Result<(), Failure> {
    let first = request.volumes.first().map_or("", String::as_str);
    let mut daemon = pool_of(first)?;
    let request = Request::Stream(StreamRequest::Serve(request.clone()));
    daemon.call_with(&request, client.as_fd(), &mut |_| Ok(()))
}

fn listening(place: &str, error: &io::Error) -> Failure {
    Failure::cannot(FailureKind::Service, "listen at", place, error)
}

/// A socket at a path; one that nobody listens at any more goes.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && let Err(error) = UnixStream::connect(path)
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// A port of an address, or of this machine alone.
fn listen(text: &str) -> io::Result<TcpListener> {
    match text.parse::<u16>() {
        Ok(port) => TcpListener::bind(("localhost", port)),
        Err(_) => TcpListener::bind(&*text.to_socket_addrs()?.collect::<Vec<_>>()),
    }
}

impl Listener {
    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Socket(listener) => listener.accept().map(|(client, _)| client.into()),
            Self::Port(listener) => {
                let (client, _) = listener.accept()?;
                client.set_nodelay(true)?;
                Ok(client.into())
            }
        }
    }
}
