//! Readers that go on where they ended, and what is read ahead for them.

use std::ops::Range;

use base::lock::{LockClass, Mutex, rank};

static READERS: LockClass = LockClass::new("volume.readers", rank::POSIX + 51);

/// As many are told apart; of more, the one that was silent longest is forgotten.
const READERS_MAX: usize = 8;
/// So much of what was read ahead is left when more is asked for.
const LEFT: u64 = 2;

/// A reader.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// Where its last read ended.
    end: u64,
    /// Up to where was read ahead for it.
    ahead: u64,
    /// When it read last, in reads of anybody.
    turn: u64,
}

#[derive(Default)]
struct Readers {
    turn: u64,
    list: Vec<Reader>,
}

/// The readers of a volume.
pub(crate) struct Sequences(Mutex<Readers>);

impl Sequences {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&READERS, Readers::default()))
    }

    /// Notes a read, and says what to read ahead: up to `window` bytes behind it.
    pub(crate) fn note(&self, read: &Range<u64>, window: u64) -> Range<u64> {
        let mut readers = self.0.lock();
        readers.turn += 1;
        let turn = readers.turn;
        let known = readers.list.iter_mut().find(|one| one.end == read.start);
        let Some(reader) = known else {
            if readers.list.len() >= READERS_MAX {
                let oldest = (0..readers.list.len())
                    .min_by_key(|at| readers.list.get(*at).map_or(0, |one| one.turn));
                readers.list.swap_remove(oldest.unwrap_or(0));
            }
            readers.list.push(Reader {
                end: read.end,
                ahead: read.end,
                turn,
            });
            return read.end..read.end;
        };
        (reader.end, reader.turn) = (read.end, turn);
        let from = reader.ahead.max(read.end);
        if from - read.end > window / LEFT {
            return from..from;
        }
        reader.ahead = read.end.saturating_add(window);
        from..reader.ahead.max(from)
    }
}

#[cfg(test)]
mod tests;
