//! What a request costs whose answer is in memory, alone and beside writers that wait for room.

use super::measure::{Phase, Tally};
use super::run::{Run, joined, worker};
use base::clock::real_now;
use base::random::SeededRng;
use base::thread;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Each is measured so often, in turns: what the machine does besides meets both.
const ROUNDS: u32 = 3;
/// Between two requests: they come one by one.
const PAUSE: Duration = Duration::from_micros(200);
/// What a writer writes at once.
const PIECE_BYTES: u64 = 64 << 10;
/// A writer begins anew after so much, so that no space runs out.
const FILE_BYTES: u64 = 4 << 20;

/// `stat` of one file, which the server is asked each time, alone and beside so many writers that never stop.
pub(super) fn throttled(run: &Run) -> io::Result<Vec<Phase>> {
    let asked = run.directory.join("asked");
    fs::write(&asked, b"some words")?;
    let files = (0..run.threads).map(|writer| File::create(run.directory.join(writer.to_string())));
    let files: Vec<File> = files.collect::<io::Result<_>>()?;
    let start = real_now();
    let (mut alone, mut beside, mut writes) =
        (Tally::new(start), Tally::new(start), Tally::new(start));
    let mut took = Duration::ZERO;
    let _shown = run.shown("stat alone and beside writers");
    for _ in 0..ROUNDS {
        run.make_durable()?;
        // Each round counts its seconds from its own start.
        let mut requests = Tally::new(real_now());
        ask(&asked, run.time, &mut requests)?;
        alone.merge(&requests);
        let (asked, written) = crowded(run, &files, &asked)?;
        beside.merge(&asked);
        writes.merge(&written);
        took += run.time;
    }
    Ok(vec![
        Phase::took("stat alone", took, alone),
        Phase::took("stat beside", took, beside),
        Phase::took("write", took, writes),
    ])
}

fn ask(path: &Path, time: Duration, tally: &mut Tally) -> io::Result<()> {
    let end = real_now() + time;
    while real_now() < end {
        std::thread::sleep(PAUSE);
        // The kernel would answer from its own memory.
        tally.time(|| {
            statx(
                CWD,
                path,
                AtFlags::STATX_FORCE_SYNC,
                StatxFlags::BASIC_STATS,
            )
            .map_err(io::Error::from)
        })?;
    }
    Ok(())
}

/// Asks while all write, from when they have written for as long as is asked then: what a server takes without waiting
/// is full. The requests, and the writes meanwhile.
fn crowded(run: &Run, files: &[File], asked: &Path) -> io::Result<(Tally, Tally)> {
    let start = real_now() + run.time;
    let (over, counted) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: io::Result<Vec<_>> = files
            .iter()
            .enumerate()
            .map(|(writer, file)| {
                let (over, counted) = (&over, &counted);
                worker().spawn_scoped(scope, move || -> io::Result<Tally> {
                    let mut tally = Tally::new(start);
                    let random = SeededRng::new(writer as u64);
                    let mut at = 0;
                    while !over.load(Ordering::Relaxed) {
                        let piece = run.contents.piece(&random, PIECE_BYTES);
                        let begun = real_now();
                        file.write_all_at(piece, at)?;
                        at = (at + PIECE_BYTES) % FILE_BYTES;
                        if counted.load(Ordering::Relaxed) {
                            tally.add(begun);
                            tally.bytes += PIECE_BYTES;
                        }
                    }
                    Ok(tally)
                })
            })
            .collect();
        // Those that were started when another could not be end.
        let writers = writers.inspect_err(|_| over.store(true, Ordering::Relaxed))?;
        std::thread::sleep(run.time);
        counted.store(true, Ordering::Relaxed);
        let mut requests = Tally::new(start);
        let outcome = ask(asked, run.time, &mut requests);
        over.store(true, Ordering::Relaxed);
        let mut writes = Tally::new(start);
        for writer in writers {
            writes.merge(&joined(writer)?);
        }
        outcome.map(|()| (requests, writes))
    })
}
