//! Copies of mounts that stay when the mount itself goes: binds, and other mount namespaces that do not hear of it.
//!
//! The kernel takes a mount away from all who share what it lies on, and from those who follow them. What it would
//! take is found out from the tables of all processes that can be read, before anything is unmounted: whoever has
//! another copy keeps the file system, and would find it dead.

use crate::fuse_device::{MountedEntry, mounted_entries, mounted_entries_of, resolved};
use crate::mount_users::{Device, MountUser, mount_device, name_of, namespace_of, processes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The mounts of one namespace, and a process that lives in it; of our own: none.
struct Table {
    process: Option<u32>,
    entries: Vec<MountedEntry>,
}

/// A directory: of which file system, and where in it.
type Place = (Device, PathBuf);

impl Table {
    fn parent(&self, of: &MountedEntry) -> Option<&MountedEntry> {
        self.entries.iter().find(|entry| entry.id == of.parent)
    }

    /// The directory on which a mount lies.
    fn place(&self, of: &MountedEntry) -> Option<Place> {
        let parent = self.parent(of)?;
        let below = of.path.strip_prefix(&parent.path).ok()?;
        Some((parent.device, parent.root.join(below)))
    }

    /// Whether a copy goes when a mount at `place` is unmounted of which these groups hear.
    fn goes(&self, entry: &MountedEntry, place: &Place, groups: &BTreeSet<u64>) -> bool {
        let hears = |parent: &MountedEntry| {
            let any = [parent.shared, parent.master].into_iter().flatten();
            any.into_iter().any(|group| groups.contains(&group))
        };
        self.place(entry).as_ref() == Some(place) && self.parent(entry).is_some_and(hears)
    }
}

/// Who keeps a copy of each of these mounts (a path, and its device number) when they are unmounted. At most `max` for
/// each.
#[must_use]
pub fn mount_holders(mounts: &[(PathBuf, Device)], max: usize) -> Vec<Vec<MountUser>> {
    let tables = tables();
    let holders = |(path, device): &(PathBuf, Device)| holders(&tables, path, *device);
    let of_each = mounts.iter().map(holders);
    of_each
        .map(|found| found.unwrap_or_default().into_iter().take(max).collect())
        .collect()
}

fn holders(tables: &[Table], path: &Path, device: Device) -> Option<Vec<MountUser>> {
    let (own, others) = tables.split_first()?;
    let path = resolved(path);
    let is_it = |entry: &&MountedEntry| entry.device == device && entry.path == path;
    let it = own.entries.iter().rev().find(is_it)?;
    let (place, groups) = (own.place(it)?, heard_of(own.parent(it)?, tables));
    let stays = |table: &Table, entry: &MountedEntry| {
        entry.device == device && !table.goes(entry, &place, &groups)
    };
    let here = own.entries.iter();
    let here = here.filter(|entry| entry.id != it.id && stays(own, entry));
    let here = here.map(|entry| MountUser::Copy(entry.path.clone()));
    let elsewhere = others.iter().filter_map(|table| {
        let pid = table.process?;
        let mut all = table.entries.iter();
        all.any(|entry| stays(table, entry)).then(|| {
            let name = name_of(pid);
            MountUser::Namespace { pid, name }
        })
    });
    Some(here.chain(elsewhere).collect())
}

/// What is mounted over the mount at `path` with this device number: its source. None also when that one is gone.
#[must_use]
pub fn mounted_over(path: &Path, device: Device) -> Option<String> {
    // The table is long where there are many mounts.
    if mount_device(path) == Some(device) {
        return None;
    }
    let path = resolved(path);
    let table = mounted_entries().ok()?;
    let mut here = table.iter().filter(|entry| entry.path == path);
    here.by_ref().find(|entry| entry.device == device)?;
    let top = here.next_back()?;
    Some(String::from_utf8_lossy(&top.source).into_owned())
}

/// The table of this process, then one of each other namespace.
fn tables() -> Vec<Table> {
    let own = Table {
        process: None,
        entries: mounted_entries().unwrap_or_default(),
    };
    let mut seen: BTreeSet<PathBuf> = namespace_of("self").into_iter().collect();
    let others = processes().filter_map(|pid| {
        let process = pid.to_string();
        let is_new = namespace_of(&process).is_some_and(|space| seen.insert(space));
        is_new.then(|| Table {
            process: Some(pid),
            entries: mounted_entries_of(&process).unwrap_or_default(),
        })
    });
    [own].into_iter().chain(others).collect()
}

/// The groups that hear of what is unmounted in `parent`: its own, and those that follow it.
fn heard_of(parent: &MountedEntry, tables: &[Table]) -> BTreeSet<u64> {
    let mut groups: BTreeSet<u64> = parent.shared.into_iter().collect();
    loop {
        let before = groups.len();
        let all = tables.iter().flat_map(|table| &table.entries);
        let following: Vec<u64> = all
            .filter(|entry| entry.master.is_some_and(|group| groups.contains(&group)))
            .filter_map(|entry| entry.shared)
            .collect();
        groups.extend(following);
        if groups.len() == before {
            return groups;
        }
    }
}
