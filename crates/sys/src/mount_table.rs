//! Changes of the mount table.

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;

/// Tells when something was mounted, unmounted or mounted otherwise.
#[derive(Debug)]
pub struct MountTableWatch(File);

impl MountTableWatch {
    /// From now on.
    ///
    /// # Errors
    /// When the mount table cannot be opened.
    pub fn new() -> io::Result<Self> {
        File::open("/proc/self/mountinfo").map(Self)
    }

    /// Waits for a change since the last one that was told of.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn wait(&self) -> io::Result<()> {
        let mut asked = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut asked, None)?;
        Ok(())
    }
}
