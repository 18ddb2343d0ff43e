//! The server is killed with SIGKILL while threads write, rename and fsync on a real mount. What an fsync had
//! acknowledged is there after the restart; what was under way is there, or not, or in part; nothing else is.

use super::lifecycle::kill_server;
use super::session::Session;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS: u64 = 4;
const FILES: u64 = 12;

/// A file as a thread knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last version that an fsync acknowledged; 0 = none.
    durable: u64,
    /// The newest version that was begun.
    begun: u64,
}

type Files = BTreeMap<u64, Known>;

/// Every word of a version is its number; lengths differ from file to file.
fn content(file: u64, version: u64) -> Vec<u8> {
    let words = 1 + (file * 97) % 3000;
    version.to_le_bytes().repeat(words as usize)
}

fn name(file: u64) -> String {
    format!("file{file}")
}

/// Writes new versions, in place or by renaming a new file over the old one, until the server is gone.
fn work(folder: &Path, thread: u64, files: &mut Files, stop: &AtomicBool) {
    let mut turn = thread;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let file = (turn * 7) % FILES;
        let known = files.entry(file).or_default();
        known.begun += 1;
        let version = known.begun;
        let path = folder.join(name(file));
        let written = if turn.is_multiple_of(3) {
            replace(folder, &path, &content(file, version))
        } else {
            overwrite(&path, &content(file, version))
        };
        match written {
            Ok(()) => known.durable = version,
            // The server is gone: what became of this version, nobody was told.
            Err(_) => return,
        }
    }
}

/// Every other version by a synchronous write (`O_DSYNC`), the others by fsync.
fn overwrite(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    const SYNCHRONOUS: i32 = 0o10_000;
    let synchronous = bytes.first().is_some_and(|version| version % 2 == 1);
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(if synchronous { SYNCHRONOUS } else { 0 })
        .open(path)?;
    file.write_all(bytes)?;
    if synchronous {
        return Ok(());
    }
    file.sync_all()
}

/// As mail servers and editors do: a new file, made durable, takes the place of the old one.
fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = folder.join("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

/// What is wrong with a file after the restart.
fn problem(folder: &Path, file: u64, known: Known) -> Option<String> {
    let bytes = match fs::read(folder.join(name(file))) {
        Ok(bytes) => bytes,
        Err(_) if known.durable == 0 => return None,
        Err(error) => return Some(format!("version {} was durable: {error}", known.durable)),
    };
    let allowed = known.durable..=known.begun;
    let words = bytes.chunks(8).map(|word| {
        let mut full = [0; 8];
        full[..word.len()].copy_from_slice(word);
        u64::from_le_bytes(full)
    });
    let wrong = words.clone().find(|word| !allowed.contains(word));
    let wanted = content(file, 1).len();
    match wrong {
        Some(word) => Some(format!("version {word} is none of {allowed:?}")),
        None if known.durable > 0 && bytes.len() != wanted => {
            Some(format!("{} bytes, not {wanted}", bytes.len()))
        }
        None => None,
    }
}

fn rounds(count: u64) {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("killed", 256, &[]);
    let folder =
        |session: &Session, thread: u64| session.mount("killed").join(format!("thread{thread}"));
    for thread in 0..THREADS {
        fs::create_dir(folder(&session, thread)).expect("a folder");
    }
    session.ok(&["zpool", "sync", "killed"]);
    let mut all: Vec<Files> = (0..THREADS).map(|_| Files::new()).collect();
    for round in 0..count {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (thread, files) in (0..).zip(&mut all) {
                let (folder, stop) = (folder(&session, thread), &stop);
                scope.spawn(move || work(&folder, thread + 31 * round, files, stop));
            }
            std::thread::sleep(Duration::from_millis(300 + 170 * (round % 7)));
            kill_server(&session, "killed");
            stop.store(true, Ordering::Relaxed);
        });
        session.import("killed", &[]);
        for (thread, files) in (0..).zip(&mut all) {
            let folder = folder(&session, thread);
            for (file, known) in files {
                if let Some(problem) = problem(&folder, *file, *known) {
                    panic!("round {round}, thread {thread}, file {file}: {problem}");
                }
                // The next round begins from what there is.
                let _ = fs::remove_file(folder.join("new"));
                if fs::metadata(folder.join(name(*file))).is_err() {
                    *known = Known::default();
                } else {
                    known.durable = known.durable.min(known.begun);
                }
            }
        }
    }
    let acknowledged: u64 = all
        .iter()
        .flat_map(Files::values)
        .map(|known| known.durable)
        .sum();
    println!("{count} rounds, {acknowledged} acknowledged versions");
    session.export_clean("killed");
}

#[test]
fn what_was_acknowledged_survives_killed_servers() {
    rounds(5);
}

mod torture {
    #[test]
    #[ignore = "torture: three hundred killed servers"]
    fn three_hundred_killed_servers() {
        super::rounds(300);
    }
}
