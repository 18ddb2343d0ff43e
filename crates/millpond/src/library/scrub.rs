//! Scrubs of a pool that is open.

use std::time::{Duration, SystemTime};

use admin::queries::Status;
use admin::{Change, ScanKind, ScanState, ScrubAction};

use super::{Pool, Result};

/// How a scrub stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScrubState {
    /// It runs.
    Running,
    /// It waits to be started again.
    Paused,
    /// It ended.
    Finished,
    /// It was stopped.
    Canceled,
}

/// What a scrub found so far.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.start_scrub()?;
/// let report = pool.wait_for_scrub()?.unwrap();
/// assert_eq!((report.state, report.errors), (ScrubState::Finished, 0));
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubReport {
    /// How it stands.
    pub state: ScrubState,
    /// When it began.
    pub started: SystemTime,
    /// Blocks that no copy or parity could repair.
    pub errors: u64,
    /// Bytes that were repaired.
    pub repaired: u64,
    /// Bytes to look at.
    pub to_examine: u64,
    /// Bytes looked at.
    pub examined: u64,
}

impl Pool {
    /// Starts a scrub: every block of the pool is read, its checksum compared, and what is wrong repaired from another
    /// copy or parity. One that was paused or broke off goes on.
    ///
    /// # Errors
    /// One runs already, or the pool is read-only.
    pub fn start_scrub(&self) -> Result<()> {
        self.change(Change::Scrub(ScrubAction::Start))
    }

    /// Pauses a scrub.
    ///
    /// # Errors
    /// None runs.
    pub fn pause_scrub(&self) -> Result<()> {
        self.change(Change::Scrub(ScrubAction::Pause))
    }

    /// Stops a scrub.
    ///
    /// # Errors
    /// None runs.
    pub fn stop_scrub(&self) -> Result<()> {
        self.change(Change::Scrub(ScrubAction::Stop))
    }

    /// Waits until no scrub runs, and says what the last one found; none if there was none.
    ///
    /// # Errors
    /// The pool was exported, or cannot go on.
    pub fn wait_for_scrub(&self) -> Result<Option<ScrubReport>> {
        self.change(Change::WaitScrub)?;
        self.scrub_report()
    }

    /// How the last scrub stands; none if there was none, or a resilver since.
    ///
    /// # Errors
    /// The pool was exported.
    pub fn scrub_report(&self) -> Result<Option<ScrubReport>> {
        let status = self.ask(Status)?;
        let found = status.scan.filter(|scan| scan.kind == ScanKind::Scrub);
        Ok(found.map(|scan| ScrubReport {
            state: match scan.state {
                ScanState::Running => ScrubState::Running,
                ScanState::Paused => ScrubState::Paused,
                ScanState::Finished => ScrubState::Finished,
                ScanState::Canceled => ScrubState::Canceled,
            },
            started: SystemTime::UNIX_EPOCH
                .checked_add(Duration::from_secs(scan.started))
                .unwrap_or(SystemTime::UNIX_EPOCH),
            errors: scan.errors,
            repaired: scan.repaired,
            to_examine: scan.to_examine,
            examined: scan.scanned,
        }))
    }
}
