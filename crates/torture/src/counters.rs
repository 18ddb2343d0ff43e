//! The process's instruments, as tests look at them.

use base::metrics::{Value, registry};

/// The sum of the counters of this name; 0 if there is none.
#[must_use]
pub fn counter(name: &str) -> u64 {
    let samples = registry().snapshot();
    let values = samples.iter().filter(|sample| sample.name == name);
    let counts = values.map(|sample| match &sample.value {
        Value::Counter(count) => *count,
        Value::Gauge { .. } | Value::Histogram(_) => 0,
    });
    counts.sum()
}
