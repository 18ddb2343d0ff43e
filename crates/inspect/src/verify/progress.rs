//! How far a check is: what, how much, how fast, how long.

use base::clock::real_now;
use base::thread::{self, Role};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::Audience;
use crate::print::nice;

/// Ends the line however the work ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Who is told how far a check is.
#[derive(Clone, Copy)]
pub(crate) enum Watcher<'a> {
    /// Who reads the standard error.
    Audience(Audience),
    /// A function: the bytes that are done, and of how many, where that is known. Called five times a second.
    Function(&'a (dyn Fn(u64, Option<u64>) + Sync)),
}

impl Watcher<'_> {
    fn tell(self, done: u64, total: Option<u64>, elapsed: Duration) {
        match self {
            Self::Audience(audience) => audience.tell(
                || line(done, total, elapsed),
                || json!({"what": "verifying", "bytes": done, "bytes_total": total}),
            ),
            Self::Function(function) => function(done, total),
        }
    }

    fn end(self, done: u64, total: Option<u64>) {
        match self {
            Self::Audience(audience) => audience.clear(),
            Self::Function(function) => function(done, total),
        }
    }
}

/// Does the work, and tells meanwhile how many of `total` bytes are done; of none that is not
/// known. A function is told once more when the work is done.
pub(super) fn shown<R>(
    watcher: Watcher<'_>,
    done: &AtomicU64,
    total: Option<u64>,
    work: impl FnOnce() -> R,
) -> R {
    let interval = match watcher {
        Watcher::Audience(Audience::Nobody) => return work(),
        Watcher::Audience(audience) => audience.interval(),
        // As often as people.
        Watcher::Function(_) => Audience::Terminal.interval(),
    };
    let ended = AtomicBool::new(false);
    let start = real_now();
    thread::scope(|scope| {
        let tick = || {
            loop {
                watcher.tell(done.load(Ordering::Relaxed), total, start.elapsed());
                if ended.load(Ordering::Acquire) {
                    break;
                }
                std::thread::park_timeout(interval);
            }
        };
        let start = thread::named("progress", Role::PART);
        // Without a thread there is no line.
        let ticker = start.spawn_scoped(scope, tick).ok();
        let ending = Ending(&ended);
        let result = work();
        drop(ending);
        if let Some(ticker) = ticker {
            ticker.thread().unpark();
            // It ends by itself; a panic in the function is not the check's.
            let _ended = ticker.join();
        }
        watcher.end(done.load(Ordering::Relaxed), total);
        result
    })
}

fn line(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let mut text = format!("verifying: {}B", nice(done));
    if let Some(total) = total {
        text += &format!(" of {}B", nice(total));
    }
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let Some(rate) = done.saturating_mul(1000).checked_div(elapsed_ms) else {
        return text;
    };
    text += &format!(", {}B/s", nice(rate));
    let left = total.map(|total| total.saturating_sub(done));
    if let Some(left_s) = left.and_then(|left| left.checked_div(rate)) {
        text += &format!(", {left_s} s left");
    }
    text
}

#[cfg(test)]
mod tests;
