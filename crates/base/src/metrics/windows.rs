//! The last minutes in windows of a second: what the averages hide.

use super::{Value, flow};
use std::collections::VecDeque;

/// How many windows are kept.
pub const WINDOWS_MAX: usize = 300;
const LEVELS: usize = 6;

/// What passed each level of [`flow`] in each of the last seconds. Whoever owns it calls
/// [`Windows::close`] once a second; writers of the counters pay nothing.
#[derive(Debug)]
pub struct Windows {
    before: [u64; LEVELS],
    /// At most [`WINDOWS_MAX`], oldest first.
    closed: VecDeque<[u64; LEVELS]>,
}

impl Windows {
    /// No windows yet; the first begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            before: now(),
            closed: VecDeque::with_capacity(WINDOWS_MAX),
        }
    }

    /// Ends the present window and begins the next.
    pub fn close(&mut self) {
        let now = now();
        let mut window = now;
        for (amount, before) in window.iter_mut().zip(self.before) {
            *amount = amount.saturating_sub(before);
        }
        if self.closed.len() == WINDOWS_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back(window);
        self.before = now;
    }

    /// The windows of one level by its name (`user_written`), oldest first, in bytes.
    #[must_use]
    pub fn of(&self, level: &str) -> Vec<u64> {
        let place = flow().levels().iter().position(|(name, _)| *name == level);
        place.map_or_else(Vec::new, |place| {
            let amounts = self.closed.iter().filter_map(|window| window.get(place));
            amounts.copied().collect()
        })
    }

    /// For each level the last window, the smallest, the median and the largest of those kept.
    pub fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, _) in flow().levels() {
            let mut windows = self.of(name);
            let Some(last) = windows.last().copied() else {
                return;
            };
            windows.sort_unstable();
            let at = |place: usize| windows.get(place).copied().unwrap_or(0);
            let figures = [
                ("last", last),
                ("least", at(0)),
                ("median", at(windows.len() / 2)),
                ("most", at(windows.len() - 1)),
            ];
            for (what, amount) in figures {
                let level = i64::try_from(amount).unwrap_or(i64::MAX);
                let reading = Value::Gauge {
                    level,
                    high_water: level,
                };
                sink(&format!("{name}.{what}"), reading);
            }
        }
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

fn now() -> [u64; LEVELS] {
    flow().levels().map(|(_, counter)| counter.get())
}
