//! Regular files and disks: positioned reads and writes, durability, locks.

mod backing;

use rustix::fs::{self, Advice, FallocateFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, pread, pwrite, pwritev};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

pub use backing::{Backing, backing_file};

/// What kind of thing a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device.
    BlockDevice,
    /// Anything else.
    Other,
}

/// What kind of thing `path` names, without opening it.
///
/// # Errors
/// What the kernel says.
pub fn file_kind(path: &Path) -> Result<FileKind, Errno> {
    Ok(kind_of(&retry(|| fs::stat(path))?))
}

/// Whether this process may write the file at `path`, without opening it.
///
/// # Errors
/// Why not.
pub fn may_write(path: &Path) -> Result<(), Errno> {
    let flags = fs::AtFlags::EACCESS;
    retry(|| fs::accessat(fs::CWD, path, fs::Access::WRITE_OK, flags))
}

fn kind_of(stat: &fs::Stat) -> FileKind {
    match fs::FileType::from_raw_mode(stat.st_mode) {
        fs::FileType::RegularFile => FileKind::Regular,
        fs::FileType::BlockDevice => FileKind::BlockDevice,
        fs::FileType::Directory
        | fs::FileType::Symlink
        | fs::FileType::Fifo
        | fs::FileType::Socket
        | fs::FileType::CharacterDevice
        | fs::FileType::Unknown => FileKind::Other,
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenMode {
    /// For writing as well as reading.
    pub write: bool,
    /// Past the page cache.
    pub direct: bool,
    /// Block devices: refuse if anyone else has the device mounted or exclusively open.
    pub exclusive: bool,
}

/// Whether a file may or must be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// It must be there.
    Never,
    /// It must not be there.
    New,
    /// It must not be there, and is made for its owner alone.
    Private,
}

impl Create {
    const fn makes(self) -> bool {
        match self {
            Self::Never => false,
            Self::New | Self::Private => true,
        }
    }

    /// The mode of a file that is made.
    const fn mode(self) -> u32 {
        match self {
            Self::Never | Self::New => 0o644,
            Self::Private => 0o600,
        }
    }
}

/// An open file or disk.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
}

/// The longest vector one call takes.
const VECTOR_MAX: usize = 1024;

impl File {
    /// Opens `path`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(path: &Path, mode: OpenMode, create: Create) -> Result<Self, Errno> {
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        flags |= if mode.write {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        flags.set(OFlags::DIRECT, mode.direct);
        // On a block device this is the kernel's exclusive claim, the same that mount takes.
        flags.set(OFlags::EXCL, mode.exclusive || create.makes());
        flags.set(OFlags::CREATE, create.makes());
        let mode = Mode::from_raw_mode(create.mode());
        let fd = retry(|| fs::open(path, flags, mode))?;
        Ok(Self { fd })
    }

    /// What kind of file this is.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn kind(&self) -> Result<FileKind, Errno> {
        Ok(kind_of(&fs::fstat(&self.fd)?))
    }

    /// The size in bytes, of a block device too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn size(&self) -> Result<u64, Errno> {
        // Each descriptor's position is its own and unused: all I/O here is positioned.
        fs::seek(&self.fd, fs::SeekFrom::End(0))
    }

    /// How many names the file has; 0 once it was removed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn link_count(&self) -> Result<u64, Errno> {
        Ok(fs::fstat(&self.fd)?.st_nlink)
    }

    /// Bytes of the file that the host has allocated.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn allocated_size(&self) -> Result<u64, Errno> {
        let stat = fs::fstat(&self.fd)?;
        Ok(u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512))
    }

    /// The alignment of offsets and lengths that direct I/O needs, if the kernel knows; 0 = none.
    #[must_use]
    pub fn direct_alignment(&self) -> Option<u32> {
        let stat = fs::statx(&self.fd, c"", fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        (stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
            .then(|| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align))
    }

    /// A block device's logical sector size in bytes.
    ///
    /// # Errors
    /// What the kernel says (also: it is not a block device).
    pub fn logical_sector_size(&self) -> Result<u32, Errno> {
        fs::ioctl_blksszget(&self.fd)
    }

    /// A block device's physical sector size in bytes.
    ///
    /// # Errors
    /// What the kernel says (also: it is not a block device).
    pub fn physical_sector_size(&self) -> Result<u32, Errno> {
        fs::ioctl_blkpbszget(&self.fd)
    }

    /// Sets a regular file's size.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        retry(|| fs::ftruncate(&self.fd, size))
    }

    /// Fills `bytes` from `offset` on; answers how many there were before the end.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match pread(&self.fd, &mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match pwrite(&self.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all `pieces`, one after the other, from `offset` on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write_vectored_at(&self, mut offset: u64, pieces: &[&[u8]]) -> Result<(), Errno> {
        for pieces in pieces.chunks(VECTOR_MAX) {
            let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
            let mut rest = &mut slices[..];
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match pwritev(&self.fd, rest, offset) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(count) => {
                        offset += count as u64;
                        IoSlice::advance_slices(&mut rest, count);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Makes everything written so far durable. After a failure the kernel has forgotten what was
    /// not written: asking again would lie.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync_data(&self) -> Result<(), Errno> {
        retry(|| fs::fdatasync(&self.fd))
    }

    /// Gives `len` bytes at `offset` back to the host; they read as zero from then on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        retry(|| fs::fallocate(&self.fd, flags, offset, len))
    }

    /// The first offset at or after `offset` that may hold data; `None` if there is none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>, Errno> {
        match fs::seek(&self.fd, fs::SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the exclusive advisory lock; false if another open file has it, or a shared one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_lock_exclusive(&self) -> Result<bool, Errno> {
        self.try_lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the shared advisory lock; false if another open file has the exclusive one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_lock_shared(&self) -> Result<bool, Errno> {
        self.try_lock(FlockOperation::NonBlockingLockShared)
    }

    fn try_lock(&self, how: FlockOperation) -> Result<bool, Errno> {
        match retry(|| fs::flock(&self.fd, how)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes the exclusive advisory lock of these bytes, which is none of the whole file, for as long as the file is
    /// open; false if another open file has part of them. It must be open for writing.
    ///
    /// # Errors
    /// What the kernel says.
    #[allow(unsafe_code)]
    pub fn try_lock_range(&self, bytes: &Range<u64>) -> Result<bool, Errno> {
        let place = |value: u64| libc::off_t::try_from(value).map_err(|_| Errno::OVERFLOW);
        let lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: place(bytes.start)?,
            l_len: place(bytes.end.saturating_sub(bytes.start))?,
            l_pid: 0,
        };
        let descriptor = self.fd.as_raw_fd();
        let taken = retry(|| {
            // SAFETY: F_OFD_SETLK reads one `flock`, which is there until the call is over.
            match unsafe { libc::fcntl(descriptor, libc::F_OFD_SETLK, &raw const lock) } {
                -1 => {
                    let error = std::io::Error::last_os_error();
                    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
                }
                _ => Ok(()),
            }
        });
        match taken {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Drops what the page cache holds of the file, or tells the host not to read ahead.
    pub fn advise_random(&self) {
        let _ = fs::fadvise(&self.fd, 0, None, Advice::Random);
    }

    /// Starts reading `len` bytes at `offset` into the page cache.
    pub fn advise_will_need(&self, offset: u64, len: u64) {
        let _ = fs::fadvise(
            &self.fd,
            offset,
            std::num::NonZero::new(len),
            Advice::WillNeed,
        );
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
