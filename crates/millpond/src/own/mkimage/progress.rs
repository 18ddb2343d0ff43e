//! How far it is: what, how much, how fast, how long.

use std::time::{Duration, Instant};

use admin::human_bytes;
use base::clock::real_now;
use control::ImageProgress;
use inspect::{Audience, Line};
use serde_json::{Value, json};

pub(crate) struct Progress {
    line: Line,
    /// When copying began.
    start: Option<Instant>,
}

impl Progress {
    /// On the standard error, if that is a terminal, or for a program.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            line: Line::later(Audience::of(json)),
            start: None,
        }
    }

    pub(crate) fn show(&mut self, now: &ImageProgress) {
        let moment = real_now();
        if now.entries_total != 0 {
            self.start.get_or_insert(moment);
        }
        let elapsed = self.start.map_or(Duration::ZERO, |start| moment - start);
        self.line.draw(|| line(now, elapsed), || object(now));
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    /// A last line.
    pub(crate) fn end(&self, text: &str) {
        if self.line.audience() == Audience::Terminal {
            crate::output::complain(&text);
        }
    }
}

/// An archive comes through a pipe.
const fn is_reading(now: &ImageProgress) -> bool {
    now.entries_total == 0 && now.entries == 0 && now.bytes > 0
}

fn object(now: &ImageProgress) -> Value {
    if is_reading(now) {
        return json!({"what": "reading", "bytes": now.bytes});
    }
    if now.entries_total == 0 {
        return json!({"what": "counting", "entries": now.entries});
    }
    json!({
        "what": "copying",
        "entries": now.entries,
        "entries_total": now.entries_total,
        "bytes": now.bytes,
        "bytes_total": now.bytes_total,
    })
}

fn line(now: &ImageProgress, elapsed: Duration) -> String {
    if is_reading(now) {
        return format!("reading: {}", human_bytes(now.bytes));
    }
    if now.entries_total == 0 {
        return format!("counting: {} entries", now.entries);
    }
    let mut text = format!(
        "copying: {} of {} entries, {} of {}",
        now.entries,
        now.entries_total,
        human_bytes(now.bytes),
        human_bytes(now.bytes_total),
    );
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    if elapsed_ms == 0 {
        return text;
    }
    let rate = now.bytes.saturating_mul(1000) / elapsed_ms;
    text += &format!(", {}/s", human_bytes(rate));
    // Where there is little in files, the files themselves take the time.
    let share = |part: u64, all: u64| u128::from(part.min(all)) * 1000 / u128::from(all.max(1));
    let permille = share(now.bytes, now.bytes_total).min(share(now.entries, now.entries_total));
    let permille = match now.bytes_total {
        0 => share(now.entries, now.entries_total),
        _ => permille,
    };
    let rest_ms = u128::from(elapsed_ms) * (1000 - permille);
    if let Some(left_ms) = rest_ms.checked_div(permille) {
        text += &format!(", {} s left", left_ms.div_ceil(1000));
    }
    text
}

#[cfg(test)]
mod tests;
