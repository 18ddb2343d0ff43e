//! The line that says how far long work is, told no more often than its audience wants to hear.

use base::clock::real_now;
use std::time::Instant;

use serde_json::Value;

use crate::Audience;

/// A line on the standard error. It is gone from a terminal when this is.
#[derive(Debug)]
pub struct Line {
    audience: Audience,
    drawn: bool,
    next: Instant,
}

impl Line {
    /// A line that is told at once.
    #[must_use]
    pub fn new(audience: Audience) -> Self {
        Self {
            audience,
            drawn: false,
            next: real_now(),
        }
    }

    /// Not before an interval has passed.
    #[must_use]
    pub fn later(audience: Audience) -> Self {
        let mut line = Self::new(audience);
        line.next += audience.interval();
        line
    }

    /// Who is told.
    #[must_use]
    pub const fn audience(&self) -> Audience {
        self.audience
    }

    /// Tells people what `text` says, and programs `progress`, if it is time to.
    pub fn draw(&mut self, text: impl FnOnce() -> String, progress: impl FnOnce() -> Value) {
        if self.is_due() {
            self.audience.tell(text, progress);
        }
    }

    /// Tells people what `text` says, if it is time to, and programs nothing.
    pub fn draw_for_people(&mut self, text: impl FnOnce() -> String) {
        if self.is_due() {
            self.audience.tell_people(text);
        }
    }

    fn is_due(&mut self) -> bool {
        if self.audience == Audience::Nobody {
            return false;
        }
        let now = real_now();
        let due = now >= self.next;
        if due {
            self.next = now + self.audience.interval();
            self.drawn = true;
        }
        due
    }

    /// Removes the line.
    pub fn clear(&mut self) {
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
