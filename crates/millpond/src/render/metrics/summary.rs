//! What a pool does, in a few lines: its space, how much is read and written, how long that takes.

use admin::{ClassIo, Distribution, IoReport, LeafIo, MetricsReport, Reading};

use super::time_text;

/// The columns behind the name of what is done.
const TITLES: [&str; 6] = ["DONE", "PER_SECOND", "BYTES/S", "P50", "P99", "MAX"];

/// The lines that `millpond stat` opens with. `metrics` and `io` are of the same time.
pub(super) fn summary(metrics: &MetricsReport, io: &IoReport) -> String {
    let percent = (u128::from(io.allocated) * 100)
        .checked_div(u128::from(io.size))
        .unwrap_or(0);
    let out = format!(
        "capacity: {} of {} ({percent} %), {} free\n",
        admin::human(io.allocated),
        admin::human(io.size),
        admin::human(io.size.saturating_sub(io.allocated)),
    );
    let mut all = LeafIo::default();
    io.leaves.iter().for_each(|(_, leaf)| all.add(leaf));
    let device = |name: &str, classes: &[&ClassIo]| {
        let mut times = Distribution::default().whole();
        let mut bytes = 0;
        for class in classes {
            times.merge(&class.total_ns.whole());
            bytes += class.bytes;
        }
        row(name, &Distribution::from(&times), Some(bytes), io.uptime_ns)
    };
    let mounted = |name: &str, metric: &str, bytes: Option<&str>| {
        let times = match metrics.find(metric) {
            Some(Reading::Distribution(times)) => times.clone(),
            Some(Reading::Count(_) | Reading::Level { .. }) | None => Distribution::default(),
        };
        let bytes = bytes.map(|bytes| match metrics.find(bytes) {
            Some(Reading::Count(bytes)) => *bytes,
            Some(Reading::Distribution(_) | Reading::Level { .. }) | None => 0,
        });
        row(name, &times, bytes, metrics.uptime_ns)
    };
    let rows = [
        mounted(
            "read by programs",
            "fuse.read.latency_ns",
            Some("bytes.user_read"),
        ),
        mounted(
            "written by programs",
            "fuse.write.latency_ns",
            Some("bytes.user_written"),
        ),
        mounted("fsync", "log.fsync_ns", None),
        device("read from devices", &[&all.sync_read, &all.async_read]),
        device("written to devices", &[&all.sync_write, &all.async_write]),
        device("scrub, resilver", &[&all.scan]),
    ];
    out + &super::titled(&TITLES, &rows)
}

fn row(name: &str, times: &Distribution, bytes: Option<u64>, time_ns: u64) -> Vec<String> {
    let times = times.whole();
    let time = |ns: u64| match times.count() {
        0 => "-".to_owned(),
        _ => time_text(ns),
    };
    let rate = bytes.map(|bytes| u128::from(bytes) * 1_000_000_000 / u128::from(time_ns.max(1)));
    vec![
        name.to_owned(),
        super::per_second(times.count(), time_ns),
        rate.map_or_else(
            || "-".to_owned(),
            |rate| admin::human(u64::try_from(rate).unwrap_or(u64::MAX)),
        ),
        time(times.quantile(500)),
        time(times.quantile(990)),
        time(times.max),
    ]
}
