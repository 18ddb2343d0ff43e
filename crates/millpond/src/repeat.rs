//! Commands that repeat themselves: `… [interval [count]]`.

use base::clock::real_now;
use std::time::Duration;

use crate::output::{Outcome, Stop, usage};

/// Longer intervals are as good as this one, and a moment so far ahead can still be told.
const INTERVAL_MAX: Duration = Duration::from_hours(24 * 366);

/// How often a command repeats itself.
pub(crate) struct Interval {
    /// What is named before the numbers.
    pub(crate) names: Vec<String>,
    every: Option<Duration>,
    count: Option<u64>,
}

impl Interval {
    /// Splits `name … [interval [count]]`.
    ///
    /// # Errors
    /// An interval or a count of zero.
    pub(crate) fn split(operands: &[String]) -> Result<Self, Stop> {
        // Names of pools begin with a letter; `inf` would be a number as well.
        let is_number =
            |word: &&String| !word.starts_with(char::is_alphabetic) && word.parse::<f64>().is_ok();
        let last = operands.iter().rev().take(2);
        let numbers = last.take_while(is_number).count();
        let (names, rest) = operands.split_at(operands.len() - numbers);
        let is_some_time = |word: &String| word.parse().is_ok_and(|number: f64| number > 0.0);
        if !rest.iter().all(is_some_time) {
            return Err(usage("interval cannot be zero"));
        }
        let every = rest.first().and_then(|word| word.parse().ok());
        Ok(Self {
            names: names.to_vec(),
            every: every
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .map(|every| every.min(INTERVAL_MAX)),
            count: rest.get(1).and_then(|word| word.parse().ok()),
        })
    }

    /// The interval.
    pub(crate) fn every(&self) -> Option<Duration> {
        self.every
    }

    /// True if an interval is given.
    pub(crate) fn repeats(&self) -> bool {
        self.every.is_some()
    }

    /// Runs the command once, or again and again.
    pub(crate) fn repeat(&self, once: &mut dyn FnMut() -> Outcome) -> Outcome {
        self.repeat_after(false, once)
    }

    /// As [`Interval::repeat`]; with `uncounted` the first run is one more than was asked for.
    /// Runs begin at whole intervals, however long each takes.
    pub(crate) fn repeat_after(
        &self,
        uncounted: bool,
        once: &mut dyn FnMut() -> Outcome,
    ) -> Outcome {
        let mut left = self
            .count
            .map(|count| count.saturating_add(u64::from(uncounted)));
        let mut due = real_now();
        loop {
            once()?;
            left = left.map(|count| count.saturating_sub(1));
            let Some(every) = self.every.filter(|_| left != Some(0)) else {
                return Ok(());
            };
            due += every;
            std::thread::sleep(due.saturating_duration_since(real_now()));
        }
    }
}
