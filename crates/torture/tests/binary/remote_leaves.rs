//! Pools whose disks are elsewhere: leaves are URIs of NBD. The servers are volumes of other pools, and `qemu-nbd`
//! where that is installed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::certificates::Authority;
use rustix::process::{Pid, Signal, kill_process};

use crate::session::{Running, Session, path};

const PATIENCE: Duration = Duration::from_secs(120);
/// Servers that went away are asked again soon.
pub(crate) const LIMITS: &str = "pool.reconnect_min_ms=50,pool.reconnect_max_ms=200";

pub(crate) fn signal(session: &Session, signal: Signal) {
    for daemon in session.daemons() {
        let pid = Pid::from_raw(i32::try_from(daemon).expect("a process")).expect("no zero");
        let _ = kill_process(pid, signal);
    }
}

fn kill(session: &Session) {
    signal(session, Signal::KILL);
    until("the daemons are gone", || session.daemons().is_empty());
}

/// Waits for something.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the end of the resilver that begins when a device has come back.
fn wait_resilvered(far: &Session) {
    until("it is resilvered", || {
        let status = far.ok(&["zpool", "status", "far"]);
        status.contains("resilvered") && !status.contains("(resilvering)")
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
    session: Session,
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

    fn socket(&self) -> PathBuf {
        self.session.images().with_file_name("socket")
    }

    /// Serves the disk, in the place where it was before.
    fn serve(&mut self, more: &[&str]) {
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

    /// Ends the server, and the daemon behind it, as if their host had lost its power.
    pub(crate) fn kill(&mut self) {
        kill(&self.session);
        self.server = None;
    }

    pub(crate) fn come_back(&mut self) {
        self.session.import("tank", &["-f"]);
        self.serve(&[]);
    }

    /// The bytes of the disk as a file.
    fn copy_out(mut self, image: &Path) {
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

fn wait_health(far: &Session, wanted: &str) {
    let begun = Instant::now();
    while health(far) != wanted {
        let status = || far.ok(&["zpool", "status", "far"]);
        assert!(begun.elapsed() < PATIENCE, "not {wanted}: {}", status());
        std::thread::sleep(Duration::from_millis(20));
    }
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

#[test]
fn a_pool_on_a_disk_of_a_server_is_a_pool_like_any_other() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    let uri = store.uri.clone();
    let cache = far.images().join("cache");
    let property = format!("cachefile={}", path(&cache));
    far.create_of("far", &[&uri], &["-o", &property]);
    let status = far.ok(&["zpool", "status", "far"]);
    assert!(status.contains(&uri), "{status}");
    let ashift = far.ok(&["zpool", "get", "-H", "-o", "value", "ashift", "far", &uri]);
    assert_eq!(ashift.trim(), "12");
    let bytes = noise(5_000_001, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "trim", "-w", "far"]);
    far.export("far");
    // By its URI, also for reading only, by the cache file, and, after a crash, by what is known of it.
    import(&far, &[&uri], &["-o", "readonly=on"]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    import(&far, &[&uri], &["-o", &property]).expect("imported");
    write_durably(&far.mount("far").join("more"), &bytes).expect("durable");
    kill(&far);
    let mounts = far.mounts();
    far.ok(&["zpool", "import", "-R", path(&mounts), "far"]);
    assert!(fs::read(far.mount("far").join("more")).expect("a file") == bytes);
    kill(&far);
    far.ok(&[
        "zpool",
        "import",
        "-c",
        path(&cache),
        "-R",
        path(&mounts),
        "far",
    ]);
    assert!(fs::read(&file).expect("a file") == bytes);
    // A server that lets nobody write, too.
    far.ok(&["zpool", "export", "far"]);
    store.server = None;
    store.serve(&["-r"]);
    let text = import(&far, &[&uri], &[]).expect_err("it cannot be written");
    assert!(
        text.contains("its server has it for reading only"),
        "{text}"
    );
    import(&far, &[&uri], &["-o", "readonly=on"]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    // The bytes are a pool's, whatever served them.
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.export_clean("far");
}

#[test]
fn a_mirror_goes_on_without_a_server_and_has_it_catch_up() {
    let stores = (Store::new(160, false), Store::new(160, true), far());
    let (Some(mut near), Some(other), Some(mut far)) = stores else {
        return;
    };
    far.create_of("far", &["mirror", &near.uri, &other.uri], &[]);
    let (folder, ends, durable) = (
        far.mount("far"),
        AtomicBool::new(false),
        AtomicUsize::new(0),
    );
    let name = |number: usize| folder.join(format!("file{number}"));
    let content = |number: usize| noise(100_000 + number % 7 * 1000, number as u64);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0.. {
                if ends.load(Ordering::Acquire) || number == 500 {
                    break;
                }
                // One of the two is always there: nothing fails.
                write_durably(&name(number), &content(number)).expect("durable");
                durable.store(number + 1, Ordering::Release);
            }
        });
        let more = |count: usize| {
            let wanted = durable.load(Ordering::Acquire) + count;
            until("files are written", || {
                durable.load(Ordering::Acquire) >= wanted.min(500)
            });
        };
        for _ in 0..2 {
            more(20);
            near.kill();
            more(20);
            wait_health(&far, "DEGRADED");
            near.come_back();
            // By itself.
            wait_health(&far, "ONLINE");
        }
        ends.store(true, Ordering::Release);
        writer.join().expect("the writer");
    });
    wait_resilvered(&far);
    scrub_finds_nothing(&far);
    let count = durable.load(Ordering::Acquire);
    for number in 0..count {
        assert!(
            fs::read(name(number)).expect("a file") == content(number),
            "{number}"
        );
    }
    far.export("far");
    // What came back has everything without the other one.
    let images = far.images();
    near.copy_out(&images.join("near.img"));
    other.copy_out(&images.join("other.img"));
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(&images, "far");
    }
    fs::remove_file(images.join("other.img")).expect("an image");
    far.import("far", &[]);
    for number in 0..count {
        assert!(
            fs::read(name(number)).expect("a file") == content(number),
            "{number}"
        );
    }
    far.export("far");
}

#[test]
fn a_pool_on_one_server_waits_for_it_and_goes_on() {
    let (Some(mut store), Some(mut far)) = (Store::new(160, true), far()) else {
        return;
    };
    let uri = store.uri.clone();
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(400_000, 1);
    let name = |number: usize| far.mount("far").join(format!("file{number}"));
    let mut durable = Vec::new();
    for round in 0..3 {
        for number in round * 100..round * 100 + 10 {
            write_durably(&name(number), &bytes).expect("durable");
            durable.push(number);
        }
        // Not durable, and not lost: the pool has it in memory.
        fs::write(name(round * 100 + 10), &bytes).expect("written");
        store.kill();
        let failed =
            (round * 100 + 11..).find(|number| write_durably(&name(*number), &bytes).is_err());
        durable.extend(round * 100 + 11..failed.expect("it fails"));
        wait_health(&far, "SUSPENDED");
        let refused = far.refused(&["zpool", "clear", "far"]);
        assert!(refused.contains("suspended"), "{refused}");
        store.come_back();
        far.ok(&["zpool", "clear", "far"]);
        assert_eq!(health(&far), "ONLINE");
        assert!(fs::read(name(round * 100 + 10)).expect("a file") == bytes);
    }
    for number in &durable {
        assert!(
            fs::read(name(*number)).expect("a file") == bytes,
            "{number}"
        );
    }
    scrub_finds_nothing(&far);
    // And with 'failmode=continue', of which the export gives up.
    far.ok(&["zpool", "set", "failmode=continue", "far"]);
    store.kill();
    until("writing fails", || {
        write_durably(&far.mount("far").join("late"), &bytes).is_err()
    });
    far.ok(&["zpool", "export", "-f", "far"]);
    store.come_back();
    import(&far, &[&uri], &[]).expect("imported");
    for number in &durable {
        assert!(
            fs::read(name(*number)).expect("a file") == bytes,
            "{number}"
        );
    }
    far.ok(&["zpool", "export", "far"]);
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    far.export_clean("far");
}

/// What is on a server that is away is not damaged: where reads do not wait it is told as an error, and not listed as
/// one for good.
#[test]
fn what_cannot_be_read_while_a_server_is_away_is_no_damage() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, true), far()) else {
        return;
    };
    let uri = store.uri.clone();
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(3_000_000, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    far.export("far");
    import(&far, &[&uri], &[]).expect("imported");
    far.ok(&["zpool", "set", "failmode=continue", "far"]);
    fs::metadata(&file).expect("a file");
    store.kill();
    fs::read(&file).expect_err("nobody has it");
    fs::read(&file).expect_err("nobody has it");
    let suspended = health(&far) == "SUSPENDED";
    assert!(!suspended, "nothing had to be written");
    let status = far.ok(&["zpool", "status", "-v", "far"]);
    assert!(status.contains("errors: No known data errors"), "{status}");
    store.come_back();
    far.ok(&["zpool", "clear", "far"]);
    assert!(fs::read(&file).expect("a file") == bytes);
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "export", "far"]);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, true), far()) else {
        return;
    };
    let small = Store::new(32, false).expect("a session");
    let uri = store.uri.clone();
    let image = far.images().join("image");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("a port").port();
    drop(free);
    let nobody = format!("nbd://127.0.0.1:{port}/tank/disk");
    let away = format!("nbd+unix:///tank/disk?socket={}", path(&image));
    let mounts = far.mounts();
    for (uri, why) in [
        (nobody.clone(), "Connection refused"),
        (away, "No such file or directory"),
        (uri.replace("/disk", "/none"), "it has no such export"),
        (small.uri.clone(), "is less than the minimum size (64M)"),
        (format!("{uri}?what=1"), "a query that is not known"),
        ("nbd:///tank".to_owned(), "no host"),
    ] {
        let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", &uri]);
        assert!(text.contains(why), "{uri}: {text}");
    }
    let text = import(&far, &[&nobody], &[]).expect_err("nobody is there");
    assert!(text.contains("Connection refused"), "{text}");
    let text = import(&far, &[&uri], &[]).expect_err("no pool is there");
    assert!(text.contains("no such pool available"), "{text}");
    store.server = None;
    store.serve(&["-r"]);
    let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", &uri]);
    assert!(
        text.contains("its server has it for reading only"),
        "{text}"
    );
    store.server = None;
    store.serve(&[]);
    for class in ["cache", "spare"] {
        let size = [
            "--size",
            "128M",
            "-R",
            path(&mounts),
            "far",
            path(&image),
            class,
            &uri,
        ];
        let text = far.refused(&[&["zpool", "create"][..], &size].concat());
        let why = "a disk of a server can be neither a spare nor a cache device";
        assert!(text.contains(why), "{text}");
        let _gone = fs::remove_file(&image);
    }
    far.create_of("far", &[&uri], &[]);
    let mut second = self::far().expect("a session");
    let mounts = second.mounts();
    let text = second.refused(&["zpool", "create", "-R", path(&mounts), "other", &uri]);
    assert!(text.contains("is part of"), "{text}");
    far.export("far");
    // One that was exported gives way.
    second.create_of("other", &[&uri], &["-f"]);
    second.export("other");
}

#[test]
fn a_server_that_hangs_is_not_waited_for_for_ever() {
    let (Some(near), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    far.limit(&format!("{LIMITS},device.remote_patience_ms=3000"));
    let image = far.images().join("side.img");
    fs::File::create(&image)
        .and_then(|file| file.set_len(128 << 20))
        .expect("an image");
    far.create_of("far", &["mirror", path(&image), &near.uri], &[]);
    write_durably(&far.mount("far").join("before"), b"text").expect("durable");
    signal(&near.session, Signal::STOP);
    let begun = Instant::now();
    write_durably(&far.mount("far").join("meanwhile"), b"text").expect("durable");
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    wait_health(&far, "DEGRADED");
    // Nothing waits while it is asked again and again.
    let begun = Instant::now();
    far.ok(&["zpool", "status", "far"]);
    write_durably(&far.mount("far").join("later"), b"text").expect("durable");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    signal(&near.session, Signal::CONT);
    wait_health(&far, "ONLINE");
    wait_resilvered(&far);
    scrub_finds_nothing(&far);
    far.export("far");
}

#[test]
fn a_label_connects_nobody_anywhere() {
    let (Some(mut near), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    far.limit(&format!("{LIMITS},device.remote_patience_ms=300"));
    let uri = near.uri.clone();
    let image = far.images().join("side.img");
    fs::File::create(&image)
        .and_then(|file| file.set_len(128 << 20))
        .expect("an image");
    far.create_of("far", &["mirror", path(&image), &uri], &[]);
    write_durably(&far.mount("far").join("file"), b"text").expect("durable");
    far.export("far");
    near.server = None;
    // Somebody else listens there now: nothing comes, as nobody named it to this process.
    let socket = near.socket();
    let _gone = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    far.import("far", &[]);
    assert_eq!(health(&far), "DEGRADED");
    let guid = far.ok(&["zpool", "get", "-H", "-o", "value", "guid", "far", &uri]);
    let _tried = far.run(&["zpool", "online", "far", guid.trim()]);
    far.ok(&["zpool", "clear", "far"]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(listener.accept().is_err(), "it was connected to");
    // Nor by the register, the next time.
    kill(&far);
    let mounts = far.mounts();
    far.ok(&["zpool", "import", "-R", path(&mounts), "far"]);
    assert!(listener.accept().is_err(), "it was connected to");
    // Its operator may say it.
    let _nothing = far.run(&["zpool", "online", "far", &uri]);
    assert!(listener.accept().is_ok(), "it was not connected to");
    let found = fs::read(far.mount("far").join("file")).expect("a file");
    assert_eq!(found, b"text");
    far.export("far");
}

/// A host that writes every tenth of a second, and gives a pool up after one: imports wait for two.
fn host(number: u32) -> Option<Session> {
    let mut session = Session::new()?;
    session.limit(&format!("{LIMITS},pool.multihost_interval_ms=100"));
    session.on_host(number);
    Some(session)
}

#[test]
fn another_host_takes_over_and_the_first_writes_nothing_more() {
    let (Some(store), Some(mut first), Some(second)) = (Store::new(160, true), host(1), host(2))
    else {
        return;
    };
    let uri = store.uri.clone();
    first.create_of("far", &[&uri], &["-o", "multihost=on"]);
    let file = first.mount("far").join("file");
    write_durably(&file, b"of the first\n").expect("durable");
    let text = import(&second, &[&uri], &["-f"]).expect_err("it is in use");
    assert!(text.contains("(hostid: 0x1)"), "{text}");
    // One that is only stopped, amid writes.
    let bytes = noise(20_000_000, 3);
    let name = first.mount("far").join("large");
    let writer = std::thread::spawn(move || while write_durably(&name, &bytes).is_ok() {});
    std::thread::sleep(Duration::from_millis(300));
    signal(&first, Signal::STOP);
    let begun = Instant::now();
    import(&second, &[&uri], &["-f"]).expect("taken over");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    let found = fs::read(second.mount("far").join("file")).expect("read");
    assert_eq!(found, b"of the first\n");
    write_durably(&second.mount("far").join("file"), b"of the second\n").expect("durable");
    signal(&first, Signal::CONT);
    writer.join().expect("it ends");
    until("it has noticed", || health(&first) == "SUSPENDED");
    let refused = first.refused(&["zpool", "clear", "far"]);
    // A connection that was ended with a write on its way is not made again.
    let is_told = refused.contains("(hostid: 0x2)") || refused.contains("currently suspended");
    assert!(is_told, "{refused}");
    first.ok(&["zpool", "export", "-f", "far"]);
    scrub_finds_nothing(&second);
    // One that is killed: the next has it within seconds.
    kill(&second);
    // Nothing there will take the dead mount's place.
    let dead = second.mount("far");
    let _gone = Command::new("umount").arg("-l").arg(dead).status();
    let begun = Instant::now();
    import(&first, &[&uri], &["-f"]).expect("taken over");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(fs::read(&file).expect("read"), b"of the second\n");
    scrub_finds_nothing(&first);
    first.ok(&["zpool", "export", "far"]);
    let image = first.images().join("far.img");
    store.copy_out(&image);
    first.import("far", &[]);
    first.export_clean("far");
}

/// The certificates that a client goes by.
fn client_folder(folder: &Path, name: &str, believed: &Authority, own: &Authority) -> PathBuf {
    let client = own.identity(name, &[]);
    let place = folder.join(format!("{name}.d"));
    fs::create_dir(&place).expect("a folder");
    for (from, to) in [
        (&believed.file(), "ca-cert.pem"),
        (&client.certificate_file, "client-cert.pem"),
        (&client.key_file, "client-key.pem"),
    ] {
        fs::copy(from, place.join(to)).expect("a copy");
    }
    place
}

/// Imports from a server whom the host's authorities vouch for.
fn import_believing(far: &Session, uri: &str, authorities: &Path) {
    let mounts = far.mounts();
    let words = ["zpool", "import", "-R", path(&mounts), "-d", uri, "far"];
    let mut command = far.command(&words);
    let imported = command.env("SSL_CERT_FILE", authorities).output();
    let imported = imported.expect("the binary runs");
    assert!(imported.status.success(), "{imported:?}");
}

#[test]
fn a_pool_on_a_disk_by_tls() {
    let (Some(mut store), Some(mut far)) = (Store::new(160, true), far()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let who = authority.identity("disks", &["127.0.0.1"]);
    let ca = authority.file();
    let plain = store.uri.clone();
    let (certificate, key) = (path(&who.certificate_file), path(&who.key_file));
    let secured = ["--tls-cert", certificate, "--tls-key", key];
    let known = [&secured[..], &["--tls-client-ca", path(&ca)]].concat();
    let certificates = client_folder(folder.path(), "client", &authority, &authority);
    // Who does not believe the server, or is not known to it, has nothing; nor who speaks otherwise than it does.
    let doubtful = client_folder(folder.path(), "doubtful", &stranger, &authority);
    let unknown = client_folder(folder.path(), "unknown", &authority, &stranger);
    let by = |uri: &str, place: &Path| format!("{uri}?tls-certificates={}", path(place));
    let mounts = far.mounts();
    let refused = |uri: &str, why: &str| {
        let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", uri]);
        assert!(text.contains(why), "{uri}: {text}");
    };
    refused(
        &by(&plain.replace("nbd:", "nbds:"), &certificates),
        "it has no TLS",
    );
    store.server = None;
    store.serve(&known);
    let uri = store.uri.clone();
    refused(&plain, "it requires TLS");
    refused(&by(&uri, &doubtful), "invalid peer certificate");
    refused(&by(&uri, &unknown), "cannot be connected to");
    refused(&uri, "invalid peer certificate");
    let other = format!("{}&tls-hostname=lake", by(&uri, &certificates));
    refused(&other, "not valid for name");
    refused(&by(&uri, folder.path()), "cannot read");
    let uri = by(&uri, &certificates);
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(3_000_001, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    // The daemon ends, then the server.
    kill(&far);
    import(&far, &[&uri], &[]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    store.kill();
    until("it is missed", || {
        write_durably(&far.mount("far").join("late"), &bytes).is_err()
    });
    store.session.import("tank", &["-f"]);
    store.serve(&known);
    far.ok(&["zpool", "clear", "far"]);
    write_durably(&far.mount("far").join("last"), b"durable").expect("durable");
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "export", "far"]);
    // By the authorities of this host: they are what this variable says.
    store.server = None;
    store.serve(&secured);
    import_believing(&far, &store.uri, &ca);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.export_clean("far");
}

/// What qemu-nbd is told of its certificates, and those of a client.
fn qemu_certificates(folder: &Path) -> (String, PathBuf) {
    let authority = Authority::new(folder, "ca-cert");
    let who = authority.identity("disks", &["localhost"]);
    for (from, to) in [
        (&who.certificate_file, "server-cert.pem"),
        (&who.key_file, "server-key.pem"),
    ] {
        fs::copy(from, folder.join(to)).expect("a copy");
    }
    let certificates = client_folder(folder, "client", &authority, &authority);
    let credentials = format!(
        "tls-creds-x509,id=own,endpoint=server,verify-peer=yes,dir={}",
        path(folder)
    );
    (credentials, certificates)
}

#[test]
fn qemu_has_the_disks_of_a_pool() {
    let Some(mut far) = far() else {
        return;
    };
    if let Err(error) = Command::new("qemu-nbd").arg("--version").output() {
        println!("skipped: qemu-nbd: {error}");
        return;
    }
    let (image, socket) = (far.images().join("far.img"), far.images().join("socket"));
    fs::File::create(&image)
        .and_then(|file| file.set_len(160 << 20))
        .expect("an image");
    let folder = tempfile::tempdir().expect("a folder");
    let (credentials, certificates) = qemu_certificates(folder.path());
    let is_secured = AtomicBool::new(false);
    let serve = || {
        let _gone = fs::remove_file(&socket);
        let mut command = Command::new("qemu-nbd");
        if is_secured.load(Ordering::Relaxed) {
            command.args(["--object", &credentials, "--tls-creds", "own"]);
        }
        let arguments = ["-f", "raw", "-t", "-x", "disk", "--discard=unmap", "-k"];
        command.args(arguments).args([&socket, &image]);
        let server = Running(command.spawn().expect("it runs"));
        until("it serves", || socket.exists());
        server
    };
    let mut server = serve();
    let uri = format!("nbd+unix:///disk?socket={}", path(&socket));
    far.create_of("far", &[&uri], &["-o", "autotrim=on"]);
    let bytes = noise(5_000_001, 1);
    let mounted = far.mount("far");
    let name = |number: u32| mounted.join(format!("file{number}"));
    write_durably(&name(0), &bytes).expect("durable");
    far.ok(&["zpool", "trim", "-w", "far"]);
    for round in 1..4 {
        fs::write(name(round), &bytes).expect("written");
        drop(server);
        until("it is missed", || write_durably(&name(100), b"x").is_err());
        server = serve();
        until("it goes on", || {
            far.run(&["zpool", "clear", "far"]).status.success()
        });
    }
    scrub_finds_nothing(&far);
    kill(&far);
    until("it is imported", || import(&far, &[&uri], &[]).is_ok());
    for round in 0..4 {
        assert!(fs::read(name(round)).expect("a file") == bytes);
    }
    far.ok(&["zpool", "export", "far"]);
    drop(server);
    // By TLS, each side known to the other.
    is_secured.store(true, Ordering::Relaxed);
    let server = serve();
    let secured = format!(
        "nbds+unix:///disk?socket={}&tls-certificates={}",
        path(&socket),
        path(&certificates)
    );
    let text = import(&far, &[&uri], &[]).expect_err("without TLS");
    assert!(text.contains("it requires TLS"), "{text}");
    import(&far, &[&secured], &[]).expect("imported");
    write_durably(&name(4), &bytes).expect("durable");
    far.ok(&["zpool", "export", "far"]);
    drop(server);
    far.import("far", &[]);
    for round in 0..5 {
        assert!(fs::read(name(round)).expect("a file") == bytes);
    }
    far.export_clean("far");
}
