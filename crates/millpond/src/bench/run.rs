//! What every scenario works with: where and how it runs, bytes to write, threads.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use admin::Change;
use base::random::{Rng, SeededRng};
use base::thread::{self, Role, ScopedJoinHandle, Start};

use super::measure::Tally;
use crate::progress::Ticker;

/// Where and how a scenario runs.
pub(super) struct Run {
    /// The directory that was named.
    pub(super) place: PathBuf,
    /// A new one in it, in which all is written.
    pub(super) directory: PathBuf,
    /// Where `mkbig` keeps its file and `rdbig` finds it, whatever process wrote it.
    pub(super) kept: PathBuf,
    pub(super) threads: u64,
    pub(super) files: u64,
    pub(super) time: Duration,
    pub(super) megabytes: u64,
    pub(super) record: u64,
    pub(super) stride: bool,
    pub(super) contents: Contents,
    /// Programs that compute meanwhile.
    pub(super) beside: u64,
    /// The Millpond pool that the directory is in: it has to be told, for it never hears of `syncfs`.
    pub(super) pool: Option<String>,
    /// A shell command that makes what was written durable: other FUSE servers do not hear of `syncfs` either.
    pub(super) durable: Option<String>,
}

impl Run {
    /// Says on a terminal that a phase runs, and for how long, until what is returned is dropped.
    pub(super) fn shown(&self, phase: &str) -> Ticker {
        let of = match self.time {
            time if time > Duration::from_secs(1) => format!(" (at least {} s)", time.as_secs()),
            _ => String::new(),
        };
        Ticker::start(format!("{phase}{of}"))
    }

    /// Everything written so far is on the device when this returns.
    pub(super) fn make_durable(&self) -> io::Result<()> {
        rustix::fs::syncfs(File::open(&self.place)?)?;
        if let Some(command) = &self.durable {
            let ended = Command::new("sh").args(["-c", command]).status()?;
            if !ended.success() {
                return Err(io::Error::other(format!("'{command}': {ended}")));
            }
        }
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        crate::daemons::pool(pool)
            .and_then(|mut connection| {
                let request = admin::Request::Change {
                    change: Change::Sync,
                    command: String::new(),
                };
                connection.call(&request, &mut |_| Ok(()))
            })
            .map_err(|failure| io::Error::other(failure.to_string()))
    }
}

/// Bytes to be written: every other word is random, so they compress to some half.
pub(super) struct Contents(Vec<u8>);

impl Contents {
    const BYTES: usize = 8 << 20;

    pub(super) fn new() -> Self {
        let random = SeededRng::new(88_172_645_463_325_252);
        let mut bytes = vec![b' '; Self::BYTES];
        for pair in bytes.chunks_exact_mut(16) {
            random.fill(&mut pair[..8]);
        }
        Self(bytes)
    }

    /// So many bytes, at most 4 MiB, from somewhere.
    pub(super) fn piece(&self, random: &SeededRng, length: u64) -> &[u8] {
        let length = usize::try_from(length).unwrap_or(0).min(Self::BYTES / 2);
        let pages = (Self::BYTES / 2 / 4096) as u64;
        let start = random.below(pages) as usize * 4096;
        self.0.get(start..start + length).unwrap_or_default()
    }
}

/// Runs `work` on so many threads, each with its number and a tally; the sum of all.
pub(super) fn threads(
    count: u64,
    start: Instant,
    work: impl Fn(u64, &mut Tally) -> io::Result<()> + Sync,
) -> io::Result<Tally> {
    let work = &work;
    thread::scope(|scope| {
        let started: io::Result<Vec<_>> = (0..count)
            .map(|thread| {
                worker().spawn_scoped(scope, move || {
                    let mut tally = Tally::new(start);
                    work(thread, &mut tally)?;
                    Ok(tally)
                })
            })
            .collect();
        let mut sum = Tally::new(start);
        for thread in started? {
            sum.merge(&joined(thread)?);
        }
        Ok(sum)
    })
}

/// One of a benchmark's threads.
pub(super) fn worker() -> Start {
    thread::named("bench", Role::PART)
}

pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// Empties the kernel's caches, if we may.
pub(super) fn drop_caches() {
    rustix::fs::sync();
    // Only root may; `notes` says so.
    let _dropped = fs::write("/proc/sys/vm/drop_caches", "3");
}
