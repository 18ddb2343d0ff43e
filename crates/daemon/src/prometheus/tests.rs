use super::*;

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
        (
            "queue.prefetch.depth",
            Reading::Level { now: 1, highest: 5 },
        ),
        ("vdev.00ff.sync_read.bytes", Reading::Count(9)),
        ("vdev.00ff.slow", Reading::Count(1)),
    ];
    MetricsReport::new("ta\"nk", 2_000_000_000, readings)
}

#[test]
fn the_text_format_has_types_labels_and_seconds() {
    let text = prometheus(&[report()]);
    let pool = r#"pool="ta\"nk""#;
    for line in [
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
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Every sample stands under the type of its own name, which is said once.
    let mut typed = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(typed.insert(line.to_owned()), "{line} twice");
    }
}
