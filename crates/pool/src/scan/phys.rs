//! The state of scrubs and resilvers, as the pool stores it.

use dmu::{Tx, Zap};
use format::config::directory;
use format::zap::Value;

/// Words of the entry.
const WORDS: usize = 24;
/// A function of [`ScanPhys`].
pub(crate) const FUNCTION_SCRUB: u64 = 1;
/// A function of [`ScanPhys`].
pub(crate) const FUNCTION_RESILVER: u64 = 2;
/// A state of [`ScanPhys`].
pub(crate) const STATE_SCANNING: u64 = 1;
/// A state of [`ScanPhys`].
pub(crate) const STATE_FINISHED: u64 = 2;
/// A state of [`ScanPhys`].
pub(crate) const STATE_CANCELED: u64 = 3;
/// A flag of [`ScanPhys`]: the dataset under way is looked at again, for what is younger than the
/// current range.
pub(crate) const FLAG_AGAIN: u64 = 1;
/// A flag of [`ScanPhys`].
pub(crate) const FLAG_PAUSED: u64 = 2;

/// The last scan: the MOS directory's entry `scan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanPhys {
    /// 0 none, 1 scrub, 2 resilver, 3 error scrub.
    pub function: u64,
    /// 0 none, 1 running, 2 finished, 3 cancelled.
    pub state: u64,
    /// The object of queued datasets.
    pub queue: u64,
    /// Blocks born after this txg …
    pub txg_min: u64,
    /// … and up to this one.
    pub txg_max: u64,
    /// The same range for the dataset under way.
    pub current_min: u64,
    /// Its end.
    pub current_max: u64,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Bytes to be looked at.
    pub to_examine: u64,
    /// Bytes looked at.
    pub examined: u64,
    /// Bytes passed over.
    pub skipped: u64,
    /// Bytes repaired.
    pub processed: u64,
    /// Blocks that could not be read.
    pub errors: u64,
    /// How far it came in the dedup tables: the last class to be looked at; class, type, checksum and
    /// cursor of the place.
    pub dedup: [u64; 5],
    /// Where it goes on: object set, object, level, block.
    pub bookmark: [u64; 4],
    /// Flags; 1 = the dataset once more, 2 = paused.
    pub flags: u64,
}

impl ScanPhys {
    /// Reads the entry; `None` when there never was a scan, or the entry is of a form that nothing
    /// writes any more.
    pub(crate) fn load(directory: &Zap) -> dmu::Result<Option<Self>> {
        let value = directory.lookup_value(directory::SCAN.as_bytes())?;
        let Some(value) = value.filter(|value| value.count() == WORDS) else {
            return Ok(None);
        };
        let word = |index: usize| {
            format::record::get_at::<u64>(value.stored(), 8 * index, base::ByteOrder::Big)
        };
        Ok(Some(Self {
            function: word(0),
            state: word(1),
            queue: word(2),
            txg_min: word(3),
            txg_max: word(4),
            current_min: word(5),
            current_max: word(6),
            started: word(7),
            ended: word(8),
            to_examine: word(9),
            examined: word(10),
            skipped: word(11),
            processed: word(12),
            errors: word(13),
            dedup: std::array::from_fn(|index| word(14 + index)),
            bookmark: std::array::from_fn(|index| word(19 + index)),
            flags: word(23),
        }))
    }

    /// Writes the entry; in syncing context.
    pub(crate) fn store(&self, directory: &Zap, tx: &Tx) -> dmu::Result<()> {
        let mut words = [0; WORDS];
        words[0] = self.function;
        words[1] = self.state;
        words[2] = self.queue;
        words[3] = self.txg_min;
        words[4] = self.txg_max;
        words[5] = self.current_min;
        words[6] = self.current_max;
        words[7] = self.started;
        words[8] = self.ended;
        words[9] = self.to_examine;
        words[10] = self.examined;
        words[11] = self.skipped;
        words[12] = self.processed;
        words[13] = self.errors;
        words[14..19].copy_from_slice(&self.dedup);
        words[19..23].copy_from_slice(&self.bookmark);
        words[23] = self.flags;
        directory.update_value(tx, directory::SCAN.as_bytes(), &Value::words(&words))
    }

    /// Whether it is under way (or paused).
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == STATE_SCANNING && matches!(self.function, 1 | 2)
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_running() && self.flags & FLAG_PAUSED != 0
    }
}
