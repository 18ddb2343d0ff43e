//! The bytes of a pool on one device: blocks read through their pointers, and put back changed, with every checksum
//! above them made right.

use base::ByteOrder;
use codec::{Checksum, Compression, Salt, checksum, decompress};
use format::{BlockPointer, Dva, Uberblock, label};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where a pointer to a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// In the uberblock.
    Uberblock,
    /// In the block with this number in the tree, at this byte.
    Block(usize, usize),
}

/// An image in memory, and what was written to it since it was read.
pub(crate) struct DeviceImage {
    bytes: Vec<u8>,
    pub(crate) ashift: u32,
    /// Of the newest uberblock.
    pub(crate) slot: u64,
    pub(crate) uberblock: Uberblock,
    /// Where nothing is stored yet.
    next: u64,
    changed: Vec<(u64, Vec<u8>)>,
}

impl DeviceImage {
    /// Reads an image whose second half is free.
    pub(crate) fn read(path: &Path, ashift: u32) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let size = bytes.len() as u64;
        let start = label::offset(size, 0).expect("four labels");
        let slots = (0..label::slot_count(ashift)).filter_map(|slot| {
            let at = start + label::slot_offset(slot, ashift);
            let piece = &bytes[usize::try_from(at).ok()?..][..1 << label::slot_shift(ashift)];
            Some((slot, label::decode_uberblock(piece, at).ok()?))
        });
        let (slot, uberblock) = slots
            .max_by(|(_, one), (_, other)| one.compare_age(other))
            .expect("an uberblock");
        Ok(Self {
            next: size / 2,
            bytes,
            ashift,
            slot,
            uberblock,
            changed: Vec::new(),
        })
    }

    /// The contents of a block; none if it is not stored as a plain block of this device, or does not decompress.
    pub(crate) fn block(&self, pointer: &BlockPointer) -> Option<Vec<u8>> {
        if pointer.is_hole() || pointer.is_embedded() || pointer.is_gang() {
            return None;
        }
        let at = usize::try_from(label::DATA_START + pointer.dva(0)?.offset).ok()?;
        let stored = self
            .bytes
            .get(at..at + usize::try_from(pointer.psize()).ok()?)?;
        let kind = pointer.compression().ok()?;
        if kind == Compression::Off {
            return Some(stored.to_vec());
        }
        let mut plain = vec![0; usize::try_from(pointer.lsize()).ok()?];
        decompress(kind, stored, &mut plain).ok()?;
        Some(plain)
    }

    /// Stores a block where there was nothing, and makes `pointer` refer to it.
    pub(crate) fn store(&mut self, pointer: &mut BlockPointer, plain: &[u8]) {
        let size = plain.len() as u64;
        let offset = self.next;
        self.next += size.next_multiple_of(1 << self.ashift);
        let kind = match pointer.checksum() {
            Ok(kind @ (Checksum::Fletcher2 | Checksum::Fletcher4 | Checksum::Sha256)) => kind,
            Ok(_) | Err(_) => Checksum::Fletcher4,
        };
        pointer.set_compression(Compression::Off);
        pointer.set_sizes(size, size);
        let value = checksum(kind, plain, ByteOrder::NATIVE, &Salt([0; 32]));
        pointer.set_checksum(kind, value);
        pointer.set_dvas(&[Dva {
            vdev: base::VdevId(0),
            offset,
            asize: size.next_multiple_of(1 << self.ashift),
            gang: false,
        }]);
        self.changed
            .push((label::DATA_START + offset, plain.to_vec()));
    }

    /// Where a label begins.
    pub(crate) fn label(&self, index: usize) -> u64 {
        label::offset(self.bytes.len() as u64, index).expect("four labels")
    }

    /// What the image held when it was read.
    pub(crate) fn bytes_at(&self, at: u64, len: usize) -> &[u8] {
        &self.bytes[usize::try_from(at).expect("an offset in memory")..][..len]
    }

    /// Writes bytes where the image had others.
    pub(crate) fn put(&mut self, at: u64, bytes: Vec<u8>) {
        self.changed.push((at, bytes));
    }

    /// Writes the uberblock, in the place of the newest, to all labels.
    pub(crate) fn store_uberblock(&mut self, uberblock: &Uberblock) {
        for index in 0..label::COUNT {
            let at = self.label(index) + label::slot_offset(self.slot, self.ashift);
            let slot = label::encode_uberblock(uberblock, self.ashift, at);
            self.put(at, slot);
        }
    }

    /// Writes what was stored to a copy of the image, and forgets it.
    pub(crate) fn flush_to(&mut self, path: &Path) -> io::Result<()> {
        let file = std::fs::File::options().write(true).open(path)?;
        for (at, bytes) in self.changed.drain(..) {
            file.write_all_at(&bytes, at)?;
        }
        self.next = self.bytes.len() as u64 / 2;
        Ok(())
    }
}
