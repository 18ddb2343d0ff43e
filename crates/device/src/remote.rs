//! Disks that servers of NBD have: a path that is a URI.
//!
//! A connection that breaks is a device that is gone: everything fails until somebody opens the device anew, and what
//! was written since the last flush may be lost. Nothing keeps other hosts from the disk: pools on such are to have
//! `multihost`, whose fence holds for what is on its way, too. What a label calls its device is connected to only if
//! somebody named it to this process: whoever made the label is nobody to connect us anywhere.

mod socket;
mod uri;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use base::lock::{LockClass, Mutex, rank};
use nbd::{Export, Limits, NbdError, Refusal};
use sys::Errno;

use crate::tunables::{REMOTE_PATIENCE_MS, REMOTE_REQUESTS_MAX};
use crate::{Access, BlockDevice, DeviceError, DeviceKind, Operation};
use socket::{Output, Socket};
use uri::Uri;

pub use uri::{absolute, is_remote, paths_in};

static NAMED_CLASS: LockClass = LockClass::new("device.named", rank::LAST);
static NAMED: LazyLock<Mutex<BTreeSet<PathBuf>>> =
    LazyLock::new(|| Mutex::new(&NAMED_CLASS, BTreeSet::new()));
static FLUSH_CLASS: LockClass = LockClass::new("device.remote_flush", rank::DEVICE + 1);

/// No file system and no disk has smaller sectors.
const SECTOR_MIN: u32 = 512;
/// No label has smaller parts that are written alone.
const SECTOR_MAX: u32 = 8192;
/// What a server likes best counts up to this: a volume's blocks are no sectors.
const SECTOR_BEST_MAX: u32 = 4096;
/// A server that says nothing for so long, before it has told what it has, is not waited for.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// Somebody names a server's disk to this process; other paths need that not.
pub fn name(path: &Path) {
    if is_remote(path) {
        NAMED.lock().insert(path.to_owned());
    }
}

/// Whether somebody named a disk to this process.
pub(crate) fn is_named(path: &Path) -> bool {
    NAMED.lock().contains(path)
}

/// A disk that a server has.
pub(crate) struct RemoteDisk {
    name: Arc<str>,
    export: Export,
    access: Access,
    client: Arc<nbd::Client<Output>>,
    /// Whether anything may have been written since the last flush began: by whoever had it before, too.
    dirty: AtomicBool,
    /// The flush failure that was not cleared yet. Held while flushing: flushes that overlap join.
    flushing: Mutex<Option<Errno>>,
    failed: AtomicBool,
    /// Whether changes may be sent; always, where nobody says.
    fence: OnceLock<crate::MayWrite>,
}

impl RemoteDisk {
    /// Connects to a disk that somebody named.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self, DeviceError> {
        let name: Arc<str> = path.to_string_lossy().into();
        let unreachable = |reason: &str| DeviceError::Unreachable {
            device: Arc::clone(&name),
            reason: reason.into(),
        };
        let uri = Uri::parse(&name).map_err(unreachable)?;
        // Also one that is away now: it is looked for again.
        self::name(path);
        let (export, client) = connect(&uri).map_err(|error| unreachable(&reason(&error)))?;
        let disk = Self {
            name: Arc::clone(&name),
            export,
            access,
            client,
            // What a process that was killed has written may be on its way still, and is built upon.
            dirty: AtomicBool::new(true),
            flushing: Mutex::new(&FLUSH_CLASS, None),
            failed: AtomicBool::new(false),
            fence: OnceLock::new(),
        };
        if export.block_min > SECTOR_MAX {
            return Err(unreachable("its sectors are larger than 8 KiB"));
        }
        if access == Access::ReadWrite {
            if export.is_read_only() {
                return Err(unreachable("its server has it for reading only"));
            }
            if !export.can_flush() {
                return Err(unreachable(
                    "its server cannot be told to make durable what is written",
                ));
            }
        }
        Ok(disk)
    }

    fn error(&self, operation: Operation, place: (u64, u64), refusal: Refusal) -> DeviceError {
        let device = Arc::clone(&self.name);
        let number = match refusal {
            Refusal::Broken(reason) => return DeviceError::Disconnected { device, reason },
            Refusal::Number(number) => number,
        };
        match errno(number) {
            Errno::OPNOTSUPP => DeviceError::Unsupported { device, operation },
            // Nothing that is asked for on this connection will be done any more.
            Errno::SHUTDOWN => DeviceError::Disconnected {
                device,
                reason: "it shuts down".into(),
            },
            error => DeviceError::of_number(device, operation, place, error),
        }
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        let device = || Arc::clone(&self.name);
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > self.export.size) {
            return Err(DeviceError::OutOfRange {
                device: device(),
                operation,
                offset,
                len,
                size: self.export.size,
            });
        }
        if operation == Operation::Read {
            return Ok(());
        }
        if self.access == Access::ReadOnly {
            return Err(DeviceError::ReadOnly { device: device() });
        }
        if self.failed.load(Ordering::Acquire)
            && let Some(failure) = self.failure()
        {
            return Err(failure);
        }
        Ok(())
    }

    /// The most bytes of one request.
    fn piece_max(&self) -> usize {
        usize::try_from(self.export.block_max).unwrap_or(usize::MAX)
    }

    fn may_send(&self) -> bool {
        self.fence.get().is_none_or(|may_write| may_write())
    }

    /// Sends writes, each of as many bytes as one may have.
    fn write_parts(&self, offset: u64, pieces: &[&[u8]], len: usize) -> Result<(), DeviceError> {
        let send = |at: u64, pieces: &[&[u8]], len: usize| {
            let done = self.client.write(at, pieces, &|| self.may_send());
            done.map_err(|refusal| self.error(Operation::Write, (at, len as u64), refusal))
        };
        if len <= self.piece_max() {
            return send(offset, pieces, len);
        }
        let mut at = offset;
        let parts = pieces.iter();
        for part in parts.flat_map(|piece| piece.chunks(self.piece_max())) {
            send(at, &[part], part.len())?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn discard_parts(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let (mut at, mut left, most) = (offset, len, self.export.block_max);
        while left > 0 {
            let part = u32::try_from(left).map_or(most, |left| left.min(most));
            let done = self.client.trim(at, part, &|| self.may_send());
            done.map_err(|refusal| self.error(Operation::Discard, (at, part.into()), refusal))?;
            at += u64::from(part);
            left -= u64::from(part);
        }
        Ok(())
    }
}

/// An error number as the protocol has it, which is Linux's.
fn errno(number: u32) -> Errno {
    const ERRNO_MAX: i32 = 4095;
    let number = i32::try_from(number).unwrap_or(ERRNO_MAX);
    Errno::from_raw_os_error(number.clamp(1, ERRNO_MAX))
}

fn reason(error: &NbdError) -> String {
    match error {
        NbdError::Io(error) if error.kind() == ErrorKind::WouldBlock => {
            "it does not answer".to_owned()
        }
        NbdError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => "it hung up".to_owned(),
        NbdError::Io(error) => base::host_reason(error),
        NbdError::Protocol(_) | NbdError::Refused(_) => error.to_string(),
    }
}

/// Connects, and begins to read replies.
fn connect(uri: &Uri) -> Result<(Export, Arc<nbd::Client<Output>>), NbdError> {
    let patience = Duration::from_millis(REMOTE_PATIENCE_MS.get());
    let greeting = patience.min(GREETING_MAX);
    let socket = Socket::connect(&uri.place, greeting)?;
    socket.set_patience(Some(greeting), greeting)?;
    let (mut from, mut to) = (socket.try_clone()?, socket.try_clone()?);
    nbd::greet_server(&mut from, &mut to)?;
    let (mut input, mut output) = match &uri.security {
        None => socket::plain(&socket)?,
        Some(security) => {
            nbd::ask_for_tls(&mut from, &mut to)?;
            socket::secured(&socket, security)?
        }
    };
    let export = nbd::choose(&mut input, &mut output, &uri.export)?;
    // Nobody says anything where nothing is asked for.
    socket.set_patience(None, patience)?;
    let limits = Limits {
        requests_max: REMOTE_REQUESTS_MAX.count(),
        patience,
    };
    let hang_up = Box::new(move || socket.hang_up());
    let client = Arc::new(nbd::Client::new(output, limits, hang_up));
    let reader = Arc::clone(&client);
    let start = base::thread::named("nbd-replies", sys::thread::ANSWERS);
    start.spawn(move || reader.replies(&mut input))?;
    Ok((export, client))
}

impl Drop for RemoteDisk {
    fn drop(&mut self) {
        self.client.disconnect();
    }
}

impl BlockDevice for RemoteDisk {
    fn size(&self) -> u64 {
        self.export.size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.check(Operation::Read, offset, bytes.len() as u64)?;
        let mut at = offset;
        for piece in bytes.chunks_mut(self.piece_max()) {
            let len = piece.len() as u64;
            let done = self.client.read(at, piece);
            done.map_err(|refusal| self.error(Operation::Read, (at, len), refusal))?;
            at += len;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored(offset, &[bytes])
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.check(Operation::Write, offset, len as u64)?;
        let done = self.write_parts(offset, pieces, len);
        // Not before: a flush meanwhile does not cover it.
        self.dirty.store(true, Ordering::Release);
        done
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.access == Access::ReadOnly {
            return Ok(());
        }
        let device = || Arc::clone(&self.name);
        let mut failure = self.flushing.lock();
        if let Some(error) = *failure {
            return Err(DeviceError::FlushFailed {
                device: device(),
                error,
            });
        }
        // What was written before the connection broke may be lost, whoever asks.
        if let Some(reason) = self.client.broken() {
            return Err(DeviceError::Disconnected {
                device: device(),
                reason,
            });
        }
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        match self.client.flush() {
            Ok(()) => Ok(()),
            Err(Refusal::Number(number)) if errno(number) != Errno::SHUTDOWN => {
                let error = errno(number);
                *failure = Some(error);
                self.failed.store(true, Ordering::Release);
                Err(DeviceError::FlushFailed {
                    device: device(),
                    error,
                })
            }
            Err(gone) => Err(self.error(Operation::Flush, (0, 0), gone)),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(Operation::Discard, offset, len)?;
        if !self.export.can_trim() {
            return Err(DeviceError::Unsupported {
                device: Arc::clone(&self.name),
                operation: Operation::Discard,
            });
        }
        let done = self.discard_parts(offset, len);
        self.dirty.store(true, Ordering::Release);
        done
    }

    fn can_discard(&self) -> bool {
        self.is_writable() && self.export.can_trim()
    }

    fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    fn sector_size(&self) -> u32 {
        self.export.block_min.max(SECTOR_MIN)
    }

    fn physical_sector_size(&self) -> u32 {
        let best = self.export.block_preferred.min(SECTOR_BEST_MAX);
        best.max(self.sector_size())
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Remote
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn failure(&self) -> Option<DeviceError> {
        let device = Arc::clone(&self.name);
        if let Some(reason) = self.client.broken() {
            return Some(DeviceError::Disconnected { device, reason });
        }
        let error = (*self.flushing.lock())?;
        Some(DeviceError::FlushFailed { device, error })
    }

    /// A connection that broke does not come back: the device is opened anew.
    fn clear_failure(&self) {
        let mut failure = self.flushing.lock();
        *failure = None;
        self.failed.store(false, Ordering::Release);
        self.dirty.store(true, Ordering::Release);
    }

    fn set_fence(&self, may_write: crate::MayWrite) {
        // The first holds: a device is of one pool.
        let _ = self.fence.set(may_write);
    }
}

#[cfg(test)]
mod tests;
