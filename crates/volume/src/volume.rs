//! An open volume, and reading it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use dmu::{Admission, Object, ObjectSet};
use dsl::volume::{self, DATA};
use intent::Log;
use txg::Engine;

use crate::sequence::Sequences;
use crate::tunables::READ_AHEAD_BYTES;
use crate::{Result, VolumeError};

/// Changes of one volume, one after the other, so that their records are in the order of their effects: they copy
/// bytes, and wait for nothing.
static CHANGES: LockClass = LockClass::new("volume.changes", rank::POSIX + 50);

/// Where a volume comes from.
pub struct Source {
    /// Its objects.
    pub objects: Arc<ObjectSet>,
    /// The engine that changes go through; none where nothing is changed.
    pub engine: Option<Arc<Engine>>,
    /// Its intent log; none where nothing is changed.
    pub log: Option<Arc<Log>>,
    /// Who says whether there is room; none: nobody is asked.
    pub admission: Option<Arc<dyn Admission>>,
    /// The property `readonly`, and all else that forbids changes.
    pub read_only: bool,
}

/// When a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// With its txg, or the next flush.
    Later,
    /// When the call returns.
    AtOnce,
}

/// What makes changes possible.
pub(crate) struct Writing {
    pub(crate) engine: Arc<Engine>,
    pub(crate) log: Arc<Log>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
}

/// An open volume.
pub struct Volume {
    pub(crate) objects: Arc<ObjectSet>,
    pub(crate) data: Arc<Object>,
    pub(crate) size: AtomicU64,
    pub(crate) writing: Option<Writing>,
    pub(crate) read_only: AtomicBool,
    pub(crate) closed: AtomicBool,
    pub(crate) changes: Mutex<()>,
    /// The intent log is being replayed: nothing is refused then.
    pub(crate) replaying: bool,
    sequences: Sequences,
}

impl Volume {
    /// Opens a volume. What its log owes is applied before that, by [`crate::replay`].
    ///
    /// # Errors
    /// Its size or its data cannot be read.
    pub fn open(source: Source) -> Result<Self> {
        Self::new(source, false)
    }

    pub(crate) fn new(source: Source, replaying: bool) -> Result<Self> {
        let data = source.objects.object(DATA)?;
        let size = volume::stored_size(&source.objects)?.ok_or(VolumeError::NoSize)?;
        let writing = match (source.engine, source.log) {
            (Some(engine), Some(log)) if source.objects.is_writable() => Some(Writing {
                engine,
                log,
                admission: source.admission,
            }),
            _ => None,
        };
        Ok(Self {
            objects: source.objects,
            data,
            size: AtomicU64::new(size),
            writing,
            read_only: AtomicBool::new(source.read_only),
            closed: AtomicBool::new(false),
            changes: Mutex::new(&CHANGES, ()),
            replaying,
            sequences: Sequences::new(),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Bytes of its blocks: what a discard frees, and what a smaller write reads and writes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.data.block_size()
    }

    /// Whether changes are refused now.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.writing.is_none() || self.read_only.load(Ordering::Acquire)
    }

    /// Takes over the property `readonly`.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }

    /// Whether it was closed, or its dataset was taken out of service.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || self.objects.is_stopped()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(VolumeError::Closed);
        }
        Ok(())
    }

    /// Fails unless the whole range lies within the volume.
    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        let size = self.size();
        if offset.checked_add(length).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(VolumeError::OutOfRange {
            offset,
            length,
            size,
        })
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// The range is not within the volume, or a block cannot be read.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_open()?;
        let length = out.len() as u64;
        self.check_range(offset, length)?;
        let end = offset.saturating_add(length);
        let ahead = self.sequences.note(&(offset..end), READ_AHEAD_BYTES.get());
        if length > u64::from(self.block_size()) {
            self.data.prefetch(offset, length);
        }
        let ahead_end = ahead.end.min(self.size());
        if ahead.start < ahead_end {
            self.data.prefetch(ahead.start, ahead_end - ahead.start);
        }
        Ok(self.data.read(offset, out)?)
    }

    /// The first byte of a range that is not in a hole; none: there are only holes.
    ///
    /// # Errors
    /// It cannot be found out for damage.
    pub fn next_data(&self, range: Range<u64>) -> Result<Option<u64>> {
        self.check_open()?;
        Ok(self.data.next_data(self.within(range))?)
    }

    /// The first byte of a range that is in a hole, at the latest its end and that of the volume.
    ///
    /// # Errors
    /// It cannot be found out for damage.
    pub fn next_hole(&self, range: Range<u64>) -> Result<u64> {
        self.check_open()?;
        Ok(self.data.next_hole(self.within(range))?)
    }

    /// What the volume has of a range.
    fn within(&self, range: Range<u64>) -> Range<u64> {
        let size = self.size();
        range.start.min(size)..range.end.min(size)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume in object set {}", self.objects.id())
    }
}
