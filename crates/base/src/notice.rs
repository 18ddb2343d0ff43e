//! What somebody should know though nobody asked: a library returns what a call is about, and has nowhere to write
//! the rest. The program says who is told.
//!
//! Until it has, notices go nowhere.

use std::fmt;
use std::sync::OnceLock;

#[cfg(test)]
mod tests;

/// Who is told: a line, or several, without the last line's end.
pub type Listener = fn(&dyn fmt::Display);

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Has `listener` told of all notices from now on, for as long as the process lives. False: there is one already, and
/// it stays.
pub fn listen(listener: Listener) -> bool {
    LISTENER.set(listener).is_ok()
}

/// Tells whoever listens.
pub fn say(notice: &dyn fmt::Display) {
    if let Some(listener) = LISTENER.get() {
        listener(notice);
    }
}
