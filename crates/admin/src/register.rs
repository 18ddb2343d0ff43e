//! The register of known pools: which were served here and have not been exported, so that they can be brought back
//! after a crash, a logout or a reboot.
//!
//! A file a pool, `GUID.pool` (hexadecimal), JSON. A daemon writes it when its pool is up and whenever its devices
//! change; an export or a destruction removes it. It is a hint where to look, never more: what a pool is, its labels
//! say.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::client::state_directory;

#[cfg(test)]
mod tests;

/// No entry is longer.
const LENGTH_MAX: u64 = 1 << 20;
const EXTENSION: &str = "pool";

/// A pool that was served here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPool {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Its files and disks.
    pub devices: Vec<PathBuf>,
    /// Where everything was mounted below.
    pub altroot: Option<PathBuf>,
    /// Whether nothing was written.
    pub readonly: bool,
    /// Why it may be a stranger's, until an import says that it is trusted.
    #[serde(default)]
    pub of_stranger: Option<String>,
    /// When its daemon began, seconds since 1970.
    pub began: u64,
    /// When its daemon was told to end, if it was not killed.
    pub ended: Option<u64>,
}

impl KnownPool {
    /// The devices that are still there.
    #[must_use]
    pub fn present(&self) -> Vec<PathBuf> {
        let paths = self.devices.iter();
        paths.filter(|path| device::exists(path)).cloned().collect()
    }

    /// What is known of when it last ran.
    #[must_use]
    pub fn last_seen(&self) -> LastSeen {
        if let Some(ended) = self.ended {
            return LastSeen::Ended(ended);
        }
        let changed = |path: &PathBuf| {
            let found = std::fs::metadata(device::file_of(path))
                .ok()
                .filter(std::fs::Metadata::is_file)?;
            u64::try_from(found.mtime()).ok()
        };
        match self.devices.iter().filter_map(changed).max() {
            Some(changed) if changed >= self.began => LastSeen::Written(changed),
            Some(_) | None => LastSeen::Began(self.began),
        }
    }
}

/// What is known of when a pool last ran that does not run, in seconds since 1970. Of a daemon that was killed nobody
/// has noted when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSeen {
    /// Its daemon was told to end then.
    Ended(u64),
    /// A file of it was written then, and perhaps it went on.
    Written(u64),
    /// Its daemon began then; that anything was written since is not known.
    Began(u64),
}

/// The pools that are known in [`state_directory`], by name. One that cannot be read is like an empty one, and so is
/// one of somebody else's.
#[must_use]
pub fn known_pools() -> Vec<KnownPool> {
    state_directory().map_or_else(Vec::new, |directory| known_in(&directory))
}

fn known_in(directory: &Path) -> Vec<KnownPool> {
    let ours =
        |found: std::fs::Metadata| found.uid() == sys::user_id() && found.mode() & 0o022 == 0;
    if !std::fs::metadata(directory).is_ok_and(ours) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|end| end == EXTENSION));
    let mut known: Vec<KnownPool> = paths.filter_map(|path| read(&path).ok()).collect();
    known.sort_by(|a, b| (&a.name, a.guid).cmp(&(&b.name, b.guid)));
    known
}

fn read(path: &Path) -> io::Result<KnownPool> {
    let file = File::open(path)?;
    if file.metadata()?.len() > LENGTH_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(serde_json::from_reader(io::BufReader::new(file))?)
}

fn place(directory: &Path, guid: u64) -> PathBuf {
    directory.join(format!("{guid:016x}.{EXTENSION}"))
}

/// Notes a pool. Whoever reads meanwhile sees the old entry or the new one, whole.
///
/// # Errors
/// The directory cannot be made or written.
pub fn keep(directory: &Path, pool: &KnownPool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let path = place(directory, pool.guid);
    let new = path.with_extension("new");
    let mut options = File::options();
    options.create(true).truncate(true).write(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(&serde_json::to_vec(pool)?)?;
    file.sync_all()?;
    std::fs::rename(&new, &path)
}

/// Forgets a pool; one that is not known is as good.
///
/// # Errors
/// The directory cannot be written.
pub fn forget(directory: &Path, guid: u64) -> io::Result<()> {
    match std::fs::remove_file(place(directory, guid)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
