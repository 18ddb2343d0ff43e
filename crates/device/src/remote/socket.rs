//! A connection to a server, plain or by TLS, and its two directions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use tls::{Client, SecureReader, SecureWriter};

use super::uri::{Place, Security};

/// A connection.
pub(super) enum Socket {
    Host(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects, and waits for each address no longer than that.
    pub(super) fn connect(place: &Place, patience: Duration) -> io::Result<Self> {
        match place {
            Place::Socket(path) => connect_unix(path, patience).map(Self::Unix),
            Place::Host(host, port) => {
                let mut outcome = Err(io::ErrorKind::NotFound.into());
                for address in (&**host, *port).to_socket_addrs()? {
                    outcome = TcpStream::connect_timeout(&address, patience);
                    if outcome.is_ok() {
                        break;
                    }
                }
                let stream = outcome?;
                stream.set_nodelay(true)?;
                Ok(Self::Host(stream))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Host(stream) => stream.try_clone().map(Self::Host),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// How long something is waited for that is to come, and how long until something can be sent.
    pub(super) fn set_patience(&self, read: Option<Duration>, write: Duration) -> io::Result<()> {
        match self {
            Self::Host(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
        }
    }

    /// Ends the connection: whoever reads or writes is woken.
    pub(super) fn hang_up(&self) {
        // What has ended already need not be ended.
        let _ended = match self {
            Self::Host(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// As long as a server accepts nobody, it would be waited for for ever.
fn connect_unix(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

impl Read for Socket {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Host(stream) => stream.read(out),
            Self::Unix(stream) => stream.read(out),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Host(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes from a server.
pub(super) enum Input {
    Plain(io::BufReader<Socket>),
    Secured(io::BufReader<SecureReader<Socket>>),
}

/// What goes to a server. What is small waits for what comes behind it.
pub(super) enum Output {
    Plain(io::BufWriter<Socket>),
    Secured(io::BufWriter<SecureWriter<Socket>>),
}

/// Bytes that are read or written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Both directions of a connection, plain.
pub(super) fn plain(socket: &Socket) -> io::Result<(Input, Output)> {
    let input = io::BufReader::with_capacity(BUFFER_BYTES, socket.try_clone()?);
    let output = io::BufWriter::with_capacity(BUFFER_BYTES, socket.try_clone()?);
    Ok((Input::Plain(input), Output::Plain(output)))
}

/// Both directions of a connection by TLS, after its handshake.
pub(super) fn secured(socket: &Socket, security: &Security) -> io::Result<(Input, Output)> {
    let file = |name: &str| Some(security.certificates.as_ref()?.join(name));
    let (certificate, key) = (file("client-cert.pem"), file("client-key.pem"));
    let own = certificate.as_deref().filter(|path| path.exists());
    let client = Client::new(file("ca-cert.pem").as_deref(), own.zip(key.as_deref()));
    let (input, output) = (socket.try_clone()?, socket.try_clone()?);
    let client = client.map_err(io::Error::other)?;
    let (reader, writer) = client.connect(&security.host, input, output)?;
    let input = io::BufReader::with_capacity(BUFFER_BYTES, reader);
    let output = io::BufWriter::with_capacity(BUFFER_BYTES, writer);
    Ok((Input::Secured(input), Output::Secured(output)))
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(out),
            Self::Secured(input) => input.read(out),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Secured(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Secured(output) => output.flush(),
        }
    }
}
