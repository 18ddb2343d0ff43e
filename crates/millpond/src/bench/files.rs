//! The scenarios that work on many files: `meta`, `readdir`, `write-data`,
//! `varmail`, `fsync`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::clock::real_now;
use base::random::{Rng, SeededRng};
use base::thread;

use super::measure::{Phase, Tally};
use super::run::{Run, drop_caches, joined, threads, worker};

/// Creates, cold stats, renames and unlinks of empty files in one directory.
pub(super) fn meta(run: &Run) -> io::Result<Vec<Phase>> {
    let path = |prefix: char, number: u64| run.directory.join(format!("{prefix}{number}"));
    let all = |name, operation: &dyn Fn(u64) -> io::Result<()>| {
        let _shown = run.shown(name);
        let mut tally = Tally::new(real_now());
        for number in 0..run.files {
            tally.time(|| operation(number))?;
        }
        Ok::<Phase, io::Error>(Phase::ended(name, tally))
    };
    let creates = all("create", &|number| {
        File::options()
            .write(true)
            .create_new(true)
            .open(path('m', number))
            .map(drop)
    })?;
    drop_caches();
    let stats = all("cold stat", &|number| {
        fs::metadata(path('m', number)).map(drop)
    })?;
    let renames = all("rename", &|number| {
        fs::rename(path('m', number), path('n', number))
    })?;
    let unlinks = all("unlink", &|number| fs::remove_file(path('n', number)))?;
    Ok(vec![creates, stats, renames, unlinks])
}

/// Threads that list one directory again and again. An operation is a whole listing.
pub(super) fn readdir(run: &Run) -> io::Result<Vec<Phase>> {
    const LISTINGS: usize = 20;
    let directory = run.directory.join("listed");
    fs::create_dir(&directory)?;
    let shown = run.shown("create");
    let mut creates = Tally::new(real_now());
    for number in 0..run.files {
        let path = directory.join(format!("file-{number:06}"));
        creates.time(|| File::create(&path).map(drop))?;
    }
    let creates = Phase::ended("create", creates);
    drop(shown);
    let _shown = run.shown("list");
    let start = real_now();
    let listings = threads(run.threads, start, |_, tally| {
        for _ in 0..LISTINGS {
            let count = tally.time(|| fs::read_dir(&directory).map(Iterator::count))?;
            if count as u64 != run.files {
                return Err(io::Error::other(format!(
                    "{count} entries of {}",
                    run.files
                )));
            }
        }
        Ok(())
    })?;
    Ok(vec![creates, Phase::ended("list", listings)])
}

/// Files of a directory of `write-data`.
const FILES_A_DIRECTORY: u64 = 64;

/// Threads write a tree of small files (some 10 KiB each), into an empty directory and then over
/// the same files. An operation is a file: open, write, close. What a phase wrote is durable before
/// its clock stops.
pub(super) fn write_data(run: &Run) -> io::Result<Vec<Phase>> {
    let directories = run.files.div_ceil(FILES_A_DIRECTORY).div_ceil(run.threads);
    let mut phases = Vec::new();
    for name in ["empty", "again"] {
        let _shown = run.shown(name);
        let start = real_now();
        let tally = threads(run.threads, start, |thread, tally| {
            let random = SeededRng::new(1_234_567 + thread * 7919);
            for directory in 0..directories {
                let number = directory * run.threads + thread;
                write_directory(run, number, &random, tally)?;
            }
            Ok(())
        })?;
        run.make_durable()?;
        phases.push(Phase::ended(name, tally));
    }
    Ok(phases)
}

fn write_directory(
    run: &Run,
    number: u64,
    random: &SeededRng,
    tally: &mut Tally,
) -> io::Result<()> {
    // Scattered over 256 × 256 × 16 directories, as names made of hashes are.
    let place = (number as u32).wrapping_mul(2_654_435_761);
    let directory = run.directory.join(format!(
        "{:02X}/{:02X}/{:X}-{number}",
        place >> 24,
        place >> 16 & 255,
        place >> 12 & 15
    ));
    fs::create_dir_all(&directory)?;
    for file in 1..=FILES_A_DIRECTORY {
        let path = directory.join(file.to_string());
        let length = 10_240 - 512 + random.below(1024);
        tally.time(|| {
            let mut file = File::create(&path)?;
            file.write_all(run.contents.piece(random, length))
        })?;
        tally.bytes += length;
    }
    Ok(())
}

/// A mail server: each thread removes a mail, writes another and makes it durable, reads one and adds
/// to it durably, and reads one more. Phase `operation` has every system call of it, `fsync` those alone.
pub(super) fn varmail(run: &Run) -> io::Result<Vec<Phase>> {
    for folder in 0..256 {
        fs::create_dir(run.directory.join(format!("{folder:02x}")))?;
    }
    let random = SeededRng::new(98);
    let shown = run.shown("prepare");
    let mut prepared = Tally::new(real_now());
    for mail in 0..run.files {
        prepared.time(|| {
            let mut file = File::create(mail_path(&run.directory, mail))?;
            file.write_all(run.contents.piece(&random, 16 << 10))
        })?;
        prepared.bytes += 16 << 10;
    }
    run.make_durable()?;
    let prepared = Phase::ended("prepare", prepared);
    drop(shown);
    let _shown = run.shown("operation");
    let start = real_now();
    let end = start + run.time;
    let results: io::Result<Vec<(Tally, Tally)>> = thread::scope(|scope| {
        let handles: io::Result<Vec<_>> = (0..run.threads)
            .map(|thread| {
                worker().spawn_scoped(scope, move || {
                    let mut user = MailUser {
                        run,
                        random: SeededRng::new(99 + thread * 1_000_003),
                        buffer: vec![0; MAIL_BUFFER_BYTES],
                        operations: Tally::new(start),
                        fsyncs: Tally::new(start),
                    };
                    while real_now() < end {
                        user.round()?;
                    }
                    Ok((user.operations, user.fsyncs))
                })
            })
            .collect();
        handles?.into_iter().map(joined).collect()
    });
    let took = start.elapsed();
    let (mut operations, mut fsyncs) = (Tally::new(start), Tally::new(start));
    for (more, more_fsyncs) in results? {
        operations.merge(&more);
        fsyncs.merge(&more_fsyncs);
    }
    Ok(vec![
        prepared,
        Phase::took("operation", took, operations),
        Phase::took("fsync", took, fsyncs),
    ])
}

/// Each thread writes 4 KiB somewhere into a file of its own, again and again. An operation is the
/// fsync after each.
pub(super) fn fsync(run: &Run) -> io::Result<Vec<Phase>> {
    const BLOCK_BYTES: u64 = 4 << 10;
    const BLOCKS: u64 = 1024;
    let _shown = run.shown("fsync");
    let open = |thread: u64| {
        let path = run.directory.join(format!("fsync-{thread}"));
        let mut options = File::options();
        options.create(true).truncate(false).write(true).open(path)
    };
    for thread in 0..run.threads {
        let random = SeededRng::new(thread);
        let content = run.contents.piece(&random, BLOCKS * BLOCK_BYTES);
        open(thread)?.write_all(content)?;
    }
    run.make_durable()?;
    let start = real_now();
    let end = start + run.time;
    let tally = threads(run.threads, start, |thread, tally| {
        let random = SeededRng::new(7 + thread);
        let file = open(thread)?;
        while real_now() < end {
            let data = run.contents.piece(&random, BLOCK_BYTES);
            file.write_all_at(data, random.below(BLOCKS) * BLOCK_BYTES)?;
            tally.time(|| file.sync_all())?;
            tally.bytes += BLOCK_BYTES;
        }
        Ok(())
    })?;
    let fsyncs = Phase::ended("fsync", tally);
    Ok(vec![fsyncs, round_trips(run)?])
}

/// What a request costs that the kernel never answers by itself, of a FUSE file system: with this much
/// an fsync begins and ends. They come one by one, as fsyncs do.
fn round_trips(run: &Run) -> io::Result<Phase> {
    const REQUESTS: u32 = 500;
    const PAUSE: Duration = Duration::from_micros(200);
    let mut tally = Tally::new(real_now());
    for _ in 0..REQUESTS {
        std::thread::sleep(PAUSE);
        tally.time(|| rustix::fs::statvfs(&run.directory).map_err(io::Error::from))?;
    }
    Ok(Phase::ended("statfs", tally))
}

fn mail_path(directory: &Path, mail: u64) -> PathBuf {
    directory.join(format!("{:02x}/{mail}", mail & 255))
}

/// Reads to the end of a file, into memory that is used again and without asking for its length first: neither what
/// memory costs nor a request that no mail server asks is to be measured. How many bytes there were.
pub(super) fn read_whole(mut file: &File, buffer: &mut [u8]) -> io::Result<u64> {
    let mut total = 0;
    loop {
        match file.read(buffer)? {
            0 => return Ok(total),
            count => total += count as u64,
        }
    }
}

/// Longer than nearly all mails: they are read at once.
const MAIL_BUFFER_BYTES: usize = 1 << 20;

struct MailUser<'a> {
    run: &'a Run,
    random: SeededRng,
    buffer: Vec<u8>,
    operations: Tally,
    fsyncs: Tally,
}

impl MailUser<'_> {
    fn some_mail(&self) -> PathBuf {
        mail_path(&self.run.directory, self.random.below(self.run.files))
    }

    fn round(&mut self) -> io::Result<()> {
        let path = self.some_mail();
        self.allowing_absence(|| fs::remove_file(&path))?;
        let file = self.operations.time(|| {
            let mut options = File::options();
            options.create(true).truncate(false).write(true).open(&path)
        })?;
        self.write_durably(file)?;
        for adds in [true, false] {
            let path = self.some_mail();
            let opened =
                self.allowing_absence(|| File::options().read(true).append(true).open(&path))?;
            // Another user has just removed it.
            let Some(file) = opened else { continue };
            let buffer = &mut self.buffer;
            self.operations.time(|| read_whole(&file, buffer))?;
            if adds {
                self.write_durably(file)?;
            } else {
                self.close(file);
            }
        }
        Ok(())
    }

    fn write_durably(&mut self, mut file: File) -> io::Result<()> {
        let length = (8 << 10) + self.random.below(16 << 10);
        let data = self.run.contents.piece(&self.random, length);
        self.operations.time(|| file.write_all(data))?;
        self.operations.bytes += length;
        let begun = real_now();
        file.sync_all()?;
        self.operations.add(begun);
        self.fsyncs.add(begun);
        self.fsyncs.bytes += length;
        self.close(file);
        Ok(())
    }

    fn close(&mut self, file: File) {
        let begun = real_now();
        drop(file);
        self.operations.add(begun);
    }

    /// Times an operation on a mail that somebody else may have removed.
    fn allowing_absence<T>(
        &mut self,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        match self.operations.time(operation) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
