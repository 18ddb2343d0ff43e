//! The scenarios that work on one large file: `mkbig`, `rdbig`, `fanread`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::clock::real_now;
use base::random::SeededRng;
use rustix::fs::OFlags;

use super::measure::{Phase, Tally};
use super::run::{Run, drop_caches, threads};

const PIECE: usize = 128 << 10;

/// The large file, in the directory of the run that writes it.
fn big(directory: &Path) -> PathBuf {
    directory.join("big")
}

/// The file that an earlier `mkbig` kept.
pub(super) fn kept_file(run: &Run) -> PathBuf {
    big(&run.kept)
}

/// Writes one large file and makes it durable. An operation is a write of 1 MiB.
pub(super) fn mkbig(run: &Run) -> io::Result<Vec<Phase>> {
    let tally = make(run, &big(&run.directory))?;
    Ok(vec![Phase::ended("write", tally)])
}

fn make(run: &Run, path: &Path) -> io::Result<Tally> {
    let _shown = run.shown("write");
    let random = SeededRng::new(7);
    let mut tally = Tally::new(real_now());
    let mut file = File::create_new(path)?;
    for _ in 0..run.megabytes {
        tally.time(|| file.write_all(run.contents.piece(&random, 1 << 20)))?;
        tally.bytes += 1 << 20;
    }
    file.sync_all()?;
    drop(file);
    run.make_durable()?;
    Ok(tally)
}

/// Reads the file that `mkbig` kept from its beginning to its end. An operation is a read of 128 KiB.
pub(super) fn rdbig(run: &Run) -> io::Result<Vec<Phase>> {
    drop_caches();
    let _shown = run.shown("cold read");
    let mut options = File::options();
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = options
        .read(true)
        .custom_flags(no_link)
        .open(kept_file(run))?;
    let mut tally = Tally::new(real_now());
    let mut piece = vec![0; PIECE];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    loop {
        let count = tally.time(|| file.read(&mut piece))?;
        if count == 0 {
            break;
        }
        tally.bytes += count as u64;
        hash = hashed(hash, piece.get(..count).unwrap_or_default());
    }
    std::hint::black_box(hash);
    Ok(vec![Phase::ended("cold read", tally)])
}

/// Something to do with the bytes, as a reader would.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(hash, |hash, word| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Threads read one file, each its own part from front to back, or (`stride`) records scattered over
/// all of it. An operation is a read of one record.
pub(super) fn fanread(run: &Run) -> io::Result<Vec<Phase>> {
    let path = run.directory.join("shared");
    let bytes = run.megabytes << 20;
    make(run, &path)?;
    drop_caches();
    let _shown = run.shown("read");
    let records = bytes / run.record;
    let share = records / run.threads;
    let start = real_now();
    let tally = threads(run.threads, start, |thread, tally| {
        let file = File::open(&path)?;
        let mut data = vec![0; usize::try_from(run.record).unwrap_or(PIECE)];
        let first = share * thread;
        for number in 0..share {
            let record = if run.stride {
                (first + number * 17) % records
            } else {
                first + number
            };
            tally.time(|| file.read_exact_at(&mut data, record * run.record))?;
            tally.bytes += run.record;
        }
        Ok(())
    })?;
    Ok(vec![Phase::ended("read", tally)])
}
