//! Who asked for something that takes long, and whether it is still to be done.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// A client's connection, and what is set when its work is to end.
#[derive(Debug)]
pub struct Client {
    /// None: somebody in this process, who is there.
    connection: Option<OwnedFd>,
    stop: Arc<AtomicBool>,
}

impl Client {
    /// Who asked over this connection.
    #[must_use]
    pub fn new(connection: OwnedFd) -> Self {
        Self {
            connection: Some(connection),
            stop: Arc::default(),
        }
    }

    /// Somebody in this process.
    #[must_use]
    pub fn own() -> Self {
        Self {
            connection: None,
            stop: Arc::default(),
        }
    }

    /// The same once more. What stops one of the two stops both.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let connection = self.connection.as_ref();
        Ok(Self {
            connection: connection.map(OwnedFd::try_clone).transpose()?,
            stop: Arc::clone(&self.stop),
        })
    }

    /// Set by whoever wants the work to end soon.
    #[must_use]
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether the work is still to be done; does not wait.
    ///
    /// # Errors
    /// It is to end: the pool is about to be closed, or the client is gone.
    pub fn check(&self) -> io::Result<()> {
        self.wait(&[], Duration::ZERO).map(drop)
    }

    /// Waits a time for one of the descriptors; whether one is ready, which may have an error to tell.
    ///
    /// # Errors
    /// As [`Client::check`], at once if the client goes meanwhile.
    pub(crate) fn wait(&self, wanted: &[PollFd<'_>], time: Duration) -> io::Result<bool> {
        if self.stop.load(Ordering::Acquire) {
            return Err(io::Error::other("the pool is about to be closed"));
        }
        let time = Timespec::try_from(time).map_err(|_| ErrorKind::InvalidInput)?;
        let connection = self.connection.as_ref();
        let mut asked = wanted.to_vec();
        asked.extend(connection.map(|connection| PollFd::new(connection, PollFlags::RDHUP)));
        match rustix::event::poll(&mut asked, Some(&time)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let (descriptors, client) = asked.split_at(wanted.len());
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if client.iter().any(|one| one.revents().intersects(ended)) {
            return Err(io::Error::new(
                ErrorKind::ConnectionAborted,
                "the command is gone",
            ));
        }
        Ok(descriptors.iter().any(|one| !one.revents().is_empty()))
    }
}
