//! Disks that servers have for pools elsewhere: volumes of a pool `tank`, each with a server of its own. The pool on
//! them is called `far`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::until;
use crate::session::{Running, Session, path};

/// Servers that went away are asked again soon.
pub(crate) const LIMITS: &str = "pool.reconnect_min_ms=50,pool.reconnect_max_ms=200";

pub(crate) fn signal(session: &Session, signal: Signal) {
    for daemon in session.daemons() {
        let pid = Pid::from_raw(i32::try_from(daemon).expect("a process")).expect("no zero");
        let _ = kill_process(pid, signal);
    }
}

pub(crate) fn kill(session: &Session) {
    signal(session, Signal::KILL);
    until("the daemons are gone", || session.daemons().is_empty());
}

/// Waits for the end of the resilver that begins when a device has come back.
pub(crate) fn wait_resilvered(far: &Session) {
    until("it is resilvered", || {
        let status = far.ok(&["zpool", "status", "far"]);
        let goes_on = [
            "(resilvering)",
            "(awaiting resilver)",
            "resilver in progress",
        ];
        status.contains("resilvered") && !goes_on.iter().any(|text| status.contains(text))
    });
}

pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A pool with a volume that is the disk of another one, and its server.
pub(crate) struct Store {
    pub(crate) session: Session,
    server: Option<Running>,
    /// Where it serves: an address, or else a socket.
    listen: Option<String>,
    pub(crate) uri: String,
}

impl Store {
    /// A disk of so many megabytes, on a port or on a socket.
    pub(crate) fn new(megabytes: u32, is_port: bool) -> Option<Self> {
        let mut session = Session::new()?;
        session.create("tank", 400, &["-O", "mountpoint=none"]);
        let size = format!("{megabytes}M");
        session.ok(&["zfs", "create", "-s", "-V", &size, "tank/disk"]);
        let listen = is_port.then(|| "127.0.0.1:0".to_owned());
        let mut store = Self {
            session,
            server: None,
            listen,
            uri: String::new(),
        };
        store.serve(&[]);
        Some(store)
    }

    /// Where it serves, if not on a port.
    pub(crate) fn socket(&self) -> PathBuf {
        self.session.images().with_file_name("socket")
    }

    /// Serves the disk, in the place where it was before.
    pub(crate) fn serve(&mut self, more: &[&str]) {
        let socket = self.socket();
        // A server that was killed leaves it.
        let _gone = fs::remove_file(&socket);
        let place = match &self.listen {
            Some(address) => ["--listen", address],
            None => ["--socket", path(&socket)],
        };
        let arguments = [&["nbd"][..], &place, more, &["tank/disk"]].concat();
        let mut command = self.session.command(&arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let told = child.stdout.take().expect("a pipe");
        self.server = Some(Running(child));
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line).expect("a line");
        self.uri = line.trim().to_owned();
        assert!(self.uri.starts_with("nbd"), "{line}");
        let place = self.uri.strip_prefix("nbd://");
        if let Some(rest) = place.or_else(|| self.uri.strip_prefix("nbds://")) {
            self.listen = rest.split('/').next().map(str::to_owned);
        }
    }

    /// Ends the server alone.
    pub(crate) fn stop_serving(&mut self) {
        self.server = None;
    }

    /// Ends the server, and the daemon behind it, as if their host had lost its power.
    pub(crate) fn kill(&mut self) {
        kill(&self.session);
        self.server = None;
    }

    /// After [`Store::kill`].
    pub(crate) fn come_back(&mut self) {
        self.session.import("tank", &["-f"]);
        self.serve(&[]);
    }

    /// The bytes of the disk as a file.
    pub(crate) fn copy_out(mut self, image: &Path) {
        self.server = None;
        until("the volume is let go of", || {
            let exported = self.session.run(&["zpool", "export", "tank"]);
            exported.status.success()
        });
        let place = format!(
            "{}:tank/disk",
            path(&self.session.images().join("tank.img"))
        );
        self.session.ok(&["cp", &place, path(image)]);
    }
}

/// A session whose pools have their disks elsewhere.
pub(crate) fn far() -> Option<Session> {
    let mut session = Session::new()?;
    session.limit(LIMITS);
    Some(session)
}

/// Imports `far` from URIs; what is wrong with that, if it fails.
pub(crate) fn import(session: &Session, uris: &[&str], more: &[&str]) -> Result<(), String> {
    let mounts = session.mounts();
    let mut words = vec!["zpool", "import", "-R", path(&mounts)];
    words.extend(uris.iter().flat_map(|uri| ["-d", uri]));
    words.extend(more);
    words.push("far");
    let output = session.run(&words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(text)
}

pub(crate) fn health(session: &Session) -> String {
    let listed = session.ok(&["zpool", "list", "-H", "-o", "health", "far"]);
    listed.trim().to_owned()
}

pub(crate) fn wait_health(far: &Session, wanted: &str) {
    until(wanted, || health(far) == wanted);
}

pub(crate) fn scrub_finds_nothing(session: &Session) {
    // One whose end was not on disk yet when a host was killed goes on elsewhere.
    session.ok(&["zpool", "wait", "-t", "scrub", "far"]);
    session.ok(&["zpool", "scrub", "-w", "far"]);
    let status = session.ok(&["zpool", "status", "far"]);
    assert!(status.contains("with 0 errors"), "{status}");
    assert!(status.contains("repaired 0B"), "{status}");
    assert!(status.contains("errors: No known data errors"), "{status}");
}
