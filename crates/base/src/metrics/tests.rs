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
