//! What a chain of streams leaves behind: its objects, and which record has which of their bytes. The bytes stay where
//! they are.

use std::collections::BTreeMap;

use base::{ByteOrder, Guid};
use format::stream::{OBJECT_HAS_SPILL, ObjectRecord, SPILL_UNMODIFIED};
use format::{ObjectSetKind, ObjectType};
use stream::{Features, Record};

use super::extents::{Extents, Holder, Spot};
use super::files::{Stream, StreamFile};
use crate::error::{InspectError, Result};

/// Objects and ranges, at most: some gigabytes of memory, and the blocks of terabytes.
const ENTRIES_MAX: usize = 1 << 25;
/// Numbers of objects are lower than this.
const OBJECTS_MAX: u64 = 1 << 48;

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its OBJECT record.
    pub(super) spot: Spot,
    pub(super) kind: ObjectType,
    pub(super) block_size: u32,
    pub(super) slots: u8,
    /// What has its spill block.
    pub(super) spill: Option<Spot>,
    pub(super) extents: Extents,
}

/// What changed with a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) is_gone: bool,
    pub(super) written_bytes: u64,
    pub(super) freed_bytes: u64,
}

/// The state of a dataset.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) kind: ObjectSetKind,
    pub(super) objects: BTreeMap<u64, Item>,
    /// The byte order of each file's streams.
    pub(super) orders: BTreeMap<u32, ByteOrder>,
    /// What the last stream changed, by objects.
    pub(super) changes: BTreeMap<u64, Change>,
    /// The snapshot.
    pub(super) guid: Guid,
    entries: usize,
}

impl Index {
    pub(super) const fn new() -> Self {
        Self {
            kind: ObjectSetKind::None,
            objects: BTreeMap::new(),
            orders: BTreeMap::new(),
            changes: BTreeMap::new(),
            guid: Guid(0),
            entries: 0,
        }
    }

    /// Has what a stream brings, as far as that is right.
    pub(super) fn apply(&mut self, file: &StreamFile, stream: &Stream) -> Result<()> {
        let unsuitable = |problem| InspectError::WrongKind {
            path: stream.name(),
            problem,
        };
        if stream.features.contains(Features::RAW) {
            return Err(unsuitable(
                "it is encrypted, and only a pool with its key can read it",
            ));
        }
        if stream.features.contains(Features::DEDUP) {
            return Err(unsuitable(
                "it is deduplicated: 'zstream redup' makes a plain stream of it",
            ));
        }
        if stream.features.unknown() != Features::empty() {
            return Err(unsuitable("it has features that are not known here"));
        }
        (self.kind, self.guid) = (stream.kind, stream.to);
        self.changes.clear();
        file.each_record(stream, &mut |record, spot, _payload, order| {
            self.orders.insert(spot.file, order);
            let is_valid = self.record(record, spot, stream);
            if self.entries > ENTRIES_MAX {
                return Err(unsuitable("it has more blocks than can be kept in memory"));
            }
            is_valid.ok_or_else(|| unsuitable("it has a record that no sender makes"))
        })
    }

    /// Nothing: no sender makes such a record.
    fn record(&mut self, record: &Record, spot: Spot, stream: &Stream) -> Option<()> {
        match record {
            Record::Begin(_) | Record::End(_) => Some(()),
            Record::Object(record) => self.object(record, spot, stream),
            Record::FreeObjects(record) => {
                let end = record.first.0.checked_add(record.count)?;
                self.free_objects(record.first.0, end);
                Some(())
            }
            Record::Write(record) => {
                let (id, size) = (record.object.0, record.logical_size);
                self.put(id, record.offset, size, Holder::Record(spot, 0))
            }
            Record::WriteEmbedded(record) => {
                let (id, size) = (record.object.0, u64::from(record.logical_size));
                if record.offset == stream::spill_offset(record.length) {
                    return self.set_spill(id, spot);
                }
                self.put(id, record.offset, size, Holder::Record(spot, 0))
            }
            Record::Redact(record) => self.put(
                record.object.0,
                record.offset,
                record.length,
                Holder::Redacted,
            ),
            Record::Free(record) => {
                let end = match record.length {
                    u64::MAX => u64::MAX,
                    length => record.offset.checked_add(length)?,
                };
                self.change_extents(record.object.0, |held| held.remove(record.offset, end))?;
                let change = self.changes.entry(record.object.0).or_default();
                change.freed_bytes = change.freed_bytes.saturating_add(end - record.offset);
                Some(())
            }
            Record::Spill(record) => {
                if record.flags & SPILL_UNMODIFIED != 0 && stream.says_spill {
                    return Some(());
                }
                self.set_spill(record.object.0, spot)
            }
            Record::WriteByReference(_) | Record::ObjectRange(_) => None,
        }
    }

    fn object(&mut self, record: &ObjectRecord, spot: Spot, stream: &Stream) -> Option<()> {
        let id = record.object.0;
        let kind = u8::try_from(record.kind).ok().map(ObjectType);
        let kind = kind.filter(|kind| kind.is_valid())?;
        let is_valid = (1..OBJECTS_MAX).contains(&id)
            && record.block_size.is_multiple_of(512)
            && (512..=16 << 20).contains(&record.block_size)
            && record.slots <= 32
            && record.bonus_length <= 16 << 10;
        if !is_valid {
            return None;
        }
        let slots = record.slots.max(1);
        // What lies where its dnode is to be is gone.
        self.free_objects(id + 1, id + u64::from(slots));
        let has_spill = record.flags & OBJECT_HAS_SPILL != 0;
        self.changes.entry(id).or_default();
        match self.objects.get_mut(&id) {
            Some(item) if item.slots == slots => {
                if item.block_size != record.block_size && !stream.keeps_blocks(item, record) {
                    let count = item.extents.count();
                    self.entries = self.entries.saturating_sub(count);
                    item.extents = Extents::default();
                    item.block_size = record.block_size;
                }
                if !has_spill && stream.says_spill {
                    item.spill = None;
                }
                (item.spot, item.kind) = (spot, kind);
            }
            Some(_) | None => {
                self.free_objects(id, id + 1);
                self.entries += 1;
                let item = Item {
                    spot,
                    kind,
                    block_size: record.block_size,
                    slots,
                    spill: None,
                    extents: Extents::default(),
                };
                self.objects.insert(id, item);
                self.changes.entry(id).or_default().is_gone = false;
            }
        }
        Some(())
    }

    fn put(&mut self, id: u64, offset: u64, length: u64, holder: Holder) -> Option<()> {
        let end = offset.checked_add(length)?;
        self.change_extents(id, |held| held.put(offset, end, holder))?;
        let change = self.changes.entry(id).or_default();
        change.written_bytes = change.written_bytes.saturating_add(length);
        Some(())
    }

    /// Changes what an object has, and counts what that comes to.
    fn change_extents(&mut self, id: u64, change: impl FnOnce(&mut Extents)) -> Option<()> {
        let held = &mut self.objects.get_mut(&id)?.extents;
        let before = held.count();
        change(held);
        self.entries = self.entries.saturating_sub(before) + held.count();
        Some(())
    }

    fn set_spill(&mut self, id: u64, spot: Spot) -> Option<()> {
        self.objects.get_mut(&id)?.spill = Some(spot);
        self.changes.entry(id).or_default();
        Some(())
    }

    /// Takes the objects from one number up to another away.
    fn free_objects(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let gone: Vec<u64> = self.objects.range(first..end).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(item) = self.objects.remove(&id) {
                self.entries = self.entries.saturating_sub(item.extents.count() + 1);
            }
            self.changes.entry(id).or_default().is_gone = true;
        }
    }
}

impl Stream {
    /// Whether a file keeps its blocks though the stream has smaller ones: it was cut to them, as `-L` was not given.
    fn keeps_blocks(&self, item: &Item, record: &ObjectRecord) -> bool {
        const PLAIN: u32 = 128 << 10;
        self.from != Guid(0)
            && item.kind == ObjectType::PLAIN_FILE
            && item.extents.end() > u64::from(item.block_size)
            && record.block_size == PLAIN
            && item.block_size > PLAIN
    }
}
