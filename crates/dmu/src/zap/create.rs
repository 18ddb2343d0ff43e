//! Making ZAPs.

use std::sync::Arc;

use base::ObjectId;
use format::ObjectType;
use format::zap::{self, FatHeader, MicroMut};
use sys::BufferMut;

use super::fat::{self, NewFat};
use super::header::malformed;
use super::micro::Index;
use super::{Form, Zap};
use crate::error::Result;
use crate::object::Object;
use crate::object_set::{AllocateObject, ObjectSet};
use crate::tx::Tx;

/// How a new ZAP is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateZap {
    /// The object's type.
    pub object_type: ObjectType,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Slots of the dnode; 0 = 1.
    pub slots: u8,
    /// The object's number, when it is given.
    pub id: Option<ObjectId>,
    /// The normalisation word.
    pub normalization: u64,
    /// The `FLAG_` constants of [`FatHeader`]; any makes the ZAP fat at once.
    pub flags: u64,
    /// Block size; 0 = 512 for a micro ZAP, 16 KiB for a fat one.
    pub block_size: u32,
    /// Log2 of the indirect block size; 0 = 17.
    pub indirect_shift: u8,
}

impl Zap {
    /// A new ZAP in a new object.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(set: &ObjectSet, tx: &Tx, options: &CreateZap) -> Result<Self> {
        const FAT_BLOCK: u32 = 1 << zap::fat::BLOCK_SHIFT_DEFAULT;
        let fat = options.flags != 0;
        let default = if fat { FAT_BLOCK } else { 512 };
        let block_size = if options.block_size == 0 {
            default
        } else {
            options.block_size
        };
        let shape = AllocateObject {
            object_type: options.object_type,
            block_size,
            indirect_shift: options.indirect_shift,
            bonus_type: options.bonus_type,
            bonus_len: options.bonus_len,
            slots: options.slots,
        };
        let object = match options.id {
            Some(id) => set.claim(tx, id, &shape)?,
            None => set.allocate(tx, &shape)?,
        };
        if !fat {
            return Self::format(&object, tx, options.normalization);
        }
        if options.flags & FatHeader::FLAG_WORD_KEYS != 0 && options.normalization != 0 {
            return Err(object.unsuitable("word keys are not normalised"));
        }
        let zap = Self { object };
        let new = NewFat {
            salt: new_salt(&zap.object, tx),
            normalization: options.normalization,
            flags: options.flags,
        };
        let writer = zap.state().writer.lock();
        fat::format(&zap.object, tx, &new)?;
        *zap.state().form.write() = Form::Fat;
        drop(writer);
        Ok(zap)
    }

    /// Makes an object that has no data an empty micro ZAP.
    ///
    /// # Errors
    /// The object cannot be written.
    pub fn format(object: &Arc<Object>, tx: &Tx, normalization: u64) -> Result<Self> {
        let zap = Self {
            object: Arc::clone(object),
        };
        let writer = zap.state().writer.lock();
        let size = object.block_size() as usize;
        let salt = new_salt(object, tx);
        let mut block = BufferMut::zeroed(size);
        MicroMut::create(&mut block, salt, normalization);
        let index = Index::load(&block).map_err(|error| malformed(object, 0, &error))?;
        object.write_block(tx, 0, block.freeze())?;
        zap.state().moved();
        *zap.state().form.write() = Form::Micro(index);
        drop(writer);
        Ok(zap)
    }
}

/// A salt: odd, and different from ZAP to ZAP.
fn new_salt(object: &Object, tx: &Tx) -> u64 {
    let mut mixed =
        object.object_set().0.rotate_left(32) ^ object.id().0.rotate_left(16) ^ tx.txg().0;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    }
    mixed | 1
}
