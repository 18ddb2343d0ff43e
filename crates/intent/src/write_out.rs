//! Large writes: their blocks are written where they belong before the commit, and the log has
//! pointers to them. A commit of much data so puts little into the chain, and who commits little
//! meanwhile does not wait for it.
//!
//! A block of the open txg is written once: its sync takes it over unless it changes again. A block
//! of a txg that has closed already is copied into the open one, and the copy freed with that txg.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{ByteOrder, ObjectId, Txg};
use dmu::{BlockWriter, DmuError, Early, Object};
use format::intent_log::{WriteFields, encode_record, kind};
use format::{BlockPointer, ObjectType};
use txg::TxgHold;
use vdev::WriteGroup;

use crate::entry::{Entry, LogBias};
use crate::lists::{Item, LargeWrite};
use crate::log::Log;
use crate::tunables;

static EARLY: LockClass = LockClass::new("intent.early", rank::INTENT + 42);

/// Of what `logbias` calls throughput, all that is not empty is written in place.
const THROUGHPUT_MIN: u64 = 1;

/// Writes data blocks by the head's rules; supplied by the pool.
pub trait DataWriter: Send + Sync {
    /// Calls `run` with a writer that allocates in `txg` and queues its writes in `group`. False:
    /// the head's rules cannot be looked up.
    fn with(
        &self,
        txg: Txg,
        group: &Arc<WriteGroup>,
        run: &mut dyn FnMut(&dyn BlockWriter),
    ) -> bool;
}

/// A block that was written before its txg synced.
struct EarlyBlock {
    txg: Txg,
    object: Arc<Object>,
    block: u64,
    pointer: BlockPointer,
    group: Arc<WriteGroup>,
}

/// The early blocks of a log, until their txgs sync.
pub(crate) struct EarlyBlocks {
    blocks: Mutex<Vec<EarlyBlock>>,
}

impl EarlyBlocks {
    pub(crate) fn new() -> Self {
        Self {
            blocks: Mutex::new(&EARLY, Vec::new()),
        }
    }

    /// Those that the sync of `txg`, which has begun, does not take over: they are to be freed.
    /// Waits for their writes, which the txg's uberblock must not overtake.
    /// `gone`: the object set is not synced any more.
    pub(crate) fn settle(&self, txg: Txg, gone: bool) -> Vec<BlockPointer> {
        let due: Vec<EarlyBlock> = {
            let mut blocks = self.blocks.lock();
            let (due, later) = std::mem::take(&mut *blocks)
                .into_iter()
                .partition(|block| block.txg <= txg);
            *blocks = later;
            due
        };
        let mut free = Vec::new();
        for early in due {
            let written = early.group.wait().is_ok();
            if !written {
                early.object.forget_early(early.txg, early.block);
            }
            let takes = early
                .object
                .takes_early(early.txg, early.block, &early.pointer);
            if gone || !takes {
                free.push(early.pointer);
            }
        }
        free
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.lock().is_empty()
    }
}

/// A part of a write, inside one block.
#[derive(Clone, Copy)]
struct Part {
    write: usize,
    block: u64,
    offset: u64,
    length: u64,
}

impl Log {
    /// Whether [`Log::write_out`] would write anything of the object.
    pub(crate) fn has_large_writes(&self, id: ObjectId) -> bool {
        self.data_writer.is_some() && self.lists.has_large_write(id, self.min_direct())
    }

    /// The shortest write whose blocks are written in place. Log devices take all that wants to be fast.
    fn min_direct(&self) -> u64 {
        match self.log_bias() {
            LogBias::Throughput => THROUGHPUT_MIN,
            LogBias::Latency if (self.has_devices)() => u64::MAX,
            LogBias::Latency => tunables::DIRECT_BYTES_MIN.get(),
        }
    }

    /// Writes the blocks of the object's large writes, and puts pointers into their records.
    /// What fails stays as it was: its data go into the log.
    pub(crate) fn write_out(&self, id: ObjectId) {
        let Some(writer) = &self.data_writer else {
            return;
        };
        let min = self.min_direct();
        let mut writes = self.lists.large_writes(id, min);
        if writes.is_empty() {
            return;
        }
        let Ok(object) = self.objects.object(id) else {
            return;
        };
        let block_size = u64::from(object.block_size());
        if min != THROUGHPUT_MIN {
            // A whole block for a small part of it costs more than the part.
            writes.retain(|write| write.length >= block_size / 2);
        }
        let parts = parts(&writes, block_size);
        let mut placed = Placed::new(writes.len());
        let mut groups = Vec::new();
        for chunk in parts.chunks(tunables::BLOCKS_A_HOLD.count()) {
            let Ok(hold) = self.engine.hold() else {
                return;
            };
            let group = WriteGroup::of_pool(hold.txg(), self.engine.findings());
            let chunk = Chunk {
                object: &object,
                hold: &hold,
                group: &group,
                writes: &writes,
                parts: chunk,
            };
            let known = writer.with(hold.txg(), &group, &mut |writer| {
                self.write_chunk(&chunk, writer, &mut placed);
            });
            if !known {
                return;
            }
            groups.push(group);
        }
        if groups.iter().any(|group| group.wait().is_err()) {
            return;
        }
        // A volume keeps its size whatever is written, and OpenZFS replays no record there that only tells one.
        let tells_sizes = object.info().object_type != ObjectType::ZVOL;
        let items = placed.finish(id, &writes, tells_sizes);
        let found = writes.iter().zip(items);
        let found = found.filter_map(|(write, items)| Some((write.stamp, items?)));
        self.lists.replace(id, found.collect());
    }

    fn write_chunk(&self, chunk: &Chunk<'_>, writer: &dyn BlockWriter, placed: &mut Placed) {
        for part in chunk.parts {
            let Some(write) = chunk.writes.get(part.write) else {
                continue;
            };
            let written = self.write_part(chunk, write, part, writer);
            let written = written.unwrap_or(Written::Nothing);
            placed.note(part, written);
        }
    }

    /// Writes one block.
    fn write_part(
        &self,
        chunk: &Chunk<'_>,
        write: &LargeWrite,
        part: &Part,
        writer: &dyn BlockWriter,
    ) -> Result<Written, DmuError> {
        let txg = chunk.hold.txg();
        if write.txg == txg {
            match chunk.object.write_early(txg, part.block, writer)? {
                Early::Unchanged => return Ok(Written::Before),
                Early::Written(pointer) => {
                    if has_space(&pointer) {
                        self.early.blocks.lock().push(EarlyBlock {
                            txg,
                            object: Arc::clone(chunk.object),
                            block: part.block,
                            pointer,
                            group: Arc::clone(chunk.group),
                        });
                    }
                    return Ok(self.loggable(chunk, pointer));
                }
                Early::Clean => {}
            }
        }
        let pointer = chunk.object.write_copy(part.block, writer)?;
        if has_space(&pointer) {
            self.chain.lock().orphans.push(pointer);
        }
        Ok(self.loggable(chunk, pointer))
    }

    /// Whether a record can point to a block: not to a gang, whose claim would need more than
    /// space, nor to a block inside its pointer, nor to one without a checksum: after a crash nothing would tell
    /// whether it was written whole, or on which sides of a mirror.
    fn loggable(&self, chunk: &Chunk<'_>, pointer: BlockPointer) -> Written {
        if pointer.is_hole() {
            return Written::At(BlockPointer::HOLE);
        }
        let is_proven = pointer.checksum().is_ok_and(|kind| !kind.is_off());
        if pointer.is_gang() || pointer.is_embedded() || !is_proven {
            return Written::Nothing;
        }
        let bytes = u64::from(chunk.object.block_size());
        self.meters.indirect_bytes.add(bytes);
        Written::At(pointer)
    }
}

/// What became of one part.
enum Written {
    /// A record can point here.
    At(BlockPointer),
    /// Another part wrote the block, this one's bytes included.
    Before,
    /// The write's bytes go into the log.
    Nothing,
}

/// One part of a write, as it will be in the log.
struct Slot {
    part: Part,
    /// None: a later write's record has the pointer.
    pointer: Option<BlockPointer>,
}

/// What has been written of several writes.
struct Placed {
    /// By write: its parts, unless its bytes go into the log.
    writes: Vec<Option<Vec<Slot>>>,
    /// By block: the write whose record has the pointer, and which of its slots.
    owners: BTreeMap<u64, (usize, usize)>,
    /// A write, and a later one whose pointer it relies on.
    needs: Vec<(usize, usize)>,
}

impl Placed {
    fn new(writes: usize) -> Self {
        Self {
            writes: (0..writes).map(|_| Some(Vec::new())).collect(),
            owners: BTreeMap::new(),
            needs: Vec::new(),
        }
    }

    fn note(&mut self, part: &Part, written: Written) {
        let pointer = match written {
            Written::At(pointer) => Some(pointer),
            Written::Before => self.take_over(part),
            Written::Nothing => None,
        };
        let Some(slot) = self.writes.get_mut(part.write) else {
            return;
        };
        match (pointer, slot.as_mut()) {
            (Some(pointer), Some(slots)) => {
                self.owners.insert(part.block, (part.write, slots.len()));
                slots.push(Slot {
                    part: *part,
                    pointer: Some(pointer),
                });
            }
            _ => *slot = None,
        }
    }

    /// The pointer of a block that an earlier write of this commit wrote. It moves to the last write of the block: what
    /// lies between them in the log, a truncation say, must not take away what it brings. The earlier record need
    /// only tell the size. A block that an earlier commit wrote is no help: whether its record was used is not known.
    fn take_over(&mut self, part: &Part) -> Option<BlockPointer> {
        self.writes.get(part.write)?.as_ref()?;
        let (owner, at) = *self.owners.get(&part.block)?;
        let slot = self.writes.get_mut(owner)?.as_mut()?.get_mut(at)?;
        let pointer = slot.pointer.take()?;
        self.needs.push((owner, part.write));
        Some(pointer)
    }

    /// What is to be replaced: writes that rely on one that is not, are not either.
    /// Without `tells_sizes`, a part whose block is in a later record has none.
    fn finish(
        mut self,
        object: ObjectId,
        writes: &[LargeWrite],
        tells_sizes: bool,
    ) -> Vec<Option<Vec<Item>>> {
        // From the last on: each relies on later ones only.
        self.needs.sort_unstable_by(|left, right| right.cmp(left));
        for (write, owner) in self.needs {
            let gone = self.writes.get(owner).is_none_or(Option::is_none);
            if gone && let Some(slot) = self.writes.get_mut(write) {
                *slot = None;
            }
        }
        let records = |(write, slots): (&LargeWrite, Option<Vec<Slot>>)| {
            let slots = slots?.into_iter();
            let slots = slots.filter(|slot| tells_sizes || slot.pointer.is_some());
            Some(slots.map(|slot| record(object, write, &slot)).collect())
        };
        writes.iter().zip(self.writes).map(records).collect()
    }
}

/// Blocks that are written under one hold.
struct Chunk<'a> {
    object: &'a Arc<Object>,
    hold: &'a TxgHold,
    group: &'a Arc<WriteGroup>,
    writes: &'a [LargeWrite],
    parts: &'a [Part],
}

fn has_space(pointer: &BlockPointer) -> bool {
    !pointer.is_hole() && !pointer.is_embedded()
}

fn record(object: ObjectId, write: &LargeWrite, slot: &Slot) -> Item {
    let (number, pointer) = match slot.pointer {
        Some(pointer) => (kind::WRITE, pointer),
        None => (kind::WRITE_SIZE_ONLY, BlockPointer::HOLE),
    };
    let fields = WriteFields {
        object,
        offset: slot.part.offset,
        length: slot.part.length,
        pointer,
    };
    let bytes = encode_record(number, &fields.to_bytes(ByteOrder::NATIVE), &[]);
    Item {
        stamp: write.stamp,
        txg: write.txg,
        entry: Entry::Record(bytes),
        changed_bytes: slot.part.length,
        vdevs: pointer.dvas().map(|dva| dva.vdev).collect(),
    }
}

/// Cuts writes at the boundaries of blocks.
fn parts(writes: &[LargeWrite], block_size: u64) -> Vec<Part> {
    let block_size = block_size.max(1);
    let mut parts = Vec::new();
    for (index, write) in writes.iter().enumerate() {
        let mut offset = write.offset;
        let end = write.offset.saturating_add(write.length);
        while offset < end {
            let block = offset / block_size;
            let next = (block + 1).saturating_mul(block_size).min(end);
            parts.push(Part {
                write: index,
                block,
                offset,
                length: next - offset,
            });
            offset = next;
        }
    }
    parts
}
