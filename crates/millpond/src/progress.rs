//! How far long work is, for the line of a terminal: what, how much, how fast, how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use admin::human_bytes;
use base::clock::real_now;
use base::thread::{self, JoinHandle, Role};
use inspect::{Audience, Line};

/// What takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// How much of something is done, since it was first looked at.
pub(crate) struct Course {
    what: String,
    start: Instant,
    /// Bytes that were done at the start.
    before: Option<u64>,
}

impl Course {
    pub(crate) fn new(what: String) -> Self {
        Self {
            what,
            start: real_now(),
            before: None,
        }
    }

    /// The line of `done` bytes of `total`.
    pub(crate) fn text(&mut self, done: u64, total: u64) -> String {
        let before = *self.before.get_or_insert(done);
        let since = done.saturating_sub(before);
        line(&self.what, done, total, since, self.start.elapsed())
    }
}

/// The line of `done` bytes of `total`, of which `since` took `elapsed`.
fn line(what: &str, done: u64, total: u64, since: u64, elapsed: Duration) -> String {
    let mut text = format!("{what}: {} of {}", human_bytes(done), human_bytes(total));
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let Some(rate) = since.saturating_mul(1000).checked_div(elapsed_ms) else {
        return text;
    };
    text += &format!(", {}/s", human_bytes(rate));
    if let Some(left_s) = total.saturating_sub(done).checked_div(rate) {
        text += &format!(", {} left", admin::span(left_s));
    }
    text
}

/// Says how long something takes of which nothing else is known, once it is slow.
pub(crate) struct Ticker {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(what: String) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let mut line = Line::new(Audience::of(false));
        let audience = line.audience();
        let own = Arc::clone(&ended);
        let start = real_now();
        let tick = move || {
            while !own.load(Ordering::Acquire) {
                let elapsed = start.elapsed();
                if elapsed >= SLOW {
                    line.draw_for_people(|| format!("{what}: {}", admin::span(elapsed.as_secs())));
                }
                std::thread::park_timeout(audience.interval());
            }
        };
        let thread = (audience == Audience::Terminal)
            .then(|| thread::named("progress", Role::PART).spawn(tick));
        Self {
            ended,
            // Without a thread there is no line.
            thread: thread.and_then(Result::ok),
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A line that could not be drawn stops nothing.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
