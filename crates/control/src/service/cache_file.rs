//! Cache files: lists of pools with their devices, as OpenZFS keeps one in `/etc/zfs/zpool.cache`.
//!
//! One is read by `zpool import -c`, and kept when the property `cachefile` names it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use format::FormatError;
use format::nvlist::{NvList, Value, decode_native, encode_native};

#[cfg(test)]
mod tests;

/// No cache file is longer.
const SIZE_MAX: u64 = 64 << 20;
/// Vdevs inside vdevs, at most.
const DEPTH_MAX: usize = 8;

/// The devices of the pools in a cache file.
///
/// # Errors
/// The file cannot be read, or is none.
pub fn cached_devices(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (_, pool) in read(path)?.iter() {
        if let Value::List(pool) = pool
            && let Some(root) = pool.list("vdev_tree")
        {
            collect(root, 0, &mut found);
        }
    }
    Ok(found)
}

fn collect(vdev: &NvList, depth: usize, found: &mut Vec<PathBuf>) {
    if let Some(path) = vdev.str("path") {
        found.push(PathBuf::from(path));
    }
    if depth < DEPTH_MAX {
        for child in vdev.lists("children") {
            collect(child, depth + 1, found);
        }
    }
}

fn read(path: &Path) -> io::Result<NvList> {
    let bad = |error: FormatError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    if std::fs::metadata(path)?.len() > SIZE_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
    }
    decode_native(&std::fs::read(path)?).map_err(bad)
}

/// Puts a pool into a cache file, or takes it out; the file of the last pool is removed.
pub(super) fn change(path: &Path, name: &str, pool: Option<NvList>) -> io::Result<()> {
    let mut pools = match read(path) {
        Ok(pools) => pools,
        Err(error) if error.kind() == io::ErrorKind::NotFound => NvList::new(),
        Err(error) => return Err(error),
    };
    let is_new = pool.is_some();
    match pool {
        Some(pool) => {
            pools.set(name, Value::List(pool));
        }
        None if pools.remove(name).is_none() => return Ok(()),
        None => {}
    }
    if !is_new && pools.is_empty() {
        return std::fs::remove_file(path);
    }
    // Whoever reads it meanwhile sees the old file or the new one, whole.
    let mut other = path.as_os_str().to_owned();
    other.push(".tmp");
    let other = PathBuf::from(other);
    let mut file = std::fs::File::create(&other)?;
    file.write_all(&encode_native(&pools))?;
    file.sync_all()?;
    std::fs::rename(&other, path)
}
