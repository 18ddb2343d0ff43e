//! Who we are, who is at the other end of a socket, and which signals arrived.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// The process at the other end of a Unix socket, as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; 0 of a process that this one's PID namespace does not show.
    pub pid: u32,
}

/// Who is at the other end of a Unix socket.
///
/// # Errors
/// What getsockopt(2) says.
#[allow(unsafe_code)]
pub fn peer_credentials(socket: impl AsFd) -> Result<PeerCredentials, Errno> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = libc::socklen_t::try_from(size_of_val(&peer)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed and open; the pointers name a plain structure of integers, for which every
    // pattern of bits is good, and its length in bytes; both outlive the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(errno());
    }
    Ok(PeerCredentials {
        uid: peer.uid,
        gid: peer.gid,
        // Negative it never is.
        pid: u32::try_from(peer.pid).unwrap_or(0),
    })
}

/// The effective user id of this process.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group id of this process.
#[must_use]
pub fn group_id() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Whether nobody reads any more what is written to this pipe. Returns at once when that is so, and after `wait` when
/// it is not.
#[must_use]
pub fn is_reader_gone(pipe: impl AsFd, wait: Duration) -> bool {
    let mut asked = [PollFd::new(&pipe, PollFlags::empty())];
    let wait = Timespec::try_from(wait).ok();
    // Interrupted, or not to be had: no.
    poll(&mut asked, wait.as_ref()).is_ok()
        && asked
            .iter()
            .any(|one| one.revents().contains(PollFlags::ERR))
}

/// Lets this process open as many files as it may at all: the limit that it starts with is made for programs that wait
/// with select(2), and is a few mounts' worth.
///
/// # Errors
/// What setrlimit(2) says.
pub fn raise_file_limit() -> Result<(), Errno> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)
}

/// Leaves the terminal: a session of our own, so that its hang-up and its signals are not ours.
///
/// # Errors
/// PERM when this process leads a process group.
pub fn new_session() -> Result<(), Errno> {
    rustix::process::setsid().map(drop)
}

/// Makes `input` the standard input and `output` the standard output and error.
///
/// # Errors
/// What dup2(2) says.
pub fn replace_standard_streams(input: impl AsFd, output: impl AsFd) -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(&output)?;
    rustix::stdio::dup2_stderr(&output)
}

/// Closes every descriptor but the standard streams: whoever started this process may have left
/// locks and pipes open in it, which would stay taken for as long as it lives.
///
/// To be called first in a process, before it has opened anything.
///
/// # Errors
/// What close_range(2) says; NOSYS before Linux 5.9.
#[allow(unsafe_code)]
pub fn close_inherited() -> Result<(), Errno> {
    // SAFETY: called before this process opened anything, so no owner of a descriptor above 2
    // exists in it. The call reads and writes no memory.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Signals that a [`SignalDescriptor`] receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGHUP.
    HangUp,
}

/// Receives SIGTERM, SIGINT and SIGHUP as data instead of being ended by them.
#[derive(Debug)]
pub struct SignalDescriptor {
    descriptor: OwnedFd,
}

impl AsFd for SignalDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl SignalDescriptor {
    /// Blocks the signals in the calling thread, and so in all threads that it starts from now
    /// on: to be called before there are any others.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn new() -> Result<Self, Errno> {
        let descriptor = signals_as_data(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
        Ok(Self { descriptor })
    }

    /// Waits for one of the signals.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn wait(&self) -> Result<TerminationSignal, Errno> {
        // struct signalfd_siginfo: 128 bytes, the signal's number first.
        let mut information = [0; 128];
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(&self.descriptor, &mut information[..]))?;
        let number = information
            .first_chunk::<4>()
            .filter(|_| read >= 4)
            .ok_or(Errno::IO)?;
        Ok(match i32::try_from(u32::from_ne_bytes(*number)) {
            Ok(libc::SIGINT) => TerminationSignal::Interrupt,
            Ok(libc::SIGHUP) => TerminationSignal::HangUp,
            _ => TerminationSignal::Terminate,
        })
    }
}

/// Receives SIGUSR1, by which people ask a command how far it is, instead of being ended by it.
#[derive(Debug)]
pub struct AskedSignal {
    descriptor: OwnedFd,
}

impl AskedSignal {
    /// Blocks the signal in the calling thread, and so in all threads that it starts from now on: to be called before
    /// there are any others.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn new() -> Result<Self, Errno> {
        let descriptor = signals_as_data(&[libc::SIGUSR1])?;
        Ok(Self { descriptor })
    }

    /// Waits for the signal, at most so long; answers whether it came.
    ///
    /// # Errors
    /// What poll(2) and read(2) say.
    pub fn wait(&self, limit: Duration) -> Result<bool, Errno> {
        let timeout = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
        let mut asked = [PollFd::new(&self.descriptor, PollFlags::IN)];
        match poll(&mut asked, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let mut information = [0; 128];
        rustix::io::retry_on_intr(|| rustix::io::read(&self.descriptor, &mut information[..]))?;
        Ok(true)
    }
}

/// Blocks signals in the calling thread, and gives them as data.
#[allow(unsafe_code)]
fn signals_as_data(signals: &[libc::c_int]) -> Result<OwnedFd, Errno> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set that the pointer names; the other calls
    // get the initialised set, and no old mask to write to.
    let (status, set) = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        let set = set.assume_init();
        (
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()),
            set,
        )
    };
    if status != 0 {
        return Err(Errno::from_raw_os_error(status));
    }
    // SAFETY: -1 asks for a new descriptor; the set is initialised.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(errno());
    }
    // SAFETY: signalfd has just returned this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
