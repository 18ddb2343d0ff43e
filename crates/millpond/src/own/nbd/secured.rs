//! A client that has TLS: this process speaks it, and passes on what is said to the pool's daemon. So neither private
//! keys nor what strangers send before they are known reach the process that has the pool.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use admin::{Failure, FailureKind, ServeRequest};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};
use tls::{SecureReader, SecureWriter, Server};

/// A client that says nothing for so long before it is known is left.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// Serves a client, until it goes.
pub(super) fn serve(
    server: &Server,
    request: &ServeRequest,
    client: OwnedFd,
) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let first = request.volumes.first().map_or("", String::as_str);
        Failure::cannot(
            FailureKind::Service,
            "serve",
            first,
            base::host_reason(&error),
        )
    };
    let input = File::from(client);
    let output = input.try_clone().map_err(failed)?;
    let socket = input.try_clone().map_err(failed)?;
    limit(&socket, Some(SILENCE_MAX)).map_err(failed)?;
    let begun = nbd::start_tls(&mut &input, &mut &output);
    let begun = begun.map_err(|error| failed(io::Error::other(error)))?;
    let Some(flags) = begun else {
        return Ok(());
    };
    let (reader, writer) = server.accept(input, output).map_err(failed)?;
    limit(&socket, None).map_err(failed)?;
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let from_client = ours.try_clone().map_err(failed)?;
    let start = base::thread::named("nbd-from-client", sys::thread::ORDINARY);
    start
        .spawn(move || pass_in(reader, &from_client))
        .map_err(failed)?;
    let start = base::thread::named("nbd-to-client", sys::thread::ORDINARY);
    let started = start.spawn(move || pass_out(&ours, writer, &socket));
    started.map_err(failed)?;
    let request = ServeRequest {
        secured: Some(flags),
        ..request.clone()
    };
    // When nobody has `theirs` any more, all ends.
    super::serve(&request, &theirs)
}

/// How long a socket may be silent.
fn limit(socket: &impl AsFd, time: Option<Duration>) -> io::Result<()> {
    for what in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(socket, what, time)?;
    }
    Ok(())
}

/// What a client says goes to the daemon, until it ends.
fn pass_in(reader: SecureReader<File>, daemon: &UnixStream) {
    // Either side is told that it ended, which is all that there is to say.
    let _ended = pass(reader, daemon);
    let _told = daemon.shutdown(std::net::Shutdown::Write);
}

/// What the daemon says goes to a client, until it ends, which ends the client's connection.
fn pass_out(daemon: &UnixStream, mut writer: SecureWriter<File>, client: &File) {
    let ended = pass(daemon, &mut writer);
    if ended.is_ok() {
        let _told = writer.close();
    }
    let _told = shutdown(client, Shutdown::Both);
    // What is still under way cannot be told any more.
    let _told = daemon.shutdown(std::net::Shutdown::Both);
}

fn pass(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&piece[..count])?;
    }
}
