//! The model test on a real mount: threads do by system calls what files know, each in a directory of its own. Compared
//! with the model live, after export and import, and after the server was killed: then what an fsync had acknowledged
//! must be there, names as a prefix of what was done.

mod mounted;

use super::lifecycle::kill_server;
use super::session::Session;
use millpond_torture::durable::{Commits, Demand, Record};
use millpond_torture::holes;
use millpond_torture::model::{Kind, Refusal, Tree};
use millpond_torture::operation::{Chooser, Limits, Operation, Place};
use millpond_torture::picture::Picture;
use millpond_torture::random::{Random, asked, seed};
use millpond_torture::real::errno;
use millpond_torture::tunables;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const POOL: &str = "modelled";
const WORKERS: u64 = 4;

/// One thread and its directory.
struct Worker {
    folder: PathBuf,
    record: Record,
    chooser: Chooser,
    random: Random,
    umask: u32,
    /// The mount has the kernel gather writes.
    gathers: bool,
    operations: u64,
}

/// When the workers end.
enum End {
    /// After so many turns of each.
    Turns(u64),
    /// The server is killed under them.
    Killed,
}

/// The server is gone.
struct Gone;

/// What a call may fail with when the server goes.
const GONE: [Errno; 3] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::IO];

/// What the kernel says where two refusals are due and it looks in another order than the model.
fn is_other_order(operation: &Operation, refusal: Refusal, found: Errno) -> bool {
    match operation {
        Operation::Link(..) => refusal == Refusal::Forbidden && found == Errno::EXIST,
        // The new name is that of a directory above.
        Operation::Rename(..) => refusal == Refusal::IsDirectory && found == Errno::NOTEMPTY,
        _ => false,
    }
}

impl Worker {
    fn new(folder: PathBuf, seed: u64, umask: u32, gathers: bool) -> Self {
        fs::create_dir(&folder).expect("a directory");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("its mode");
        let limits = Limits {
            file_bytes: 60_000,
            names: 60,
            unnamed: true,
            synchronous: true,
        };
        Self {
            folder,
            record: Record::from(Vec::new(), Tree::new().with_kernel_times(gathers)),
            gathers,
            chooser: Chooser::within(seed, limits),
            random: Random::new(seed ^ 0x5EED),
            umask,
            operations: 0,
        }
    }

    fn work(&mut self, end: &End, dying: &AtomicBool) {
        let mut turns = 0;
        while match end {
            End::Turns(max) => turns < *max,
            End::Killed => true,
        } {
            turns += 1;
            let done = match self.random.below(24) {
                0..18 => self.operate(dying),
                18..20 => self.look(dying),
                _ => self.fsync(dying),
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn operate(&mut self, dying: &AtomicBool) -> Result<(), Gone> {
        let operation = self.chooser.next(&self.record.tree);
        let operation = mounted::masked(operation, self.umask);
        let mut expected = self.record.tree.clone();
        // No system call changes the mode of a symbolic link.
        if let Operation::Chmod(place, _) = &operation
            && let Ok(node) = expected.find(place)
            && matches!(expected.node(node).kind, Kind::Link(_))
        {
            return Ok(());
        }
        let wanted = expected.apply(&operation);
        let found = mounted::apply(&self.folder, &operation);
        self.operations += 1;
        match (wanted, found) {
            (Ok(()), Ok(())) => {}
            (wanted, Err(error)) if GONE.contains(&error) && dying.load(Ordering::SeqCst) => {
                // Nobody was told what became of it.
                if wanted.is_ok() {
                    self.record.note(&operation);
                }
                return Err(Gone);
            }
            (Err(refusal), Err(error))
                if errno(refusal).0 == error.raw_os_error()
                    || is_other_order(&operation, refusal, error) =>
            {
                return Ok(());
            }
            (wanted, found) => panic!(
                "{}: {operation:.300?}: the model says {wanted:?}, the kernel {found:?}",
                self.folder.display()
            ),
        }
        self.record.note(&operation);
        if let Operation::Write(place, _, bytes, true) = &operation
            && !bytes.is_empty()
        {
            self.record.promise(expected.find(place).ok(), 0);
        }
        Ok(())
    }

    fn fsync(&mut self, dying: &AtomicBool) -> Result<(), Gone> {
        let Some((place, node)) = self.record.tree.pick_file(&mut self.random) else {
            return Ok(());
        };
        let path = mounted::path(&self.folder, &place);
        let synced = mounted::open_for_reading(&path).and_then(rustix::fs::fsync);
        self.alive(synced, &place, dying)?;
        self.record.promise(Some(node), 0);
        Ok(())
    }

    fn alive<T>(
        &self,
        found: Result<T, Errno>,
        place: &Place,
        dying: &AtomicBool,
    ) -> Result<T, Gone> {
        match found {
            Ok(found) => Ok(found),
            Err(error) if GONE.contains(&error) && dying.load(Ordering::SeqCst) => Err(Gone),
            Err(error) => panic!("{}: {place:?}: {error}", self.folder.display()),
        }
    }

    /// Reads a part of a file, and where its holes are.
    fn look(&mut self, dying: &AtomicBool) -> Result<(), Gone> {
        let Some((place, node)) = self.record.tree.pick_file(&mut self.random) else {
            return Ok(());
        };
        let contents = self.record.tree.contents(node).expect("a file").clone();
        let path = mounted::path(&self.folder, &place);
        let file = self.alive(mounted::open_for_reading(&path), &place, dying)?;
        let start = self.random.below(contents.len() + 1000);
        let mut buffer = vec![0x5A; 1 + self.random.below(contents.len() + 1000)];
        let read = file.read_at(&mut buffer, start as u64);
        let read = read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let count = self.alive(read, &place, dying)?;
        let end = contents.len().min(start + buffer.len());
        let wanted = contents.get(start..end).unwrap_or_default();
        if count < wanted.len() && dying.load(Ordering::SeqCst) {
            // What the kernel had of it.
            return Err(Gone);
        }
        let about = format!("{}: {place:?}", self.folder.display());
        assert_eq!(count, wanted.len(), "{about} from {start}");
        assert!(
            buffer[..count] == *wanted,
            "{about} from {start}: other bytes"
        );
        let data = |at| match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => Ok(None),
            found => self.alive(found, &place, dying).map(Some),
        };
        let hole = |at| {
            let found = rustix::fs::seek(&file, SeekFrom::Hole(at));
            self.alive(found, &place, dying)
        };
        holes::check(&contents, &about, data, hole)
    }

    fn same(&self, when: &str) {
        let found = Picture::found(&mounted::read(&self.folder));
        let lines = Picture::of(&self.record.tree).differences(&found);
        let folder = self.folder.display();
        assert!(lines.is_empty(), "{folder}, {when}:\n{}", lines.join("\n"));
    }

    /// After the server was killed: what is there is what may be there, and the work goes on from it.
    fn judge(&mut self) {
        let found = mounted::read(&self.folder);
        let judged = self
            .record
            .judge(&found, Demand::Promised(0), Commits::Others);
        if let Err(lines) = judged {
            panic!("{}, killed:\n{}", self.folder.display(), lines.join("\n"));
        }
        let tree = found.tree().with_kernel_times(self.gathers);
        self.record = Record::from(Vec::new(), tree);
    }

    /// From here on nothing is remembered of what was before.
    fn settle(&mut self) {
        let tree: Tree = self.record.tree.clone();
        self.record = Record::from(Vec::new(), tree);
    }
}

/// The mask of this process, as others see it: asking for it by the system call would change it for all threads.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .expect("a mask")
}

/// Rounds of work, as long as `goes_on` says so. Each is ended by an export after so many turns or, every other one, by
/// killing the server after a random time of up to so many milliseconds.
fn rounds(turns: u64, life_ms: usize, goes_on: &mut dyn FnMut(u64) -> bool) {
    let Some(mut session) = Session::new() else {
        return;
    };
    let first = seed(1);
    println!("repeat with: MILLPOND_SEED={first}");
    let limits = tunables::for_daemons(first, tunables::CALLS_WHOLE);
    // The kernel gathers writes, if the seed says so.
    let gathers = limits.split(',').any(|limit| limit == "fuse.write_back=1");
    session.limit(&limits);
    session.create(POOL, 512, &["-O", "xattr=sa"]);
    let folder = |number: u64| session.mount(POOL).join(format!("worker{number}"));
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|number| Worker::new(folder(number), first * 1000 + number, umask(), gathers))
        .collect();
    session.ok(&["zpool", "sync", POOL]);
    let mut random = Random::new(first);
    let (mut round, mut killed) = (0, 0);
    while goes_on(round) {
        let dying = AtomicBool::new(false);
        let end = match round % 2 {
            0 => End::Turns(turns),
            _ => End::Killed,
        };
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (end, dying) = (&end, &dying);
                scope.spawn(move || worker.work(end, dying));
            }
            if matches!(end, End::Killed) {
                std::thread::sleep(Duration::from_millis(50 + random.below(life_ms) as u64));
                dying.store(true, Ordering::SeqCst);
                kill_server(&session, POOL);
            }
        });
        if matches!(end, End::Killed) {
            session.import(POOL, &[]);
            workers.iter_mut().for_each(Worker::judge);
            killed += 1;
        } else {
            workers.iter().for_each(|worker| worker.same("live"));
            session.export(POOL);
            session.import(POOL, &[]);
            workers.iter().for_each(|worker| worker.same("imported"));
            workers.iter_mut().for_each(Worker::settle);
        }
        round += 1;
    }
    session.export_clean(POOL);
    let operations: u64 = workers.iter().map(|worker| worker.operations).sum();
    println!("{round} rounds, {operations} operations, {killed} servers killed, 0 differences");
}

#[test]
fn mounted_files_are_as_the_model_says() {
    rounds(100, 500, &mut |round| round < 4);
}

mod torture {
    use super::{Duration, Instant, asked};

    /// `MILLPOND_SECONDS` (60) of rounds, from `MILLPOND_SEED` (1).
    #[test]
    #[ignore = "torture: rounds one after the other"]
    fn mounted_models() {
        let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
        let begun = Instant::now();
        super::rounds(600, 1500, &mut |_| {
            begun.elapsed() < Duration::from_secs(seconds)
        });
    }
}
