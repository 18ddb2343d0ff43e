//! What is measured: latencies of operations, and operations and bytes by the second.

use base::clock::real_now;
use hdrhistogram::Histogram;
use std::io;
use std::time::{Duration, Instant};

use super::stopped;

/// Digits that times are counted with: a quantile is exact to 1 %.
const DIGITS: u8 = 2;

/// A distribution of times in nanoseconds, of one thread.
#[derive(Clone, Debug)]
pub(super) struct Times {
    counts: Histogram<u64>,
    /// Exactly.
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            // It grows to what it counts.
            counts: Histogram::new(DIGITS).expect("so few digits are always allowed"),
            max_ns: 0,
        }
    }
}

impl Times {
    pub(super) fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts += &other.counts;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.len()
    }

    pub(super) const fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that `per_mille` of 1,000 do not exceed; 0 if there are none.
    pub(super) fn quantile_ns(&self, per_mille: u64) -> u64 {
        let found = self.counts.value_at_quantile(per_mille as f64 / 1000.0);
        found.min(self.max_ns)
    }
}

/// What one thread did in one phase.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    start: Instant,
    pub(super) times: Times,
    pub(super) bytes: u64,
    /// Operations ended in each second since the start.
    windows: Vec<u64>,
}

impl Tally {
    /// Threads of one phase share its start.
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            times: Times::default(),
            bytes: 0,
            windows: Vec::new(),
        }
    }

    /// Does and times one operation; one that fails is not counted. After a signal, none is done.
    pub(super) fn time<T>(&mut self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        stopped::check()?;
        let begun = real_now();
        let result = operation()?;
        self.add(begun);
        Ok(result)
    }

    /// Counts an operation that began then and ends now.
    pub(super) fn add(&mut self, begun: Instant) {
        let now = real_now();
        self.times.add(now.duration_since(begun));
        let second = now.duration_since(self.start).as_secs() as usize;
        if self.windows.len() <= second {
            self.windows.resize(second + 1, 0);
        }
        if let Some(window) = self.windows.get_mut(second) {
            *window += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.bytes += other.bytes;
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), 0);
        }
        for (sum, more) in self.windows.iter_mut().zip(&other.windows) {
            *sum += more;
        }
    }
}

/// One phase of a scenario, over.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) took: Duration,
    pub(super) tally: Tally,
}

impl Phase {
    /// A phase that ends now.
    pub(super) fn ended(name: &'static str, tally: Tally) -> Self {
        Self {
            name,
            took: tally.start.elapsed(),
            tally,
        }
    }

    /// The same, of which the clock was stopped then.
    pub(super) fn took(name: &'static str, took: Duration, tally: Tally) -> Self {
        Self { name, took, tally }
    }

    pub(super) fn per_second(&self) -> f64 {
        self.tally.times.count() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        self.tally.bytes as f64 / 1e6 / self.took.as_secs_f64().max(1e-9)
    }

    /// The worst whole second against the median one; none if there are fewer than three.
    pub(super) fn worst_window(&self) -> Option<f64> {
        // The last one is cut off by the end.
        let whole = self.tally.windows.len().checked_sub(1)?;
        let mut windows = self.tally.windows.get(..whole)?.to_vec();
        if windows.len() < 3 {
            return None;
        }
        windows.sort_unstable();
        let median = *windows.get(windows.len() / 2)?;
        let worst = *windows.first()?;
        Some(worst as f64 / median.max(1) as f64)
    }

    pub(super) fn windows(&self) -> &[u64] {
        &self.tally.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let mut times = Times::default();
        for us in 1..=1000 {
            times.add(Duration::from_micros(us));
        }
        for (per_mille, us) in [(500, 500.0), (990, 990.0), (999, 999.0), (1000, 1000.0)] {
            let found = times.quantile_ns(per_mille) as f64 / 1000.0;
            assert!((found / us - 1.0).abs() < 0.01, "{per_mille}: {found}");
        }
        assert_eq!(times.count(), 1000);
        assert_eq!(times.max_ns(), 1_000_000);
        assert_eq!(Times::default().quantile_ns(500), 0);
        assert_eq!(Times::default().max_ns(), 0);
    }

    #[test]
    fn the_worst_window_leaves_the_cut_one_out() {
        let start = Instant::now();
        let mut tally = Tally::new(start);
        tally.windows = vec![100, 25, 100, 120, 3];
        let phase = Phase::took("x", Duration::from_secs(4), tally);
        assert_eq!(phase.worst_window(), Some(0.25));
    }
}
