//! The blocks of an object set that is only in streams: made up of their records when somebody asks, by where they
//! would be. Pointers lead nowhere: they only say that there is a block.

use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{Bookmark, ByteOrder, ObjectId, Txg, VdevId};
use codec::ChecksumValue;
use dmu::{BlockError, BlockStore};
use format::block_pointer::Dva;
use format::dnode::{BLOCK_SIZE, SLOT_SIZE, SLOTS_PER_BLOCK};
use format::intent_log::LogHeader;
use format::object_set::SIZE;
use format::{BlockPointer, DnodePhys, FormatError, ObjectSetPhys, ObjectType};
use stream::{Record, StreamError};
use sys::Buffer;

use super::extents::{Holder, Spot};
use super::files::StreamFile;
use super::index::{Index, Item};

/// The block of dnodes that was made last. Held with nothing beside it.
static LAST: LockClass = LockClass::new("inspect.stream_dnodes", rank::LAST);

/// Log2 of the bytes of an indirect block, and of the pointers in it.
const INDIRECT_SHIFT: u8 = 17;
const ENTRIES_SHIFT: u32 = 10;
/// All blocks are of this txg.
const BIRTH: Txg = Txg(1);

/// Why a block cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("the streams have no such block")]
    Absent,
    #[error("it was left out of a redacted stream")]
    Redacted,
}

type Result<T, E = Lost> = std::result::Result<T, E>;

/// See the module.
pub(super) struct Store {
    files: Arc<Vec<StreamFile>>,
    pub(super) index: Index,
    last: Mutex<Option<(u64, Buffer)>>,
}

impl Store {
    pub(super) fn new(files: Arc<Vec<StreamFile>>, index: Index) -> Self {
        Self {
            files,
            index,
            last: Mutex::new(&LAST, None),
        }
    }

    /// The pointer of the object set.
    pub(super) fn root() -> BlockPointer {
        pointer(ObjectType::OBJECT_SET, 0, SIZE as u64, 0)
    }

    fn block(&self, place: Bookmark) -> Result<Buffer> {
        if place.level < 0 {
            return self.object_set();
        }
        let level = u8::try_from(place.level).map_err(|_| Lost::Absent)?;
        if place.object == ObjectId(0) {
            return match level {
                0 => self.dnodes(place.block),
                level => Ok(indirect(level, place.block, &|first, end, level| {
                    self.dnodes_pointer(first, end, level)
                })),
            };
        }
        let item = self
            .index
            .objects
            .get(&place.object.0)
            .ok_or(Lost::Absent)?;
        if place.block == Bookmark::SPILL {
            return self.contents(item.spill.ok_or(Lost::Absent)?);
        }
        match level {
            0 => self.data(item, place.block),
            level => Ok(indirect(level, place.block, &|first, end, level| {
                data_pointer(item, first, end, level)
            })),
        }
    }

    fn object_set(&self) -> Result<Buffer> {
        let last = self.index.objects.last_key_value();
        let last = last.map_or(0, |(id, item)| id + u64::from(item.slots)) / SLOTS_PER_BLOCK as u64;
        let mut meta = DnodePhys::new(
            ObjectType::DNODE,
            BLOCK_SIZE as u32,
            INDIRECT_SHIFT,
            ObjectType::NONE,
            0,
            1,
        );
        meta.pointer_count = 1;
        set_tree(&mut meta, last, &|first, end, level| {
            self.dnodes_pointer(first, end, level)
        });
        let phys = ObjectSetPhys {
            meta_dnode: meta,
            log_header: LogHeader::decode_padded(&[], ByteOrder::NATIVE),
            kind: self.index.kind,
            flags: 0,
            portable_mac: [0; 32],
            local_mac: [0; 32],
            user_used: None,
            group_used: None,
            project_used: None,
        };
        let mut bytes = vec![0; SIZE];
        phys.encode(&mut bytes)?;
        Ok(Buffer::from_slice(&bytes))
    }

    /// The pointer to blocks of dnodes from one up to another. What is not the same block has not the same pointer.
    fn dnodes_pointer(&self, first: u64, end: u64, level: u8) -> BlockPointer {
        let slots = SLOTS_PER_BLOCK as u64;
        let (first, end) = (first.saturating_mul(slots), end.saturating_mul(slots));
        let mut items = self.index.objects.range(first..end).peekable();
        if items.peek().is_none() {
            return BlockPointer::HOLE;
        }
        let size = if level == 0 {
            BLOCK_SIZE as u64
        } else {
            1 << INDIRECT_SHIFT
        };
        // Of higher blocks it is not asked.
        let spots = items.take(slots as usize).map(|(_, item)| item.spot);
        let name = spots.fold(0x9E37_79B9_7F4A_7C15_u64, |sum, spot| {
            let sum = (sum ^ spot.at).wrapping_mul(0x0100_0000_01B3);
            (sum ^ u64::from(spot.file)).wrapping_mul(0x0100_0000_01B3)
        });
        pointer(ObjectType::DNODE, level, size, name)
    }

    fn dnodes(&self, block: u64) -> Result<Buffer> {
        if let Some((index, bytes)) = &*self.last.lock()
            && *index == block
        {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; BLOCK_SIZE];
        let first = block.saturating_mul(SLOTS_PER_BLOCK as u64);
        let end = first.saturating_add(SLOTS_PER_BLOCK as u64);
        for (id, item) in self.index.objects.range(first..end) {
            let at = usize::try_from(id - first).unwrap_or(0) * SLOT_SIZE;
            if let Some(slot) = bytes.get_mut(at..) {
                self.dnode(item)?.encode(slot)?;
            }
        }
        let bytes = Buffer::from_slice(&bytes);
        *self.last.lock() = Some((block, bytes.clone()));
        Ok(bytes)
    }

    fn dnode(&self, item: &Item) -> Result<DnodePhys> {
        let (record, mut bonus) = self.record(item.spot)?;
        let Record::Object(record) = record else {
            return Err(Lost::Absent);
        };
        let bonus_kind = ObjectType(u8::try_from(record.bonus_kind).unwrap_or(0));
        let bonus_len = u16::try_from(record.bonus_length).unwrap_or(u16::MAX);
        bonus.truncate(usize::from(bonus_len));
        self.swap(item.spot, bonus_kind, &mut bonus);
        let mut dnode = DnodePhys::new(
            item.kind,
            item.block_size,
            INDIRECT_SHIFT,
            bonus_kind,
            bonus_len,
            item.slots,
        );
        let size = u64::from(item.block_size);
        let last = item.extents.end().saturating_sub(1) / size;
        dnode.pointer_count = 1;
        dnode.bonus = bonus;
        set_tree(&mut dnode, last, &|first, end, level| {
            data_pointer(item, first, end, level)
        });
        if let Some(spot) = item.spill {
            let size = self.contents(spot)?.len() as u64;
            dnode.spill = Some(pointer(ObjectType::SYSTEM_ATTRIBUTES, 0, size, 0));
        }
        Ok(dnode)
    }

    /// A block of data, put together of what records have of it.
    fn data(&self, item: &Item, block: u64) -> Result<Buffer> {
        let size = u64::from(item.block_size);
        let start = block.checked_mul(size).ok_or(Lost::Absent)?;
        let mut bytes = vec![0; item.block_size as usize];
        for (offset, length, holder) in item.extents.within(start, start.saturating_add(size)) {
            let Holder::Record(spot, skip) = holder else {
                return Err(Lost::Redacted);
            };
            let contents = self.contents(spot)?;
            let range = |from: u64| {
                let from = usize::try_from(from).ok()?;
                Some(from..from.checked_add(usize::try_from(length).ok()?)?)
            };
            let part = range(skip).and_then(|range| contents.get(range));
            let place = range(offset - start).and_then(|range| bytes.get_mut(range));
            match (part, place) {
                (Some(part), Some(place)) => place.copy_from_slice(part),
                (None, _) | (_, None) => return Err(Lost::Absent),
            }
        }
        Ok(Buffer::from_slice(&bytes))
    }

    fn record(&self, spot: Spot) -> Result<(Record, Vec<u8>)> {
        let file = self.files.get(spot.file as usize).ok_or(Lost::Absent)?;
        Ok(file.record(spot.at, self.order(spot))?)
    }

    fn order(&self, spot: Spot) -> ByteOrder {
        let order = self.index.orders.get(&spot.file);
        order.copied().unwrap_or(ByteOrder::NATIVE)
    }

    fn swap(&self, spot: Spot, kind: ObjectType, bytes: &mut [u8]) {
        if self.order(spot) != ByteOrder::NATIVE {
            format::swap::block(kind, 0, bytes);
        }
    }

    /// The bytes that a record brings, as they are used.
    fn contents(&self, spot: Spot) -> Result<Buffer> {
        let (mut record, mut payload) = self.record(spot)?;
        match &mut record {
            Record::Write(record) => {
                stream::decompress(record, &mut payload, None)?;
                let kind = ObjectType(u8::try_from(record.kind).unwrap_or(0));
                self.swap(spot, kind, &mut payload);
            }
            Record::WriteEmbedded(record) => {
                payload = stream::embedded_contents(record, &payload)?;
                let kind = self
                    .index
                    .objects
                    .get(&record.object.0)
                    .map(|item| item.kind);
                self.swap(spot, kind.unwrap_or(ObjectType::NONE), &mut payload);
            }
            Record::Spill(_) => self.swap(spot, ObjectType::SYSTEM_ATTRIBUTES, &mut payload),
            Record::Begin(_)
            | Record::Object(_)
            | Record::FreeObjects(_)
            | Record::Free(_)
            | Record::End(_)
            | Record::WriteByReference(_)
            | Record::ObjectRange(_)
            | Record::Redact(_) => return Err(Lost::Absent),
        }
        Ok(Buffer::from_slice(&payload))
    }
}

impl BlockStore for Store {
    fn read(&self, block: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        if block.is_hole() {
            return Ok(Buffer::zeroed(usize::try_from(block.lsize()).unwrap_or(0)));
        }
        self.block(place).map_err(BlockError::new)
    }

    fn prefetch(&self, _blocks: &[(BlockPointer, Bookmark)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.lsize()
    }
}

/// A pointer that says that there is a block.
fn pointer(kind: ObjectType, level: u8, size: u64, name: u64) -> BlockPointer {
    let mut made = BlockPointer::for_block(kind, level, size, size);
    made.set_birth(BIRTH, BIRTH);
    made.set_fill(1);
    made.set_dva(
        0,
        Some(Dva {
            vdev: VdevId(0),
            asize: size,
            offset: 0,
            gang: false,
        }),
    );
    made.set_checksum(codec::Checksum::Fletcher4, ChecksumValue([name; 4]));
    made
}

/// The pointer to blocks of an object from one up to another.
fn data_pointer(item: &Item, first: u64, end: u64, level: u8) -> BlockPointer {
    let size = u64::from(item.block_size);
    let (start, behind) = (first.saturating_mul(size), end.saturating_mul(size));
    if !item.extents.any(start, behind) {
        return BlockPointer::HOLE;
    }
    if level > 0 {
        return pointer(item.kind, level, 1 << INDIRECT_SHIFT, 0);
    }
    let holders = item.extents.within(start, behind);
    if holders
        .iter()
        .all(|(_, _, holder)| *holder == Holder::Redacted)
    {
        return BlockPointer::redacted(item.kind, size, BIRTH);
    }
    pointer(item.kind, 0, size, 0)
}

/// Says which pointer leads to the blocks from one up to another, from that level on.
type Pointers<'a> = &'a dyn Fn(u64, u64, u8) -> BlockPointer;

/// How many blocks one of a level leads to.
fn span(level: u8) -> u64 {
    let shift = ENTRIES_SHIFT.saturating_mul(u32::from(level));
    1_u64.checked_shl(shift).unwrap_or(u64::MAX)
}

/// An indirect block.
fn indirect(level: u8, block: u64, pointers: Pointers<'_>) -> Buffer {
    let mut bytes = vec![0; 1 << INDIRECT_SHIFT];
    let below = level.saturating_sub(1);
    let first = block.saturating_mul(1 << ENTRIES_SHIFT);
    for (entry, slot) in (first..).zip(bytes.chunks_exact_mut(format::block_pointer::SIZE)) {
        let start = entry.saturating_mul(span(below));
        let found = pointers(start, start.saturating_add(span(below)), below);
        found.encode(slot, ByteOrder::NATIVE);
    }
    Buffer::from_slice(&bytes)
}

/// Gives a dnode the levels that its last block takes, and its one pointer.
fn set_tree(dnode: &mut DnodePhys, last: u64, pointers: Pointers<'_>) {
    let levels = (0..).find(|level| span(*level) > last).unwrap_or(6);
    dnode.levels = levels + 1;
    dnode.max_block_id = last;
    dnode.pointers = [BlockPointer::HOLE; 3];
    dnode.pointers[0] = pointers(0, span(levels), levels);
}
