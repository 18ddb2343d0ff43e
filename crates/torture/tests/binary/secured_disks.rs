//! `millpond nbd --tls-cert …`: volumes by TLS, as a client of ours and qemu's see them. What is not installed is
//! skipped.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::certificates::{Authority, Identity};
use crate::patience::until;
use crate::served_disks::noise;
use crate::session::{Session, path};

const VOLUME: &str = "tank/disk";
const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_STARTTLS: u32 = 5;
const OPTION_GO: u32 = 7;
const ACK: u32 = 1;
const TLS_REQUIRED: u32 = 0x8000_0005;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FUA: u16 = 1;

/// A server of volumes; it ends when this goes away.
struct Server {
    child: Child,
    place: String,
}

impl Server {
    fn start(session: &Session, who: &Identity, more: &[&str]) -> Self {
        let (certificate, key) = (path(&who.certificate_file), path(&who.key_file));
        let arguments = ["nbd", "--tls-cert", certificate, "--tls-key", key];
        let mut command = session.command(&[&arguments[..], more, &[VOLUME]].concat());
        let started = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.expect("the binary runs");
        let mut place = String::new();
        let told = child.stdout.take().expect("a pipe");
        BufReader::new(told).read_line(&mut place).expect("a line");
        let place = place.trim_end().to_owned();
        Self { child, place }
    }

    fn on_a_port(session: &Session, who: &Identity, more: &[&str]) -> Self {
        let server = Self::start(session, who, &[&["--listen", "127.0.0.1:0"], more].concat());
        assert!(
            server.place.starts_with("nbds://127.0.0.1:"),
            "{}",
            server.place
        );
        assert!(server.place.ends_with("/tank/disk"), "{}", server.place);
        server
    }

    fn port(&self) -> u16 {
        let rest = self.place.trim_start_matches("nbds://127.0.0.1:");
        let digits = rest.split('/').next().expect("a port");
        digits.parse().expect("a number")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).expect("a connection");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a socket");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Reads a server's greeting, and answers it.
fn greet(stream: &mut (impl Read + Write)) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(greeting[..16], *b"NBDMAGICIHAVEOPT");
    stream.write_all(&3_u32.to_be_bytes()).expect("it is read");
}

fn option(stream: &mut impl Write, kind: u32, data: &[u8]) {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).expect("it is read");
}

/// The kinds of the replies to an option, up to the last.
fn replies(stream: &mut impl Read) -> io::Result<Vec<u32>> {
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data)?;
        kinds.push(word(12));
        // Of information there is more to come.
        if word(12) != 3 {
            return Ok(kinds);
        }
    }
}

fn go_data() -> Vec<u8> {
    let mut data = (VOLUME.len() as u32).to_be_bytes().to_vec();
    data.extend(VOLUME.as_bytes());
    data.extend([0, 0]);
    data
}

fn request(
    stream: &mut impl Write,
    (kind, flags): (u16, u16),
    cookie: u64,
    (offset, length): (u64, u32),
    data: &[u8],
) {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).expect("it is read");
}

/// The cookie of a simple reply, which must tell no error.
fn answered(stream: &mut impl Read) -> u64 {
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("a reply");
    assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    u64::from_be_bytes(head[8..].try_into().expect("eight"))
}

type Secured<S> = StreamOwned<ClientConnection, S>;

/// Speaks TLS with a server from its greeting on.
fn secure<S: Read + Write>(mut stream: S, config: &Arc<ClientConfig>) -> io::Result<Secured<S>> {
    greet(&mut stream);
    option(&mut stream, OPTION_STARTTLS, &[]);
    assert_eq!(replies(&mut stream)?, [ACK]);
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut connection = ClientConnection::new(Arc::clone(config), name).expect("a connection");
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

/// Asks for the volume; a server that refuses the client ends the connection before it answers.
fn go(stream: &mut (impl Read + Write)) -> io::Result<()> {
    option(stream, OPTION_GO, &go_data());
    let kinds = replies(stream)?;
    assert_eq!(kinds.last(), Some(&ACK), "{kinds:?}");
    Ok(())
}

/// Writes bytes in pieces, all before the first answer is read, and reads them in the same way.
fn exchange(stream: &mut (impl Read + Write), bytes: &[u8]) {
    const PIECE: usize = 256 << 10;
    let at = |index: usize| ((index * PIECE) as u64, PIECE as u32);
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        request(stream, (WRITE, FUA), index as u64, at(index), piece);
    }
    let count = bytes.len() / PIECE;
    let mut seen: Vec<u64> = (0..count).map(|_| answered(stream)).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..count as u64));
    for index in 0..count {
        request(stream, (READ, 0), index as u64, at(index), &[]);
    }
    for _ in 0..count {
        let index = answered(stream) as usize;
        let mut piece = vec![0; PIECE];
        stream.read_exact(&mut piece).expect("data");
        assert!(
            piece == bytes[index * PIECE..(index + 1) * PIECE],
            "piece {index}"
        );
    }
}

/// Returns when the daemon has heard that all clients are gone.
fn released(session: &mut Session) {
    until("nobody uses it", || {
        let exported = session.run(&["zpool", "export", "tank"]);
        exported.status.success()
    });
    session.import("tank", &[]);
}

fn nothing_without_tls(server: &Server) {
    // Without TLS there is nothing, neither a list nor a volume.
    let mut plain = server.connect();
    greet(&mut plain);
    for kind in [3, OPTION_GO] {
        let data = if kind == OPTION_GO {
            go_data()
        } else {
            Vec::new()
        };
        option(&mut plain, kind, &data);
        assert_eq!(replies(&mut plain).expect("an answer"), [TLS_REQUIRED]);
    }
    option(&mut plain, OPTION_EXPORT_NAME, VOLUME.as_bytes());
    assert_eq!(plain.read(&mut [0]).unwrap_or(0), 0);
    // Nor for what is no TLS, nor for a client that breaks off.
    let mut broken = server.connect();
    greet(&mut broken);
    option(&mut broken, OPTION_STARTTLS, &[]);
    assert_eq!(replies(&mut broken).expect("an answer"), [ACK]);
    option(&mut broken, OPTION_GO, &go_data());
    let mut answer = Vec::new();
    let _cut = broken.read_to_end(&mut answer);
    assert!(
        !answer
            .windows(8)
            .any(|window| window == [0, 3, 0xE8, 0x89, 4, 0x55, 0x65, 0xA9])
    );
}

#[test]
fn volumes_are_served_by_tls_and_not_without() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let who = authority.identity("disks", &["127.0.0.1"]);
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-s", "-V", "16M", VOLUME]);
    let bytes = noise(4 << 20, 1);
    {
        let server = Server::on_a_port(&session, &who, &[]);
        let config = authority.client(None);
        let mut stream = secure(server.connect(), &config).expect("TLS");
        go(&mut stream).expect("the volume");
        exchange(&mut stream, &bytes);
        // While a client is there the pool is in use, and says so.
        let busy = session.refused(&["zpool", "export", "tank"]);
        assert!(busy.contains("busy"), "{busy}");
        request(&mut stream, (DISCONNECT, 0), 0, (0, 0), &[]);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("an end that is told");
        assert!(rest.is_empty());
        // A client that does not believe the server says so, and the next one is served.
        let refused = secure(server.connect(), &stranger.client(None));
        let text = refused.err().map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.contains("UnknownIssuer")));
        nothing_without_tls(&server);
        let mut again = secure(server.connect(), &config).expect("TLS");
        go(&mut again).expect("the volume");
        exchange(&mut again, &bytes[..256 << 10]);
    }
    released(&mut session);
    // By a socket as well, and of a pool that was away.
    {
        let socket = folder.path().join("socket");
        let server = Server::start(&session, &who, &["-r", "--socket", path(&socket)]);
        assert_eq!(
            server.place,
            format!("nbds+unix:///{VOLUME}?socket={}", path(&socket))
        );
        let stream = UnixStream::connect(&socket).expect("a connection");
        let mut stream = secure(stream, &authority.client(None)).expect("TLS");
        go(&mut stream).expect("the volume");
        request(&mut stream, (READ, 0), 7, (1 << 20, 1 << 20), &[]);
        assert_eq!(answered(&mut stream), 7);
        let mut found = vec![0; 1 << 20];
        stream.read_exact(&mut found).expect("data");
        assert!(found == bytes[1 << 20..2 << 20]);
    }
    released(&mut session);
    session.export_clean("tank");
}

#[test]
fn clients_that_nobody_vouches_for_are_not_served() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let who = authority.identity("disks", &["127.0.0.1"]);
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-s", "-V", "8M", VOLUME]);
    let ca = authority.file();
    {
        let server = Server::on_a_port(&session, &who, &["--tls-client-ca", path(&ca)]);
        let known = authority.identity("known", &[]);
        let unknown = stranger.identity("unknown", &[]);
        for (client, is_served) in [(None, false), (Some(&unknown), false), (Some(&known), true)] {
            let config = authority.client(client);
            let served = secure(server.connect(), &config).and_then(|mut stream| {
                option(&mut stream, OPTION_GO, &go_data());
                replies(&mut stream)
            });
            let is_acknowledged = served
                .as_ref()
                .is_ok_and(|kinds| kinds.last() == Some(&ACK));
            assert_eq!(is_acknowledged, is_served, "{served:?}");
        }
    }
    released(&mut session);
    let (certificate, key) = (path(&who.certificate_file), path(&who.key_file));
    let nbd = ["nbd", "--listen", "127.0.0.1:0", VOLUME];
    for more in [
        &["--tls-cert", certificate][..],
        &["--tls-key", key],
        &["--tls-client-ca", path(&ca)],
    ] {
        let output = session.run(&[&nbd[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
    let refused = |certificate: &str, key: &str| {
        session.refused(&[&nbd[..], &["--tls-cert", certificate, "--tls-key", key]].concat())
    };
    assert_eq!(
        refused("/no/such/file", key),
        "cannot read '/no/such/file': No such file or directory\n"
    );
    let text = refused(key, key);
    assert_eq!(text, format!("'{key}' has no certificate in PEM form\n"));
    let text = refused(certificate, certificate);
    assert_eq!(
        text,
        format!("'{certificate}' has no private key in PEM form\n")
    );
    let other = authority.identity("other", &["127.0.0.1"]);
    let text = refused(certificate, path(&other.key_file));
    assert!(text.contains("cannot be used"), "{text}");
    session.export_clean("tank");
}

/// Runs qemu-img: whether it succeeds, and what it says.
fn qemu_img(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("qemu-img").args(arguments).output();
    let output = output.expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

#[test]
fn qemu_reads_a_volume_by_tls() {
    let Some(mut session) = Session::new() else {
        return;
    };
    if let Err(error) = Command::new("qemu-img").arg("--version").output() {
        println!("skipped: qemu-img: {error}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ca-cert");
    let who = authority.identity("disks", &["127.0.0.1"]);
    let client = authority.identity("client", &[]);
    for (from, to) in [
        (&client.certificate_file, "client-cert.pem"),
        (&client.key_file, "client-key.pem"),
    ] {
        fs::copy(from, folder.path().join(to)).expect("a copy");
    }
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-s", "-V", "8M", VOLUME]);
    let wanted = folder.path().join("wanted");
    let mut bytes = vec![0; 8 << 20];
    bytes[1_000_000..3_000_001].copy_from_slice(&noise(2_000_001, 1));
    fs::write(&wanted, &bytes).expect("a file");
    {
        let ca = authority.file();
        let server = Server::on_a_port(&session, &who, &["--tls-client-ca", path(&ca)]);
        let credentials = format!(
            "tls-creds-x509,id=own,endpoint=client,dir={}",
            path(folder.path())
        );
        let host = format!(
            "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port={}",
            server.port()
        );
        let disk = format!(
            "driver=raw,file.{},file.export={VOLUME},file.tls-creds=own",
            host.replace(',', ",file.")
        );
        let file = format!(
            "driver=raw,file.driver=file,file.filename={}",
            path(&wanted)
        );
        let copied = qemu_img(&[
            "convert",
            "-n",
            "--object",
            &credentials,
            "--image-opts",
            "--target-image-opts",
            &file,
            &disk,
        ]);
        assert!(copied.0, "{}", copied.1);
        let compared = qemu_img(&[
            "compare",
            "--object",
            &credentials,
            "--image-opts",
            &disk,
            &file,
        ]);
        assert!(compared.0, "{}", compared.1);
        let plain = format!("{host},export={VOLUME}");
        let (is_served, text) = qemu_img(&["info", "--image-opts", &plain]);
        assert!(!is_served && text.contains("TLS"), "{text}");
    }
    released(&mut session);
    session.export_clean("tank");
}
