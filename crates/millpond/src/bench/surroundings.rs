//! Where and when a scenario ran: figures of two machines, file systems or days are not the same figures.

use std::path::Path;

use admin::{DatasetQuery, Selection, Types};
use base::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use sys::MountedEntry;

use crate::arguments::dataset_property;

/// The properties of a file system on which its speed depends.
const PROPERTIES: [&str; 6] = [
    "compression",
    "checksum",
    "recordsize",
    "sync",
    "atime",
    "encryption",
];

/// The machine, the file system and the moment.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// Seconds since 1970.
    pub(super) when_s: u64,
    pub(super) host: String,
    /// The kernel's name and release.
    pub(super) system: String,
    pub(super) cpus: u64,
    pub(super) memory_bytes: u64,
    /// Runnable threads of the last minute, before the start.
    pub(super) load: Option<f64>,
    /// The type, as `ext4` or `fuse.zfs`, and what is mounted.
    pub(super) file_system: String,
    pub(super) source: String,
    /// Options of the mount.
    pub(super) options: String,
    /// Properties of a dataset of Millpond.
    pub(super) properties: Vec<(String, String)>,
}

impl Surroundings {
    /// Those of a directory; `pool` is the running pool that has it mounted.
    pub(super) fn of(place: &Path, pool: Option<&str>) -> Self {
        let system = rustix::system::uname();
        let mut found = Self {
            when_s: SystemClock.now_s(),
            host: sys::system::host_name(),
            system: format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            ),
            cpus: sys::system::cpu_count() as u64,
            memory_bytes: sys::system::memory_bytes(),
            load: load(),
            ..Self::default()
        };
        // Without a mount table the rest is still worth saying.
        let entries = sys::mounted_entries().unwrap_or_default();
        if let Some(entry) = innermost(&entries, place) {
            found.file_system = text(&entry.kind);
            found.source = text(&entry.source);
            found.options = text(&entry.options);
        }
        if let Some(pool) = pool {
            found.properties = properties(pool, &found.source);
        }
        found
    }

    /// What a report begins with, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let load = self
            .load
            .map_or_else(String::new, |load| format!(", load before {load:.1}"));
        let mut lines = vec![format!(
            "{}, {}: {} CPUs, {}, {}{load}; millpond {}",
            admin::moment(self.when_s),
            self.host,
            self.cpus,
            admin::human_bytes(self.memory_bytes),
            self.system,
            env!("CARGO_PKG_VERSION"),
        )];
        if !self.file_system.is_empty() {
            lines.push(format!(
                "{} of {}: {}",
                self.file_system, self.source, self.options
            ));
        }
        if !self.properties.is_empty() {
            let properties = self.properties.iter();
            let all: Vec<String> = properties
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            lines.push(all.join(" "));
        }
        lines
    }

    pub(super) fn json(&self) -> Value {
        let properties = self.properties.iter();
        let properties: serde_json::Map<String, Value> = properties
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        json!({
            "time": self.when_s, "date": admin::moment(self.when_s), "host": self.host, "system": self.system,
            "cpus": self.cpus, "memory_bytes": self.memory_bytes, "load": self.load,
            "file_system": self.file_system, "source": self.source, "options": self.options,
            "properties": properties, "version": env!("CARGO_PKG_VERSION"), "lines": self.lines(),
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The mount that a path is in: of the deepest one the last, which covers those before it.
fn innermost<'a>(entries: &'a [MountedEntry], place: &Path) -> Option<&'a MountedEntry> {
    let around = entries
        .iter()
        .filter(|entry| place.starts_with(&entry.path));
    around.max_by_key(|entry| entry.path.components().count())
}

/// The first figure of `0.20 0.18 0.12 3/80 11206`.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// As far as the daemon tells them: a benchmark runs without, too.
fn properties(pool: &str, dataset: &str) -> Vec<(String, String)> {
    let query = DatasetQuery {
        roots: vec![dataset.to_owned()],
        depth: Some(0),
        types: Types::ALL,
        properties: Selection::Names(PROPERTIES.map(str::to_owned).into()),
    };
    let found = crate::daemons::pool(pool)
        .and_then(|mut connection| crate::daemons::datasets(&mut connection, query));
    let Some(row) = found.ok().and_then(|(rows, _)| rows.into_iter().next()) else {
        return Vec::new();
    };
    let one = |name: &str| {
        let setting = row.get(name)?;
        let property = dataset_property(name).ok()?;
        Some((name.to_owned(), property.format(&setting.value, false)))
    };
    PROPERTIES.iter().filter_map(|name| one(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_lies_in_a_mount() {
        let found = Surroundings::of(&std::env::temp_dir(), None);
        assert!(found.cpus > 0 && found.memory_bytes > 0 && found.when_s > 1_700_000_000);
        let lines = found.lines();
        assert!(lines[0].contains(" CPUs, "), "{lines:?}");
        assert!(
            lines[1].contains(" of ") && lines[1].contains('r'),
            "{lines:?}"
        );
        assert_eq!(found.json()["cpus"], found.cpus);
    }
}
