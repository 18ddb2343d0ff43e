//! Health, space, scrubs and datasets of a pool, as gauges.

use std::collections::BTreeMap;
use std::fmt::Write;

use admin::rows::dataset::{AVAILABLE, QUOTA, REFERENCED, USED};
use admin::{PoolStatus, ScanKind, ScanState, Types, Value, VdevReport, VdevState};

use super::{Families, Readings, escape};

/// The states that a pool can be in; one of them is 1.
const POOL_STATES: [VdevState; 5] = [
    VdevState::Online,
    VdevState::Degraded,
    VdevState::Faulted,
    VdevState::Suspended,
    VdevState::Unavailable,
];

/// The paths of leaves, by the guids that instruments name.
pub(super) fn devices(status: Option<&PoolStatus>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut visit = |vdev: &VdevReport| {
        if let Some(path) = &vdev.path {
            found.insert(format!("{:016x}", vdev.guid), path.clone());
        }
    };
    let vdevs = status.into_iter().flat_map(|status| &status.vdevs);
    vdevs.for_each(|vdev| vdev.walk(&mut visit));
    found
}

/// Adds what is known.
pub(super) fn add(families: &mut Families, readings: &Readings) {
    if let Some(status) = &readings.status {
        health(families, status);
        scans(families, status);
        for vdev in &status.vdevs {
            vdev.walk(&mut |vdev| leaf(families, &status.name, vdev));
        }
    }
    if let Some(io) = &readings.io {
        let labels = format!("pool=\"{}\"", escape(&io.name));
        let mut gauge = |name: &str, help: &str, value: u64| {
            sample(families, name, help, &labels, value);
        };
        gauge(
            "pool_size_bytes",
            "Bytes that the pool's devices give.",
            io.size,
        );
        gauge(
            "pool_allocated_bytes",
            "Bytes of them in use.",
            io.allocated,
        );
        let free = io.size.saturating_sub(io.allocated);
        gauge("pool_free_bytes", "Bytes of them that are free.", free);
    }
    datasets(families, readings);
}

fn sample(families: &mut Families, name: &str, help: &str, labels: &str, value: u64) {
    let name = format!("millpond_{name}");
    let lines = families.of(&name, "gauge", || help.to_owned());
    let _ = writeln!(lines, "{name}{{{labels}}} {value}");
}

fn health(families: &mut Families, status: &PoolStatus) {
    let pool = escape(&status.name);
    for state in POOL_STATES {
        let word = state.word();
        let labels = format!("pool=\"{pool}\",state=\"{word}\"");
        let help = "1 for the state that the pool is in.";
        let value = u64::from(status.state == state);
        sample(families, "pool_state", help, &labels, value);
    }
    let labels = format!("pool=\"{pool}\"");
    let help = "1 if nothing needs an administrator.";
    let healthy = u64::from(status.is_healthy());
    sample(families, "pool_healthy", help, &labels, healthy);
    let help = "Blocks with errors that no copy can repair.";
    sample(families, "pool_errors", help, &labels, status.error_count);
}

/// The last scan of each kind that is known: there is one.
fn scans(families: &mut Families, status: &PoolStatus) {
    let pool = escape(&status.name);
    let last = status.scan.as_ref();
    for (kind, name) in [(ScanKind::Scrub, "scrub"), (ScanKind::Resilver, "resilver")] {
        let scan = last.filter(|scan| scan.kind == kind);
        let labels = format!("pool=\"{pool}\",kind=\"{name}\"");
        let runs = scan.is_some_and(|scan| scan.state == ScanState::Running);
        let help = "1 while a scan of this kind runs.";
        sample(families, "pool_scan_running", help, &labels, runs.into());
        let Some(scan) = scan else {
            continue;
        };
        let mut gauge = |name: &str, help: &str, value: u64| {
            sample(families, name, help, &labels, value);
        };
        let help = "Errors of the last scan that stayed.";
        gauge("pool_scan_errors", help, scan.errors);
        let help = "Bytes that the last scan repaired.";
        gauge("pool_scan_repaired_bytes", help, scan.repaired);
        if scan.state == ScanState::Finished {
            let help = "When the last scan was finished, in seconds since 1970.";
            gauge("pool_scan_finished_timestamp_seconds", help, scan.ended);
        }
    }
}

fn leaf(families: &mut Families, pool: &str, vdev: &VdevReport) {
    let Some(path) = &vdev.path else {
        return;
    };
    let (pool, path, guid) = (escape(pool), escape(path), vdev.guid);
    let labels = format!("pool=\"{pool}\",vdev=\"{guid:016x}\",path=\"{path}\"");
    let word = vdev.state.word();
    let with_state = format!("{labels},state=\"{word}\"");
    let help = "The state of a file or disk; 1 if it works.";
    let works = matches!(
        vdev.state,
        VdevState::Online | VdevState::Available | VdevState::InUse
    );
    sample(families, "device_up", help, &with_state, works.into());
    for (kind, count) in [
        ("read", vdev.read_errors),
        ("write", vdev.write_errors),
        ("checksum", vdev.checksum_errors),
    ] {
        let labels = format!("{labels},kind=\"{kind}\"");
        let help = "Errors of a file or disk since they were last cleared.";
        sample(families, "device_errors", help, &labels, count);
    }
}

fn datasets(families: &mut Families, readings: &Readings) {
    let figures = [
        (
            USED.name,
            "dataset_used_bytes",
            "Bytes of a dataset and all below it.",
        ),
        (
            REFERENCED.name,
            "dataset_referenced_bytes",
            "Bytes that a dataset refers to.",
        ),
        (
            AVAILABLE.name,
            "dataset_available_bytes",
            "Bytes that a dataset can still get.",
        ),
        (
            QUOTA.name,
            "dataset_quota_bytes",
            "The limit of a dataset and all below it.",
        ),
    ];
    for row in &readings.datasets {
        let kind = if row.kind == Types::VOLUME {
            "volume"
        } else {
            "filesystem"
        };
        let (name, pool) = (escape(&row.name), escape(admin::pool_of(&row.name)));
        let labels = format!("pool=\"{pool}\",dataset=\"{name}\",type=\"{kind}\"");
        for (property, name, help) in figures {
            let value = match row.get(property).map(|setting| &setting.value) {
                // No limit is no figure.
                Some(Value::Number(0)) if property == QUOTA.name => continue,
                Some(Value::Number(value)) => *value,
                Some(Value::Text(_) | Value::Absent) | None => continue,
            };
            sample(families, name, help, &labels, value);
        }
    }
}

/// The properties that are asked of datasets.
pub(crate) fn properties() -> Vec<String> {
    [USED.name, REFERENCED.name, AVAILABLE.name, QUOTA.name]
        .map(str::to_owned)
        .to_vec()
}
