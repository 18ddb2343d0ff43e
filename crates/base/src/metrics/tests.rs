use super::*;
use std::sync::Arc;

#[test]
fn counters_sum_over_threads() {
    let counter = Arc::new(Counter::new());
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || (0..1000).for_each(|_| counter.increment()))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(counter.get(), 16_000);
}

#[test]
fn histogram_quantiles_bound_the_values() {
    let histogram = Histogram::new();
    for value in [0, 1, 2, 3, 1000, u64::MAX] {
        histogram.record(value);
    }
    let snapshot = histogram.snapshot();
    assert_eq!(snapshot.count(), 6);
    assert_eq!(snapshot.quantile(0), 0);
    assert_eq!(snapshot.quantile(500), 3);
    assert_eq!(snapshot.quantile(800), 1023);
    assert_eq!(snapshot.quantile(1000), u64::MAX);
}

#[test]
fn the_registry_reads_metrics_and_living_sources() {
    struct Pond;
    impl Source for Pond {
        fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
            sink("depth", Value::Counter(7));
        }
    }
    registry().counter("test.registry.count").add(3);
    let pond = Arc::new(Pond);
    registry().add_source("test.pond", &pond);
    let find = |name: &str| registry().snapshot().into_iter().find(|s| s.name == name);
    assert_eq!(
        find("test.registry.count").map(|s| s.value),
        Some(Value::Counter(3))
    );
    assert_eq!(
        find("test.pond.depth").map(|s| s.value),
        Some(Value::Counter(7))
    );
    drop(pond);
    assert_eq!(find("test.pond.depth"), None);
}

#[test]
fn sources_of_the_same_name_are_joined() {
    struct Pond(u64);
    impl Source for Pond {
        fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
            sink("pushed", Value::Counter(self.0));
        }
    }
    let ponds = [Arc::new(Pond(3)), Arc::new(Pond(4))];
    for pond in &ponds {
        registry().add_source("test.twins", pond);
    }
    let found = registry().snapshot();
    let found: Vec<_> = found
        .iter()
        .filter(|sample| sample.name.starts_with("test.twins"))
        .collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].value, Value::Counter(7));
}

#[test]
fn a_histogram_since_an_earlier_reading_forgets_what_was_before() {
    let histogram = Histogram::new();
    histogram.record(1_000_000);
    let earlier = histogram.snapshot();
    histogram.record(100);
    let recent = histogram.snapshot().since(&earlier);
    assert_eq!((recent.count(), recent.sum, recent.max), (1, 100, 127));
    histogram.record(2_000_000);
    assert_eq!(histogram.snapshot().since(&earlier).max, 2_000_000);
    assert_eq!(histogram.snapshot().quantile(999), 2_000_000);
}

#[test]
fn windows_show_the_worst_second() {
    let mut windows = Windows::new();
    for amount in [10, 0, 30] {
        flow().log.add(amount);
        windows.close();
    }
    assert_eq!(windows.of("log"), [10, 0, 30]);
    let mut found = Vec::new();
    windows.collect(&mut |name, value| found.push((name.to_owned(), value)));
    let level = |name: &str| {
        let value = found.iter().find(|(found, _)| found == name);
        match value {
            Some((_, Value::Gauge { level, .. })) => *level,
            _ => -1,
        }
    };
    assert_eq!(
        ["log.last", "log.least", "log.median", "log.most"].map(level),
        [30, 0, 10, 30]
    );
}
