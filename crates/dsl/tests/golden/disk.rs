//! The least that reads a pool on one disk, so that this layer is tested without those above it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use base::clock::{Clock, SystemClock};
use base::random::{Rng, SeededRng};
use base::{Bookmark, ByteOrder, ObjectId, Txg};
use dmu::{BlockError, BlockStore, Tx};
use format::features::Feature;
use format::intent_log::LogHeader;
use format::uberblock::Uberblock;
use format::{BlockPointer, label, swap};
use millpond_dsl::{HistoryEvent, Services, SpaceClass};
use sys::{Buffer, BufferMut};

/// The disk.
pub(crate) struct Disk(File);

impl Disk {
    pub(crate) fn open(image: &Path) -> Self {
        Self(File::open(image).unwrap())
    }

    /// The root of the pool's own object set.
    pub(crate) fn root(&self) -> BlockPointer {
        let mut ring = vec![0; label::RING_SIZE];
        self.0.read_exact_at(&mut ring, label::RING_OFFSET).unwrap();
        let slots = ring
            .chunks(1024)
            .filter_map(|slot| Uberblock::read(slot).ok());
        slots
            .max_by_key(|uberblock| uberblock.txg)
            .expect("an uberblock")
            .root
    }

    fn load(&self, pointer: &BlockPointer) -> Result<Buffer, std::io::Error> {
        let mut data = BufferMut::zeroed(pointer.lsize() as usize);
        if pointer.is_hole() {
            return Ok(data.freeze());
        }
        let mut stored = vec![0; pointer.psize() as usize];
        if pointer.is_embedded() {
            let mut payload = [0; 112];
            let length = pointer.embedded_payload(&mut payload);
            stored.copy_from_slice(&payload[..length]);
        } else {
            let whole = pointer.dvas().find(|dva| !dva.gang);
            let dva = whole.ok_or(std::io::ErrorKind::InvalidData)?;
            self.0
                .read_exact_at(&mut stored, dva.offset + label::DATA_START)?;
        }
        let compression = pointer.compression().map_err(std::io::Error::other)?;
        codec::decompress(compression, &stored, &mut data).map_err(std::io::Error::other)?;
        if pointer.byte_order() != ByteOrder::NATIVE {
            swap::block(pointer.object_type(), pointer.level(), &mut data);
        }
        Ok(data.freeze())
    }
}

impl BlockStore for Disk {
    fn read(&self, pointer: &BlockPointer, _: Bookmark) -> Result<Buffer, BlockError> {
        self.load(pointer).map_err(BlockError::new)
    }

    fn prefetch(&self, _: &[(BlockPointer, Bookmark)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }
}

/// A pool that is not written.
pub(crate) struct ReadOnly {
    store: Arc<dyn BlockStore>,
    usable: u64,
    rng: SeededRng,
}

impl ReadOnly {
    pub(crate) fn new(store: Arc<dyn BlockStore>, usable: u64) -> Self {
        Self {
            store,
            usable,
            rng: SeededRng::new(1),
        }
    }
}

impl Services for ReadOnly {
    fn store(&self) -> Arc<dyn BlockStore> {
        Arc::clone(&self.store)
    }
    fn clock(&self) -> &dyn Clock {
        &SystemClock
    }
    fn rng(&self) -> &dyn Rng {
        &self.rng
    }
    fn version(&self) -> u64 {
        5000
    }
    fn raise_version(&self, _: &Tx, _: u64) -> dmu::Result<()> {
        Ok(())
    }
    fn is_writable(&self) -> bool {
        false
    }
    fn is_enabled(&self, _: &Feature) -> bool {
        false
    }
    fn references(&self, _: &Feature) -> u64 {
        0
    }
    fn change_references(&self, _: &Tx, _: &Feature, _: i64) -> dmu::Result<()> {
        Ok(())
    }
    fn awaited_bytes(&self) -> u64 {
        0
    }
    fn usable_bytes(&self, _: SpaceClass) -> u64 {
        self.usable
    }
    fn free(&self, _: Txg, _: &BlockPointer) {}
    fn frees_later(&self, _: &BlockPointer) -> bool {
        false
    }
    fn end_intent_log(&self, _: Txg, _: ObjectId, _: &LogHeader) {}
    fn keeps_intent_log(&self, _: ObjectId) -> bool {
        false
    }
    fn record_history(&self, _: &Tx, _: &HistoryEvent<'_>) -> dmu::Result<()> {
        Ok(())
    }
}
