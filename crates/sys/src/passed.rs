//! Descriptors that travel over Unix sockets, and data that goes through a descriptor of somebody else's.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::client::Client;

/// How often somebody who waits for the other side of a descriptor looks whether he is still to.
const LOOK: Duration = Duration::from_millis(100);

/// Of a pipe of 64 KiB both sides wait for each other all the time. No more than this is anybody's without privilege
/// (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Sends bytes with a descriptor beside the first of them. Says how many were sent.
///
/// # Errors
/// What sendmsg(2) says.
pub fn send_descriptor(
    socket: impl AsFd,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(bytes)];
    let send = || {
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&socket, &parts, &mut ancillary, flags)
    };
    Ok(rustix::io::retry_on_intr(send)?)
}

/// Receives bytes, and a descriptor if one lies beside them; of several, the first.
///
/// # Errors
/// What recvmsg(2) says.
pub fn receive_descriptor(
    socket: impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, flags)?;
    let mut found = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            // All are taken out: what is dropped is closed.
            for descriptor in descriptors {
                found.get_or_insert(descriptor);
            }
        }
    }
    Ok((received.bytes, found))
}

/// A descriptor that a client passed, to be read or written as long as the client is there.
///
/// The client may share it with others, so its own state is left alone. Whoever waits for the other side of it gives up
/// when the client's connection ends, or when `stop` is set.
#[derive(Debug)]
pub struct PassedDescriptor {
    descriptor: OwnedFd,
    is_socket: bool,
    client: Client,
}

/// Whether a passed descriptor can be read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl PassedDescriptor {
    /// A descriptor that came over this connection.
    ///
    /// # Errors
    /// What the descriptor is cannot be learned.
    pub fn new(descriptor: OwnedFd, client: OwnedFd) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&descriptor)?.st_mode);
        if kind == FileType::Fifo {
            widen(&descriptor);
        }
        let own = (kind == FileType::Fifo).then(|| reopened(&descriptor));
        let descriptor = own.flatten().unwrap_or(descriptor);
        Ok(Self {
            descriptor,
            is_socket: kind == FileType::Socket,
            client: Client::new(client),
        })
    }

    /// The same once more, so that one thread reads and another one writes. What ends one of the two ends both.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            descriptor: self.descriptor.try_clone()?,
            is_socket: self.is_socket,
            client: self.client.try_clone()?,
        })
    }

    /// Set by whoever wants reading and writing to end soon.
    #[must_use]
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.client.stop()
    }

    /// Who passed it.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Whether this is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        rustix::termios::isatty(&self.descriptor)
    }

    /// Returns when there may be something to read, or room to write.
    fn wait(&self, way: Way) -> io::Result<()> {
        let wanted = match way {
            Way::In => PollFlags::IN,
            Way::Out => PollFlags::OUT,
        };
        while !self
            .client
            .wait(&[PollFd::new(&self.descriptor, wanted)], LOOK)?
        {}
        Ok(())
    }
}

/// Makes room in a pipe for what its sides take at a time. A user whose pipes have all the room that he may have keeps
/// what this one has.
fn widen(pipe: &OwnedFd) {
    let is_smaller = |bytes: usize| bytes < PIPE_BYTES;
    if rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(is_smaller) {
        let _as_it_was = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    }
}

/// The same pipe with a state of our own, so that it can be made not to block.
fn reopened(pipe: &OwnedFd) -> Option<OwnedFd> {
    let mode = rustix::fs::fcntl_getfl(pipe).ok()? & OFlags::RWMODE;
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = mode | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Whether a call is to be made again.
fn again(error: Errno) -> bool {
    error == Errno::AGAIN || error == Errno::INTR
}

impl Read for PassedDescriptor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait(Way::In)?;
            match rustix::io::read(&self.descriptor, &mut *buffer) {
                Err(error) if again(error) => {}
                read => return Ok(read?),
            }
        }
    }
}

impl Write for PassedDescriptor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(Way::Out)?;
            let written = if self.is_socket {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.descriptor, bytes, flags)
            } else {
                rustix::io::write(&self.descriptor, bytes)
            };
            match written {
                Err(error) if again(error) => {}
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
