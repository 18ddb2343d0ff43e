use super::*;

fn report() -> MetricsReport {
    let times = || {
        Reading::Distribution(Distribution {
            buckets: vec![(10, 3), (11, 1)],
            sum: 4000,
            max: 1500,
        })
    };
    let readings = [
        ("bytes.log", Reading::Count(4096)),
        ("bytes.txg", Reading::Count(0)),
        ("fuse.lookup.latency_ns", times()),
        ("lock.vdev.queue.acquisitions", Reading::Count(7)),
        ("lock.vdev.queue.wait_ns", times()),
        (
            "queue.prefetch.depth",
            Reading::Level { now: 1, highest: 5 },
        ),
    ];
    MetricsReport::new("ta\"nk", 2_000_000_000, readings)
}

#[test]
fn the_tables_show_what_moved() {
    let text = metrics_table(
        &report(),
        None,
        MetricsTable {
            locks: true,
            ..MetricsTable::default()
        },
    );
    assert!(!text.contains("bytes.txg"), "{text}");
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("bytes.log"), "4096 2048.0");
    assert_eq!(line("vdev.queue"), "7 0 1.50us 1.50us - -");
    assert_eq!(line("prefetch"), "0 1 5 0 0 0");
    assert_eq!(line("fuse.lookup"), "4 1.00us 1.02us 1.50us 1.50us 1.50us");
    let all = metrics_table(
        &report(),
        None,
        MetricsTable {
            all: true,
            ..MetricsTable::default()
        },
    );
    assert!(all.contains("bytes.txg"));
}

#[test]
fn json_has_every_metric() {
    let text = metrics_json(&[report()]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let metrics = &found["pools"]["ta\"nk"]["metrics"];
    assert_eq!(metrics["bytes.txg"], 0);
    assert_eq!(metrics["queue.prefetch.depth"]["highest"], 5);
    assert_eq!(metrics["fuse.lookup.latency_ns"]["p50"], 1023);
    assert_eq!(
        metrics["fuse.lookup.latency_ns"]["buckets"],
        json!([[1023, 3], [2047, 1]])
    );
}

#[test]
fn ratios_follow_from_readings() {
    let fsync = Distribution {
        buckets: vec![(20, 800)],
        sum: 8_000_000_000,
        max: 1 << 19,
    };
    let readings = [
        ("log.commits", Reading::Count(800)),
        ("log.flushes", Reading::Count(400)),
        ("log.fsync_ns", Reading::Distribution(fsync)),
    ];
    let report = MetricsReport::new("tank", 2_000_000_000, readings);
    // Four at once, two with each flush: the best that two cohorts in turn can do.
    assert_eq!(
        ratios(&report),
        [
            ("fsyncs of a device flush", 2.0),
            ("group factor: fsyncs of a flush, of those at once", 0.5)
        ]
    );
}

#[test]
fn what_a_pool_does_comes_first() {
    let mut leaf = admin::LeafIo::default();
    leaf.async_write.bytes = 8 << 20;
    leaf.async_write.total_ns = Distribution {
        buckets: vec![(21, 40)],
        sum: 60_000_000,
        max: 1_900_000,
    };
    let io = IoReport {
        name: "tank".to_owned(),
        guid: 1,
        uptime_ns: 2_000_000_000,
        size: 4 << 30,
        allocated: 1 << 30,
        vdevs: Vec::new(),
        leaves: vec![(1, leaf.clone()), (2, leaf)],
    };
    let text = metrics_table(&report(), Some(&io), MetricsTable::default());
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[1], "capacity: 1G of 4G (25 %), 3G free");
    assert_eq!(lines[3], "DONE PER_SECOND BYTES/S P50 P99 MAX");
    assert!(
        lines.contains(&"written to devices 40.0 8M 1.90ms 1.90ms 1.90ms".to_owned()),
        "{text}"
    );
    assert!(
        lines.contains(&"read from devices 0.0 0 - - -".to_owned()),
        "{text}"
    );
    assert!(!text.contains("LOCK") && !text.contains("QUEUE"), "{text}");
}
