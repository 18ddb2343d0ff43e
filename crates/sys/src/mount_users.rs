//! Who keeps a mount busy, as far as /proc shows it to us.
//!
//! Nothing is asked of the file systems that other processes use: device numbers come from what the kernel has
//! cached and from its tables. An answer is a moment's; it is for people to read.

use crate::fuse_device::{MountedEntry, mounted_entries_of};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Somebody who uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountUser {
    /// A process that has a file or a folder of it.
    Process {
        /// Its number.
        pid: u32,
        /// What it calls itself.
        name: String,
    },
    /// Another mount that lies in it.
    Mount(PathBuf),
    /// A copy of it at another place.
    Copy(PathBuf),
    /// A mount namespace that has a copy of it.
    Namespace {
        /// A process that lives there.
        pid: u32,
        /// What it calls itself.
        name: String,
    },
}

impl fmt::Display for MountUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, name } => write!(f, "in use by: {name} (pid {pid})"),
            Self::Mount(path) => write!(f, "in use by: what is mounted at {}", path.display()),
            Self::Copy(path) => write!(f, "mounted too at {}", path.display()),
            Self::Namespace { pid, name } => {
                write!(
                    f,
                    "mounted too in the mount namespace of {name} (pid {pid})"
                )
            }
        }
    }
}

/// A mount's device number, major and minor.
pub(crate) type Device = (u32, u32);

/// Those who use what is mounted at `path`; with `below`, only what lies there. At most `max` of them.
#[must_use]
pub fn mount_users(path: &Path, below: Option<&Path>, max: usize) -> Vec<MountUser> {
    let Some(device) = mount_device(path) else {
        return Vec::new();
    };
    let inside = mounts_inside(device, below).map(MountUser::Mount);
    let using = processes().filter(|pid| uses(*pid, device, below));
    let using = using.map(|pid| MountUser::Process {
        pid,
        name: name_of(pid),
    });
    let elsewhere = namespaces_with(device);
    inside.chain(using).chain(elsewhere).take(max).collect()
}

/// Other mount namespaces that have a copy of what has this device number.
fn namespaces_with(device: Device) -> impl Iterator<Item = MountUser> {
    let mut seen: BTreeSet<PathBuf> = namespace_of("self").into_iter().collect();
    processes()
        .filter(move |pid| {
            namespace_of(&pid.to_string()).is_some_and(|space| seen.insert(space))
                && table_of(*pid).iter().any(|entry| entry.device == device)
        })
        .map(|pid| MountUser::Namespace {
            pid,
            name: name_of(pid),
        })
}

/// The device number of what is at `path`; its server is not asked.
#[must_use]
pub fn mount_device(path: &Path) -> Option<Device> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::empty()).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor))
}

/// The namespaces that have a copy of a mount which is gone here. `device` is what [`mount_device`] said before.
#[must_use]
pub fn mount_copies(device: Device, max: usize) -> Vec<MountUser> {
    namespaces_with(device).take(max).collect()
}

fn mounts_inside(device: Device, below: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let table = mounted_entries_of("self").unwrap_or_default();
    let outer: Vec<u64> = table
        .iter()
        .filter(|entry| entry.device == device)
        .map(|entry| entry.id)
        .collect();
    let inside =
        |entry: &MountedEntry| outer.contains(&entry.parent) && is_below(&entry.path, below);
    let mut paths: Vec<PathBuf> = table.into_iter().filter(inside).map(|e| e.path).collect();
    paths.dedup();
    paths.into_iter()
}

fn is_below(path: &Path, place: Option<&Path>) -> bool {
    place.is_none_or(|place| path.starts_with(place))
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Processes come and go: what cannot be read of one is not there.
fn uses(pid: u32, device: Device, below: Option<&Path>) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let has = |link: &Path| {
        mount_device(link) == Some(device)
            && std::fs::read_link(link).is_ok_and(|target| is_below(&target, below))
    };
    let files = std::fs::read_dir(process.join("fd"));
    let mut files = files.into_iter().flatten().flatten();
    ["cwd", "root", "exe"]
        .iter()
        .any(|name| has(&process.join(name)))
        || files.any(|file| has(&file.path()))
        || maps(&process.join("maps"), device, below)
}

/// `7f00-7f10 r--p 00000000 00:2a 17    /path`: whether a line is of this device.
fn maps(table: &Path, (major, minor): Device, below: Option<&Path>) -> bool {
    let device = format!("{major:02x}:{minor:02x}");
    let text = std::fs::read(table).unwrap_or_default();
    text.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.split(|byte| *byte == b' ').filter(|f| !f.is_empty());
        let path = line.iter().position(|byte| *byte == b'/');
        let path = path.and_then(|at| line.get(at..)).unwrap_or_default();
        fields.nth(3) == Some(device.as_bytes())
            && is_below(Path::new(std::ffi::OsStr::from_bytes(path)), below)
    })
}

pub(crate) fn name_of(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    // Whoever started it chose the name: nothing of it may move a terminal's cursor.
    let name = name.trim_end().replace(|c: char| c.is_control(), "?");
    if name.is_empty() { "?".into() } else { name }
}

pub(crate) fn namespace_of(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

fn table_of(pid: u32) -> Vec<MountedEntry> {
    mounted_entries_of(&pid.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
