//! How far long work is, in one line of a terminal: what, how much, how fast, how long. In a pipe
//! or file only with `--json`, in lines for programs.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control::human_bytes;
use inspect::Audience;
use serde_json::{Value, json};

/// How often a line of which nothing else is known is drawn.
const INTERVAL: Duration = Duration::from_millis(200);

/// What takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// A line on the standard error, if that is a terminal, or lines for a program. It is gone from the
/// terminal when this is.
pub(crate) struct Line {
    audience: Audience,
    drawn: bool,
    next: Instant,
}

impl Line {
    /// For a program where JSON was asked for.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            audience: Audience::of(json),
            drawn: false,
            next: Instant::now(),
        }
    }

    /// Not before an interval has passed.
    pub(crate) fn later(json: bool) -> Self {
        let mut line = Self::new(json);
        line.next += line.audience.interval();
        line
    }

    /// Who is told.
    pub(crate) const fn audience(&self) -> Audience {
        self.audience
    }

    /// Tells people what `text` says, and programs `progress`, if it is time to.
    pub(crate) fn draw(&mut self, text: impl FnOnce() -> String, progress: impl FnOnce() -> Value) {
        if self.audience == Audience::Nobody {
            return;
        }
        let now = Instant::now();
        if now >= self.next {
            self.next = now + self.audience.interval();
            self.drawn = true;
            self.audience.tell(text, progress);
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.audience.clear();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

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
            start: Instant::now(),
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
        text += &format!(", {} left", control::span(left_s));
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
        let mut line = Line::new(false);
        let own = Arc::clone(&ended);
        let start = Instant::now();
        let tick = move || {
            while !own.load(Ordering::Acquire) {
                let elapsed = start.elapsed();
                if elapsed >= SLOW {
                    let seconds = elapsed.as_secs();
                    line.draw(
                        || format!("{what}: {}", control::span(seconds)),
                        || json!({"what": what, "elapsed_s": seconds}),
                    );
                }
                std::thread::park_timeout(INTERVAL);
            }
        };
        let thread = io::stderr().is_terminal().then(|| {
            let builder = std::thread::Builder::new().name("progress".to_owned());
            builder.spawn(tick)
        });
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
