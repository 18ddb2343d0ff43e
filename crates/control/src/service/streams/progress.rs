//! How far sends are, for those who ask by the number that they gave.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admin::SendProgress;
use base::lock::{LockClass, Mutex, rank};

/// Held with nothing beside it.
static SENDING: LockClass = LockClass::new("control.sending", rank::FRONT_END + 42);
static NAME: LockClass = LockClass::new("control.sent_name", rank::FRONT_END + 43);

/// The sends of which somebody may ask; as many as there are requests to send.
pub(super) struct Sending(Mutex<BTreeMap<u64, Arc<Written>>>);

/// What one send has written.
pub(super) struct Written {
    /// The snapshot that is sent now.
    name: Mutex<String>,
    /// Bytes of all streams.
    bytes: AtomicU64,
    /// Bytes of those before this one.
    before: AtomicU64,
}

/// One send, until it is dropped.
pub(super) struct Followed<'a> {
    sending: &'a Sending,
    number: u64,
    pub(super) written: Arc<Written>,
}

/// Counts what goes to an output.
pub(super) struct Counted<W> {
    output: W,
    written: Arc<Written>,
}

impl Sending {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&SENDING, BTreeMap::new()))
    }

    /// Has a send be asked for by its number; by 0 nobody asks.
    pub(super) fn follow(&self, number: u64) -> Followed<'_> {
        let written = Arc::new(Written {
            name: Mutex::new(&NAME, String::new()),
            bytes: AtomicU64::new(0),
            before: AtomicU64::new(0),
        });
        if number != 0 {
            self.0.lock().insert(number, Arc::clone(&written));
        }
        Followed {
            sending: self,
            number,
            written,
        }
    }

    /// How far the send of a number is; none if there is none, or it has not begun.
    pub(super) fn progress(&self, number: u64) -> Option<SendProgress> {
        let written = self.0.lock().get(&number).cloned()?;
        let name = written.name.lock().clone();
        let bytes = written.bytes.load(Ordering::Relaxed);
        let before = written.before.load(Ordering::Relaxed);
        (!name.is_empty()).then(|| SendProgress {
            name,
            bytes: bytes.saturating_sub(before),
        })
    }
}

impl Written {
    /// Another snapshot is sent from now on.
    pub(super) fn begin(&self, name: &str) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.before.store(bytes, Ordering::Relaxed);
        name.clone_into(&mut self.name.lock());
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let mut all = self.sending.0.lock();
        // Somebody may have given the same number since.
        if let Some(known) = all.get(&self.number)
            && Arc::ptr_eq(known, &self.written)
        {
            all.remove(&self.number);
        }
    }
}

impl<W> Counted<W> {
    pub(super) fn new(output: W, written: &Arc<Written>) -> Self {
        Self {
            output,
            written: Arc::clone(written),
        }
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        let written = u64::try_from(count).unwrap_or(u64::MAX);
        self.written.bytes.fetch_add(written, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests;
