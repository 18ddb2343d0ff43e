use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{Client, SecureReader, SecureWriter, Server, TlsError};

/// An authority and what it vouches for, in a folder.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        files.put("ca", &parameters.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(parameters, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let parameters = CertificateParams::new(vec!["pond".to_owned()]).unwrap();
            files.put(name, &parameters.signed_by(&key, &issuer).unwrap().pem());
            files.put(&format!("{name}-key"), &key.serialize_pem());
        }
        files
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn server(&self, clients: Option<&Path>) -> Server {
        Server::new(&self.path("server"), &self.path("server-key"), clients).unwrap()
    }
}

type Side = (SecureReader<UnixStream>, SecureWriter<UnixStream>);

/// Both sides of a connection after their handshakes.
fn connected(server: &Server, client: &Client, host: &str) -> (io::Result<Side>, io::Result<Side>) {
    connected_over(UnixStream::pair().unwrap(), server, client, host)
}

fn connected_over(
    (one, other): (UnixStream, UnixStream),
    server: &Server,
    client: &Client,
    host: &str,
) -> (io::Result<Side>, io::Result<Side>) {
    std::thread::scope(|scope| {
        let served = scope.spawn(move || server.accept(one.try_clone().unwrap(), one));
        let asked = client.connect(host, other.try_clone().unwrap(), other);
        (served.join().unwrap(), asked)
    })
}

#[test]
fn both_directions_are_used_at_once() {
    let files = Files::new();
    let client = Client::new(Some(&files.path("ca")), None).unwrap();
    let (served, asked) = connected(&files.server(None), &client, "pond");
    let ((mut server_in, mut server_out), (mut client_in, mut client_out)) =
        (served.unwrap(), asked.unwrap());
    // More than sockets and buffers hold: each side writes all before anybody reads what it wrote.
    let bytes: Vec<u8> = (0..8_u32 << 20).map(|at| (at % 251) as u8).collect();
    std::thread::scope(|scope| {
        for writer in [&mut server_out, &mut client_out] {
            let bytes = &bytes;
            scope.spawn(move || {
                writer.write_all(bytes).unwrap();
                writer.close().unwrap();
            });
        }
        for reader in [&mut server_in, &mut client_in] {
            let bytes = &bytes;
            scope.spawn(move || {
                let mut found = Vec::new();
                reader.read_to_end(&mut found).unwrap();
                assert!(found == *bytes);
            });
        }
    });
}

#[test]
fn an_end_that_is_not_told_is_an_error() {
    let files = Files::new();
    let client = Client::new(Some(&files.path("ca")), None).unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let cut = other.try_clone().unwrap();
    let (served, asked) = connected_over((one, other), &files.server(None), &client, "pond");
    let (mut reader, _server_out) = served.unwrap();
    let (_client_in, mut writer) = asked.unwrap();
    writer.write_all(b"text").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    let mut found = Vec::new();
    let error = reader.read_to_end(&mut found).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(found, b"text");
}

#[test]
fn who_is_not_believed_is_refused() {
    let (files, strangers) = (Files::new(), Files::new());
    let stranger = Client::new(Some(&strangers.path("ca")), None).unwrap();
    let nobody = Client::new(Some(&files.path("ca")), None).unwrap();
    let (served, asked) = connected(&files.server(None), &stranger, "pond");
    assert!(served.is_err() && asked.is_err());
    let (_, asked) = connected(&files.server(None), &nobody, "lake");
    assert!(asked.unwrap_err().to_string().contains("pond"));
    // Clients that must show who they are.
    let authority = files.path("ca");
    let server = files.server(Some(&authority));
    assert!(connected(&server, &nobody, "pond").0.is_err());
    let of = |files: &Files| {
        let own = (&*files.path("client"), &*files.path("client-key"));
        Client::new(Some(&authority), Some(own)).unwrap()
    };
    assert!(connected(&server, &of(&strangers), "pond").0.is_err());
    assert!(connected(&server, &of(&files), "pond").0.is_ok());
}

#[test]
fn files_without_what_they_should_have_are_named() {
    let files = Files::new();
    let of = |certificate: &str, key: &str| {
        Server::new(&files.path(certificate), &files.path(key), None).unwrap_err()
    };
    assert!(matches!(of("none", "server-key"), TlsError::File { .. }));
    assert!(matches!(
        of("server-key", "server-key"),
        TlsError::Absent { .. }
    ));
    assert!(matches!(of("server", "server"), TlsError::Absent { .. }));
    assert!(matches!(
        of("server", "client-key"),
        TlsError::Unusable { .. }
    ));
    let text = of("server", "none").to_string();
    assert!(
        text.ends_with("/none': No such file or directory"),
        "{text}"
    );
    files.put(
        "broken",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    );
    assert!(matches!(
        of("broken", "server-key"),
        TlsError::Unusable { .. }
    ));
}
