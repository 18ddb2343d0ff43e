//! Which reads of an open file continue others, and what to read ahead for them.
//!
//! A handle has a few streams; a thread begins its own, and continues any, for the kernel spreads one
//! reader's requests over our threads. Nothing here is a lock: what two threads write over each other
//! costs a prefetch. A read that continues nothing touches one stream of its thread.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tunables;

const STREAMS: usize = 8;

/// Where one sequential reader is, and how far ahead was read for it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stream {
    /// Where it goes on; 0: no stream.
    expected: AtomicU64,
    ahead: AtomicU64,
    /// Bytes to be ahead; doubles as the reader uses them.
    window: AtomicU64,
    patience: AtomicU64,
}

/// The streams of one open file.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// Made when a file is first read in part.
    streams: OnceLock<Box<[Stream; STREAMS]>>,
}

impl ReadAhead {
    /// Notes a read of `range` in a file of `size` bytes; answers what to read ahead.
    pub(crate) fn note(&self, range: &Range<u64>, size: u64) -> Option<Range<u64>> {
        if range.start == 0 && range.end >= size {
            return None;
        }
        let streams = self.streams.get_or_init(Box::default);
        let own = txg::thread_index() % STREAMS;
        for at in 0..STREAMS {
            let stream = &streams[(own + at) % STREAMS];
            if stream.is_continued_by(range) {
                return stream.go_on(range, size);
            }
        }
        streams[own].begin(range);
        None
    }
}

impl Stream {
    /// Whether a read goes on where the last one ended, or two requests before or after: the kernel's come
    /// out of order.
    fn is_continued_by(&self, range: &Range<u64>) -> bool {
        let expected = self.expected.load(Ordering::Relaxed);
        expected != 0 && expected.abs_diff(range.start) <= 2 * (range.end - range.start)
    }

    fn begin(&self, range: &Range<u64>) {
        let patience = self.patience.load(Ordering::Relaxed);
        if patience > 0 {
            self.patience.store(patience - 1, Ordering::Relaxed);
            return;
        }
        // One read elsewhere does not end a stream before it has had a chance.
        self.patience.store(1, Ordering::Relaxed);
        self.window.store(0, Ordering::Relaxed);
        self.ahead.store(range.end, Ordering::Relaxed);
        self.expected.store(range.end, Ordering::Relaxed);
    }

    fn go_on(&self, range: &Range<u64>, size: u64) -> Option<Range<u64>> {
        if self.expected.fetch_max(range.end, Ordering::Relaxed) >= range.end {
            return None;
        }
        self.patience
            .store(tunables::READ_AHEAD_PATIENCE.get(), Ordering::Relaxed);
        let known = self.ahead.load(Ordering::Relaxed);
        let (ahead, window) = (known.max(range.end), self.window.load(Ordering::Relaxed));
        // Asked for in large steps, so that a stream of small reads does not ask each time.
        if ahead >= size || (window != 0 && ahead - range.end > window / 2) {
            return None;
        }
        let max = tunables::READ_AHEAD_BYTES_MAX.get();
        let min = tunables::READ_AHEAD_BYTES_MIN.get();
        let min = min.max(2 * (range.end - range.start));
        let window = (window * 2).clamp(min.min(max), max);
        let target = range.end.saturating_add(window).min(size);
        let mine = target > ahead
            && self
                .ahead
                .compare_exchange(known, target, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !mine {
            return None;
        }
        self.window.store(window, Ordering::Relaxed);
        Some(ahead..target)
    }
}
