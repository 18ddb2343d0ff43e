//! `millpond nbd`: volumes and snapshots of some, as clients of NBD that we did not write see them. Needs nbdinfo,
//! nbdcopy and qemu-img; what is not installed is skipped.

use crate::patience::until;
use crate::served_disks::noise;
use crate::session::{Session, path};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server of volumes; it ends when this goes away.
pub(super) struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    pub(super) fn start(session: &Session, arguments: &[&str]) -> Self {
        let socket = session.images().with_file_name("nbd");
        let mut command = session.command(&["nbd", "--socket", path(&socket)]);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let told = child.stdout.take().expect("a pipe");
        BufReader::new(told).read_line(&mut line).expect("a line");
        assert!(line.starts_with("nbd+unix:///"), "{line}");
        Self { child, socket }
    }

    pub(super) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", path(&self.socket))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// What a program of others says; none where it is not installed.
pub(super) fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {text}{errors}"
    );
    Some(text)
}

/// Returns when the daemon has heard that all clients are gone.
fn released(session: &mut Session) {
    until("nobody uses it", || {
        let exported = session.run(&["zpool", "export", "tank"]);
        exported.status.success()
    });
    session.import("tank", &[]);
}

#[test]
fn volumes_are_served_to_other_programs() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-s", "-V", "16M", "tank/disk"]);
    let wanted = session.images().with_file_name("wanted");
    let mut bytes = vec![0; 16 << 20];
    bytes[..3_000_001].copy_from_slice(&noise(3_000_001, 1));
    fs::write(&wanted, &bytes).expect("a file");
    {
        let server = Server::start(&session, &["tank/disk"]);
        let Some(told) = run("nbdinfo", &[&server.uri("tank/disk")]) else {
            return;
        };
        for line in [
            "protocol: newstyle-fixed",
            "export-size: 16777216",
            "base:allocation",
            "can_multi_conn: true",
            "can_fua: true",
            "is_read_only: false",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
        run("nbdcopy", &[path(&wanted), &server.uri("")]);
        run(
            "nbdcopy",
            &["--flush", path(&wanted), &server.uri("tank/disk")],
        );
        // While a client is there the pool is in use, and says so.
        let mut client = UnixStream::connect(&server.socket).expect("a connection");
        client.read_exact(&mut [0; 18]).expect("a greeting");
        let busy = session.refused(&["zpool", "export", "tank"]);
        assert!(busy.contains("busy"), "{busy}");
    }
    released(&mut session);
    session.ok(&["zfs", "snapshot", "tank/disk@one"]);
    session.export_clean("tank");
    session.import("tank", &[]);
    let server = Server::start(&session, &["-r", "tank/disk@one", "tank/disk"]);
    let copy = session.images().with_file_name("copy");
    run("nbdcopy", &[&server.uri("tank/disk@one"), path(&copy)]);
    assert!(fs::read(&copy).expect("a file") == bytes, "bytes differ");
    // Of the hole nothing is sent.
    if let Some(map) = run("nbdinfo", &["--map", "--json", &server.uri("tank/disk")]) {
        assert!(map.contains("\"hole,zero\""), "{map}");
    }
    let uri = server.uri("tank/disk");
    if run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &uri, path(&wanted)],
    )
    .is_some()
    {
        let told = Command::new("qemu-io")
            .args(["-f", "raw", "-c", "write 0 4096", &uri])
            .output();
        assert!(
            told.is_ok_and(|told| !told.status.success()),
            "it is read-only"
        );
    }
    drop(server);
    released(&mut session);
    session.export_clean("tank");
}

#[test]
fn who_may_not_or_does_not_speak_it_is_refused() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-s", "-V", "8M", "tank/disk"]);
    let errors = session.refused(&["nbd", "--socket", "x", "none/disk"]);
    assert_eq!(errors, "cannot open 'none/disk': dataset does not exist\n");
    for arguments in [
        &["nbd", "tank/disk"][..],
        &["nbd", "--socket", "x", "--listen", "1", "tank/disk"],
        &["nbd", "--socket", "x"],
    ] {
        assert_eq!(
            session.run(arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
    let server = Server::start(&session, &["tank/disk"]);
    let mut stream = UnixStream::connect(&server.socket).expect("a connection");
    stream.write_all(&[0xFF; 100]).expect("it is read");
    let mut answer = Vec::new();
    // It is left alone, and the next one is served.
    let _cut = stream.read_to_end(&mut answer);
    assert_eq!(answer.get(..8), Some(&b"NBDMAGIC"[..]));
    run("nbdinfo", &["--size", &server.uri("")]);
    drop(server);
    released(&mut session);
    session.export_clean("tank");
}
