//! The FUSE device and the mounts that hang on it.
//!
//! Root mounts with mount(2). Anybody else asks `fusermount3`, which sends the descriptor back
//! over a socket; it finds that socket as its standard input, so that no descriptor of ours is
//! inherited by any other process started meanwhile.

use crate::mount_directory::MountDirectory;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::{CString, OsString};
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const DEVICE_PATH: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// The table of mounts by which the helper knows whose mount one is. Without it, it unmounts nothing.
const HELPER_TABLE: &str = "/etc/mtab";
/// A program of util-linux that lets users unmount their FUSE mounts, and asks the kernel whose they are.
const OTHER_HELPER: &str = "umount";

/// Why a mount could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or the container does not show it.
    #[error("{DEVICE_PATH}: {} (is the fuse module loaded, and the device visible here?)", reason(*.0))]
    Device(#[source] Errno),
    /// The mount point cannot be used.
    #[error("{}: {}", path.display(), reason(*error))]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What the kernel says.
        error: Errno,
    },
    /// `fusermount3` is not installed, and mounting without it needs root.
    #[error("{HELPER} cannot be started: {} (without it, only root can mount)", base::host_reason(.0))]
    NoHelper(#[source] std::io::Error),
    /// `fusermount3` refused.
    #[error("{path}: {message}")]
    Helper {
        /// The mount point.
        path: PathBuf,
        /// What it says.
        message: String,
    },
}

/// What an error says, without its number.
fn reason(error: Errno) -> String {
    base::host_reason(&error.into())
}

impl MountError {
    /// Whether it is refused because somebody uses the mount.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::MountPoint { error, .. } => *error == Errno::BUSY,
            // It says no more than what is printed.
            Self::Helper { message, .. } => message.contains("busy"),
            Self::Device(_) | Self::NoHelper(_) => false,
        }
    }

    /// Whether the helper has no table of mounts (`/etc/mtab`), as in a minimal root.
    #[must_use]
    pub fn lacks_table(&self) -> bool {
        match self {
            Self::Helper { message, .. } => message.contains(HELPER_TABLE),
            Self::MountPoint { .. } | Self::Device(_) | Self::NoHelper(_) => false,
        }
    }

    /// Whether nothing is mounted there.
    #[must_use]
    pub fn is_not_mounted(&self) -> bool {
        match self {
            Self::MountPoint { error, .. } => *error == Errno::INVAL,
            // It says no more than what is printed.
            Self::Helper { message, .. } => {
                message.contains("not found in") || message.contains("not mounted")
            }
            Self::Device(_) | Self::NoHelper(_) => false,
        }
    }
}

/// How a FUSE file system is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuseMountOptions {
    /// What the mount table shows as its source; not empty.
    pub source: String,
    /// The part of the type after `fuse.`.
    pub subtype: String,
    /// Users other than the mounting one may enter.
    pub allow_other: bool,
    /// The kernel checks permissions by mode.
    pub default_permissions: bool,
    /// No writing.
    pub read_only: bool,
    /// No programs are run from it.
    pub no_exec: bool,
    /// Set-id bits do nothing. Always so for ordinary users.
    pub no_suid: bool,
    /// Device nodes do nothing. Always so for ordinary users.
    pub no_devices: bool,
    /// Access times are not kept.
    pub no_atime: bool,
    /// They are kept of each access, not only relative to changes.
    pub strict_atime: bool,
}

impl FuseMountOptions {
    fn flags(&self) -> MountFlags {
        let choices = [
            (self.read_only, MountFlags::RDONLY),
            (self.no_exec, MountFlags::NOEXEC),
            (self.no_suid, MountFlags::NOSUID),
            (self.no_devices, MountFlags::NODEV),
            (self.no_atime, MountFlags::NOATIME),
            (self.strict_atime && !self.no_atime, MountFlags::STRICTATIME),
            (!self.strict_atime && !self.no_atime, MountFlags::RELATIME),
        ];
        choices
            .into_iter()
            .filter(|(chosen, _)| *chosen)
            .map(|(_, flag)| flag)
            .collect()
    }

    /// The options for the helper, comma-separated.
    fn helper_list(&self) -> String {
        let mut list = vec![
            format!("fsname={}", escaped(&self.source)),
            format!("subtype={}", escaped(&self.subtype)),
        ];
        let choices = [
            (self.allow_other, "allow_other"),
            (self.default_permissions, "default_permissions"),
            (self.read_only, "ro"),
            (self.no_exec, "noexec"),
            (self.no_atime, "noatime"),
        ];
        list.extend(
            choices
                .iter()
                .filter(|(chosen, _)| *chosen)
                .map(|(_, name)| (*name).into()),
        );
        list.join(",")
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// A descriptor of the FUSE device that belongs to a mount.
#[derive(Debug)]
pub struct FuseDevice {
    descriptor: OwnedFd,
    /// Opened by us: what is set on it concerns no other descriptor.
    own: bool,
    /// Whether reading waits for a request, as it does from the start.
    waits: AtomicBool,
}

impl AsFd for FuseDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<OwnedFd> for FuseDevice {
    fn from(descriptor: OwnedFd) -> Self {
        Self {
            descriptor,
            own: false,
            waits: AtomicBool::new(true),
        }
    }
}

impl FuseDevice {
    fn open() -> Result<Self, Errno> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(DEVICE_PATH, flags, Mode::empty()).map(Self::from)
    }

    /// Takes a request; waits for one unless told not to ([`FuseDevice::set_waits`]). ENODEV: the
    /// mount is gone; EAGAIN: no request is there.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.descriptor, buffer)
    }

    /// Says whether [`FuseDevice::read`] waits for a request.
    ///
    /// # Errors
    /// NOTSUP when the descriptor may be a duplicate, whose other holders would be told as well;
    /// what fcntl(2) says.
    pub fn set_waits(&self, waits: bool) -> Result<(), Errno> {
        use rustix::fs::{OFlags, fcntl_setfl};
        if self.waits.load(Ordering::Relaxed) == waits {
            return Ok(());
        }
        if !self.own {
            return Err(Errno::NOTSUP);
        }
        let flags = if waits {
            OFlags::empty()
        } else {
            OFlags::NONBLOCK
        };
        fcntl_setfl(&self.descriptor, flags)?;
        self.waits.store(waits, Ordering::Relaxed);
        Ok(())
    }

    /// Sends one reply or notification, whole.
    ///
    /// # Errors
    /// What writev(2) says. ENOENT: nobody waits for this reply any more.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(&self.descriptor, parts)
    }

    /// A second descriptor of the same mount, if possible with a queue of its own for requests
    /// being served: two threads that each use their own do not meet on its lock.
    ///
    /// # Errors
    /// What the system calls say: also where there would be no more than a duplicate, and this one does not wait.
    pub fn another(&self) -> Result<Self, Errno> {
        match self.clone_queue() {
            // Its duplicate would not wait either.
            Err(error) if !self.waits.load(Ordering::Relaxed) => Err(error),
            // A user who may not open the device has its descriptor from the helper all the same.
            Err(_) => rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 3).map(Self::from),
            Ok(clone) => Ok(clone),
        }
    }

    #[allow(unsafe_code)]
    fn clone_queue(&self) -> Result<Self, Errno> {
        const DEVICE_CLONE: Opcode = opcode::read::<u32>(229, 0);
        let mut clone = Self::open()?;
        let mut source = u32::try_from(self.descriptor.as_raw_fd()).map_err(|_| Errno::BADF)?;
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, a descriptor number that is open here, and
        // writes nothing.
        unsafe {
            ioctl(
                &clone.descriptor,
                Updater::<DEVICE_CLONE, u32>::new(&mut source),
            )
        }?;
        clone.own = true;
        Ok(clone)
    }

    /// Whether the mount still exists.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut entries = [PollFd::new(&self.descriptor, PollFlags::empty())];
        let polled = poll(
            &mut entries,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        );
        polled.is_ok()
            && entries
                .iter()
                .all(|entry| !entry.revents().contains(PollFlags::ERR))
    }
}

/// Mounts at `path`; the kernel's first request (INIT) then waits in the device.
///
/// # Errors
/// See [`MountError`].
pub fn mount_fuse(path: &Path, options: &FuseMountOptions) -> Result<FuseDevice, MountError> {
    mount_fuse_on(path, None, options)
}

/// [`mount_fuse`] on a directory that was found before, which `path` may not lead to any more. Ordinary users' helper
/// goes by the path: it sees to it that the user may mount there.
///
/// # Errors
/// See [`MountError`].
pub fn mount_fuse_on(
    path: &Path,
    directory: Option<&MountDirectory>,
    options: &FuseMountOptions,
) -> Result<FuseDevice, MountError> {
    if rustix::process::geteuid().is_root() {
        let by_number = directory.map(MountDirectory::by_number);
        match mount_directly(path, by_number.as_deref().unwrap_or(path), options) {
            // Root of a container without the right to mount: the helper may have it.
            Err(MountError::MountPoint {
                error: Errno::PERM, ..
            }) => {}
            other => return other,
        }
    }
    mount_by_helper(path, options)
}

fn mount_directly(
    path: &Path,
    onto: &Path,
    options: &FuseMountOptions,
) -> Result<FuseDevice, MountError> {
    let failed = |error| MountError::MountPoint {
        path: path.to_owned(),
        error,
    };
    let mut device = FuseDevice::open().map_err(MountError::Device)?;
    device.own = true;
    let metadata = std::fs::metadata(onto).map_err(|error| failed(errno_of(&error)))?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}",
        device.descriptor.as_raw_fd(),
        metadata.mode() & 0o170_000,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    for (chosen, name) in [
        (options.allow_other, ",allow_other"),
        (options.default_permissions, ",default_permissions"),
    ] {
        data.push_str(if chosen { name } else { "" });
    }
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    let kind = format!("fuse.{}", options.subtype);
    rustix::mount::mount(
        options.source.as_str(),
        onto,
        kind,
        options.flags(),
        data.as_c_str(),
    )
    .map_err(failed)?;
    Ok(device)
}

fn mount_by_helper(path: &Path, options: &FuseMountOptions) -> Result<FuseDevice, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(MountError::NoHelper)?;
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(options.helper_list())
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoHelper)?;
    let received = crate::receive_descriptor(&ours, &mut [0]);
    let received = received.ok().and_then(|(_, descriptor)| descriptor);
    let output = child.wait_with_output().map_err(MountError::NoHelper)?;
    match received {
        Some(descriptor) if output.status.success() => Ok(descriptor.into()),
        _ => Err(helper_refusal(path, &output.stderr)),
    }
}

fn helper_refusal(path: &Path, message: &[u8]) -> MountError {
    let message = String::from_utf8_lossy(message);
    let message = message
        .trim()
        .trim_start_matches("fusermount3: ")
        .to_owned();
    MountError::Helper {
        path: path.to_owned(),
        message,
    }
}

/// Changes the flags of a mount that is there.
///
/// # Errors
/// See [`MountError`]; PERM for ordinary users.
pub fn change_mount_flags(path: &Path, options: &FuseMountOptions) -> Result<(), MountError> {
    use rustix::mount::mount_remount;
    let flags = MountFlags::BIND | options.flags();
    mount_remount(path, flags, c"").map_err(|error| MountError::MountPoint {
        path: path.to_owned(),
        error,
    })
}

/// How a mount is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Refused while files are open.
    IfIdle,
    /// The name goes now, the rest when the last open file is closed.
    Detach,
    /// Outstanding requests are aborted as well.
    Force,
}

/// Removes the mount at `path`.
///
/// # Errors
/// See [`MountError`]; a mount in use is `MountPoint { error: BUSY }` or the helper's message.
pub fn unmount_fuse(path: &Path, mode: UnmountMode) -> Result<(), MountError> {
    let flags = match mode {
        UnmountMode::IfIdle => UnmountFlags::NOFOLLOW,
        UnmountMode::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        UnmountMode::Force => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(path, flags) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => {
            return Err(MountError::MountPoint {
                path: path.to_owned(),
                error,
            });
        }
    }
    let mut arguments = vec![OsString::from("-u")];
    if mode != UnmountMode::IfIdle {
        arguments.push("-z".into());
    }
    let output = unmount_by(HELPER, &arguments, path).map_err(MountError::NoHelper)?;
    if output.status.success() {
        return Ok(());
    }
    let refusal = helper_refusal(path, &output.stderr);
    if !refusal.lacks_table() {
        return Err(refusal);
    }
    let lazily = (mode != UnmountMode::IfIdle).then(|| OsString::from("-l"));
    match unmount_by(OTHER_HELPER, lazily.as_slice(), path) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let other = helper_refusal(path, &output.stderr);
            Err(if other.is_busy() { other } else { refusal })
        }
        Err(_) => Err(refusal),
    }
}

fn unmount_by(helper: &str, arguments: &[OsString], path: &Path) -> std::io::Result<Output> {
    let mut command = Command::new(helper);
    let command = command.args(arguments).arg("--").arg(path);
    // What it says is looked at.
    let command = command.env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).output()
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Whether `path` is a FUSE mount whose server has died: it says ENOTCONN to whoever asks more than
/// the kernel has cached.
#[must_use]
pub fn is_dead_mount(path: &Path) -> bool {
    if is_no_mount(path) {
        return false;
    }
    // Attributes may be cached for long; the sizes of a file system never are. Other file systems
    // are not asked: one on a network may take its time.
    let resolved = resolved(path);
    let is_fuse = mounted_entries().is_ok_and(|entries| {
        let here = entries.iter().rev().find(|entry| entry.path == resolved);
        here.is_some_and(|entry| entry.kind == b"fuse" || entry.kind.starts_with(b"fuse."))
    });
    is_fuse && matches!(rustix::fs::statfs(path), Err(Errno::NOTCONN))
}

/// Whether certainly nothing is mounted at a path. No server is asked, nor the mount table read, which may be long.
fn is_no_mount(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match statx(CWD, path, flags, StatxFlags::empty()) {
        Ok(found) => {
            let known = found
                .stx_attributes_mask
                .contains(StatxAttributes::MOUNT_ROOT);
            known && !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        }
        Err(error) => error == Errno::NOENT,
    }
}

/// The path as the mount table has it, also where the mount itself cannot be looked at.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(path).ok();
    let by_parent = || {
        let parent = std::fs::canonicalize(path.parent()?).ok()?;
        Some(parent.join(path.file_name()?))
    };
    whole.or_else(by_parent).unwrap_or_else(|| path.to_owned())
}

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedEntry {
    /// The mount's number, while it is mounted.
    pub id: u64,
    /// The number of the mount in which it lies.
    pub parent: u64,
    /// The file system's device number, major and minor.
    pub device: (u32, u32),
    /// Which directory of the file system is shown.
    pub(crate) root: PathBuf,
    /// The group of mounts that hear of what is mounted and unmounted in this one, and it of them.
    pub(crate) shared: Option<u64>,
    /// The group that it hears of.
    pub(crate) master: Option<u64>,
    /// What is mounted: for Millpond the dataset's name.
    pub source: Vec<u8>,
    /// Where.
    pub path: PathBuf,
    /// The type, as `fuse.zfs`.
    pub kind: Vec<u8>,
    /// What the mount allows.
    pub flags: MountedFlags,
    /// Options of the mount, then those of the file system, as they are shown.
    pub options: Vec<u8>,
}

/// What a mount allows, as the mount table shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountedFlags {
    /// No writing.
    pub read_only: bool,
    /// No programs are run from it.
    pub no_exec: bool,
    /// Set-id bits do nothing.
    pub no_suid: bool,
    /// Device nodes do nothing.
    pub no_devices: bool,
    /// Access times are not kept.
    pub no_atime: bool,
    /// Access times are kept relative to changes.
    pub relative_atime: bool,
}

impl MountedFlags {
    fn parse(words: &[u8]) -> Self {
        let has = |word: &[u8]| words.split(|byte| *byte == b',').any(|one| one == word);
        Self {
            read_only: has(b"ro"),
            no_exec: has(b"noexec"),
            no_suid: has(b"nosuid"),
            no_devices: has(b"nodev"),
            no_atime: has(b"noatime"),
            relative_atime: has(b"relatime"),
        }
    }
}

/// The mounts that this process sees, oldest first.
///
/// # Errors
/// When the mount table cannot be read.
pub fn mounted_entries() -> std::io::Result<Vec<MountedEntry>> {
    mounted_entries_of("self")
}

/// The mounts that a process sees.
pub(crate) fn mounted_entries_of(process: &str) -> std::io::Result<Vec<MountedEntry>> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo"))?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(mounted_entry)
        .collect())
}

/// `36 35 98:0 /root /path options - kind source super-options`
fn mounted_entry(line: &[u8]) -> Option<MountedEntry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let path = unescaped(fields.get(4)?);
    let number = |field: usize| std::str::from_utf8(fields.get(field)?).ok()?.parse().ok();
    let (major, minor) = std::str::from_utf8(fields.get(2)?).ok()?.split_once(':')?;
    let root = unescaped(fields.get(3)?);
    let group = |kind: &[u8]| {
        let mut marks = fields.get(6..separator)?.iter();
        let text = marks.find_map(|mark| mark.strip_prefix(kind))?;
        std::str::from_utf8(text).ok()?.parse().ok()
    };
    Some(MountedEntry {
        id: number(0)?,
        parent: number(1)?,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: PathBuf::from(std::ffi::OsStr::from_bytes(&root)),
        shared: group(b"shared:"),
        master: group(b"master:"),
        source: unescaped(fields.get(separator + 2)?),
        path: PathBuf::from(std::ffi::OsStr::from_bytes(&path)),
        kind: unescaped(fields.get(separator + 1)?),
        flags: MountedFlags::parse(fields.get(5)?),
        options: [
            fields.get(5)?,
            fields.get(separator + 3).copied().unwrap_or_default(),
        ]
        .join(&b','),
    })
}

/// The table writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| {
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 8).ok()
            });
        match octal {
            Some(byte) => {
                text.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
