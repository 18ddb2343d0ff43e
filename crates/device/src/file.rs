//! Regular files and disks of the host.
//!
//! I/O goes past the page cache where offset, length and memory are aligned as the host wants it
//! (no third copy of cached data), and through it otherwise; the kernel keeps the two coherent.

mod lock;

use crate::partition;
use crate::{BlockDevice, DeviceError, DeviceKind, Operation};
use base::lock::{LockClass, Mutex, rank};
use base::tunable::Tunable;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use sys::{BufferMut, Create, Errno, File, FileKind, OpenMode};

static FLUSH_CLASS: LockClass = LockClass::new("device.flush", rank::DEVICE);

/// 0: a writable device is not locked, as if other hosts could reach it, which see no locks. For tests.
pub static LOCKED: Tunable = Tunable::new("device.locked", 1, 0, 1);

/// What a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading; shares the device with anyone.
    ReadOnly,
    /// Reading and writing; excludes other writers.
    ReadWrite,
}

/// A regular file or a disk, or a partition inside an image.
pub struct FileDevice {
    name: Arc<str>,
    kind: DeviceKind,
    access: Access,
    /// Where in the file it begins.
    start: u64,
    /// Which partition it is, if it is one.
    partition: Option<u32>,
    size: AtomicU64,
    sector_size: u32,
    physical_sector_size: u32,
    /// Through the page cache. Holds the lock, and is the one descriptor that is synced, so that
    /// a write-back error is seen here.
    cached: File,
    direct: Option<Direct>,
    /// The file behind a loop device, locked as well: it is the same bytes by another name.
    _backing: Option<File>,
    /// Whether anything may have been written since the last flush began: by whoever had it before, too.
    dirty: AtomicBool,
    /// The flush failure that was not cleared yet. Held while flushing: flushes that overlap join.
    flushing: Mutex<Option<Errno>>,
    failed: AtomicBool,
    /// Whether it can have holes, once somebody asked.
    can_discard: OnceLock<bool>,
    /// A discard was tried, and cannot be done.
    discard_failed: AtomicBool,
}

/// The way past the page cache.
struct Direct {
    file: File,
    alignment: usize,
    /// Cleared when the host refuses after all.
    usable: AtomicBool,
}

impl Direct {
    /// Whether such an operation may go past the page cache.
    fn takes(&self, offset: u64, len: usize) -> bool {
        let mask = self.alignment - 1;
        self.usable.load(Ordering::Relaxed) && (offset as usize | len) & mask == 0
    }

    fn aligned(&self, bytes: &[u8]) -> bool {
        (bytes.as_ptr() as usize | bytes.len()) & (self.alignment - 1) == 0
    }

    /// Whether the host refused direct I/O as such; then it is not asked again.
    fn refused(&self, error: Errno) -> bool {
        let refused = matches!(error, Errno::INVAL | Errno::OPNOTSUPP);
        if refused {
            self.usable.store(false, Ordering::Relaxed);
        }
        refused
    }
}

impl FileDevice {
    /// Opens a file or disk. A writable one is locked against other writers.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn open(path: &Path, access: Access) -> Result<Self, DeviceError> {
        Self::open_with(path, access, true)
    }

    /// As [`FileDevice::open`], always through the page cache.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn open_cached(path: &Path, access: Access) -> Result<Self, DeviceError> {
        Self::open_with(path, access, false)
    }

    /// Makes a sparse file of `size` bytes and opens it for writing.
    ///
    /// # Errors
    /// Why it cannot be made. Nothing is left of it then.
    pub fn create(path: &Path, size: u64) -> Result<Self, DeviceError> {
        Self::create_as(path, size, Create::New)
    }

    /// The same, for its owner alone.
    ///
    /// # Errors
    /// Why it cannot be made. Nothing is left of it then.
    pub fn create_private(path: &Path, size: u64) -> Result<Self, DeviceError> {
        Self::create_as(path, size, Create::Private)
    }

    fn create_as(path: &Path, size: u64, create: Create) -> Result<Self, DeviceError> {
        let name = name_of(path);
        let mode = OpenMode {
            write: true,
            ..OpenMode::default()
        };
        let file = File::open(path, mode, create).map_err(|e| open_error(&name, e, true))?;
        let sized = file.set_size(size).map_err(|error| match error {
            Errno::NOSPC => DeviceError::HostFull {
                device: Arc::clone(&name),
            },
            error => DeviceError::Open {
                device: Arc::clone(&name),
                error,
            },
        });
        drop(file);
        let opened = sized.and_then(|()| Self::open(path, Access::ReadWrite));
        opened.inspect_err(|_| {
            let _gone = std::fs::remove_file(path);
        })
    }

    fn open_with(path: &Path, access: Access, direct: bool) -> Result<Self, DeviceError> {
        let name = name_of(path);
        let write = access == Access::ReadWrite;
        let fail = |error| open_error(&name, error, write);
        let part = partition::named(path);
        let path = part.as_ref().map_or(path, |part| part.image.as_path());
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let kind = match sys::file_kind(path).map_err(fail)? {
            FileKind::Regular => DeviceKind::File,
            FileKind::BlockDevice => DeviceKind::Disk,
            FileKind::Other => return Err(DeviceError::NotADevice { device: name }),
        };
        let exclusive = write && kind == DeviceKind::Disk;
        let mode = OpenMode {
            write,
            direct: false,
            exclusive,
        };
        let cached = File::open(path, mode, Create::Never).map_err(fail)?;
        let partition = part.as_ref().map(|part| part.number);
        let found = partition.map(|number| partition::bytes_of(&cached, number));
        let bytes = match found {
            None => None,
            Some(Some(bytes)) => Some(bytes),
            Some(None) => return Err(DeviceError::NotFound { device: name }),
        };
        let locks = write && LOCKED.get() != 0;
        if locks && !lock::lock_in_time(&cached, bytes.as_ref()).map_err(fail)? {
            return Err(DeviceError::Busy { device: name });
        }
        let backing = match locks && kind == DeviceKind::Disk {
            true => lock::lock_backing(path, &name)?,
            false => None,
        };
        let bytes = match bytes {
            None => 0..cached.size().map_err(fail)?,
            Some(bytes) => bytes,
        };
        let (sector_size, physical_sector_size) = sector_sizes(&cached, kind);
        let direct = if direct {
            open_direct(path, &cached, write, sector_size)
        } else {
            None
        };
        Ok(Self {
            name,
            kind,
            access,
            start: bytes.start,
            partition,
            size: AtomicU64::new(bytes.end.saturating_sub(bytes.start)),
            sector_size,
            physical_sector_size,
            cached,
            direct,
            _backing: backing,
            // What a process that was killed has written may be on its way still, and is built upon.
            dirty: AtomicBool::new(true),
            flushing: Mutex::new(&FLUSH_CLASS, None),
            failed: AtomicBool::new(false),
            can_discard: OnceLock::new(),
            discard_failed: AtomicBool::new(false),
        })
    }

    /// Whether aligned I/O goes past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
            .as_ref()
            .is_some_and(|direct| direct.usable.load(Ordering::Relaxed))
    }

    /// Bytes that the host has allocated for the file.
    #[must_use]
    pub fn allocated_size(&self) -> u64 {
        self.cached.allocated_size().unwrap_or(0)
    }

    fn check_range(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        let size = self.size();
        if offset.checked_add(len).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(DeviceError::OutOfRange {
            device: Arc::clone(&self.name),
            operation,
            offset,
            len,
            size,
        })
    }

    fn check_writable(&self) -> Result<(), DeviceError> {
        if self.access == Access::ReadOnly {
            return Err(DeviceError::ReadOnly {
                device: Arc::clone(&self.name),
            });
        }
        if self.failed.load(Ordering::Acquire)
            && let Some(failure) = self.failure()
        {
            return Err(failure);
        }
        Ok(())
    }

    fn io_error(&self, operation: Operation, offset: u64, len: u64, error: Errno) -> DeviceError {
        DeviceError::of_number(Arc::clone(&self.name), operation, (offset, len), error)
    }

    /// Whether a file still is what was opened: what is written to one that was removed or cut off
    /// does not last, however well it is flushed.
    fn check_intact(&self) -> Result<(), DeviceError> {
        if self.kind != DeviceKind::File {
            return Ok(());
        }
        let device = Arc::clone(&self.name);
        if self.cached.link_count() == Ok(0) {
            return Err(DeviceError::Removed { device });
        }
        let was = self.start.saturating_add(self.size());
        match self.cached.size() {
            Ok(now) if now < was => Err(DeviceError::Shrunk { device, was, now }),
            _ => Ok(()),
        }
    }

    fn read_any(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        if let Some(direct) = self
            .direct
            .as_ref()
            .filter(|d| d.takes(offset, bytes.len()))
        {
            let done = if direct.aligned(bytes) {
                direct.file.read_at(offset, bytes)
            } else {
                let mut aligned = BufferMut::scratch(bytes.len());
                let done = direct.file.read_at(offset, &mut aligned);
                if let Ok(count) = done {
                    bytes[..count].copy_from_slice(&aligned[..count]);
                }
                done
            };
            match done {
                Err(error) if direct.refused(error) => {}
                done => return done,
            }
        }
        self.cached.read_at(offset, bytes)
    }

    fn write_any(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        if let Some(direct) = self
            .direct
            .as_ref()
            .filter(|d| d.takes(offset, bytes.len()))
        {
            let done = if direct.aligned(bytes) {
                direct.file.write_at(offset, bytes)
            } else {
                direct.file.write_at(offset, &BufferMut::from_slice(bytes))
            };
            match done {
                Err(error) if direct.refused(error) => {}
                done => return done,
            }
        }
        self.cached.write_at(offset, bytes)
    }

    fn write_pieces(&self, offset: u64, pieces: &[&[u8]], len: usize) -> Result<(), Errno> {
        let direct = self.direct.as_ref();
        if let Some(direct) = direct.filter(|d| d.takes(offset, len)) {
            let done = if pieces.iter().all(|piece| direct.aligned(piece)) {
                direct.file.write_vectored_at(offset, pieces)
            } else {
                direct.file.write_at(offset, &gather(pieces, len))
            };
            match done {
                Err(error) if direct.refused(error) => {}
                done => return done,
            }
        }
        self.cached.write_vectored_at(offset, pieces)
    }
}

/// Bytes of the hole with which a file is asked whether it can have holes.
const HOLE_OF_PROBE: u64 = 4096;

/// The units of a device, in bytes: the one that it must be used in, and the best one.
fn sector_sizes(file: &File, kind: DeviceKind) -> (u32, u32) {
    match kind {
        DeviceKind::Disk => {
            let logical = file.logical_sector_size().unwrap_or(512);
            let physical = file.physical_sector_size().unwrap_or(logical);
            (logical, physical.max(logical))
        }
        DeviceKind::File | DeviceKind::Remote | DeviceKind::Memory => (512, 512),
    }
}

/// All pieces in one aligned block of memory.
fn gather(pieces: &[&[u8]], len: usize) -> BufferMut {
    let mut whole = BufferMut::scratch(len);
    let mut done = 0;
    for piece in pieces {
        whole[done..done + piece.len()].copy_from_slice(piece);
        done += piece.len();
    }
    whole
}

impl BlockDevice for FileDevice {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let len = bytes.len() as u64;
        self.check_range(Operation::Read, offset, len)?;
        let got = self
            .read_any(self.start + offset, bytes)
            .map_err(|error| self.io_error(Operation::Read, offset, len, error))?;
        if got < bytes.len() {
            let device = Arc::clone(&self.name);
            return Err(DeviceError::Truncated {
                device,
                offset,
                len,
                got: got as u64,
            });
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let len = bytes.len() as u64;
        self.check_range(Operation::Write, offset, len)?;
        self.check_writable()?;
        let done = self.write_any(self.start + offset, bytes);
        self.dirty.store(true, Ordering::Release);
        done.map_err(|error| self.io_error(Operation::Write, offset, len, error))
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.check_range(Operation::Write, offset, len as u64)?;
        self.check_writable()?;
        let done = self.write_pieces(self.start + offset, pieces, len);
        self.dirty.store(true, Ordering::Release);
        done.map_err(|error| self.io_error(Operation::Write, offset, len as u64, error))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.access == Access::ReadOnly {
            return Ok(());
        }
        let mut failure = self.flushing.lock();
        if let Some(error) = *failure {
            return Err(DeviceError::FlushFailed {
                device: Arc::clone(&self.name),
                error,
            });
        }
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.check_intact()
            .inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        self.cached.sync_data().map_err(|error| {
            *failure = Some(error);
            self.failed.store(true, Ordering::Release);
            DeviceError::FlushFailed {
                device: Arc::clone(&self.name),
                error,
            }
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(Operation::Discard, offset, len)?;
        self.check_writable()?;
        self.cached
            .punch_hole(self.start + offset, len)
            .map_err(|error| match error {
                Errno::OPNOTSUPP | Errno::NOSYS => {
                    self.discard_failed.store(true, Ordering::Relaxed);
                    DeviceError::Unsupported {
                        device: Arc::clone(&self.name),
                        operation: Operation::Discard,
                    }
                }
                error => self.io_error(Operation::Discard, offset, len, error),
            })
    }

    fn can_discard(&self) -> bool {
        // A hole beyond the end changes nothing, but who cannot punch one says so. A disk would refuse the place:
        // it says whether it can when it is asked to.
        let punched = || {
            let end = || self.cached.size();
            let probe = || end().and_then(|end| self.cached.punch_hole(end, HOLE_OF_PROBE));
            self.kind != DeviceKind::File || probe().is_ok()
        };
        let failed = self.discard_failed.load(Ordering::Relaxed);
        self.is_writable() && !failed && *self.can_discard.get_or_init(punched)
    }

    fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn physical_sector_size(&self) -> u32 {
        self.physical_sector_size
    }

    fn kind(&self) -> DeviceKind {
        self.kind
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn failure(&self) -> Option<DeviceError> {
        let error = (*self.flushing.lock())?;
        Some(DeviceError::FlushFailed {
            device: Arc::clone(&self.name),
            error,
        })
    }

    fn clear_failure(&self) {
        let mut failure = self.flushing.lock();
        *failure = None;
        self.failed.store(false, Ordering::Release);
        self.dirty.store(true, Ordering::Release);
    }

    fn refresh_size(&self) -> Result<u64, DeviceError> {
        let size = self.cached.size().map_err(|error| DeviceError::Open {
            device: Arc::clone(&self.name),
            error,
        })?;
        let size = match self.partition {
            None => size,
            // One that begins elsewhere now is another one.
            Some(number) => partition::bytes_of(&self.cached, number)
                .filter(|bytes| bytes.start == self.start)
                .map_or(0, |bytes| bytes.end - bytes.start),
        };
        // What was cut off is noticed where it is read: the labels stay where they are.
        Ok(self.size.fetch_max(size, Ordering::Relaxed).max(size))
    }
}

/// Opens the way past the page cache, if the host has one.
fn open_direct(path: &Path, cached: &File, write: bool, sector_size: u32) -> Option<Direct> {
    // A host that does not know its own need is asked for a page: more than that nobody needs.
    let alignment = cached.direct_alignment().unwrap_or(4096);
    if alignment == 0 || !alignment.is_power_of_two() {
        return None;
    }
    let mode = OpenMode {
        write,
        direct: true,
        exclusive: false,
    };
    let file = File::open(path, mode, Create::Never).ok()?;
    let alignment = alignment.max(sector_size) as usize;
    Some(Direct {
        file,
        alignment,
        usable: AtomicBool::new(true),
    })
}

fn name_of(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

pub(crate) fn open_error(name: &Arc<str>, error: Errno, write: bool) -> DeviceError {
    let device = Arc::clone(name);
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV => {
            DeviceError::NotFound { device }
        }
        Errno::ACCESS | Errno::PERM => DeviceError::Denied { device, write },
        Errno::ROFS => DeviceError::ReadOnlyPlace { device },
        Errno::BUSY | Errno::TXTBSY => DeviceError::Busy { device },
        Errno::EXIST => DeviceError::Exists { device },
        Errno::ISDIR => DeviceError::NotADevice { device },
        error => DeviceError::Open { device, error },
    }
}

#[cfg(test)]
mod tests;
