//! What `zpool status` says of scrubs and resilvers.

use admin::date::{moment, span};
use admin::{PoolStatus, RebuildReport, ScanKind, ScanReport, ScanState, human_bytes};

/// Whether devices are getting what they lack.
pub(super) fn is_resilvering(pool: &PoolStatus) -> bool {
    let rebuilds = pool.rebuilds.iter().map(|rebuild| &rebuild.scan);
    let mut scans = pool.scan.iter().chain(rebuilds);
    scans.any(|scan| {
        scan.kind == ScanKind::Resilver
            && matches!(scan.state, ScanState::Running | ScanState::Paused)
    })
}

/// Whether something was rebuilt, which verifies nothing, and no scrub began since, as OpenZFS tells it: by the last
/// scan.
pub(super) fn is_unverified(pool: &PoolStatus) -> bool {
    let rebuilds = pool.rebuilds.iter().map(|rebuild| &rebuild.scan);
    let finished = rebuilds.filter(|scan| scan.state == ScanState::Finished);
    let Some(ended) = finished.map(|scan| scan.ended).max() else {
        return false;
    };
    match &pool.scan {
        None => true,
        Some(scan) => match scan.kind {
            ScanKind::Scrub => scan.started < ended,
            ScanKind::Resilver => false,
        },
    }
}

/// The lines about the last scrub, and the resilvers that run, or the last one.
pub(super) fn lines(pool: &PoolStatus, now: u64) -> String {
    let scrub = pool.scan.as_ref();
    let (scrub, resilver) = match scrub.map(|scan| scan.kind) {
        Some(ScanKind::Scrub) => (scrub, None),
        Some(ScanKind::Resilver) => (None, scrub),
        None => (None, None),
    };
    let mut out = String::new();
    if let Some(scrub) = scrub {
        out += &scan_lines(scrub, None, now);
    }
    let is_running = |scan: &ScanReport| match scan.state {
        ScanState::Running | ScanState::Paused => true,
        ScanState::Finished | ScanState::Canceled => false,
    };
    let running: Vec<&RebuildReport> = pool
        .rebuilds
        .iter()
        .filter(|rebuild| is_running(&rebuild.scan))
        .collect();
    let resilver_runs = resilver.is_some_and(is_running);
    let last = pool.rebuilds.iter().map(|rebuild| rebuild.scan.ended).max();
    let is_last = resilver.is_some_and(|resilver| last.is_none_or(|last| resilver.ended > last));
    if let Some(resilver) = resilver.filter(|_| resilver_runs || running.is_empty() && is_last) {
        out += &scan_lines(resilver, None, now);
    }
    let shown = match (running.is_empty(), resilver_runs || is_last) {
        (false, _) => running,
        (true, true) => Vec::new(),
        (true, false) => pool.rebuilds.iter().collect(),
    };
    for rebuild in shown {
        out += &scan_lines(&rebuild.scan, Some(&rebuild.vdev), now);
    }
    out
}

/// The lines of a scan, or of the rebuild of a vdev.
fn scan_lines(scan: &ScanReport, vdev: Option<&str>, now: u64) -> String {
    let of = vdev.map_or_else(String::new, |vdev| format!(" ({vdev})"));
    let (noun, past) = match scan.kind {
        ScanKind::Scrub => (format!("scrub{of}"), format!("scrub repaired{of}")),
        ScanKind::Resilver => (format!("resilver{of}"), format!("resilvered{of}")),
    };
    match scan.state {
        ScanState::Finished => format!(
            "  scan: {past} {} in {} with {} errors on {}\n",
            human_bytes(scan.repaired),
            span(scan.elapsed),
            scan.errors,
            moment(scan.ended)
        ),
        ScanState::Canceled => format!("  scan: {noun} canceled on {}\n", moment(scan.ended)),
        ScanState::Paused => format!(
            "  scan: {noun} paused since {}\n\t{noun} started on {}\n{}",
            moment(scan.ended),
            moment(scan.started),
            progress(scan, None)
        ),
        ScanState::Running => format!(
            "  scan: {noun} in progress since {}\n{}",
            moment(scan.started),
            progress(scan, Some(now.saturating_sub(scan.started).max(1)))
        ),
    }
}

/// The two lines of a scan that has not ended; without `elapsed` it is paused.
fn progress(scan: &ScanReport, elapsed: Option<u64>) -> String {
    const SLOWEST_TO_ESTIMATE: u64 = 10 << 20;
    let rate = |bytes: u64| elapsed.map_or(0, |seconds| bytes / seconds);
    let at = |bytes: u64| match rate(bytes) {
        0 => String::new(),
        rate => format!(" at {}/s", human_bytes(rate)),
    };
    let total = human_bytes(scan.to_examine);
    let verb = if scan.kind == ScanKind::Scrub {
        "repaired"
    } else {
        "resilvered"
    };
    let share = u128::from(scan.issued) * 10_000 / u128::from(scan.to_examine.max(1));
    let end = match rate(scan.issued) {
        _ if elapsed.is_none() => String::new(),
        rate if rate >= SLOWEST_TO_ESTIMATE => {
            format!(
                ", {} to go",
                span(scan.to_examine.saturating_sub(scan.issued) / rate)
            )
        }
        _ => ", no estimated completion time".to_owned(),
    };
    format!(
        "\t{} / {total} scanned{}, {} / {total} issued{}\n\t{} {verb}, {}.{:02}% done{end}\n",
        human_bytes(scan.scanned),
        at(scan.scanned),
        human_bytes(scan.issued),
        at(scan.issued),
        human_bytes(scan.repaired),
        share / 100,
        share % 100,
    )
}

#[cfg(test)]
mod tests;
