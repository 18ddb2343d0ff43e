//! Object sets and objects, read by walking block pointers.

use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId};
use format::FormatError;
use format::block_pointer::{self, BlockPointer};
use format::dnode::{self, DnodePhys, SLOT_SIZE, Slot};
use format::object_set::ObjectSetPhys;
use format::object_type::ObjectType;
use format::record::get_at;
use format::swap;
use pipeline::{Pipeline, ReadError, ReadRequest};
use sys::Buffer;

use crate::error::{InspectError, Result};

/// Takes a block's number, its content, and where to report damage in it.
type BlockVisitor<'a> = dyn FnMut(u64, Buffer, &mut dyn FnMut(InspectError)) + 'a;

/// An object set.
#[derive(Clone)]
pub(crate) struct RawObjectSet {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) id: ObjectSetId,
    pub(crate) root: BlockPointer,
    pub(crate) phys: Arc<ObjectSetPhys>,
}

impl RawObjectSet {
    pub(crate) fn open(
        pipeline: &Arc<Pipeline>,
        id: ObjectSetId,
        root: BlockPointer,
    ) -> Result<Self> {
        let place = Bookmark::root(id);
        let block = pipeline.read(&root, &ReadRequest::new(place))?;
        let phys = ObjectSetPhys::decode(&block)
            .map_err(|source| InspectError::Format { place, source })?;
        Ok(Self {
            pipeline: Arc::clone(pipeline),
            id,
            root,
            phys: Arc::new(phys),
        })
    }

    /// The object whose data are all the dnodes.
    pub(crate) fn meta(&self) -> RawObject {
        self.with_dnode(ObjectId(0), self.phys.meta_dnode.clone())
    }

    pub(crate) fn with_dnode(&self, id: ObjectId, dnode: DnodePhys) -> RawObject {
        RawObject {
            pipeline: Arc::clone(&self.pipeline),
            set: self.id,
            id,
            dnode,
        }
    }

    pub(crate) fn object(&self, id: ObjectId) -> Result<RawObject> {
        let missing = || InspectError::NoObject {
            set: self.id.0,
            object: id,
        };
        let meta = self.meta();
        let per_block = u64::from(meta.dnode.data_block_size()) / SLOT_SIZE as u64;
        if id.0 == 0 || id.0 / per_block > meta.dnode.max_block_id {
            return Err(missing());
        }
        let block = meta.read_block(id.0 / per_block)?;
        let start = (id.0 % per_block) as usize * SLOT_SIZE;
        let slot = block.get(start..).ok_or_else(missing)?;
        if slot.first() == Some(&0) {
            return Err(missing());
        }
        let dnode = DnodePhys::decode(slot).map_err(|source| meta.format_error(source))?;
        Ok(self.with_dnode(id, dnode))
    }

    /// Visits every object in order. Unreadable parts go to `damage`, and the rest goes on.
    pub(crate) fn for_each_object(
        &self,
        damage: &mut dyn FnMut(InspectError),
        visit: &mut dyn FnMut(RawObject),
    ) {
        let meta = self.meta();
        let per_block = u64::from(meta.dnode.data_block_size()) / SLOT_SIZE as u64;
        meta.for_each_block(damage, &mut |number, block, damage| {
            for (index, slot) in dnode::slots(&block) {
                if let Slot::Allocated { .. } = slot {
                    match DnodePhys::decode(&block[index * SLOT_SIZE..]) {
                        Ok(dnode) => {
                            let id = ObjectId(number * per_block + index as u64);
                            visit(self.with_dnode(id, dnode));
                        }
                        Err(source) => damage(meta.format_error(source)),
                    }
                }
            }
        });
    }
}

/// An object.
#[derive(Clone)]
pub(crate) struct RawObject {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) set: ObjectSetId,
    pub(crate) id: ObjectId,
    pub(crate) dnode: DnodePhys,
}

impl RawObject {
    pub(crate) fn place(&self, level: u8, block: u64) -> Bookmark {
        Bookmark {
            object_set: self.set,
            object: self.id,
            level: level as i8,
            block,
        }
    }

    pub(crate) fn format_error(&self, source: FormatError) -> InspectError {
        InspectError::Format {
            place: self.place(0, 0),
            source,
        }
    }

    pub(crate) fn block_size(&self) -> u64 {
        u64::from(self.dnode.data_block_size())
    }

    /// The most bytes that the object can hold.
    pub(crate) fn length_max(&self) -> u64 {
        self.dnode
            .max_block_id
            .saturating_add(1)
            .saturating_mul(self.block_size())
    }

    /// A word of the bonus.
    pub(crate) fn bonus_word(&self, index: usize) -> u64 {
        get_at(self.dnode.bonus_bytes(), index * 8, ByteOrder::NATIVE)
    }

    /// The pointer to a block at some level.
    pub(crate) fn pointer(&self, level: u8, block: u64) -> Result<BlockPointer> {
        let shift = self.dnode.entries_shift();
        let top = self.dnode.levels - 1;
        let index_at = |at: u8| {
            block
                .checked_shr(shift * u32::from(at - level.min(at)))
                .unwrap_or(0)
        };
        let slot = index_at(top);
        if slot >= u64::from(self.dnode.pointer_count) {
            return Ok(BlockPointer::HOLE);
        }
        let mut pointer = self.dnode.pointers[slot as usize];
        for at in (level..top).rev() {
            if pointer.is_hole() {
                return Ok(BlockPointer::HOLE);
            }
            let indirect = self.read_pointer(&pointer, at + 1, index_at(at + 1))?;
            let entry = (index_at(at) & ((1 << shift) - 1)) as usize;
            pointer = get_at(&indirect, entry * block_pointer::SIZE, ByteOrder::NATIVE);
        }
        Ok(pointer)
    }

    fn read_pointer(&self, pointer: &BlockPointer, level: u8, block: u64) -> Result<Buffer> {
        Ok(self
            .pipeline
            .read(pointer, &ReadRequest::new(self.place(level, block)))?)
    }

    /// A data block; zeros for a hole.
    pub(crate) fn read_block(&self, block: u64) -> Result<Buffer> {
        let pointer = self.pointer(0, block)?;
        self.read_data(&pointer, block)
    }

    fn read_data(&self, pointer: &BlockPointer, block: u64) -> Result<Buffer> {
        if pointer.is_hole() {
            return Ok(Buffer::zeroed(self.block_size() as usize));
        }
        match self.read_pointer(pointer, 0, block) {
            Err(InspectError::Read(ReadError::Encrypted { .. }))
                if pointer.object_type() == ObjectType::DNODE =>
            {
                self.read_sealed_dnodes(pointer, block)
            }
            other => other,
        }
    }

    /// A block of dnodes of an encrypted dataset: only bonuses are ciphertext, the rest is legible.
    fn read_sealed_dnodes(&self, pointer: &BlockPointer, block: u64) -> Result<Buffer> {
        let request = ReadRequest::new(self.place(0, block));
        read_sealed(&self.pipeline, pointer, &request)
    }

    /// `length` bytes from `offset` on; what lies past the end is zeros.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.min(1 << 24));
        let size = self.block_size();
        let mut at = offset;
        while bytes.len() < length {
            let block = self.read_block(at / size)?;
            let start = (at % size) as usize;
            let take = (block.len().saturating_sub(start)).min(length - bytes.len());
            if take == 0 {
                bytes.resize(length, 0);
                break;
            }
            bytes.extend_from_slice(&block[start..start + take]);
            at += take as u64;
        }
        Ok(bytes)
    }

    /// Visits every data block that is no hole, in order. Unreadable ones go to `damage`.
    pub(crate) fn for_each_block(
        &self,
        damage: &mut dyn FnMut(InspectError),
        visit: &mut BlockVisitor<'_>,
    ) {
        let top = self.dnode.levels - 1;
        for index in 0..self.dnode.pointer_count {
            let pointer = self.dnode.pointers[usize::from(index)];
            self.descend(&pointer, top, u64::from(index), damage, visit);
        }
    }

    fn descend(
        &self,
        pointer: &BlockPointer,
        level: u8,
        number: u64,
        damage: &mut dyn FnMut(InspectError),
        visit: &mut BlockVisitor<'_>,
    ) {
        if pointer.is_hole() {
            return;
        }
        if level == 0 {
            match self.read_data(pointer, number) {
                Ok(block) => visit(number, block, damage),
                Err(error) => damage(error),
            }
            return;
        }
        let indirect = match self.read_pointer(pointer, level, number) {
            Ok(indirect) => indirect,
            Err(error) => return damage(error),
        };
        let shift = self.dnode.entries_shift();
        for (index, entry) in indirect.chunks_exact(block_pointer::SIZE).enumerate() {
            let child = get_at(entry, 0, ByteOrder::NATIVE);
            let Some(base) = number.checked_shl(shift) else {
                return;
            };
            self.descend(&child, level - 1, base | index as u64, damage, visit);
        }
    }
}

/// Stored bytes of a block of an encrypted dataset whose frame is plain: decompressed and in host
/// order.
pub(crate) fn read_sealed(
    pipeline: &Pipeline,
    pointer: &BlockPointer,
    request: &ReadRequest,
) -> Result<Buffer> {
    let stored = pipeline.read_stored(pointer, request)?;
    let bad = |source| InspectError::Format {
        place: request.bookmark,
        source,
    };
    let kind = pointer.compression().map_err(bad)?;
    let mut data = vec![0; pointer.lsize() as usize];
    codec::decompress(kind, &stored, &mut data).map_err(|_| {
        bad(FormatError::Invalid {
            what: "block",
            field: "compressed data",
            value: 0,
        })
    })?;
    if pointer.byte_order() != ByteOrder::NATIVE {
        swap::block(pointer.object_type(), 0, &mut data);
    }
    Ok(Buffer::from_slice(&data))
}
