//! Reads of what lies on a server that is away: with `failmode=wait` nothing fails, and nobody else waits.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::until;
use crate::served_disks::{
    LIMITS, Store, far, health, import, noise, scrub_finds_nothing, signal, write_durably,
};
use crate::session::{Running, Session};

/// More than there are threads that serve requests.
const READERS: usize = 40;
/// What is served at once takes no longer.
const PROMPT: Duration = Duration::from_secs(20);

/// A pool on one server, with files in a folder of which nothing is in memory.
struct Rig {
    store: Store,
    far: Session,
    bytes: Vec<u8>,
}

impl Rig {
    fn new() -> Option<Self> {
        let (store, mut far) = (Store::new(160, true)?, far()?);
        // What lies around a block that was read is not in memory, too.
        far.limit(&format!("{LIMITS},pipeline.kept_bytes=0"));
        far.create_of("far", &[&store.uri], &[]);
        let bytes = noise(500_000, 1);
        let rig = Self { store, far, bytes };
        fs::create_dir(rig.folder()).expect("a folder");
        for number in 0..READERS {
            write_durably(&rig.file(number), &rig.bytes).expect("durable");
        }
        // Another folder, of which nobody knows the names.
        fs::create_dir(rig.unseen(0).parent().expect("a folder")).expect("a folder");
        for number in 0..READERS {
            write_durably(&rig.unseen(number), b"text").expect("durable");
        }
        rig.forget();
        Some(rig)
    }

    fn folder(&self) -> PathBuf {
        self.far.mount("far").join("folder")
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder().join(format!("file{number}"))
    }

    fn unseen(&self, number: usize) -> PathBuf {
        let folder = self.far.mount("far").join("unseen");
        folder.join(format!("file{number}"))
    }

    /// Imports the pool again, so that nothing is in memory.
    fn forget(&self) {
        self.far.ok(&["zpool", "export", "far"]);
        import(&self.far, &[&self.store.uri], &[]).expect("imported");
    }

    fn is_suspended(&self) -> bool {
        health(&self.far) == "SUSPENDED"
    }

    /// Takes the server away, and finds that out by starting somebody who reads a file.
    fn lose_server(&mut self, number: usize) -> Reader {
        fs::metadata(self.file(number)).expect("a file");
        self.store.kill();
        let reader = Reader::start(&self.file(number));
        until("it is suspended", || self.is_suspended());
        reader
    }

    fn go_on(&mut self) {
        self.store.come_back();
        self.far.ok(&["zpool", "clear", "far"]);
        assert_eq!(health(&self.far), "ONLINE");
    }
}

/// A thread that reads a file.
struct Reader(std::thread::JoinHandle<io::Result<Vec<u8>>>);

impl Reader {
    fn start(file: &Path) -> Self {
        let file = file.to_owned();
        Self(std::thread::spawn(move || fs::read(file)))
    }

    fn waits(&self) -> bool {
        !self.0.is_finished()
    }

    fn end(self) -> io::Result<Vec<u8>> {
        let begun = Instant::now();
        until("the reader ends", || self.0.is_finished());
        assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
        self.0.join().expect("it does not panic")
    }
}

/// A program at a file.
fn program(name: &str, file: &Path) -> Running {
    let mut command = Command::new(name);
    command
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Running(command.spawn().expect("it runs"))
}

fn send_signal(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process")).expect("no zero");
    kill_process(pid, Signal::TERM).expect("it is there");
}

fn ended_by_signal(child: &mut Child) {
    until("a signal ends it", || {
        child.try_wait().expect("our child").is_some()
    });
    let status = child.wait().expect("our child");
    assert_eq!(status.signal(), Some(15), "{status}");
}

#[test]
fn reads_wait_for_a_server_and_have_what_it_has() {
    let Some(mut rig) = Rig::new() else { return };
    for round in 0..2 {
        let mut readers = vec![rig.lose_server(0)];
        // More than there are threads for them, of the contents of a file and of its folder.
        readers.extend((1..READERS).map(|number| Reader::start(&rig.file(number))));
        std::thread::sleep(Duration::from_millis(300));
        assert!(readers.iter().all(Reader::waits), "nothing fails");
        let begun = Instant::now();
        let status = rig.far.ok(&["zpool", "status", "far"]);
        assert!(status.contains(" state: SUSPENDED\n"), "{status}");
        let refused = rig.far.refused(&["zpool", "clear", "far"]);
        assert!(refused.contains("suspended"), "{refused}");
        let refused = rig.far.refused(&["zpool", "export", "far"]);
        assert!(refused.contains("suspended"), "{refused}");
        // What is in memory is there for all.
        fs::metadata(rig.far.mount("far")).expect("a folder");
        assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
        assert!(readers.iter().all(Reader::waits), "nothing fails");
        rig.go_on();
        for reader in readers {
            assert!(reader.end().expect("nothing fails") == rig.bytes, "{round}");
        }
        rig.forget();
    }
    let status = rig.far.ok(&["zpool", "status", "-v", "far"]);
    assert!(status.contains("errors: No known data errors"), "{status}");
    scrub_finds_nothing(&rig.far);
    rig.far.export("far");
}

/// A change of a part of a block reads the rest of it first.
#[test]
fn a_change_that_has_to_read_first_waits_as_well() {
    let Some(mut rig) = Rig::new() else { return };
    let file = fs::OpenOptions::new().write(true).open(rig.file(1));
    let file = file.expect("a file");
    let reader = rig.lose_server(0);
    let writer = std::thread::spawn(move || file.write_all_at(b"changed", 200_001));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "it waits");
    rig.go_on();
    writer.join().expect("no panic").expect("written");
    assert!(reader.end().expect("read") == rig.bytes);
    rig.bytes[200_001..200_008].copy_from_slice(b"changed");
    assert!(fs::read(rig.file(1)).expect("read") == rig.bytes);
    rig.forget();
    assert!(fs::read(rig.file(1)).expect("read") == rig.bytes);
    rig.far.export("far");
}

#[test]
fn a_signal_ends_a_wait() {
    let Some(mut rig) = Rig::new() else { return };
    let reader = rig.lose_server(0);
    for _ in 0..3 {
        let stat = |number| program("stat", &rig.unseen(number));
        let mut programs: Vec<_> = (1..READERS).map(stat).collect();
        programs.push(program("cat", &rig.file(1)));
        std::thread::sleep(Duration::from_millis(200));
        // All, before the end of any is awaited: one that waits in the kernel for another one's look at the folder ends
        // with that.
        for program in &programs {
            send_signal(&program.0);
        }
        for program in &mut programs {
            ended_by_signal(&mut program.0);
        }
    }
    assert!(reader.waits());
    rig.go_on();
    assert!(reader.end().expect("read") == rig.bytes);
    rig.far.export("far");
}

#[test]
fn a_pool_that_is_waited_for_can_be_given_up() {
    let Some(mut rig) = Rig::new() else { return };
    let reader = rig.lose_server(0);
    let begun = Instant::now();
    rig.far.ok(&["zpool", "export", "-f", "far"]);
    assert!(reader.end().is_err());
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    rig.store.come_back();
    import(&rig.far, &[&rig.store.uri], &[]).expect("imported");
    assert!(fs::read(rig.file(0)).expect("read") == rig.bytes);
    // One file system, and the service.
    let reader = rig.lose_server(1);
    rig.far.ok(&["zfs", "unmount", "-f", "far"]);
    assert!(reader.end().is_err());
    signal(&rig.far, Signal::TERM);
    until("the daemon ends", || rig.far.daemons().is_empty());
    rig.store.come_back();
    import(&rig.far, &[&rig.store.uri], &["-f"]).expect("imported");
    let reader = rig.lose_server(2);
    signal(&rig.far, Signal::TERM);
    until("the daemon ends", || rig.far.daemons().is_empty());
    assert!(reader.end().is_err());
    rig.store.come_back();
    import(&rig.far, &[&rig.store.uri], &["-f"]).expect("imported");
    scrub_finds_nothing(&rig.far);
    rig.far.export("far");
}
