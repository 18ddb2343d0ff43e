use super::*;
use admin::{VdevReport, VdevState};

fn report() -> MetricsReport {
    let times = Distribution {
        buckets: vec![(10, 3), (11, 1)],
        sum: 4000,
        max: 1500,
    };
    let readings = [
        ("bytes.log", Reading::Count(4096)),
        ("fuse.lookup.latency_ns", Reading::Distribution(times)),
        ("lock.vdev.queue.acquisitions", Reading::Count(7)),
        ("lock.vdev.queue.contended", Reading::Count(1)),
        (
            "queue.prefetch.depth",
            Reading::Level { now: 1, highest: 5 },
        ),
        ("vdev.00ff.sync_read.bytes", Reading::Count(9)),
        ("vdev.00ff.slow", Reading::Count(1)),
        ("fuse.polls_lost_ns", Reading::Count(1_500_000)),
    ];
    MetricsReport::new("ta\"nk", 2_000_000_000, readings)
}

fn told(report: MetricsReport, buckets: Buckets) -> String {
    let readings = Readings {
        metrics: vec![report],
        ..Readings::default()
    };
    prometheus(&readings, buckets)
}

#[test]
fn the_text_format_has_types_labels_and_seconds() {
    let text = told(report(), Buckets::Usual);
    let pool = r#"pool="ta\"nk""#;
    for line in [
        "# HELP millpond_bytes_log_total Bytes that pass each level: log.".to_owned(),
        "# TYPE millpond_bytes_log_total counter".to_owned(),
        format!("millpond_bytes_log_total{{{pool}}} 4096"),
        "# TYPE millpond_fuse_latency_seconds histogram".to_owned(),
        format!(
            "millpond_fuse_latency_seconds_bucket{{{pool},operation=\"lookup\",le=\"0.000001023\"}} 3"
        ),
        format!(
            "millpond_fuse_latency_seconds_bucket{{{pool},operation=\"lookup\",le=\"+Inf\"}} 4"
        ),
        format!("millpond_fuse_latency_seconds_count{{{pool},operation=\"lookup\"}} 4"),
        format!("millpond_lock_acquisitions_total{{{pool},class=\"vdev.queue\"}} 7"),
        format!("millpond_queue_depth{{{pool},queue=\"prefetch\"}} 1"),
        format!("millpond_queue_depth_highest{{{pool},queue=\"prefetch\"}} 5"),
        format!("millpond_vdev_class_bytes_total{{{pool},vdev=\"00ff\",class=\"sync_read\"}} 9"),
        format!("millpond_vdev_slow_total{{{pool},vdev=\"00ff\"}} 1"),
        format!("millpond_fuse_polls_lost_seconds_total{{{pool}}} 0.0015"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Every sample stands under the type of its own name, which is said once.
    let mut typed = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(typed.insert(line.to_owned()), "{line} twice");
    }
}

#[test]
fn health_and_datasets_have_names() {
    let mut leaf = VdevReport::healthy("file", 0xff);
    leaf.path = Some("/a.img".into());
    leaf.checksum_errors = 3;
    let mut status = PoolStatus::healthy("tank", 7);
    status.vdevs = vec![leaf];
    status.state = VdevState::Degraded;
    let number = |name: &str, value| {
        let setting = admin::Setting::measured(admin::Value::Number(value));
        (name.to_owned(), setting)
    };
    let row = DatasetRow {
        name: "tank/a".into(),
        kind: admin::Types::FILESYSTEM,
        created_txg: 1,
        properties: vec![number("used", 4096), number("quota", 0)],
    };
    let slow = [("vdev.00000000000000ff.slow", Reading::Count(1))];
    let readings = Readings {
        metrics: vec![MetricsReport::new("tank", 1, slow)],
        status: Some(status),
        io: None,
        datasets: vec![row],
    };
    let text = prometheus(&readings, Buckets::Usual);
    for line in [
        r#"millpond_pool_state{pool="tank",state="DEGRADED"} 1"#,
        r#"millpond_pool_state{pool="tank",state="ONLINE"} 0"#,
        r#"millpond_vdev_slow_total{pool="tank",vdev="00000000000000ff",path="/a.img"} 1"#,
        r#"millpond_device_errors{pool="tank",vdev="00000000000000ff",path="/a.img",kind="checksum"} 3"#,
        r#"millpond_dataset_used_bytes{pool="tank",dataset="tank/a",type="filesystem"} 4096"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("quota"), "none is set\n{text}");
}

#[test]
fn a_histogram_has_the_same_buckets_whatever_is_in_them() {
    let buckets = |distribution: Distribution| {
        let readings = [("txg.sync_ns", Reading::Distribution(distribution))];
        let text = told(MetricsReport::new("tank", 1, readings), Buckets::Usual);
        let ends = text.lines().filter_map(|line| line.split("le=").nth(1));
        let ends = ends.filter_map(|end| end.split('}').next());
        ends.map(str::to_owned).collect::<Vec<_>>()
    };
    let empty = buckets(Distribution::default());
    let some = buckets(Distribution {
        buckets: vec![(1, 5), (12, 3), (60, 1)],
        sum: 9,
        max: 9,
    });
    assert_eq!(empty, some);
    assert!(empty.len() > 20, "{empty:?}");
}

/// Of those that are many, sum and count are told, unless all buckets are asked for.
#[test]
fn buckets_of_locks_and_queues_are_told_to_who_asks() {
    let times = || {
        Reading::Distribution(Distribution {
            buckets: vec![(10, 3), (11, 1)],
            sum: 4_000_000_000,
            max: 1500,
        })
    };
    let names = [
        "lock.vdev.queue.wait_ns",
        "queue.prefetch.wait_ns",
        "vdev.00ff.sync_read.queue_wait_ns",
        "vdev.00ff.sync_read.single_bytes",
        "vdev.00ff.sync_read.total_ns",
        "vdev.00ff.flush_ns",
        "fuse.lookup.latency_ns",
        "txg.sync_ns",
    ];
    let counts = [
        ("lock.vdev.queue.contended", Reading::Count(2)),
        ("lock.idle.contended", Reading::Count(0)),
        ("lock.idle.acquisitions", Reading::Count(9)),
    ];
    let distributions = names.map(|name| (name, times()));
    let all = || counts.clone().into_iter().chain(distributions.clone());
    let report = || MetricsReport::new("tank", 1, all());
    let with_buckets = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("le=\"+Inf\""));
        let names = lines.filter_map(|line| line.split_once("_bucket"));
        names
            .map(|(name, _)| name.to_owned())
            .collect::<Vec<String>>()
    };
    let usual = told(report(), Buckets::Usual);
    let expected = [
        "millpond_fuse_latency_seconds",
        "millpond_txg_sync_seconds",
        "millpond_vdev_class_total_seconds",
        "millpond_vdev_flush_seconds",
    ];
    assert_eq!(with_buckets(&usual), expected);
    for line in [
        "# TYPE millpond_lock_wait_seconds summary",
        "millpond_lock_wait_seconds_sum{pool=\"tank\",class=\"vdev.queue\"} 4",
        "millpond_lock_wait_seconds_count{pool=\"tank\",class=\"vdev.queue\"} 4",
    ] {
        assert!(usual.lines().any(|found| found == line), "{line}\n{usual}");
    }
    assert!(!usual.contains("idle"), "{usual}");
    let all = told(report(), Buckets::All);
    assert_eq!(with_buckets(&all).len(), names.len(), "{all}");
    assert!(all.contains("class=\"idle\""), "{all}");
}
