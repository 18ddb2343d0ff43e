//! How far a check is, on a terminal: what, how much, how fast, how long. None in a pipe.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::print::nice;

const INTERVAL: Duration = Duration::from_millis(200);

/// Ends the line however the work ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does the work, and shows meanwhile how many of `total` bytes are done; of none that is not
/// known.
pub(super) fn shown<R>(done: &AtomicU64, total: Option<u64>, work: impl FnOnce() -> R) -> R {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let ended = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let tick = || {
            loop {
                let text = line(done.load(Ordering::Relaxed), total, start.elapsed());
                // A terminal that takes nothing stops no check.
                let _ = std::io::stderr().write_all(format!("\r{text}\x1b[K").as_bytes());
                if ended.load(Ordering::Acquire) {
                    break;
                }
                std::thread::park_timeout(INTERVAL);
            }
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        };
        let builder = std::thread::Builder::new().name("progress".to_owned());
        // Without a thread there is no line.
        let ticker = builder.spawn_scoped(scope, tick).ok();
        let ending = Ending(&ended);
        let result = work();
        drop(ending);
        if let Some(ticker) = ticker {
            ticker.thread().unpark();
        }
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
