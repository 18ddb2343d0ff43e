use super::*;

fn distribution(values: &[u64]) -> Distribution {
    let histogram = base::metrics::Histogram::new();
    for value in values {
        histogram.record(*value);
    }
    Distribution::from(&histogram.snapshot())
}

fn report(uptime_ns: u64, count: u64, values: &[u64]) -> MetricsReport {
    let readings = [
        ("a.count", Reading::Count(count)),
        ("a.latency_ns", Reading::Distribution(distribution(values))),
        ("b.depth", Reading::Level { now: 3, highest: 9 }),
    ];
    MetricsReport::new("tank", uptime_ns, readings)
}

#[test]
fn a_difference_has_what_came_since() {
    let (before, now) = (report(1, 5, &[10]), report(4, 7, &[10, 100, 200]));
    let change = now.since(&before);
    assert_eq!(change.uptime_ns, 3);
    assert_eq!(change.find("a.count"), Some(&Reading::Count(2)));
    assert_eq!(
        change.find("b.depth"),
        Some(&Reading::Level { now: 3, highest: 9 })
    );
    let Some(Reading::Distribution(latency)) = change.find("a.latency_ns") else {
        panic!("no latency");
    };
    assert_eq!((latency.whole().count(), latency.sum), (2, 300));
}

#[test]
fn words_choose_metrics() {
    let mut found = report(1, 5, &[10]);
    found.keep(&["latency".to_owned(), "b.".to_owned()]);
    let names: Vec<&str> = found.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a.latency_ns", "b.depth"]);
}

#[test]
fn leaves_are_added_and_subtracted() {
    let mut one = LeafIo::default();
    one.sync_read.bytes = 10;
    one.sync_read.disk_ns = distribution(&[5, 6]);
    let mut sum = one.clone();
    sum.add(&one);
    assert_eq!((sum.sync_read.bytes, sum.sync_read.operations()), (20, 4));
    assert_eq!(sum.since(&one), one);
}
